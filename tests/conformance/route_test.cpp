// Routing equals a plain scalar rule on the same logits, bit for bit: ids, order and weights; with ties, infinities and
// scores that are no numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "conformance.hpp"

namespace tenon::testing {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

struct Route {
  std::vector<float> ids, weights;
};

// The rule of docs/ops.md, written down once more: by a stable sort instead of a selection.
Route rule(const tenon_route_attr& attr, const std::vector<float>& logits, const std::vector<float>& bias,
           const std::vector<float>& scale) {
  const size_t n = logits.size();
  std::vector<float> p(n);
  float top = -kInf, all = 0;
  for (float v : logits)
    if (v > top) top = v;
  for (size_t e = 0; e < n; ++e) {
    if (attr.gating == 1)
      p[e] = float(1.0 / (1.0 + std::exp(-double(logits[e]))));
    else
      p[e] = logits[e] == top ? 1.0f : float(std::exp(double(logits[e]) - double(top)));
    if (p[e] == p[e]) all += p[e];
  }
  if (attr.gating == 0)
    for (float& v : p) v /= all;
  std::vector<float> score = p;
  for (size_t e = 0; e < bias.size(); ++e) score[e] += bias[e];
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (std::isnan(score[a]) || std::isnan(score[b])) return !std::isnan(score[a]) && std::isnan(score[b]);
    return score[a] > score[b];
  });
  Route out;
  float sum = 0;
  for (size_t i = 0; i < attr.top_k; ++i) sum += p[order[i]];
  for (size_t i = 0; i < attr.top_k; ++i) {
    float w = p[order[i]];
    if (attr.normalize) w /= sum < attr.floor ? attr.floor : sum;
    w *= attr.scale;
    if (!scale.empty()) w *= scale[order[i]];
    out.ids.push_back(float(order[i])), out.weights.push_back(w);
  }
  return out;
}

// Rows of logits that go wrong where a comparison or a sum is taken lightly.
std::vector<std::vector<float>> adversarial(size_t n) {
  std::vector<std::vector<float>> out;
  const auto add = [&](const std::function<float(size_t)>& value) {
    std::vector<float> row(n);
    for (size_t e = 0; e < n; ++e) row[e] = value(e);
    out.push_back(std::move(row));
  };
  add([](size_t) { return 0.0f; });                                         // all equal
  add([](size_t e) { return e % 2 ? 0.0f : -0.0f; });                       // zeros of both signs are equal
  add([](size_t e) { return float(e % 4); });                               // ties of every rank
  add([n](size_t e) { return float(n - e) * 1e-7f; });                      // apart by less than the softmax keeps
  add([](size_t e) { return 1.0f + float(e % 3) * 0x1p-23f; });             // neighbours
  add([](size_t e) { return e == 0 ? 0.0f : -200.0f - float(e); });         // all but one vanish: ties at 0
  add([](size_t e) { return e == 7 ? 90.0f : e == 3 ? 89.99999f : -90; });  // near overflow
  add([](size_t e) { return e == 5 ? 3e38f : e == 6 ? -3e38f : 0; });
  add([](size_t e) { return e % 5 == 4 ? kInf : float(e); });
  add([](size_t e) { return e % 2 ? -kInf : float(e % 3); });
  add([](size_t) { return -kInf; });
  add([](size_t) { return kInf; });
  add([](size_t e) { return e % 3 ? kNan : float(e); });
  add([n](size_t e) { return e + 2 < n ? kNan : float(e); });  // fewer numbers than are chosen
  add([](size_t) { return kNan; });
  add([](size_t e) { return e == 1 ? kNan : e == 2 ? kInf : e == 3 ? -kInf : 1e-42f; });
  for (uint64_t seed = 0; seed < 20; ++seed) {
    out.push_back(Random(seed).normals(n, 3));
    for (float& v : out.back()) v = std::nearbyint(v * 4) / 4;
    out.push_back(Random(seed + 100).normals(n, 3));
  }
  return out;
}

OpCase route_case(const tenon_route_attr& attr, const std::vector<std::vector<float>>& rows,
                  const std::vector<float>& bias, const std::vector<float>& scale) {
  const auto n = int64_t(rows[0].size());
  OpCase c(TENON_OP_ROUTE, attr, Step::plain(uint32_t(rows.size())));
  std::vector<float> logits;
  for (const auto& row : rows) logits.insert(logits.end(), row.begin(), row.end());
  c.input(int64_t(rows.size()), n, std::move(logits));
  if (!bias.empty()) c.weight("f32", 1, n, bias);
  if (!scale.empty()) c.weight("f32", 1, n, scale);
  return c.output(attr.top_k).output(attr.top_k);
}

class Routing : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    load_reference();
    if (std::string(GetParam()).starts_with("cpu")) load_cpu();
  }
};

TEST_P(Routing, EqualsTheScalarRuleBitForBit) {
  const tenon_kernel& kernel = Kit::instance().kernel(GetParam());
  for (const int64_t n : {4, 31, 256})
    for (const uint32_t gating : {0u, 1u})
      for (const uint32_t normalize : {0u, 1u})
        for (const int operands : {0, 1, 2}) {
          const tenon_route_attr attr = {sizeof attr, n < 8 ? 4u : 8u, gating, normalize, 1.75f, 6.1035e-5f};
          const auto rows = adversarial(size_t(n));
          const auto bias = operands > 0 ? Random(7).normals(size_t(n), 0.01f) : std::vector<float>();
          const auto scale = operands > 1 ? Random(8).normals(size_t(n), 1) : std::vector<float>();
          for (const uint32_t phase : {TENON_PHASE_DECODE, TENON_PHASE_PREFILL}) {
            const RunResult got = run_op(kernel, route_case(attr, rows, bias, scale).phase(phase), {.workers = 3});
            ASSERT_TRUE(got.accepted) << got.why_not;
            for (size_t r = 0; r < rows.size(); ++r) {
              SCOPED_TRACE("row " + std::to_string(r) + " of " + std::to_string(n) + " experts, gating " +
                           std::to_string(gating) + ", normalise " + std::to_string(normalize) + ", operands " +
                           std::to_string(operands));
              const Route want = rule(attr, rows[r], bias, scale);
              for (size_t i = 0; i < attr.top_k; ++i) {
                const float id = got.out[0][r * attr.top_k + i], weight = got.out[1][r * attr.top_k + i];
                ASSERT_EQ(id, want.ids[i]) << "slot " << i;
                if (std::isnan(want.weights[i]))
                  ASSERT_TRUE(std::isnan(weight)) << "slot " << i;
                else
                  ASSERT_TRUE(equal_bits({&weight, 1}, {&want.weights[i], 1}))
                      << "slot " << i << ": " << weight << ", expected " << want.weights[i];
              }
            }
          }
        }
}

TEST_P(Routing, ARowDoesNotDependOnItsCompany) {
  const tenon_kernel& kernel = Kit::instance().kernel(GetParam());
  const tenon_route_attr attr = {sizeof attr, 8, 0, 1, 1.0f, 6.1035e-5f};
  const auto rows = adversarial(64);
  const RunResult all = run_op(kernel, route_case(attr, rows, {}, {}).phase(TENON_PHASE_PREFILL), {.workers = 2});
  for (size_t r = 0; r < rows.size(); ++r) {
    const RunResult one = run_op(kernel, route_case(attr, {rows[r]}, {}, {}));
    for (int i = 0; i < 2; ++i)
      EXPECT_TRUE(equal_bits(one.out[size_t(i)], {all.out[size_t(i)].data() + r * 8, 8})) << "row " << r;
  }
}

INSTANTIATE_TEST_SUITE_P(, Routing, ::testing::Values("reference.route", "cpu.route"), [](const auto& info) {
  return std::string(info.param).substr(0, std::string(info.param).find('.'));
});

}  // namespace
}  // namespace tenon::testing
