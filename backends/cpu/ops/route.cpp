// route: which experts a row goes to. Scalar code that every machine runs alike: a choice among rounded scores must not
// depend on an instruction set.
#include <cmath>
#include <limits>

#include "ops.hpp"

namespace tenon::cpu {
namespace {

// True if a is chosen before b: higher first, NaN last; of equal ones the earlier, which the caller sees to.
bool before(float a, float b) { return !std::isnan(a) && (std::isnan(b) || a > b); }

void probabilities(uint32_t gating, const float* logits, int64_t n, float* p) {
  if (gating == 1) {
    for (int64_t e = 0; e < n; ++e) p[e] = float(1.0 / (1.0 + std::exp(-double(logits[e]))));
    return;
  }
  float top = -std::numeric_limits<float>::infinity(), sum = 0;
  for (int64_t e = 0; e < n; ++e)
    if (logits[e] > top) top = logits[e];
  for (int64_t e = 0; e < n; ++e) {
    // Infinite scores are equal, not apart by NaN.
    p[e] = logits[e] == top ? 1.0f : float(std::exp(double(logits[e]) - double(top)));
    if (!std::isnan(p[e])) sum += p[e];
  }
  for (int64_t e = 0; e < n; ++e) p[e] /= sum;
}

struct RoutePlan {
  tenon_route_attr attr;
  bool by_rows;
};

class Route final : public sdk::Kernel {
 public:
  sdk::Offer accept(const sdk::Node& node, const sdk::Device&) const override {
    const auto& attr = node.attr<tenon_route_attr>();
    if (attr.gating > 1) return sdk::refuse("gating %u", attr.gating);
    if (attr.top_k < 1 || attr.top_k > node.in()[0].cols) return sdk::refuse("cannot choose %u experts", attr.top_k);
    for (const tenon_weight& w : node.weights())
      if (w.dtype != TENON_DTYPE_F32 || w.n_expert > 0 || w.parts > 1)
        return sdk::refuse("reads f32 tables, not %s", name_of(w.dtype).c_str());
    if (node.in()[0].groups > 1) return sdk::refuse("reads whole rows, not a strided view");
    return sdk::offer().row_exact();
  }

  void plan(const sdk::Node& node, const sdk::PlanRequest&, tenon_plan& plan) const override {
    plan.partition = node.decode() ? TENON_PART_REPLICATE : TENON_PART_ROWS;
    plan.scratch = uint64_t(2 * TENON_ALIGN64(node.in()[0].cols * 4));
    plan.impl = new RoutePlan{node.attr<tenon_route_attr>(), !node.decode()};
  }

  void launch(const tenon_plan& plan, const sdk::Args& args, const sdk::Worker& worker) const override {
    const auto& [attr, by_rows] = *static_cast<const RoutePlan*>(plan.impl);
    const int64_t n = args.in(0).cols;
    auto *p = worker.scratch<float>(), *key = p + TENON_ALIGN64(n * 4) / 4;
    const auto table = [&](uint32_t i) {
      return i < args.table().n_weight ? sdk::at<const float>(args.weight(int(i)).plane[0]) : nullptr;
    };
    const sdk::Range rows = by_rows ? worker.share(args.rows()) : sdk::Range{0, args.rows()};
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      probabilities(attr.gating, sdk::row(args.in(0), r), n, p);
      for (int64_t e = 0; e < n; ++e) key[e] = table(0) ? p[e] + table(0)[e] : p[e];
      choose(key, n, attr.top_k, sdk::row<int32_t>(args.out(0), r));
      weigh(attr, p, table(1), sdk::row<int32_t>(args.out(0), r), sdk::row(args.out(1), r));
    }
  }

  void drop(tenon_plan& plan) const override {
    delete static_cast<RoutePlan*>(plan.impl);
    plan.impl = nullptr;
  }

 private:
  // Insertion into a list of the best so far.
  static void choose(const float* key, int64_t n, int64_t top_k, int32_t* ids) {
    int64_t held = 0;
    for (int64_t e = 0; e < n; ++e) {
      if (held == top_k && !before(key[e], key[ids[held - 1]])) continue;
      int64_t at = held < top_k ? held++ : held - 1;
      for (; at > 0 && before(key[e], key[ids[at - 1]]); --at) ids[at] = ids[at - 1];
      ids[at] = int32_t(e);
    }
  }

  static void weigh(const tenon_route_attr& attr, const float* p, const float* scale, const int32_t* ids,
                    float* weights) {
    float sum = 0;
    for (uint32_t i = 0; i < attr.top_k; ++i) sum += p[ids[i]];
    if (sum < attr.floor) sum = attr.floor;
    for (uint32_t i = 0; i < attr.top_k; ++i) {
      float w = p[ids[i]];
      if (attr.normalize) w /= sum;
      w *= attr.scale;
      weights[i] = scale ? w * scale[ids[i]] : w;
    }
  }
};

}  // namespace

void register_route(sdk::Registrar& registrar) {
  registrar.kernel<Route>("cpu.route", {.pattern = "route", .numeric_class = "cpu.route", .priority = 100});
}

}  // namespace tenon::cpu
