#include "cases.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <map>
#include <stdexcept>

namespace tenon::kit {
namespace {

using Cases = std::vector<KernelCase>;

// `rows` rows of numbers, row by row from its own seed.
std::vector<float> rows_of(uint32_t rows, int64_t cols, uint64_t seed, Values values, float scale = 1) {
  static constexpr float kEdge[] = {0.0f, 1e-42f, 1e-30f, 1e-6f, 3e4f, 1.0f, -0.0f, 40.0f};
  std::vector<float> out;
  out.reserve(size_t(rows) * size_t(cols));
  for (uint32_t r = 0; r < rows; ++r) {
    Random random(seed * 100003 + r);
    std::vector<float> row = random.normals(size_t(cols), scale);
    for (int64_t begin = 0; values == Values::kEdges && begin < cols; begin += 32) {
      const float factor = kEdge[random.below(std::size(kEdge))];
      for (int64_t c = begin; c < std::min(cols, begin + 32); ++c) row[size_t(c)] *= factor;
    }
    out.insert(out.end(), row.begin(), row.end());
  }
  return out;
}

// Steps with places far apart, as rows of many sequences have them.
Step step_of(uint32_t rows) {
  Step step = Step::plain(rows);
  for (uint32_t r = 0; r < rows; ++r)
    for (uint32_t stream = 0; stream < 4; ++stream)
      step.position[stream * step.max_rows + r] = int32_t((r * 37 + stream * 11) % 4000);
  return step;
}

std::string shape_text(int64_t cols) { return " of " + std::to_string(cols) + " columns"; }

template <typename Attr>
OpCase attr_case(uint32_t op, Attr attr, uint32_t rows) {
  attr.struct_size = sizeof attr;
  return OpCase(op, attr, step_of(rows));
}

void add_case(Cases& out, std::string label, std::function<OpCase(uint32_t, Values)> make) {
  out.push_back({std::move(label), std::move(make)});
}

Cases norm_cases() {
  Cases out;
  for (const uint32_t kind : {TENON_NORM_RMS, TENON_NORM_L2})
    for (const auto& [cols, group] : {std::pair<int64_t, uint32_t>{640, 0}, {33, 0}, {1024, 64}, {120, 40}, {4096, 0}})
      for (const char* dtype : {"", "f32", "bf16", "f16"}) {
        const std::string w = dtype;
        const std::string label = std::string(kind == TENON_NORM_RMS ? "rms" : "l2") + shape_text(cols) +
                                  (group ? ", groups of " + std::to_string(group) : "") +
                                  (w.empty() ? "" : ", weight " + w);
        add_case(out, label, [=, cols = cols, group = group](uint32_t rows, Values values) {
          OpCase c = attr_case(TENON_OP_NORM, tenon_norm_attr{0, kind, 1e-6f, group}, rows);
          const int64_t groups = group ? cols / group : 1;
          c.strided(rows, cols, rows_of(rows, cols, 1, values), groups, 16, groups > 1 ? 8 : 0).output(cols);
          if (!w.empty()) c.weight(make_weight(w, 1, group ? group : cols, 2));
          return c;
        });
      }
  return out;
}

int64_t fit(int64_t cols, const std::string& dtype) {
  const int64_t block = records().dtype(dtype).block_cols;
  return (cols + block - 1) / block * block;
}

Cases linear_cases() {
  Cases out;
  for (const std::string& dtype : all_dtypes()) {
    for (const auto& [n, k] : {std::pair<int64_t, int64_t>{131, 96}, {64, 544}, {5, 75}, {40, 1100}}) {
      const int64_t cols = fit(k, dtype);
      if (cols != k && k == 75 && cols == fit(96, dtype)) continue;  // the same shape again
      add_case(out, dtype + " [" + std::to_string(n) + ", " + std::to_string(cols) + "]",
               [dtype, n = n, cols](uint32_t rows, Values values) {
                 OpCase c = attr_case(TENON_OP_LINEAR, tenon_linear_attr{}, rows);
                 c.input(rows, cols, rows_of(rows, cols, 3, values));
                 return c.weight(make_weight(dtype, n, cols, 4)).output(n);
               });
    }
    const int64_t cols = fit(96, dtype);
    add_case(out, dtype + ", two weights", [dtype, cols](uint32_t rows, Values values) {
      OpCase c = attr_case(TENON_OP_LINEAR, tenon_linear_attr{}, rows);
      c.input(rows, cols, rows_of(rows, cols, 5, values));
      c.weight(make_weight(dtype, 48, cols, 6)).weight(make_weight(dtype, 16, cols, 7));
      return c.output(48).output(16);
    });
    add_case(out, dtype + ", strided input", [dtype, cols](uint32_t rows, Values values) {
      OpCase c = attr_case(TENON_OP_LINEAR, tenon_linear_attr{}, rows);
      c.strided(rows, cols, rows_of(rows, cols, 8, values), cols % 3 == 0 ? 3 : 2, 32, 32);
      return c.weight(make_weight(dtype, 33, cols, 9)).output(33);
    });
    add_case(out, dtype + ", router", [dtype, cols](uint32_t rows, Values values) {
      OpCase c = attr_case(TENON_OP_LINEAR, tenon_linear_attr{0, TENON_WEIGHT_ROUTER}, rows);
      c.input(rows, cols, rows_of(rows, cols, 10, values));
      return c.weight(make_weight(dtype, 24, cols, 11)).output(24);
    });
  }
  return out;
}

Cases embed_cases() {
  Cases out;
  for (const std::string& dtype : all_dtypes())
    for (const float scale : {1.0f, 25.3f}) {
      const int64_t cols = fit(96, dtype);
      add_case(out, dtype + (scale == 1 ? "" : ", scaled"), [=](uint32_t rows, Values) {
        OpCase c = attr_case(TENON_OP_EMBED, tenon_embed_attr{0, scale}, rows);
        std::vector<int32_t> tokens;
        for (uint32_t r = 0; r < rows; ++r) tokens.push_back(int32_t(r * 29 % 70));
        std::copy(tokens.begin(), tokens.end(), c.step.token.begin());
        return c.ids(rows, 1, tokens).weight(make_weight(dtype, 70, cols, 12)).output(cols);
      });
      // Rows of another input in place of every third one's, not scaled; their tokens are none of the table's.
      add_case(out, dtype + (scale == 1 ? "" : ", scaled") + ", with an overlay", [=](uint32_t rows, Values values) {
        OpCase c = attr_case(TENON_OP_EMBED, tenon_embed_attr{0, scale}, rows);
        std::vector<int32_t> tokens;
        for (uint32_t r = 0; r < rows; ++r) {
          tokens.push_back(r % 3 == 1 ? -1 : int32_t(r * 29 % 70));
          c.step.overlay[r] = r % 3 == 1 ? int32_t(r % 5) : -1;
        }
        std::copy(tokens.begin(), tokens.end(), c.step.token.begin());
        c.ids(rows, 1, tokens).input(5, cols, rows_of(5, cols, 43, values));
        return c.weight(make_weight(dtype, 70, cols, 12)).output(cols);
      });
    }
  return out;
}

Cases encode_cases() {
  Cases out;
  const std::pair<uint32_t, const char*> encodings[] = {
      {TENON_ENC_F32, "f32"}, {TENON_ENC_BF16, "bf16"}, {TENON_ENC_F16, "f16"}, {TENON_ENC_Q8_32, "q8_32"}};
  for (const auto& [encoding, name] : encodings)
    for (const int64_t cols : {64, 33, 640}) {
      if (encoding == TENON_ENC_Q8_32 && cols % 32) continue;
      add_case(out, "to " + std::string(name) + shape_text(cols),
               [encoding = encoding, cols](uint32_t rows, Values values) {
                 OpCase c = attr_case(TENON_OP_ENCODE, tenon_encode_attr{0, encoding}, rows);
                 c.input(rows, cols, rows_of(rows, cols, 13, values)).output(cols);
                 c.out.back().encoding = encoding;
                 return c;
               });
    }
  return out;
}

Cases glu_cases() {
  Cases out;
  const std::pair<uint32_t, const char*> kinds[] = {{TENON_ACT_SILU, "silu"},
                                                    {TENON_ACT_GELU_TANH, "gelu_tanh"},
                                                    {TENON_ACT_SIGMOID, "sigmoid"},
                                                    {TENON_ACT_SWIGLU_OAI, "swiglu_oai"}};
  for (const auto& [kind, name] : kinds)
    for (const float limit : {0.0f, 7.0f})
      for (const int64_t cols : {200, 33})
        add_case(out, std::string(name) + shape_text(cols) + (limit > 0 ? ", limited" : ""),
                 [=, kind = kind](uint32_t rows, Values values) {
                   OpCase c = attr_case(TENON_OP_GLU, tenon_glu_attr{0, kind, limit, 1.702f}, rows);
                   c.input(rows, cols, rows_of(rows, cols, 14, values, 3));
                   return c.input(rows, cols, rows_of(rows, cols, 15, values, 3)).output(cols);
                 });
  return out;
}

Cases gate_cases() {
  Cases out;
  for (const uint32_t kind : {TENON_ACT_SIGMOID, TENON_ACT_SILU})
    for (const uint32_t group : {1u, 32u, 192u})
      add_case(out, std::string(kind == TENON_ACT_SILU ? "silu" : "sigmoid") + ", groups of " + std::to_string(group),
               [=](uint32_t rows, Values values) {
                 OpCase c = attr_case(TENON_OP_GATE, tenon_gate_attr{0, kind, group, 0}, rows);
                 c.strided(rows, 192, rows_of(rows, 192, 16, values), 3, 16, 64);
                 return c.input(rows, 192 / group, rows_of(rows, 192 / group, 17, values, 3)).output(192);
               });
  return out;
}

Cases binary_cases(uint32_t op, uint64_t seed) {
  Cases out;
  for (const int64_t cols : {200, 33})
    add_case(out, "two values" + shape_text(cols), [=](uint32_t rows, Values values) {
      OpCase c(op, step_of(rows));
      c.input(rows, cols, rows_of(rows, cols, seed, values));
      return c.input(rows, cols, rows_of(rows, cols, seed + 1, values)).output(cols);
    });
  return out;
}

Cases pair_cases(uint32_t op, uint64_t seed) {
  Cases out = binary_cases(op, seed);
  for (const char* dtype : {"f32", "bf16", "f16"})
    for (const int64_t n : {1, 72}) {
      if (n == 1 && op == TENON_OP_ADD) continue;
      add_case(out, std::string("a weight of ") + std::to_string(n) + " " + dtype, [=](uint32_t rows, Values values) {
        OpCase c(op, step_of(rows));
        return c.input(rows, 72, rows_of(rows, 72, 22, values)).weight(make_weight(dtype, 1, n, 23)).output(72);
      });
    }
  return out;
}

Cases scale_cases(uint32_t op, float factor) {
  Cases out;
  for (const int64_t cols : {200, 33})
    add_case(out, "by " + std::to_string(factor) + "," + shape_text(cols), [=](uint32_t rows, Values values) {
      OpCase c = attr_case(op, tenon_scale_attr{0, factor}, rows);
      return c.input(rows, cols, rows_of(rows, cols, 24, values, 20)).output(cols);
    });
  return out;
}

Cases concat_cases() {
  Cases out;
  for (const auto& [a, b] : {std::pair<int64_t, int64_t>{64, 32}, {33, 70}})
    add_case(out, std::to_string(a) + " and " + std::to_string(b), [a = a, b = b](uint32_t rows, Values values) {
      OpCase c(TENON_OP_CONCAT, step_of(rows));
      c.input(rows, a, rows_of(rows, a, 25, values)).input(rows, b, rows_of(rows, b, 26, values));
      return c.output(a + b);
    });
  return out;
}

Cases rope_cases() {
  struct Shape {
    uint32_t style, heads, head_dim, n_rot, sections[4];
    float magnitude;
  };
  static constexpr Shape kShapes[] = {{TENON_ROPE_HALF, 4, 64, 64, {}, 1},
                                      {TENON_ROPE_HALF, 3, 80, 32, {}, 1.2f},
                                      {TENON_ROPE_ADJACENT, 4, 64, 64, {}, 1},
                                      {TENON_ROPE_ADJACENT, 1, 96, 48, {}, 1},
                                      {TENON_ROPE_HALF, 2, 64, 64, {12, 10, 10, 0}, 1}};
  Cases out;
  for (const Shape& s : kShapes)
    add_case(out,
             std::string(s.style == TENON_ROPE_HALF ? "half, " : "adjacent, ") + std::to_string(s.n_rot) + " of " +
                 std::to_string(s.head_dim) + (s.sections[0] ? ", sections" : ""),
             [s](uint32_t rows, Values values) {
               tenon_rope_attr attr = {};
               attr.style = s.style, attr.head_dim = s.head_dim, attr.n_rot = s.n_rot, attr.magnitude = s.magnitude;
               std::copy(std::begin(s.sections), std::end(s.sections), attr.sections);
               OpCase c = attr_case(TENON_OP_ROPE, attr, rows);
               std::vector<float> frequency;
               for (uint32_t i = 0; i < s.n_rot / 2; ++i)
                 frequency.push_back(std::pow(10000.0f, -2.0f * float(i) / float(s.n_rot)));
               const int64_t cols = int64_t(s.heads) * s.head_dim;
               c.strided(rows, cols, rows_of(rows, cols, 27, values), s.heads, 16, s.heads > 1 ? 16 : 0);
               return c.weight("f32", 1, s.n_rot / 2, frequency).output(cols);
             });
  return out;
}

// Scores that a comparison gets wrong: none at all, equal ones, infinite ones. Few enough that no chosen weight is NaN.
Cases odd_route_cases() {
  Cases out;
  for (const uint32_t gating : {0u, 1u})
    add_case(out, std::string(gating ? "sigmoid" : "softmax") + ", odd logits", [=](uint32_t rows, Values) {
      OpCase c = attr_case(TENON_OP_ROUTE, tenon_route_attr{0, 4, gating, 1, 1.0f, 1e-6f}, rows);
      constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
      std::vector<float> logits(size_t(rows) * 30);
      for (size_t i = 0; i < logits.size(); ++i) {
        const size_t row = i / 30, e = i % 30;
        const float usual = float(int(e * 7 % 5) - 2);
        const float odd[] = {e % 9 == 2 ? kInf : usual, e < 26 ? -kInf : usual, e % 2 ? kNan : usual, -200.0f, usual};
        logits[i] = odd[row % 5];
      }
      return c.input(rows, 30, std::move(logits)).output(4).output(4);
    });
  return out;
}

Cases route_cases() {
  Cases out;
  for (const uint32_t gating : {0u, 1u})
    for (const uint32_t normalize : {0u, 1u})
      for (const int n_weight : {0, 1, 2})
        add_case(out,
                 std::string(gating ? "sigmoid" : "softmax") + (normalize ? ", normalised" : "") +
                     (n_weight > 0 ? ", bias" : "") + (n_weight > 1 ? ", scales" : ""),
                 [=](uint32_t rows, Values) {
                   tenon_route_attr attr = {};
                   attr.top_k = 4, attr.gating = gating, attr.normalize = normalize, attr.scale = 1.5f,
                   attr.floor = 1e-6f;
                   OpCase c = attr_case(TENON_OP_ROUTE, attr, rows);
                   // Whole numbers, so that there are ties.
                   std::vector<float> logits = rows_of(rows, 30, 28, Values::kUsual, 3);
                   for (float& v : logits) v = std::nearbyint(v);
                   c.input(rows, 30, std::move(logits));
                   for (int i = 0; i < n_weight; ++i) c.weight(make_weight("f32", 1, 30, 29 + uint64_t(i), 0.1f));
                   return c.output(4).output(4);
                 });
  for (KernelCase& odd : odd_route_cases()) out.push_back(std::move(odd));
  return out;
}

// The kth expert's values are its own.
Weight make_experts(const std::string& dtype, uint32_t n, int64_t rows, int64_t cols, uint64_t seed, int64_t gap) {
  std::vector<Weight> experts;
  for (uint32_t e = 0; e < n; ++e) experts.push_back(make_weight(dtype, rows, cols, seed * 1000 + e));
  return stacked(experts, gap);
}

// At least `n`, and more than one tile of a grid of scales.
int64_t beyond_tile(int64_t n, uint32_t tile) { return int64_t(tile) < n ? n : int64_t(tile) + 8; }

struct ExpertCase {
  std::string label;
  std::array<std::string, 3> dtype;
  tenon_expert_ffn_attr attr = {0, TENON_ACT_SILU, 0, 0, 0, 3};
  bool crowded = false, macros = false;
  int64_t gap = 0;
  std::vector<uint32_t> absent = {};
};

// The size of inputs for which products with the weight are about 1, where activations are neither flat nor straight.
float unit_scale(const Weight& w) {
  double sum = 0;
  const std::vector<float> values = w.decoded();
  for (const float v : values) sum += double(v) * v;
  return float(1.0 / std::sqrt(1e-30 + sum / double(w.rows * std::max(1u, w.n_expert))));
}

// Rows of the experts' weights fit no vector, some experts get no row; `crowded` sends every row to the same ones.
OpCase expert_ffn_case(const ExpertCase& how, uint32_t rows, Values values) {
  constexpr uint32_t kExperts = 7;
  constexpr int64_t kCols = 41;
  const auto& [gate, up, down] = how.dtype;
  const tenon_dtype& grid = records().dtype(gate);
  const int64_t top_k = how.attr.top_k, hidden = fit(beyond_tile(72, grid.tile_rows), down);
  const int64_t least = beyond_tile(96, grid.tile_cols), width = std::max(fit(least, gate), fit(least, up));
  OpCase c = attr_case(TENON_OP_EXPERT_FFN, how.attr, rows);
  std::vector<int32_t> ids;
  for (uint32_t r = 0; r < rows; ++r)
    for (int64_t slot = 0; slot < top_k; ++slot)
      ids.push_back(int32_t((how.crowded ? 2 + slot * 2 : r * 5 + r / 7 + slot * 3) % (kExperts - 1)));
  const Weight first = make_experts(gate, kExperts, hidden, width, 37, how.gap);
  c.input(rows, width, rows_of(rows, width, 35, values, unit_scale(first))).ids(rows, top_k, ids);
  std::vector<float> share = rows_of(rows, top_k, 36, Values::kUsual);
  for (float& v : share) v = std::fabs(v);
  c.input(rows, top_k, std::move(share));
  c.weight(first).weight(make_experts(up, kExperts, hidden, width, 38, how.gap));
  c.weight(make_experts(down, kExperts, kCols, hidden, 39, how.gap));
  for (uint32_t i = 0; how.macros && i < 3 * kExperts; ++i) c.macro.push_back(0.5f + float(i % 5));
  c.absent = how.absent;
  return c.output(how.attr.combine ? kCols * top_k : kCols);
}

Cases expert_ffn_cases() {
  std::vector<ExpertCase> all;
  for (const std::string& dtype : all_dtypes()) {
    const std::array<std::string, 3> one = {dtype, dtype, dtype};
    all.push_back({.label = dtype + ", factors, gaps between experts", .dtype = one, .macros = true, .gap = 4096});
    // One dtype of each family.
    constexpr const char* kMore[] = {"f32", "bf16", "q8_0", "q4_k", "fp8_b128", "nvfp4_modelopt"};
    if (std::find(std::begin(kMore), std::end(kMore), dtype) == std::end(kMore)) continue;
    all.push_back({.label = dtype + ", two experts for all", .dtype = one,
                   .attr = {0, TENON_ACT_GELU_TANH, 0, 0, 0, 2}, .crowded = true});
    all.push_back({.label = dtype + ", limit", .dtype = one, .attr = {0, TENON_ACT_SWIGLU_OAI, 1.5f, 1.702f, 0, 3}});
    all.push_back({.label = dtype + ", limit behind", .dtype = one, .attr = {0, TENON_ACT_SILU, 0.5f, 0, 0, 3}});
    all.push_back({.label = dtype + ", slots apart", .dtype = one, .attr = {0, TENON_ACT_SILU, 0, 0, 1, 3}});
    all.push_back({.label = dtype + ", experts elsewhere", .dtype = one, .macros = true, .absent = {0, 2, 5}});
    all.push_back({.label = dtype + ", slots apart, experts elsewhere", .dtype = one,
                   .attr = {0, TENON_ACT_SILU, 0, 0, 1, 3}, .absent = {1, 3, 4, 6}});
    all.push_back({.label = dtype + ", slots apart, all experts elsewhere", .dtype = one,
                   .attr = {0, TENON_ACT_SILU, 0, 0, 1, 2}, .crowded = true, .absent = {2, 4}});
  }
  all.push_back({.label = "q4_k and q5_0", .dtype = {"q4_k", "q4_k", "q5_0"}});
  all.push_back({.label = "bf16 and f32", .dtype = {"bf16", "f32", "f16"}});
  Cases out;
  for (const ExpertCase& how : all)
    add_case(out, how.label, [how](uint32_t rows, Values values) { return expert_ffn_case(how, rows, values); });
  return out;
}

Cases fold_slots_cases() {
  Cases out;
  add_case(out, "4 slots", [](uint32_t rows, Values values) {
    OpCase c(TENON_OP_FOLD_SLOTS, step_of(rows));
    return c.input(rows, 4 * 72, rows_of(rows, 4 * 72, 31, values))
        .input(rows, 4, rows_of(rows, 4, 32, Values::kUsual))
        .output(72);
  });
  return out;
}

Cases logits_tail_cases() {
  Cases out;
  for (const float cap : {0.0f, 30.0f})
    for (const bool never : {false, true})
      add_case(out, std::string(cap > 0 ? "capped" : "plain") + (never ? ", ids that are never sampled" : ""),
               [=](uint32_t rows, Values values) {
                 OpCase c = attr_case(TENON_OP_LOGITS_TAIL, tenon_scale_attr{0, cap}, rows);
                 std::vector<int32_t> shown;
                 for (uint32_t r = 0; r < rows; ++r) shown.push_back(int32_t(r));
                 c.step.select(shown);
                 c.input(rows, 200, rows_of(rows, 200, 33, values, 20)).domain(TENON_DOMAIN_OUTPUT_ROWS);
                 if (never) c.weight("i32", 1, 3, {0, 77, 199});
                 return c.output(200, TENON_DOMAIN_OUTPUT_ROWS);
               });
  return out;
}

Cases select_rows_cases() {
  Cases out;
  add_case(out, "every third row", [](uint32_t rows, Values values) {
    OpCase c(TENON_OP_SELECT_ROWS, step_of(rows));
    std::vector<int32_t> shown;
    for (uint32_t r = 0; r < rows; r += 3) shown.push_back(int32_t(r));
    c.step.select(shown);
    return c.input(rows, 72, rows_of(rows, 72, 34, values)).output(72, TENON_DOMAIN_OUTPUT_ROWS);
  });
  return out;
}

}  // namespace

std::vector<KernelCase> kernel_cases(std::string_view op) {
  static const std::map<std::string_view, std::function<Cases()>> makers = {
      {"embed", embed_cases},
      {"encode", encode_cases},
      {"norm", norm_cases},
      {"linear", linear_cases},
      {"glu", glu_cases},
      {"gate", gate_cases},
      {"add", [] { return pair_cases(TENON_OP_ADD, 18); }},
      {"mul", [] { return pair_cases(TENON_OP_MUL, 20); }},
      {"scale", [] { return scale_cases(TENON_OP_SCALE, 0.37f); }},
      {"softcap", [] { return scale_cases(TENON_OP_SOFTCAP, 30); }},
      {"concat", concat_cases},
      {"rope", rope_cases},
      {"route", route_cases},
      {"expert_ffn", expert_ffn_cases},
      {"fold_slots", fold_slots_cases},
      {"logits_tail", logits_tail_cases},
      {"select_rows", select_rows_cases},
  };
  const auto found = makers.find(op);
  return found == makers.end() ? Cases{} : found->second();
}

OpCase only_rows(const OpCase& whole, const std::vector<uint32_t>& chosen) {
  OpCase out = whole;
  out.step = Step::plain(uint32_t(chosen.size()));
  for (uint32_t i = 0; i < chosen.size(); ++i) {
    const uint32_t r = chosen[i];
    out.step.token[i] = whole.step.token[r], out.step.index[i] = whole.step.index[r];
    out.step.overlay[i] = whole.step.overlay[r];
    for (uint32_t stream = 0; stream < 4; ++stream)
      out.step.position[stream * out.step.max_rows + i] = whole.step.position[stream * whole.step.max_rows + r];
  }
  if (whole.step.n_outputs > 0) {
    std::vector<int32_t> shown;
    for (uint32_t i = 0; i < chosen.size(); ++i) shown.push_back(int32_t(i));
    out.step.select(shown);
  }
  for (size_t i = 0; i < out.in.size(); ++i) {
    if (whole.op == TENON_OP_EMBED && i == 1) continue;  // an overlay, whose rows the step names
    const Input& from = whole.in[i];
    out.in[i].data.clear(), out.in[i].rows = int64_t(chosen.size());
    for (const uint32_t r : chosen)
      out.in[i].data.insert(out.in[i].data.end(), from.data.begin() + int64_t(r) * from.cols,
                            from.data.begin() + int64_t(r + 1) * from.cols);
  }
  return out;
}

}  // namespace tenon::kit
