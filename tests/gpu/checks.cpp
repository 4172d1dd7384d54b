#include "checks.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <stdexcept>

namespace tenon::gpu_test {
namespace {

std::string op_name(uint32_t op) {
  switch (op) {
    case TENON_OP_NORM:
      return "norm";
    case TENON_OP_ADD:
      return "add";
    case TENON_OP_MUL:
      return "mul";
    case TENON_OP_SCALE:
      return "scale";
    case TENON_OP_GLU:
      return "glu";
    case TENON_OP_GATE:
      return "gate";
    case TENON_OP_ENCODE:
      return "encode";
    case TENON_OP_ROPE:
      return "rope";
    case TENON_OP_KV_WRITE:
      return "kv_write";
    case TENON_OP_SHORT_CONV:
      return "short_conv";
    case TENON_OP_GATED_DELTA_RULE:
      return "gated_delta_rule";
    default:
      throw std::runtime_error("op " + std::to_string(op) + " inside of a composite");
  }
}

bool equal_stores(const std::vector<Store>& a, const std::vector<Store>& b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i].base != b[i].base || a[i].aux != b[i].aux) return false;
  return a.size() == b.size();
}

bool equal_results(const RunResult& a, const RunResult& b) {
  if (a.out.size() != b.out.size() || a.status != b.status || !equal_stores(a.stores, b.stores)) return false;
  for (size_t i = 0; i < a.out.size(); ++i)
    if (!equal_bits(a.out[i], b.out[i])) return false;
  return true;
}

// Rows of the graph that a step of `rows` rows would be replayed in.
uint32_t bucket_of(uint32_t rows) {
  for (const uint32_t bucket : {1u, 2u, 3u, 4u, 6u, 8u, 12u, 16u, 24u, 32u, 48u, 64u})
    if (rows < bucket) return bucket;
  return rows + 5;
}


// The kernels of a composite's parts, one after the other.
RunResult run_parts(const Device& device, const OpCase& composite) {
  std::map<size_t, Input> values;
  RunResult out;
  out.stores = composite.stores;
  for (size_t i = 0; i < composite.in.size(); ++i) values[i] = composite.in[i];
  for (const Part& part : composite.parts) {
    OpCase c(part.op, composite.step);
    c.attr = part.attr, c.phases = composite.phases;
    std::vector<tenon_type> types;
    for (const size_t id : part.in) {
      c.in.push_back(values.at(id));
      types.push_back({TENON_ENC_F32, c.in.back().domain, c.in.back().cols, c.in.back().groups});
    }
    for (const size_t id : part.weight) c.weight(composite.weights[id]);
    for (const size_t id : part.store) c.store(out.stores[id]);
    for (size_t i = 0; i < part.out.size(); ++i) {
      const tenon_type type = output_of_part(part, types);
      c.output(type.cols, type.domain), c.out.back().encoding = type.encoding;
    }
    const std::string name = "cuda." + op_name(part.op);
    RunResult result = run_on_device(device, Kit::instance().kernel(name), c);
    if (!result.accepted) throw std::runtime_error(name + " refused: " + result.why_not);
    for (size_t i = 0; i < part.out.size(); ++i)
      values[part.out[i]] = {.data = std::move(result.out[i]), .rows = composite.step.n_rows, .cols = c.out[i].cols};
    for (size_t i = 0; i < part.store.size(); ++i) out.stores[part.store[i]] = std::move(result.stores[i]);
  }
  for (const size_t id : composite.part_outputs) out.out.push_back(values.at(id).data);
  return out;
}

}  // namespace

Checks::Checks(const Device& device, const std::string& kernel, double bound, bool is_small)
    : device_(device), kernel_(Kit::instance().kernel(kernel)), is_small_(is_small) {
  line_.name = kernel, line_.bound = bound;
}

void Checks::guarded(const std::string& what, const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    line_.faults.push_back(what + ": " + error.what());
  }
}

void Checks::expect(bool holds, const std::string& message) {
  if (!holds) line_.faults.push_back(message);
}

void Checks::against_reference(const OpCase& op_case, const std::string& what) {
  guarded(what, [&] {
    ++line_.cases;
    const RunResult got = run_on_device(device_, kernel_, op_case);
    if (!got.accepted) return expect(false, what + ": refused: " + got.why_not);
    const RunResult want = run_reference(op_case, got);
    for (size_t i = 0; i < want.out.size(); ++i) {
      const Difference off = compare(got.out[i], want.out[i]);
      if (off.comparable) line_.worst = std::max(line_.worst, off.relative_rms);
      const bool holds =
          line_.bound > 0 ? off.comparable && off.relative_rms <= line_.bound : equal_bits(got.out[i], want.out[i]);
      expect(holds, what + ", output " + std::to_string(i) + ": " + off.text());
    }
    expect(got.status == want.status, what + ": step.status differs");
    if (op_case.op == TENON_OP_KV_WRITE) expect(equal_stores(got.stores, want.stores), what + ": the store differs");
    replays(op_case, got, what);
  });
}

void Checks::replays(const OpCase& op_case, const RunResult& got, const std::string& what) {
  const uint32_t rows = op_case.out.empty() || op_case.out[0].domain == TENON_DOMAIN_TOKENS ? op_case.step.n_rows
                                                                                            : op_case.step.n_outputs;
  DeviceOptions options;
  options.captured = true, options.launch_rows = bucket_of(rows);
  ++line_.replays;
  expect(equal_results(run_on_device(device_, kernel_, op_case, options), got), what + ": replay differs from eager");
  options.no_rows = true;
  const RunResult none = run_on_device(device_, kernel_, op_case, options);
  expect(equal_stores(none.stores, op_case.stores), what + ": a store was written without a live row");
}

void Checks::against_parts(const OpCase& op_case, const std::string& what) {
  guarded(what, [&] {
    ++line_.cases;
    const RunResult got = run_on_device(device_, kernel_, op_case);
    if (!got.accepted) return expect(false, what + ": refused: " + got.why_not);
    const RunResult want = run_parts(device_, op_case);
    for (size_t i = 0; i < want.out.size(); ++i)
      expect(equal_bits(got.out[i], want.out[i]),
             what + ", output " + std::to_string(i) + ": " + compare(got.out[i], want.out[i]).text());
    expect(equal_stores(got.stores, want.stores), what + ": the store differs");
    replays(op_case, got, what);
  });
}

void Checks::row_exact(const OpCase& full, const std::string& what) {
  guarded(what, [&] {
    const RunResult all = run_on_device(device_, kernel_, full);
    if (!all.accepted) return expect(false, what + ": refused: " + all.why_not);
    const auto check = [&](const std::vector<uint32_t>& rows) {
      const RunResult some = run_on_device(device_, kernel_, take_rows(full, rows));
      for (size_t i = 0; i < all.out.size(); ++i) {
        const size_t cols = size_t(full.out[i].cols);
        for (size_t r = 0; r < rows.size(); ++r) {
          ++line_.exact_rows;
          const std::span<const float> mine(some.out[i].data() + r * cols, cols);
          const std::span<const float> theirs(all.out[i].data() + rows[r] * cols, cols);
          if (equal_bits(mine, theirs)) continue;
          return expect(false, what + ": row " + std::to_string(rows[r]) + " among " + std::to_string(rows.size()) +
                                   " has other bits than among " + std::to_string(full.step.n_rows) + ": " +
                                   compare(mine, theirs).text());
        }
      }
    };
    for (uint32_t n = 1; n <= full.step.n_rows; n = is_small_ ? n + 3 : n < 17 ? n + 1 : n == 17 ? 33 : 2 * n - 2) {
      std::vector<uint32_t> rows(n);
      std::iota(rows.begin(), rows.end(), 0);
      check(rows);
      std::reverse(rows.begin(), rows.end());
      if (n == 7 || n == 33) check(rows);
    }
    for (const uint32_t r : {full.step.n_rows / 2, full.step.n_rows - 1}) check({r});
  });
}

void Checks::refused(const OpCase& op_case, const std::string& what) {
  guarded(what, [&] {
    ++line_.cases;
    const RunResult got = run_on_device(device_, kernel_, op_case);
    expect(!got.accepted && !got.why_not.empty(), what + ": was not refused with a reason");
  });
}

OpCase take_rows(const OpCase& full, const std::vector<uint32_t>& rows) {
  std::vector<SeqRows> sequences;
  if (full.stores.empty()) {
    sequences.push_back(SeqRows{0, int32_t(rows.size())});
  } else {
    for (const uint32_t r : rows) sequences.push_back(SeqRows{full.step.index[r], 1});
  }
  Step step(sequences);
  for (uint32_t i = 0; i < rows.size(); ++i) {
    step.token[i] = full.step.token[rows[i]], step.overlay[i] = full.step.overlay[rows[i]];
    for (uint32_t s = 0; s < 4; ++s)
      step.position[s * step.max_rows + i] = full.step.position[s * full.step.max_rows + rows[i]];
  }
  OpCase out = full;
  out.step = step;
  for (Input& x : out.in) {
    if (x.rows != int64_t(full.step.n_rows)) continue;
    std::vector<float> data;
    for (const uint32_t r : rows)
      data.insert(data.end(), x.data.begin() + int64_t(r) * x.cols, x.data.begin() + int64_t(r + 1) * x.cols);
    x.data = std::move(data), x.rows = int64_t(rows.size());
  }
  for (Store& s : out.stores) {
    std::vector<int32_t> table((rows.size() + 1) * s.table_stride, -1);
    for (size_t i = 0; i < rows.size(); ++i)
      std::copy_n(s.table.begin() + int64_t(size_t(full.step.seq[rows[i]]) * s.table_stride), s.table_stride,
                  table.begin() + int64_t(i * s.table_stride));
    s.table = std::move(table);
  }
  return out;
}

const std::vector<std::string>& float_dtypes() {
  static const std::vector<std::string> all = {"f32", "f16", "bf16"};
  return all;
}
const std::vector<std::string>& block_dtypes_32() {
  static const std::vector<std::string> all = {"q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl"};
  return all;
}
const std::vector<std::string>& block_dtypes_256() {
  static const std::vector<std::string> all = {"q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_xs"};
  return all;
}
const std::vector<std::string>& other_dtypes() {
  static const std::vector<std::string> all = {
      "iq1_s",   "iq1_m",        "iq2_xxs",  "iq2_xs",        "iq2_s",          "iq3_xxs",    "iq3_s",
      "tq1_0",   "tq2_0",        "mxfp4",    "nvfp4",         "fp8_e4m3",       "fp8_tensor", "fp8_tensor_bf16",
      "fp8_row", "fp8_row_bf16", "fp8_b128", "fp8_b128_bf16", "nvfp4_modelopt", "nvfp4_ct"};
  return all;
}
const std::vector<std::string>& all_dtypes() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> out;
    for (const auto* some : {&float_dtypes(), &block_dtypes_32(), &block_dtypes_256(), &other_dtypes()})
      out.insert(out.end(), some->begin(), some->end());
    return out;
  }();
  return all;
}

namespace {

// Random bytes, block by block, until the values are fit for use.
Weight random_blocks(const std::string& dtype, int64_t rows, int64_t cols, Random& random) {
  const tenon_dtype& record = Kit::instance().dtype(dtype);
  Bytes bytes(size_t(rows * (cols / record.block_cols) * record.block_bytes));
  std::vector<float> values(record.block_cols);
  tenon_weight block = {};
  block.struct_size = sizeof block, block.rows = 1, block.cols = record.block_cols;
  block.row_bytes = record.block_bytes, block.dtype = Kit::instance().dtype_id(dtype);
  const auto is_moderate = [&] {
    if (record.decode(&block, 0, 1, values.data()) != TENON_OK) return false;
    return std::all_of(values.begin(), values.end(), [](float v) { return std::fabs(v) < 1e3f; });
  };
  for (size_t at = 0; at < bytes.size(); at += record.block_bytes) {
    block.plane[0] = reinterpret_cast<tenon_addr>(bytes.data() + at);
    do {
      for (size_t i = 0; i < record.block_bytes; ++i) bytes[at + i] = uint8_t(random.bits() >> 24);
    } while (!is_moderate());
  }
  return Weight::raw(dtype, rows, cols, bytes.data(), bytes.size());
}

}  // namespace

Weight random_weight(const std::string& dtype, int64_t rows, int64_t cols, uint64_t seed) {
  Random random(seed);
  const auto is_one_of = [&](const std::vector<std::string>& list) {
    return std::find(list.begin(), list.end(), dtype) != list.end();
  };
  if (is_one_of(float_dtypes())) return Weight::encoded(dtype, rows, cols, random.normals(size_t(rows * cols)));
  const tenon_dtype& record = Kit::instance().dtype(dtype);
  if (is_one_of(other_dtypes()))
    return record.encode ? Weight::encoded(dtype, rows, cols, random.normals(size_t(rows * cols)))
                         : random_blocks(dtype, rows, cols, random);
  const int64_t blocks = rows * (cols / record.block_cols);
  Bytes bytes(size_t(blocks * record.block_bytes));
  for (uint8_t& byte : bytes) byte = uint8_t(random.bits() >> 24);
  // Where a block's f16 numbers lie.
  std::vector<size_t> halves = {0};
  if (dtype == "q4_1" || dtype == "q5_1" || dtype == "q4_k" || dtype == "q5_k") halves = {0, 2};
  if (dtype == "q2_k") halves = {80, 82};
  if (dtype == "q3_k") halves = {108};
  if (dtype == "q6_k") halves = {208};
  for (int64_t b = 0; b < blocks; ++b)
    for (const size_t offset : halves) {
      const uint16_t half = to_f16(0.01f * random.normal());
      std::memcpy(bytes.data() + size_t(b) * record.block_bytes + offset, &half, 2);
    }
  return Weight::raw(dtype, rows, cols, bytes.data(), bytes.size());
}

}  // namespace tenon::gpu_test
