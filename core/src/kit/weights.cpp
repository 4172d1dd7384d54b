// Weights of every dtype for the kit's cases.
#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>
#include <tuple>

#include "cases.hpp"

namespace tenon::kit {
namespace {

// Decodes one row; false when a value is not finite or larger than what a product bears.
bool is_moderate(const tenon_dtype& record, const tenon_weight& row, float* values) {
  if (record.decode(&row, 0, 1, values) != TENON_OK) return false;
  return std::all_of(values, values + row.cols, [](float v) { return std::fabs(v) < 1e3f; });
}

Weight fresh_weight(const std::string& dtype, int64_t rows, int64_t cols, uint64_t seed, float scale) {
  const tenon_dtype& record = records().dtype(dtype);
  if (record.n_plane != 1 && !record.encode)
    throw std::runtime_error("dtype " + dtype + " has several planes and no encoder, so that the kit has no values for it");
  if (cols % record.block_cols) throw std::runtime_error("columns are no whole number of blocks");
  Random random(seed);
  if (record.encode) {
    // Whole numbers stay what they are in integer dtypes.
    const bool whole = dtype[0] == 'i' || dtype[0] == 'u';
    std::vector<float> values = random.normals(size_t(rows * cols), whole ? 20 : scale);
    if (whole)
      for (float& v : values) v = std::nearbyint(dtype[0] == 'u' ? std::fabs(v) : v);
    return Weight::encoded(dtype, rows, cols, values);
  }
  // Random bytes, block by block, until the values are fit for use.
  const int64_t row_bytes = cols / record.block_cols * record.block_bytes;
  Bytes bytes(size_t(rows * row_bytes));
  std::vector<float> values(record.block_cols);
  tenon_weight block = {};
  block.struct_size = sizeof block, block.rows = 1, block.cols = record.block_cols,
  block.row_bytes = record.block_bytes;
  block.dtype = records().dtype_id(dtype);
  for (size_t at = 0; at < bytes.size(); at += record.block_bytes) {
    block.plane[0] = reinterpret_cast<tenon_addr>(bytes.data() + at);
    int left = 2000;
    do {
      for (size_t i = 0; i < record.block_bytes; ++i) bytes[at + i] = uint8_t(random.bits() >> 24);
    } while (!is_moderate(record, block, values.data()) && --left > 0);
    if (left == 0)
      throw std::runtime_error("dtype " + dtype + ": random bytes give no finite block, and it has no encoder");
  }
  return Weight::raw(dtype, rows, cols, bytes.data(), bytes.size());
}

}  // namespace

std::vector<std::string> all_dtypes() {
  std::vector<std::string> out;
  const auto add = [&](uint32_t id) {
    const tenon_dtype* record = records().dtype_record(id);
    if (record) out.emplace_back(record->name.data, size_t(record->name.size));
    return record != nullptr;
  };
  for (uint32_t id = 1; id < TENON_DTYPE_FIRST_REGISTERED; ++id) add(id);
  for (uint32_t id = TENON_DTYPE_FIRST_REGISTERED; add(id);) ++id;
  return out;
}

Weight make_weight(const std::string& dtype, int64_t rows, int64_t cols, uint64_t seed, float scale) {
  // Cases ask for the same weight again and again, and random bytes are slow to find.
  static std::map<std::tuple<std::string, int64_t, int64_t, uint64_t, float>, Weight> made;
  const auto key = std::make_tuple(dtype, rows, cols, seed, scale);
  auto found = made.find(key);
  if (found == made.end()) found = made.emplace(key, fresh_weight(dtype, rows, cols, seed, scale)).first;
  return found->second;
}

}  // namespace tenon::kit
