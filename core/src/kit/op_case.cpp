#include <algorithm>
#include <stdexcept>

#include "harness.hpp"

namespace tenon::kit {
namespace {

// Of a further plane of one matrix: docs/abi.md, "Dtypes of several planes".
int64_t plane_elements(const tenon_dtype& record, uint32_t plane, int64_t rows, int64_t cols) {
  if (plane == TENON_PLANE_MACRO || record.tile_rows == 0) return 1;
  const int64_t tile_cols = record.tile_cols ? int64_t(record.tile_cols) : cols;
  return ((rows - 1) / record.tile_rows + 1) * ((cols - 1) / tile_cols + 1);
}

}  // namespace

Weight Weight::encoded(const std::string& dtype, int64_t rows, int64_t cols, const std::vector<float>& values) {
  const tenon_dtype& record = records().dtype(dtype);
  if (!record.encode) throw std::runtime_error("dtype " + dtype + " has no encoder: give raw bytes");
  if (int64_t(values.size()) != rows * cols) throw std::runtime_error("a weight's values do not fill it");
  Weight w;
  w.dtype = dtype, w.rows = rows, w.cols = cols, w.row_bytes = cols / record.block_cols * record.block_bytes;
  w.plane[0].resize(size_t(rows * w.row_bytes));
  for (uint32_t p = 1; p < record.n_plane && p < 4; ++p)
    w.plane[p].resize(size_t(plane_elements(record, p, rows, cols)) * record.plane_bytes[p]);
  tenon_weight table = {};
  table.struct_size = sizeof table, table.rows = rows, table.cols = cols, table.row_bytes = w.row_bytes;
  std::ranges::copy(w.planes(), table.plane);
  if (record.encode(values.data(), rows, cols, &table) != TENON_OK)
    throw std::runtime_error("encoding to " + dtype + ": " + records().error());
  return w;
}

Weight stacked(const std::vector<Weight>& experts, int64_t gap) {
  Weight w = experts.at(0);
  w.n_expert = uint32_t(experts.size());
  size_t longest = 0, n_plane = 0;
  for (const BorderBytes& plane : w.plane) longest = std::max(longest, plane.size()), n_plane += !plane.empty();
  w.expert_stride = int64_t(longest) + gap;
  // The host copies experts of several planes to memory of its own, aligned; those of one lie as the file has them.
  if (n_plane > 1) w.expert_stride = TENON_ALIGN64(w.expert_stride);
  for (int p = 0; p < 4; ++p) {
    if (w.plane[p].empty()) continue;
    const size_t behind = size_t(w.expert_stride) * (experts.size() - 1);
    w.plane[p] = BorderBytes(behind + experts.back().plane[p].size(), 0xff);
    for (size_t e = 0; e < experts.size(); ++e)
      std::copy(experts[e].plane[p].begin(), experts[e].plane[p].end(),
                w.plane[p].begin() + int64_t(e) * w.expert_stride);
  }
  return w;
}

std::array<tenon_addr, 4> Weight::planes(uint32_t expert) const {
  std::array<tenon_addr, 4> out = {};
  for (size_t p = 0; p < 4; ++p)
    if (!plane[p].empty())
      out[p] = reinterpret_cast<tenon_addr>(plane[p].data()) + uint64_t(expert) * uint64_t(expert_stride);
  return out;
}

Weight Weight::raw(const std::string& dtype, int64_t rows, int64_t cols, const void* bytes, size_t n) {
  const tenon_dtype& record = records().dtype(dtype);
  Weight w;
  w.dtype = dtype, w.rows = rows, w.cols = cols, w.row_bytes = cols / record.block_cols * record.block_bytes;
  if (int64_t(n) < rows * w.row_bytes) throw std::runtime_error("a weight's bytes do not fill it");
  const auto* begin = static_cast<const uint8_t*>(bytes);
  w.plane[0].assign(begin, begin + n);
  return w;
}

std::vector<float> Weight::decoded() const {
  const tenon_dtype& record = records().dtype(dtype);
  tenon_weight table = {};
  table.struct_size = sizeof table, table.dtype = records().dtype_id(dtype);
  table.rows = rows, table.cols = cols, table.row_bytes = row_bytes;
  std::vector<float> out(size_t(rows * cols * (n_expert ? n_expert : 1)));
  for (uint32_t e = 0; e < (n_expert ? n_expert : 1); ++e) {
    std::ranges::copy(planes(e), table.plane);
    if (record.decode(&table, 0, rows, out.data() + int64_t(e) * rows * cols) != TENON_OK)
      throw std::runtime_error("decoding " + dtype + ": " + records().error());
  }
  return out;
}

OpCase& OpCase::input(int64_t rows, int64_t cols, std::vector<float> values) {
  return strided(rows, cols, std::move(values), 1, 0, 0);
}
OpCase& OpCase::strided(int64_t rows, int64_t cols, std::vector<float> values, int64_t groups, int64_t lead,
                        int64_t gap) {
  if (int64_t(values.size()) != rows * cols) throw std::runtime_error("an input's values do not fill it");
  if (cols % groups) throw std::runtime_error("an input's columns are no whole number of groups");
  in.push_back({.data = std::move(values), .rows = rows, .cols = cols, .groups = groups, .lead = lead, .gap = gap});
  return *this;
}
OpCase& OpCase::ids(int64_t rows, int64_t cols, const std::vector<int32_t>& values) {
  input(rows, cols, {values.begin(), values.end()});
  in.back().ids = true;
  return *this;
}
OpCase& OpCase::weight(const std::string& dtype, int64_t rows, int64_t cols, const std::vector<float>& values) {
  return weight(Weight::encoded(dtype, rows, cols, values));
}
OpCase& OpCase::weight(Weight w) { return weights.push_back(std::move(w)), *this; }
OpCase& OpCase::store(Store s) { return stores.push_back(std::move(s)), *this; }
OpCase& OpCase::output(int64_t cols, uint32_t which) { return out.push_back({.cols = cols, .domain = which}), *this; }
OpCase& OpCase::phase(uint32_t which) { return phases = which, *this; }
OpCase& OpCase::domain(uint32_t which) {
  for (Input& i : in) i.domain = which;
  return *this;
}

}  // namespace tenon::kit
