// route, expert_ffn and fold_slots.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "checks.hpp"

namespace tenon::gpu_test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

// Rows of logits that go wrong where a comparison or a sum is taken lightly.
std::vector<float> adversarial(size_t n, uint32_t& rows) {
  std::vector<float> out;
  rows = 0;
  const auto add = [&](const std::function<float(size_t)>& value) {
    for (size_t e = 0; e < n; ++e) out.push_back(value(e));
    ++rows;
  };
  add([](size_t) { return 0.0f; });
  add([](size_t e) { return e % 2 ? 0.0f : -0.0f; });
  add([](size_t e) { return float(e % 4); });
  add([n](size_t e) { return float(n - e) * 1e-7f; });
  add([](size_t e) { return 1.0f + float(e % 3) * 0x1p-23f; });
  add([](size_t e) { return e == 0 ? 0.0f : -200.0f - float(e); });
  add([](size_t e) { return e == 5 ? 3e38f : e == 6 ? -3e38f : 0; });
  add([](size_t e) { return e % 5 == 4 ? kInf : float(e); });
  add([](size_t e) { return e % 2 ? -kInf : float(e % 3); });
  add([](size_t) { return -kInf; });
  add([](size_t) { return kInf; });
  add([](size_t e) { return e % 3 ? kNan : float(e); });
  add([n](size_t e) { return e + 2 < n ? kNan : float(e); });
  add([](size_t) { return kNan; });
  add([](size_t e) { return e == 1 ? kNan : e == 2 ? kInf : e == 3 ? -kInf : 1e-42f; });
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const std::vector<float> values = Random(seed).normals(n, 3);
    add([&](size_t e) { return std::nearbyint(values[e] * 4) / 4; });
    add([&](size_t e) { return values[e]; });
  }
  return out;
}

// Ids are equal, and weights to the bit, or both NaN.
bool same_route(const RunResult& a, const RunResult& b) {
  for (size_t i = 0; i < a.out[1].size(); ++i) {
    const float x = a.out[1][i], y = b.out[1][i];
    if (a.out[0][i] != b.out[0][i] || !(std::isnan(x) ? std::isnan(y) : equal_bits({&x, 1}, {&y, 1}))) return false;
  }
  return a.out[1].size() == b.out[1].size();
}

void check_route(Checks& checks) {
  for (const int64_t n : {4, 31, 256})
    for (const uint32_t gating : {0u, 1u})
      for (const int operands : {0, 1, 2}) {
        const tenon_route_attr attr = {sizeof attr, n < 8 ? 4u : 8u, gating, uint32_t(operands != 1),
                                       1.75f,       6.1035e-5f};
        uint32_t rows = 0;
        const std::vector<float> logits = adversarial(size_t(n), rows);
        const std::string what = std::to_string(n) + " experts, gating " + std::to_string(gating) + ", " +
                                 std::to_string(operands) + " tables";
        const auto make = [&](uint32_t some) {
          OpCase c(TENON_OP_ROUTE, attr, Step::plain(some));
          c.input(some, n, {logits.begin(), logits.begin() + int64_t(some) * n});
          if (operands > 0) c.weight("f32", 1, n, Random(7).normals(size_t(n), 0.01f));
          if (operands > 1) c.weight("f32", 1, n, Random(8).normals(size_t(n), 1));
          return c.output(attr.top_k).output(attr.top_k);
        };
        checks.guarded(what, [&] {
          ++checks.line().cases;
          const RunResult got = run_on_device(checks.device(), checks.kernel(), make(rows));
          checks.expect(same_route(got, run_reference(make(rows), got)), what + ": not as the rule says");
          DeviceOptions options;
          options.captured = true, options.launch_rows = rows + 5;
          ++checks.line().replays;
          checks.expect(same_route(got, run_on_device(checks.device(), checks.kernel(), make(rows), options)),
                        what + ": replay differs from eager");
        });
        if (n == 31) checks.row_exact(make(8), what);
      }
  OpCase none(TENON_OP_ROUTE, tenon_route_attr{sizeof(tenon_route_attr), 5, 0, 0, 1, 0}, Step::plain(1));
  none.input(1, 4, Random(1).normals(4)).output(5).output(5);
  checks.refused(none, "five of four experts");
}

void check_fold(Checks& checks) {
  const auto make = [](uint32_t rows, int64_t top_k, int64_t cols) {
    OpCase c(TENON_OP_FOLD_SLOTS, Step::plain(rows));
    c.input(rows, top_k * cols, Random(1).normals(size_t(rows * top_k * cols)));
    c.input(rows, top_k, Random(2).normals(size_t(rows * top_k)));
    return c.output(cols);
  };
  for (const auto& [top_k, cols] : {std::pair{1, 5}, {2, 300}, {8, 257}})
    checks.against_reference(make(7, top_k, cols), std::to_string(top_k) + " slots of " + std::to_string(cols));
  checks.row_exact(make(checks.is_small() ? 8 : 64, 8, 257), "8 slots");
}

struct Ffn {
  std::array<std::string, 3> dtype = {"f32", "f32", "f32"};
  tenon_expert_ffn_attr attr = {sizeof(tenon_expert_ffn_attr), TENON_ACT_SILU, 0, 0, 0, 3};
  bool is_crowded = false, has_factors = false;
  std::vector<uint32_t> absent = {};
  int64_t width = 256, hidden = 256, cols = 41;
};

// The size of inputs for which products with the weight are about 1, where activations are neither flat nor straight.
float unit_scale(const Weight& w) {
  double sum = 0;
  for (const float v : w.decoded()) sum += double(v) * v;
  return float(1.0 / std::sqrt(1e-30 + sum / double(w.rows * std::max(1u, w.n_expert))));
}

OpCase ffn_case(const Ffn& how, uint32_t rows, uint32_t phase) {
  constexpr uint32_t kExperts = 7;
  const auto stack = [&](int which, int64_t n, int64_t k) {
    std::vector<Weight> experts;
    for (uint32_t e = 0; e < kExperts; ++e)
      experts.push_back(random_weight(how.dtype[size_t(which)], n, k, uint64_t(which) * 100 + e));
    return stacked(experts, how.has_factors ? 64 : 0);
  };
  const int64_t top_k = how.attr.top_k;
  OpCase c(TENON_OP_EXPERT_FFN, how.attr, Step::plain(rows));
  const Weight gate = stack(0, how.hidden, how.width);
  const float scale = unit_scale(gate);
  c.input(rows, how.width, Random(5).normals(size_t(rows * how.width), scale));
  std::vector<int32_t> ids;
  for (uint32_t r = 0; r < rows; ++r)
    for (int64_t slot = 0; slot < top_k; ++slot)
      ids.push_back(int32_t((how.is_crowded ? 2 + slot * 2 : r * 5 + r / 7 + slot * 3) % (kExperts - 1)));
  c.ids(rows, top_k, ids);
  std::vector<float> share = Random(6).normals(size_t(rows * top_k));
  for (float& v : share) v = std::fabs(v);
  c.input(rows, top_k, share);
  c.weight(gate).weight(stack(1, how.hidden, how.width)).weight(stack(2, how.cols, how.hidden));
  for (uint32_t i = 0; how.has_factors && i < 3 * kExperts; ++i) c.macro.push_back(0.5f + float(i % 5));
  c.absent = how.absent;
  return c.output(how.attr.combine ? how.cols * top_k : how.cols).phase(phase);
}

std::string text(const Ffn& how) {
  return how.dtype[0] + " " + how.dtype[1] + " " + how.dtype[2] + ", activation " +
         std::to_string(how.attr.activation) + ", limit " + std::to_string(how.attr.limit) + ", combine " +
         std::to_string(how.attr.combine) + ", " + std::to_string(how.absent.size()) + " absent" +
         (how.is_crowded ? ", crowded" : "") + (how.has_factors ? ", factors" : "");
}

// combine 1 and a fold give the bits of combine 0, with all experts here and with some of them.
void check_slots(Checks& checks, uint32_t phase) {
  for (const std::vector<uint32_t>& absent : {std::vector<uint32_t>{}, std::vector<uint32_t>{0, 2, 5}}) {
    Ffn how;
    how.dtype = {"q8_0", "q8_0", "q4_0"}, how.absent = absent, how.width = 64, how.hidden = 32;
    const OpCase whole = ffn_case(how, 19, phase);
    how.attr.combine = 1;
    checks.guarded("slots", [&] {
      const RunResult sum = run_on_device(checks.device(), checks.kernel(), whole);
      const RunResult slots = run_on_device(checks.device(), checks.kernel(), ffn_case(how, 19, phase));
      OpCase fold(TENON_OP_FOLD_SLOTS, Step::plain(19));
      fold.input(19, how.cols * how.attr.top_k, slots.out[0])
          .input(19, how.attr.top_k, whole.in[2].data)
          .output(how.cols);
      const RunResult folded = run_on_device(checks.device(), Kit::instance().kernel("cuda.fold_slots"), fold);
      checks.expect(equal_bits(folded.out[0], sum.out[0]),
                    "folded slots differ from the sum: " + compare(folded.out[0], sum.out[0]).text());
    });
  }
}

// An id outside of the bank makes its own row NaN.
void check_unknown_ids(Checks& checks, uint32_t phase) {
  for (const uint32_t combine : {0u, 1u})
    checks.guarded("an unknown id", [&] {
      Ffn how;
      how.dtype = {"q8_0", "q8_0", "q4_0"};
      how.attr.combine = combine, how.width = 64, how.hidden = 32;
      OpCase c = ffn_case(how, 20, phase);
      const RunResult good = run_on_device(checks.device(), checks.kernel(), c);
      c.in[1].data[3 * 3 + 1] = 7, c.in[1].data[9 * 3] = -1;
      const RunResult got = run_on_device(checks.device(), checks.kernel(), c);
      const size_t width = got.out[0].size() / 20, slot = width / (combine ? 3 : 1);
      for (size_t r = 0; r < 20; ++r)
        for (size_t i = 0; i < width; ++i) {
          const bool is_lost = (r == 3 && i / slot == (combine ? 1u : 0u)) || (r == 9 && i / slot == 0);
          const float value = got.out[0][r * width + i], before = good.out[0][r * width + i];
          if (is_lost ? std::isnan(value) : equal_bits({&value, 1}, {&before, 1})) continue;
          return checks.expect(false, "an unknown id: row " + std::to_string(r) + ", column " + std::to_string(i));
        }
    });
}

void check_ffn(Checks& checks, uint32_t phase, bool is_q8 = false) {
  const bool is_prompt = phase == TENON_PHASE_PREFILL;
  const uint32_t rows = is_prompt ? 40 : checks.is_small() ? 2 : 6;
  std::vector<std::string> dtypes = all_dtypes();
  if (is_q8) {
    dtypes = block_dtypes_32();
    dtypes.insert(dtypes.end(), block_dtypes_256().begin(), block_dtypes_256().end());
  }
  std::vector<Ffn> all;
  for (const std::string& dtype : dtypes) {
    if (checks.is_small() && is_prompt && dtype != "bf16" && dtype != "q4_k" && dtype != "fp8_b128" && dtype != "mxfp4")
      continue;
    Ffn how;
    how.dtype = {dtype, dtype, dtype}, how.has_factors = true;
    if (checks.is_small()) how.cols = 9;
    if (checks.is_small() && Kit::instance().dtype(dtype).block_cols < 256) how.hidden = 64;
    if (dtype == "f32") how.width = 45, how.hidden = 21;
    if (dtype == "q8_0") how.width = 96, how.hidden = 160;
    if (is_q8 && dtype == "q4_k")
      how.width = checks.is_small() ? 1280 : 2304, how.hidden = checks.is_small() ? 256 : 768;
    if (is_q8 && dtype == "q5_0") how.width = 1120, how.hidden = 608;
    if (dtype == "fp8_b128") how.width = 136, how.hidden = 200, how.cols = 130;
    all.push_back(how);
  }
  for (const char* dtype : {is_q8 ? "q4_0" : "f32", "q8_0"}) {
    const std::array<std::string, 3> one = {dtype, dtype, dtype};
    const auto attr = [](uint32_t activation, float limit, uint32_t combine, uint32_t top_k) {
      return tenon_expert_ffn_attr{sizeof(tenon_expert_ffn_attr), activation, limit, 1.702f, combine, top_k};
    };
    const auto add = [&](Ffn how) { how.width = 128, how.hidden = 96, all.push_back(how); };
    add({one, attr(TENON_ACT_GELU_TANH, 0, 0, 2), true});
    add({one, attr(TENON_ACT_SWIGLU_OAI, 1.5f, 0, 3)});
    add({one, attr(TENON_ACT_SILU, 0.5f, 0, 3)});
    add({one, attr(TENON_ACT_SILU, 0, 1, 3)});
    add({one, attr(TENON_ACT_SILU, 0, 0, 3), false, true, {0, 2, 5}});
    add({one, attr(TENON_ACT_SILU, 0, 1, 3), false, false, {1, 3, 4, 6}});
    add({one, attr(TENON_ACT_SILU, 0, 0, 2), true, false, {2, 4}});
  }
  if (is_q8) {
    all.push_back({{"q4_k", "q4_k", "q6_k"}});
    for (const char* dtype : {"q5_0", "bf16"}) checks.refused(ffn_case({{"q4_0", dtype, "q4_0"}}, 1, phase), dtype);
  } else {
    all.push_back({{"q4_k", "q5_0", "iq2_s"}});
    all.push_back({{"bf16", "f32", "f16"}});
  }
  for (const Ffn& how : all) checks.against_reference(ffn_case(how, rows, phase), text(how));
  Ffn how;
  how.dtype = {"q4_k", "q4_k", "q8_0"}, how.cols = 20, how.hidden = 64;
  if (is_prompt && !checks.is_small()) {
    // Groups of more than one tile.
    how.is_crowded = true;
    checks.against_reference(ffn_case(how, 300, phase), text(how) + ", 300 rows");
    how.is_crowded = false;
  }
  checks.row_exact(ffn_case(how, checks.is_small() ? 8 : 64, phase), text(how));
  check_slots(checks, phase);
  check_unknown_ids(checks, phase);
}

}  // namespace

void check_experts(const Device& device, bool is_small, std::vector<Line>& lines) {
  const auto check = [&](const char* kernel, double bound, const auto& body) {
    Checks checks(device, kernel, bound, is_small);
    body(checks);
    lines.push_back(checks.line());
  };
  check("cuda.route", 0, check_route);
  check("cuda.fold_slots", 0, check_fold);
  check("cuda.expert_ffn", 2e-6, [](Checks& checks) { check_ffn(checks, TENON_PHASE_DECODE); });
  // A hidden number that lies between two codes may be rounded to the other one.
  check("cuda.expert_ffn.q8", 3e-3, [](Checks& checks) { check_ffn(checks, TENON_PHASE_DECODE, true); });
  check("cuda.expert_ffn.tile", 2e-6, [](Checks& checks) { check_ffn(checks, TENON_PHASE_PREFILL); });
}

}  // namespace tenon::gpu_test
