// kv_write and attention over pages.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "checks.hpp"

namespace tenon::gpu_test {
namespace {

struct Shape {
  uint32_t heads, kv_heads, dim_k, dim_v;
  int32_t window;
  float softcap;
  const char *dtype_k, *dtype_v;
};

tenon_attention_attr attributes(const Shape& s) {
  tenon_attention_attr attr = {};
  attr.struct_size = sizeof attr, attr.heads = s.heads, attr.kv_heads = s.kv_heads, attr.head_dim = s.dim_k;
  attr.head_dim_v = s.dim_v, attr.window = s.window, attr.scale = 1.0f / std::sqrt(float(s.dim_k));
  attr.softcap = s.softcap;
  return attr;
}

// Sequences whose pages hold random keys up to their last row; everything else in the store is NaN.
OpCase make_case(const Shape& s, const std::vector<SeqRows>& sequences, uint32_t phase, uint64_t seed = 1) {
  int64_t longest = 0;
  for (const SeqRows& part : sequences) longest = std::max<int64_t>(longest, part.past + part.rows);
  Store store = Store::paged(s.kv_heads, s.dim_k, s.dim_v, s.dtype_k, s.dtype_v, uint32_t(sequences.size()), longest,
                             s.window, seed);
  Random random(seed);
  for (uint32_t q = 0; q < sequences.size(); ++q) {
    const int64_t end = sequences[q].past + sequences[q].rows;
    // Pages that no row of the step can see are given back, as the core does.
    const int64_t first = s.window > 0 ? std::max<int64_t>(0, sequences[q].past - s.window + 1) : 0;
    for (int64_t page = 0; page < first / TENON_PAGE_TOKENS; ++page) store.give_back(q, page);
    for (int64_t p = first / TENON_PAGE_TOKENS * TENON_PAGE_TOKENS; p < end; ++p)
      store.put(q, p, random.normals(size_t(s.kv_heads) * s.dim_k).data(),
                random.normals(size_t(s.kv_heads) * s.dim_v).data());
  }
  OpCase c(TENON_OP_ATTENTION, attributes(s), Step(sequences));
  const int64_t cols = int64_t(s.heads) * s.dim_k;
  c.input(c.step.n_rows, cols, random.normals(size_t(c.step.n_rows * cols)));
  c.store(std::move(store)).output(int64_t(s.heads) * s.dim_v).phase(phase);
  return c;
}

std::string text(const Shape& s) {
  return std::to_string(s.heads) + "/" + std::to_string(s.kv_heads) + " heads of " + std::to_string(s.dim_k) + " and " +
         std::to_string(s.dim_v) + ", window " + std::to_string(s.window) + ", " + s.dtype_k + " " + s.dtype_v;
}

void check_spans(Checks& checks) {
  for (const uint32_t phase : {TENON_PHASE_PREFILL, TENON_PHASE_DECODE})
    for (const int32_t window : {0, 2}) {
      Shape s = {2, 1, 32, 32, window, 0, "f32", "f32"};
      const bool is_decode = phase == TENON_PHASE_DECODE;
      const std::vector<SeqRows> rows =
          is_decode ? std::vector<SeqRows>{{60, 15}, {3, 6}} : std::vector<SeqRows>{{70, 20}, {3, 18}};
      OpCase c = make_case(s, rows, phase);
      tenon_attention_attr attr = attributes(s);
      attr.span_mask = 1;
      std::memcpy(c.attr.data(), &attr, sizeof attr);
      for (size_t r = 2; r < 12; ++r) c.step.span[r] = 7;
      const size_t second = c.step.row0(1);
      for (size_t r = second + 1; r < second + 6; ++r) c.step.span[r] = 8;
      if (window) c.stores[0].table = make_case({2, 1, 32, 32, 0, 0, "f32", "f32"}, rows, 1).stores[0].table;
      checks.against_reference(
          c, std::string(is_decode ? "a step's" : "a prompt's") + " spans, window " + std::to_string(window));
    }
}

// Blocks with ties, zeros of both signs, tiny and large numbers: the bytes of the dtype's own encoder.
void check_values_at_the_edge(Checks& checks) {
  for (const char* dtype : {"q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "fp8_e4m3"}) {
    OpCase c(TENON_OP_KV_WRITE, tenon_kv_write_attr{sizeof(tenon_kv_write_attr), 1, 32, 32}, Step({{0, 12}}));
    std::vector<float> values;
    for (int r = 0; r < 12; ++r)
      for (int i = 0; i < 32; ++i) {
        const float base = float(i % 9) - 4;
        const float all[] = {
            0.0f,         i % 2 ? 0.0f : -0.0f, base,           -base, i % 2 ? 3.0f : -3.0f,      base * 0.5f,
            base * 1e-9f, base * 100,           base * 0x1p-9f, 1.0f,  base + 0.0625f * float(i), base * 0x1p-10f};
        values.push_back(all[r]);
      }
    c.input(12, 32, values).input(12, 32, values).store(Store::paged(1, 32, 32, dtype, dtype, 1, 12));
    checks.against_reference(c, std::string("edges of ") + dtype);
  }
}

// A number that is none makes its own block so, and nothing else.
void check_rows_without_numbers(Checks& checks) {
  for (const char* dtype : {"f16", "q8_0", "q4_0", "q5_1", "fp8_e4m3"})
    checks.guarded(dtype, [&] {
      const auto make = [&](float number) {
        OpCase c(TENON_OP_KV_WRITE, tenon_kv_write_attr{sizeof(tenon_kv_write_attr), 1, 64, 64}, Step({{0, 4}}));
        std::vector<float> values = Random(1).normals(4 * 64);
        c.input(4, 64, values), values[2 * 64 + 40] = number;
        return std::move(c.input(4, 64, values).store(Store::paged(1, 64, 64, dtype, dtype, 1, 4)));
      };
      const RunResult good = run_on_device(checks.device(), checks.kernel(), make(1.0f));
      const RunResult got = run_on_device(checks.device(), checks.kernel(), make(std::nanf("")));
      for (int64_t p = 0; p < 4; ++p) {
        float k[64], v[64], before_k[64], before_v[64];
        got.stores[0].get(0, p, k, v), good.stores[0].get(0, p, before_k, before_v);
        for (int i = 0; i < 64; ++i) {
          const bool is_lost = p == 2 && (Kit::instance().dtype(dtype).block_cols == 32 ? i >= 32 : i == 40);
          if (!equal_bits({&k[i], 1}, {&before_k[i], 1}) || (is_lost ? !std::isnan(v[i]) : v[i] != before_v[i]))
            return checks.expect(false,
                                 std::string(dtype) + ": row " + std::to_string(p) + ", column " + std::to_string(i));
        }
      }
    });
}

// Every head against the same rows, whose first columns are summed.
void check_latent(const Device& device, bool is_small, std::vector<Line>& lines) {
  Checks checks(device, "cuda.latent_attention", 1e-6, is_small);
  struct Latent {
    uint32_t heads, rank, rope_dim;
    const char* dtype;
  };
  for (const Latent& l :
       {Latent{3, 64, 32, "f32"}, Latent{2, 512, 64, "f16"}, Latent{2, 40, 24, "bf16"}, Latent{2, 64, 32, "q8_0"}}) {
    const auto make = [&](const std::vector<SeqRows>& sequences, uint32_t phase) {
      int64_t longest = 0;
      for (const SeqRows& part : sequences) longest = std::max<int64_t>(longest, part.past + part.rows);
      Store store = Store::latent(l.rank + l.rope_dim, l.dtype, uint32_t(sequences.size()), longest);
      Random random(3);
      for (uint32_t q = 0; q < sequences.size(); ++q)
        for (int64_t p = 0; p < sequences[q].past + sequences[q].rows; ++p)
          store.put(q, p, random.normals(l.rank + l.rope_dim).data(), nullptr);
      const tenon_latent_attention_attr attr = {sizeof attr, l.heads, l.rank, l.rope_dim, 0.1f, 0};
      OpCase c(TENON_OP_LATENT_ATTENTION, attr, Step(sequences));
      const int64_t cols = int64_t(l.heads) * (l.rank + l.rope_dim);
      c.input(c.step.n_rows, cols, random.normals(size_t(c.step.n_rows * cols)));
      c.store(std::move(store)).output(int64_t(l.heads) * l.rank).phase(phase);
      return c;
    };
    const std::string what = std::to_string(l.heads) + " heads, rows of " + std::to_string(l.rank) + " and " +
                             std::to_string(l.rope_dim) + ", " + l.dtype;
    checks.against_reference(make({{0, 1}, {70, 2}}, TENON_PHASE_DECODE), what);
    checks.against_reference(make({{3, 18}}, TENON_PHASE_PREFILL), what + ", a prompt");
    checks.row_exact(make({{70, 1}, {3, 1}, {64, 1}, {0, 1}}, TENON_PHASE_DECODE), what);
  }
  lines.push_back(checks.line());
}

// Spans of a step, with the pages that they need beyond the window.
OpCase with_spans(Shape s, const std::vector<SeqRows>& rows, uint32_t phase) {
  OpCase c = make_case(s, rows, phase);
  tenon_attention_attr attr = attributes(s);
  attr.span_mask = 1;
  std::memcpy(c.attr.data(), &attr, sizeof attr);
  for (size_t r = 2; r < 12; ++r) c.step.span[r] = 7;
  const size_t second = c.step.row0(1);
  for (size_t r = second + 1; r < second + 6; ++r) c.step.span[r] = 8;
  s.window = 0;
  c.stores[0].table = make_case(s, rows, phase).stores[0].table;
  return c;
}

// A key that is nowhere: NaN in the rows that see it, and the bits of another sequence as they were.
void check_missing_page(Checks& checks, const OpCase& whole) {
  checks.guarded("a missing page", [&] {
    OpCase torn = whole;
    torn.stores[0].give_back(0, 0);
    const RunResult a = run_on_device(checks.device(), checks.kernel(), whole);
    const RunResult b = run_on_device(checks.device(), checks.kernel(), torn);
    const size_t own = size_t(whole.out[0].cols) * whole.step.row0(1);
    checks.expect(std::all_of(b.out[0].begin(), b.out[0].begin() + int64_t(own), [](float x) { return std::isnan(x); }),
                  "a missing page: a row that sees it is not NaN throughout");
    checks.expect(equal_bits({a.out[0].data() + own, a.out[0].size() - own}, {b.out[0].data() + own, b.out[0].size() - own}),
                  "a missing page: another sequence has changed");
  });
}

// q and the weights of keys are sums of two numbers of 8 (bf16) or 11 digits, so what is lost of each is 2^-17 at most in a
// bf16 cache and 2^-22 in an f16 one; tensor cores cut what they add at 2^-23 of the sum, some dozen times one after
// another.
constexpr double kSplitBound = 1e-5;

void check_split(const Device& device, bool is_small, std::vector<Line>& lines) {
  Checks checks(device, "cuda.attention.split", kSplitBound, is_small);
  // Heads that fill a block and that do not, several blocks to a K/V head, all widths, windows that skip pages.
  const std::vector<Shape> shapes = {{6, 2, 64, 64, 0, 0, "f16", "f16"},     {12, 1, 32, 96, 70, 30, "bf16", "bf16"},
                                     {6, 1, 256, 256, 0, 0, "f16", "f16"},   {8, 1, 512, 512, 0, 0, "f16", "f16"},
                                     {16, 8, 128, 128, 128, 0, "f16", "f16"}, {12, 2, 192, 128, 1, 0, "f16", "f16"},
                                     {24, 1, 96, 64, 1000, 5, "bf16", "bf16"}, {2, 2, 256, 512, 0, 0, "bf16", "bf16"}};
  for (const Shape& s : shapes) {
    if (is_small && &s - shapes.data() >= 4) break;
    checks.against_reference(make_case(s, {{0, 1}}, TENON_PHASE_DECODE), text(s) + ", first token");
    checks.against_reference(make_case(s, {{200, 3}, {63, 1}, {64, 2}, {0, 2}}, TENON_PHASE_DECODE), text(s));
    if (is_small) {
      if (&s == shapes.data()) checks.row_exact(make_case(s, {{70, 1}, {3, 1}, {64, 1}, {0, 1}}, TENON_PHASE_DECODE), text(s));
      continue;
    }
    std::vector<SeqRows> many;
    Random random(4);
    for (int i = 0; i < 64; ++i) many.push_back({int32_t(random.below(260)), 1});
    checks.row_exact(make_case(s, many, TENON_PHASE_DECODE), text(s));
  }
  // Queries and scores far from 1: f16 alone would not hold them.
  for (const float size : {1e-6f, 1e4f, 1e6f}) {
    OpCase c = make_case(shapes[0], {{100, 1}, {20, 2}}, TENON_PHASE_DECODE);
    for (float& x : c.in[0].data) x *= size;
    tenon_attention_attr attr = attributes(shapes[0]);
    attr.scale /= size;
    std::memcpy(c.attr.data(), &attr, sizeof attr);
    checks.against_reference(c, "queries of size " + std::to_string(size));
  }
  for (const int32_t window : {0, 2})
    checks.against_reference(
        with_spans({2, 1, 32, 32, window, 0, "f16", "f16"}, {{60, 15}, {3, 6}}, TENON_PHASE_DECODE),
        "a step's spans, window " + std::to_string(window));
  check_missing_page(checks, make_case(shapes[0], {{100, 1}, {70, 1}}, TENON_PHASE_DECODE));
  // Rows whose parts fit in the workspace and rows that one block walks have the same bits, at every size of groups.
  const Shape s = {2, 1, 32, 32, 0, 0, "f16", "f16"};
  std::vector<SeqRows> lengths = {{300, 1}};
  if (!is_small) lengths = {{8190, 1}, {8192, 1}, {32767, 1}, {32768, 1}, {40000, 1}};
  const OpCase c = make_case(s, lengths, TENON_PHASE_DECODE);
  checks.guarded("long sequences", [&] {
    DeviceOptions options;
    options.max_context = is_small ? 1024 : 40960;
    const RunResult parts = run_on_device(device, checks.kernel(), c, options);
    const RunResult want = run_op(Kit::instance().kernel("reference.attention"), c, {.max_context = options.max_context});
    const Difference off = compare(parts.out[0], want.out[0]);
    checks.expect(off.comparable && off.relative_rms < kSplitBound, "long sequences: " + off.text());
    options.max_context = int64_t(1) << 27;  // there is room for one row's parts
    options.launch_rows = uint32_t(lengths.size()) + 1;
    const RunResult walked = run_on_device(device, checks.kernel(), c, options);
    checks.expect(equal_bits(parts.out[0], walked.out[0]), "long sequences: rows with parts differ from rows without");
  });
  checks.refused(make_case({2, 1, 32, 32, 0, 0, "f32", "f32"}, {{3, 1}}, TENON_PHASE_DECODE), "an f32 cache");
  checks.refused(make_case({2, 1, 32, 32, 0, 0, "f16", "bf16"}, {{3, 1}}, TENON_PHASE_DECODE), "a cache of two types");
  lines.push_back(checks.line());
}

// The step's rows with the first `skipped` of each sequence computed before, in a store that holds the same.
OpCase later_rows(const OpCase& full, const std::vector<int32_t>& skipped) {
  std::vector<SeqRows> sequences;
  std::vector<float> data;
  OpCase out = full;
  Input& q = out.in[0];
  for (uint32_t s = 0; s < full.step.n_seqs; ++s) {
    const size_t begin = full.step.row0(s) + size_t(skipped[s]), end = full.step.row0(s + 1);
    if (begin >= end) throw std::runtime_error("no rows are left");
    sequences.push_back({full.step.index[begin], int32_t(end - begin)});
    data.insert(data.end(), q.data.begin() + int64_t(begin) * q.cols, q.data.begin() + int64_t(end) * q.cols);
  }
  out.step = Step(sequences);
  q.data = std::move(data), q.rows = out.step.n_rows;
  return out;
}

// P5: the rows of a prompt have the same bits however it is cut.
void check_chunks(Checks& checks, const Shape& s, const std::vector<SeqRows>& rows,
                  const std::vector<std::vector<int32_t>>& cuts) {
  checks.guarded(text(s) + ", chunks", [&] {
    const OpCase full = make_case(s, rows, TENON_PHASE_PREFILL);
    const RunResult whole = run_on_device(checks.device(), checks.kernel(), full);
    for (const std::vector<int32_t>& skipped : cuts) {
      const OpCase part = later_rows(full, skipped);
      const RunResult got = run_on_device(checks.device(), checks.kernel(), part);
      const size_t cols = size_t(full.out[0].cols);
      for (uint32_t q = 0; q < full.step.n_seqs; ++q) {
        const size_t n = (part.step.row0(q + 1) - part.step.row0(q)) * cols;
        checks.expect(equal_bits({got.out[0].data() + part.step.row0(q) * cols, n},
                                 {whole.out[0].data() + full.step.row0(q + 1) * cols - n, n}),
                      text(s) + ": sequence " + std::to_string(q) + " without its first " + std::to_string(skipped[q]) +
                          " rows has other bits");
      }
      checks.line().exact_rows += int(part.step.n_rows);
    }
  });
}

// Each weight of a key is rounded to 11 digits, by 2^-12 … 2^-11 of itself at most: half of that on the average over keys
// whose values have nothing to do with each other. bf16 has 8 digits. q is the reference's, rounded already.
void check_tile(const Device& device, bool is_small, std::vector<Line>& lines) {
  for (const char* dtype : {"f16", "bf16"}) {
    Checks checks(device, "cuda.attention.tile", dtype == std::string("f16") ? 5e-4 : 4e-3, is_small);
    checks.line().name += std::string(" ") + dtype;
    const std::vector<Shape> shapes = {{2, 1, 64, 64, 0, 0, dtype, dtype},    {2, 2, 96, 32, 70, 30, dtype, dtype},
                                       {2, 1, 512, 512, 0, 0, dtype, dtype},  {1, 1, 256, 256, 0, 0, dtype, dtype},
                                       {2, 1, 128, 128, 100, 0, dtype, dtype}, {3, 1, 192, 128, 0, 0, dtype, dtype},
                                       {1, 1, 256, 512, 1, 0, dtype, dtype}};
    for (const Shape& s : shapes) {
      if (is_small && &s - shapes.data() >= (dtype == std::string("f16") ? 3 : 1)) break;
      checks.against_reference(make_case(s, {{0, 20}, {130, 16}, {63, 17}}, TENON_PHASE_PREFILL), text(s));
      check_chunks(checks, s, {{0, 80}, {64, 40}}, {{64, 16}});
      if (is_small) continue;
      checks.against_reference(make_case(s, {{0, 200}, {30, 129}}, TENON_PHASE_PREFILL), text(s) + ", long");
      check_chunks(checks, s, {{0, 300}, {20, 150}, {700, 20}}, {{64, 44, 0}, {128, 0, 3}, {256, 108, 4}, {284, 134, 0}});
    }
    for (const int32_t window : {0, 2})
      checks.against_reference(with_spans({2, 1, 32, 32, window, 0, dtype, dtype}, {{70, 20}, {3, 18}}, TENON_PHASE_PREFILL),
                               "a prompt's spans, window " + std::to_string(window));
    check_missing_page(checks, make_case(shapes[0], {{10, 30}, {70, 20}}, TENON_PHASE_PREFILL));
    checks.refused(make_case({2, 1, 32, 32, 0, 0, "f32", dtype}, {{3, 17}}, TENON_PHASE_PREFILL), "a cache of two types");
    lines.push_back(checks.line());
  }
}

}  // namespace

void check_attention(const Device& device, bool is_small, std::vector<Line>& lines) {
  {
    Checks checks(device, "cuda.kv_write", 0, is_small);
    for (const auto& [k, v] : {std::pair{"f32", "f32"},
                               {"f16", "f16"},
                               {"bf16", "bf16"},
                               {"f16", "f32"},
                               {"q8_0", "q8_0"},
                               {"q5_1", "q4_0"},
                               {"q4_1", "q5_0"},
                               {"fp8_e4m3", "f16"}}) {
      const uint32_t heads = 2, dim_k = 96, dim_v = 64;
      OpCase c(TENON_OP_KV_WRITE, tenon_kv_write_attr{sizeof(tenon_kv_write_attr), heads, dim_k, dim_v},
               Step({{60, 9}, {0, 1}, {127, 2}}));
      Random random(1);
      c.strided(12, heads * dim_k, random.normals(12 * heads * dim_k), heads, 8, 8);
      c.input(12, heads * dim_v, random.normals(12 * heads * dim_v));
      c.store(Store::paged(heads, dim_k, dim_v, k, v, 3, 130));
      checks.against_reference(c, std::string(k) + " " + v);
    }
    for (const char* dtype : {"f32", "f16", "q8_0", "fp8_e4m3"}) {
      OpCase c(TENON_OP_KV_WRITE, tenon_kv_write_attr{sizeof(tenon_kv_write_attr), 1, 96, 0}, Step({{60, 9}, {0, 1}}));
      c.input(10, 96, Random(2).normals(10 * 96)).store(Store::latent(96, dtype, 2, 130));
      checks.against_reference(c, std::string("latent rows of ") + dtype);
    }
    OpCase torn(TENON_OP_KV_WRITE, tenon_kv_write_attr{sizeof(tenon_kv_write_attr), 1, 64, 64}, Step({{0, 1}}));
    torn.input(1, 64, Random(2).normals(64)).input(1, 64, Random(2).normals(64));
    torn.store(Store::paged(1, 64, 64, "mxfp4", "f16", 1, 1));
    checks.refused(torn, "a cache of mxfp4");
    check_values_at_the_edge(checks);
    check_rows_without_numbers(checks);
    lines.push_back(checks.line());
  }
  check_split(device, is_small, lines);
  check_tile(device, is_small, lines);
  Checks checks(device, "cuda.attention", 1e-6, is_small);
  const std::vector<Shape> shapes = {
      {4, 2, 64, 64, 0, 0, "f32", "f32"},      {2, 1, 256, 256, 0, 0, "f16", "f16"},
      {4, 1, 128, 128, 70, 0, "f32", "f32"},   {2, 2, 32, 96, 1, 30, "bf16", "bf16"},
      {8, 2, 96, 64, 32, 0, "f16", "f32"},     {2, 1, 512, 512, 0, 0, "bf16", "bf16"},
      {3, 3, 160, 32, 1000, 5, "f32", "bf16"}, {4, 2, 64, 64, 0, 0, "q8_0", "q8_0"},
      {2, 1, 128, 64, 0, 0, "q5_1", "q4_0"},   {2, 1, 64, 128, 70, 0, "fp8_e4m3", "q5_0"},
      {2, 1, 32, 32, 0, 0, "q4_1", "fp8_e4m3"}};
  for (const Shape& s : shapes) {
    checks.against_reference(make_case(s, {{0, 1}}, TENON_PHASE_DECODE), text(s) + ", first token");
    checks.against_reference(make_case(s, {{200, 3}, {63, 1}, {64, 5}, {0, 2}}, TENON_PHASE_DECODE), text(s));
    if (is_small) {
      checks.row_exact(make_case(s, {{70, 1}, {3, 1}, {64, 1}, {0, 1}}, TENON_PHASE_DECODE), text(s));
      continue;
    }
    checks.against_reference(make_case(s, {{0, 70}, {130, 20}}, TENON_PHASE_PREFILL), text(s) + ", a prompt");
    std::vector<SeqRows> many;
    Random random(4);
    for (int i = 0; i < 64; ++i) many.push_back({int32_t(random.below(260)), 1});
    checks.row_exact(make_case(s, many, TENON_PHASE_DECODE), text(s));
  }
  if (!is_small) {
    // Lengths at which groups of keys grow.
    const Shape s = {2, 1, 32, 32, 0, 0, "f16", "f16"};
    std::vector<SeqRows> lengths;
    for (const int32_t past : {8190, 8192, 32767, 32768, 40000}) lengths.push_back({past, 1});
    const OpCase c = make_case(s, lengths, TENON_PHASE_DECODE);
    checks.guarded("long sequences", [&] {
      DeviceOptions options;
      options.max_context = 40960;
      const RunResult split = run_on_device(device, checks.kernel(), c, options);
      const RunResult want =
          run_op(Kit::instance().kernel("reference.attention"), c, {.max_context = options.max_context});
      checks.expect(compare(split.out[0], want.out[0]).relative_rms < 1e-6,
                    "long sequences: " + compare(split.out[0], want.out[0]).text());
      OpCase prefill = c;  // not split: one block walks all groups
      prefill.phase(TENON_PHASE_PREFILL);
      checks.expect(equal_bits(run_on_device(device, checks.kernel(), prefill, options).out[0], split.out[0]),
                    "long sequences: split rows differ from unsplit ones");
    });
  }
  check_spans(checks);
  {
    OpCase c = make_case({1, 1, 48, 48, 0, 0, "f32", "f32"}, {{3, 1}}, TENON_PHASE_DECODE);
    checks.refused(c, "heads of 48");
  }
  lines.push_back(checks.line());
  check_latent(device, is_small, lines);
}

}  // namespace tenon::gpu_test
