// Cases of the ops that read or write stores.
#include "store_cases.hpp"

#include <algorithm>
#include <cmath>

#include "store/cache_types.hpp"
#include "transactions.hpp"

namespace tenon::kit {
namespace {

using Cases = std::vector<KernelCase>;

// Sequences of `group` rows each, with different pasts, `rows` in all. A row is the same whatever the number.
std::vector<SeqRows> sequences(uint32_t rows, uint32_t group, bool fresh) {
  static constexpr int32_t kPast[] = {0, 61, 5, 130, 64, 20};
  std::vector<SeqRows> out;
  for (uint32_t begin = 0; begin < rows; begin += group)
    out.push_back({fresh ? 0 : kPast[out.size() % std::size(kPast)], int32_t(std::min(group, rows - begin))});
  return out;
}

std::vector<float> rows_at(const Step& step, int64_t cols, uint64_t seed, float scale) {
  std::vector<float> out;
  for (uint32_t r = 0; r < step.rows(); ++r) {
    const uint64_t place = uint64_t(step.seq[r]) * 7919 + uint64_t(step.index[r]);
    const auto row = Random(seed * 1000003 + place).normals(size_t(cols), scale);
    out.insert(out.end(), row.begin(), row.end());
  }
  return out;
}

struct Attention {
  uint32_t heads = 4, kv_heads = 1, dim = 64, dim_v = 64;
  int32_t window = 0;
  float softcap = 0;
  std::string dtype = "f16";
  bool span_mask = false;
};

std::string label_of(const Attention& s, uint32_t group) {
  return std::to_string(s.heads) + " heads on " + std::to_string(s.kv_heads) + ", " + std::to_string(s.dim) +
         " wide, " + s.dtype + (s.window ? ", window " + std::to_string(s.window) : "") +
         (s.softcap > 0 ? ", capped" : "") + (s.span_mask ? ", spans" : "") + ", sequences of " +
         std::to_string(group) + " rows";
}

Store filled(const Attention& s, const std::vector<SeqRows>& parts) {
  int32_t longest = 1;
  for (const SeqRows& part : parts) longest = std::max(longest, part.past + part.rows);
  // Always the same pages, so that the memory is the same for any number of rows.
  Store store = Store::paged(s.kv_heads, s.dim, s.dim_v, s.dtype, s.dtype, uint32_t(parts.size()), longest, s.window);
  for (uint32_t q = 0; q < parts.size(); ++q)
    for (int32_t p = 0; p < parts[q].past + parts[q].rows; ++p) {
      Random random(uint64_t(q) * 100000 + uint64_t(p) + 1);
      const auto k = random.normals(size_t(s.kv_heads) * s.dim), v = random.normals(size_t(s.kv_heads) * s.dim_v);
      store.put(q, p, k.data(), v.data());
    }
  return store;
}

// Spans of one to seven rows, side by side and with gaps, none over the border of two sequences.
void set_spans(Step& step) {
  for (uint32_t r = 0; r < step.rows(); ++r) {
    const uint32_t row = r - step.row0(uint32_t(step.seq[r]));
    if (row % 10 > 0) step.span[r] = int32_t(row / 10 * 2 + (row % 10 > 7));
  }
}

// The f32 and halves, and every registered dtype that has an encoder and whose blocks fit a head, of
// those that a cache takes.
std::vector<std::string> store_dtypes(uint32_t head_dim) {
  std::vector<std::string> out;
  for (const std::string& name : all_dtypes()) {
    const tenon_dtype& record = records().dtype(name);
    if (record.encode && record.n_plane == 1 && record.block_cols <= store::kMostBlockCols &&
        head_dim % record.block_cols == 0 && name[0] != 'i' && name[0] != 'u')
      out.push_back(name);
  }
  return out;
}

Cases attention_cases() {
  std::vector<Attention> shapes = {
      {},
      {.heads = 4, .kv_heads = 4, .dim = 80, .dim_v = 48},
      {.heads = 6, .kv_heads = 2, .dim = 96, .dim_v = 96, .window = 70},
      {.heads = 2, .kv_heads = 1, .dim = 256, .dim_v = 256, .window = 64},
      {.heads = 2, .kv_heads = 2, .dim = 128, .dim_v = 128, .softcap = 5},
      {.heads = 3, .kv_heads = 1, .dim = 40, .dim_v = 40},
      {.span_mask = true},
      {.heads = 2, .kv_heads = 1, .dim = 256, .dim_v = 256, .window = 4, .span_mask = true}};
  for (const std::string& dtype : store_dtypes(64)) shapes.push_back({.heads = 2, .kv_heads = 1, .dtype = dtype});
  Cases out;
  for (const Attention& s : shapes)
    for (const uint32_t group : {3u, 24u})
      out.push_back({label_of(s, group),
                     [s, group](uint32_t rows, Values) {
                       const auto parts = sequences(rows, group, false);
                       tenon_attention_attr attr = {};
                       attr.struct_size = sizeof attr, attr.heads = s.heads, attr.kv_heads = s.kv_heads;
                       attr.head_dim = s.dim, attr.head_dim_v = s.dim_v, attr.window = s.window;
                       attr.scale = 1 / std::sqrt(float(s.dim)), attr.softcap = s.softcap;
                       attr.span_mask = s.span_mask;
                       OpCase c(TENON_OP_ATTENTION, attr, Step(parts));
                       if (s.span_mask) set_spans(c.step);
                       const int64_t cols = int64_t(s.heads) * s.dim;
                       c.strided(rows, cols, rows_at(c.step, cols, 40, 2), s.heads, 16, s.heads > 1 ? 32 : 0);
                       return c.store(filled(s, parts)).output(int64_t(s.heads) * s.dim_v);
                     },
                     s.span_mask});
  return out;
}

struct Latent {
  uint32_t heads = 4, rank = 64, rope_dim = 32;
  std::string dtype = "f16";
  uint32_t cols() const { return rank + rope_dim; }
};

Store filled(const Latent& s, const std::vector<SeqRows>& parts) {
  int32_t longest = 1;
  for (const SeqRows& part : parts) longest = std::max(longest, part.past + part.rows);
  Store store = Store::latent(s.cols(), s.dtype, uint32_t(parts.size()), longest);
  for (uint32_t q = 0; q < parts.size(); ++q)
    for (int32_t p = 0; p < parts[q].past + parts[q].rows; ++p)
      store.put(q, p, Random(uint64_t(q) * 100000 + uint64_t(p) + 1).normals(s.cols()).data(), nullptr);
  return store;
}

Cases latent_attention_cases() {
  std::vector<Latent> shapes = {{.heads = 5, .rank = 256, .rope_dim = 64},
                                {.heads = 3, .rank = 80, .rope_dim = 0, .dtype = "bf16"},
                                {.heads = 2, .rank = 40, .rope_dim = 12}};
  for (const std::string& dtype : store_dtypes(96)) shapes.push_back({.dtype = dtype});
  // A block of 32 with columns of both parts.
  for (const std::string& dtype : store_dtypes(64)) shapes.push_back({.heads = 1, .rank = 48, .rope_dim = 16, .dtype = dtype});
  Cases out;
  for (const Latent& s : shapes)
    for (const uint32_t group : {3u, 24u})
      out.push_back({std::to_string(s.heads) + " heads, rank " + std::to_string(s.rank) + " + " + std::to_string(s.rope_dim) + ", " +
                         s.dtype + ", sequences of " + std::to_string(group) + " rows",
                     [s, group](uint32_t rows, Values) {
                       const auto parts = sequences(rows, group, false);
                       tenon_latent_attention_attr attr = {};
                       attr.struct_size = sizeof attr, attr.heads = s.heads, attr.rank = s.rank;
                       attr.rope_dim = s.rope_dim, attr.scale = 1 / std::sqrt(float(s.cols()));
                       OpCase c(TENON_OP_LATENT_ATTENTION, attr, Step(parts));
                       const int64_t cols = int64_t(s.heads) * s.cols();
                       c.strided(rows, cols, rows_at(c.step, cols, 43, 2), s.heads, 16, s.heads > 1 ? 32 : 0);
                       return c.store(filled(s, parts)).output(int64_t(s.heads) * s.rank);
                     }});
  return out;
}

Cases kv_write_cases() {
  Cases out;
  for (const std::string& dtype : store_dtypes(96))
    for (const uint32_t group : {3u, 24u})
      out.push_back({"latent, " + dtype + ", sequences of " + std::to_string(group) + " rows", [=](uint32_t rows, Values) {
                       const auto parts = sequences(rows, group, false);
                       OpCase c(TENON_OP_KV_WRITE, tenon_kv_write_attr{sizeof(tenon_kv_write_attr), 1, 96, 0}, Step(parts));
                       c.strided(rows, 96, rows_at(c.step, 96, 44, 1), 1, 16, 0);
                       return c.store(Store::latent(96, dtype, uint32_t(parts.size()), 160));
                     }});
  for (const std::string& dtype : store_dtypes(64))
    for (const uint32_t group : {3u, 24u})
      out.push_back(
          {dtype + ", sequences of " + std::to_string(group) + " rows", [=](uint32_t rows, Values) {
             const auto parts = sequences(rows, group, false);
             OpCase c(TENON_OP_KV_WRITE, tenon_kv_write_attr{sizeof(tenon_kv_write_attr), 3, 64, 64}, Step(parts));
             c.strided(rows, 192, rows_at(c.step, 192, 41, 1), 3, 16, 64);
             c.input(rows, 192, rows_at(c.step, 192, 42, 1));
             return c.store(Store::paged(3, 64, 64, dtype, dtype, uint32_t(parts.size()), 160));
           }});
  return out;
}

Cases state_cases(const std::vector<std::pair<std::string, StateOp>>& ops) {
  Cases out;
  for (const auto& [label, op] : ops)
    for (const uint32_t group : {3u, 24u, 200u})
      out.push_back(
          {label + ", sequences of " + std::to_string(group) + " rows", [op = op, group](uint32_t rows, Values) {
             const auto parts = sequences(rows, group, true);
             OpCase c = op.base(Step(parts));
             for (size_t i = 0; i < op.in_cols.size(); ++i) {
               std::vector<float> values;
               for (uint32_t r = 0; r < rows; ++r) {
                 Random random(uint64_t(r) * 64 + i + 50000);
                 auto row = random.normals(size_t(op.in_cols[i]), op.input_scale);
                 if (op.shape) op.shape(row, i);
                 values.insert(values.end(), row.begin(), row.end());
               }
               const int64_t groups = op.in_groups[i];
               c.strided(rows, op.in_cols[i], std::move(values), groups, 16, groups > 1 ? 16 : 0);
             }
             Store store = op.store(uint32_t(parts.size()));
             for (uint32_t s = 0; s < parts.size(); ++s) {
               const auto state = Random(60000 + s).normals(store.state_size(), 0.1f);
               std::copy(state.begin(), state.end(), store.state(s, 0));
             }
             return c.store(std::move(store));
           }});
  return out;
}

}  // namespace

std::vector<std::pair<std::string, StateOp>> state_ops(std::string_view op) {
  if (op == "short_conv")
    return {{"200 channels, 4 taps", conv_op(200, 4)},
            {"34 channels, 2 taps", conv_op(34, 2)},
            {"530 channels, 5 taps", conv_op(530, 5)}};
  if (op == "gated_delta_rule")
    return {{"2 heads on 2, 128 × 128", delta_op(2, 2, 128, 128, TENON_HEAD_MAP_DIV)},
            {"6 heads on 2, 64 × 64", delta_op(2, 6, 64, 64, TENON_HEAD_MAP_MOD)},
            {"4 heads on 2, 16 × 48", delta_op(2, 4, 16, 48, TENON_HEAD_MAP_DIV)}};
  return {};
}

std::vector<KernelCase> store_cases(std::string_view op) {
  if (op == "attention") return attention_cases();
  if (op == "latent_attention") return latent_attention_cases();
  if (op == "kv_write") return kv_write_cases();
  return state_cases(state_ops(op));
}

}  // namespace tenon::kit
