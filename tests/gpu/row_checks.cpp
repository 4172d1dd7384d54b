// norm, rope, embed, select_rows, logits_tail.
#include <cmath>
#include <limits>

#include "checks.hpp"

namespace tenon::gpu_test {
namespace {

void check_norm(Checks& checks) {
  struct Case {
    int64_t cols;
    uint32_t group, kind;
    const char* weight;  // null: none
    bool strided;
  };
  for (const Case& k : {Case{640, 0, TENON_NORM_RMS, "f32", false}, Case{4096, 0, TENON_NORM_RMS, "bf16", false},
                        Case{5, 0, TENON_NORM_RMS, nullptr, false}, Case{1024, 128, TENON_NORM_RMS, "f16", true},
                        Case{512, 256, TENON_NORM_L2, nullptr, true}, Case{33, 11, TENON_NORM_L2, "f32", false}}) {
    const auto make = [&](Step step) {
      OpCase c(TENON_OP_NORM, tenon_norm_attr{sizeof(tenon_norm_attr), k.kind, 1e-6f, k.group}, std::move(step));
      const int64_t rows = c.step.n_rows;
      auto x = Random(1).normals(size_t(rows * k.cols), 3);
      if (k.strided) {
        c.strided(rows, k.cols, x, 4, 8, 16);
      } else {
        c.input(rows, k.cols, x);
      }
      if (k.weight) c.weight(random_weight(k.weight, 1, k.group ? k.group : k.cols, 2));
      c.output(k.cols);
      return c;
    };
    const std::string what = std::to_string(k.cols) + " columns, groups of " + std::to_string(k.group);
    checks.against_reference(make(Step::plain(5)), what);
    checks.row_exact(make(Step::plain(checks.is_small() ? 8 : 64)), what);
  }
}

void check_rope(Checks& checks) {
  struct Case {
    uint32_t style, heads, head_dim, n_rot, sections[4];
    float magnitude;
    bool strided;
  };
  for (const Case& k : {Case{TENON_ROPE_HALF, 3, 64, 64, {0, 0, 0, 0}, 1.0f, false},
                        Case{TENON_ROPE_HALF, 2, 256, 64, {11, 11, 10, 0}, 1.0f, true},
                        Case{TENON_ROPE_ADJACENT, 4, 48, 20, {0, 0, 0, 0}, 1.2f, false}}) {
    const auto make = [&](uint32_t rows) {
      tenon_rope_attr attr = {};
      attr.struct_size = sizeof attr, attr.style = k.style, attr.head_dim = k.head_dim, attr.n_rot = k.n_rot;
      for (int i = 0; i < 4; ++i) attr.sections[i] = k.sections[i];
      attr.magnitude = k.magnitude;
      OpCase c(TENON_OP_ROPE, attr, Step::plain(rows));
      Random random(7);
      for (uint32_t s = 0; s < 4; ++s)
        for (uint32_t r = 0; r < rows; ++r)
          c.step.position[s * c.step.max_rows + r] = int32_t(random.below(r % 3 == 2 ? 200000 : 500));
      const int64_t cols = int64_t(k.heads) * k.head_dim;
      auto x = random.normals(size_t(rows * cols));
      if (k.strided) {
        c.strided(rows, cols, x, k.heads, k.head_dim, k.head_dim);
      } else {
        c.input(rows, cols, x);
      }
      std::vector<float> frequencies;
      for (uint32_t i = 0; i < k.n_rot / 2; ++i)
        frequencies.push_back(std::pow(10000.0f, -2.0f * float(i) / float(k.n_rot)));
      c.weight("f32", 1, k.n_rot / 2, frequencies).output(cols);
      return c;
    };
    const std::string what = "heads of " + std::to_string(k.head_dim) + ", " + std::to_string(k.n_rot) + " turn";
    checks.against_reference(make(7), what);
    checks.row_exact(make(checks.is_small() ? 8 : 64), what);
  }
}

void check_embed(Checks& checks) {
  for (const std::string& dtype : all_dtypes()) {
    const int64_t cols = dtype == "f16" ? 45 : 512;
    const auto make = [&](uint32_t rows, bool overlay) {
      OpCase c(TENON_OP_EMBED, tenon_embed_attr{sizeof(tenon_embed_attr), overlay ? 1.5f : 1.0f}, Step::plain(rows));
      std::vector<int32_t> ids;
      Random random(3);
      for (uint32_t r = 0; r < rows; ++r) {
        ids.push_back(int32_t(random.below(40))), c.step.token[r] = ids.back();
        if (overlay && r % 3 == 1) c.step.overlay[r] = int32_t(random.below(7));
      }
      c.ids(rows, 1, ids);
      if (overlay) c.input(7, cols, random.normals(size_t(7 * cols)));
      c.weight(random_weight(dtype, 40, cols, 5)).output(cols);
      return c;
    };
    checks.against_reference(make(9, false), dtype);
    checks.against_reference(make(9, true), dtype + " with an overlay");
    if (dtype == "q4_k" || dtype == "bf16") checks.row_exact(make(checks.is_small() ? 8 : 64, true), dtype);
  }
}

void check_select(Checks& checks) {
  for (const bool strided : {false, true}) {
    OpCase c(TENON_OP_SELECT_ROWS, Step::plain(20));
    c.step.select({19, 0, 7, 7, 3});
    auto x = Random(1).normals(20 * 300);
    if (strided) {
      c.strided(20, 300, x, 3, 4, 4);
    } else {
      c.input(20, 300, x);
    }
    c.output(300, TENON_DOMAIN_OUTPUT_ROWS);
    checks.against_reference(c, strided ? "a view" : "rows");
  }
}

void check_logits_tail(Checks& checks) {
  for (const float cap : {0.0f, 20.0f})
    for (const bool never : {false, true}) {
      OpCase c(TENON_OP_LOGITS_TAIL, tenon_scale_attr{sizeof(tenon_scale_attr), cap}, Step::plain(4));
      c.step.select({0, 1, 3});
      const int64_t cols = 1500;
      auto x = Random(1).normals(size_t(3 * cols), 10);
      x[size_t(cols + 1499)] = std::numeric_limits<float>::infinity();
      c.input(3, cols, x).domain(TENON_DOMAIN_OUTPUT_ROWS).output(cols, TENON_DOMAIN_OUTPUT_ROWS);
      std::fill(c.step.status.begin(), c.step.status.end(), 0u);
      if (never) {
        const int32_t ids[] = {5, 1499, 0, 7};
        c.weight(Weight::raw("i32", 1, 4, ids, sizeof ids));
      }
      checks.against_reference(c, "cap " + std::to_string(cap) + (never ? ", masked" : ""));
    }
}

}  // namespace

void check_rows(const Device& device, bool is_small, std::vector<Line>& lines) {
  const auto check = [&](const char* kernel, double bound, void (*body)(Checks&)) {
    Checks checks(device, kernel, bound, is_small);
    body(checks);
    lines.push_back(checks.line());
  };
  check("cuda.norm", 4e-7, check_norm);
  check("cuda.rope", 4e-7, check_rope);
  check("cuda.embed", 0, check_embed);
  check("cuda.select_rows", 0, check_select);
  check("cuda.logits_tail", 2e-7, check_logits_tail);
}

}  // namespace tenon::gpu_test
