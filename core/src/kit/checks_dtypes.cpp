// Dtypes: decoding is defined, pure and stays inside its memory.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

#include "cases.hpp"
#include "subject.hpp"

namespace tenon::kit {
namespace {

constexpr float kCanary = 1234.5f;
constexpr int64_t kRows = 7;

// Planes 1 to 3 of a weight, large enough for any grid of scales.
void add_planes(const tenon_dtype& record, BorderBytes (&planes)[4], tenon_weight& table) {
  for (uint32_t p = 1; p < record.n_plane && p < 4; ++p) {
    planes[p].resize(size_t(table.rows * table.cols) * record.plane_bytes[p]);
    if (!planes[p].empty()) table.plane[p] = reinterpret_cast<tenon_addr>(planes[p].data());
  }
}

// Rows of random bytes, behind which nothing can be read.
struct RandomRows {
  RandomRows(const tenon_dtype& record, uint64_t seed) : bytes(size_t(kRows) * 3 * record.block_bytes) {
    Random random(seed);
    for (uint8_t& byte : bytes) byte = uint8_t(random.bits() >> 24);
    table.struct_size = sizeof table, table.rows = kRows, table.cols = 3 * int64_t(record.block_cols);
    table.row_bytes = 3 * int64_t(record.block_bytes);
    table.plane[0] = reinterpret_cast<tenon_addr>(bytes.data());
    add_planes(record, planes, table);
    for (BorderBytes& plane : planes)
      for (uint8_t& byte : plane) byte = uint8_t(random.bits() >> 24);
  }
  std::vector<float> decode(const tenon_dtype& record, int64_t row0, int64_t n) const {
    std::vector<float> out(size_t(n * table.cols) + 16, kCanary);
    if (record.decode(&table, row0, n, out.data()) != TENON_OK)
      throw std::runtime_error("decode() failed on rows of any bytes: " + records().error());
    for (size_t i = size_t(n * table.cols); i < out.size(); ++i)
      if (out[i] != kCanary) throw std::runtime_error("decode() wrote beyond the values of its rows");
    out.resize(size_t(n * table.cols));
    return out;
  }
  BorderBytes bytes, planes[4];
  tenon_weight table = {};
};

std::string decode_fault(const tenon_dtype& record) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const RandomRows rows(record, seed);
    const BorderBytes before = rows.bytes;
    const std::vector<float> whole = rows.decode(record, 0, kRows);
    if (!equal_bits(rows.decode(record, 0, kRows), whole)) return "decode() answered other values the second time";
    for (int64_t r = 0; r < kRows; ++r)
      if (!equal_bits(rows.decode(record, r, 1), {whole.data() + r * rows.table.cols, size_t(rows.table.cols)}))
        return "row " + std::to_string(r) + " by itself is decoded to other values";
    if (rows.bytes != before) return "decode() changed the weight";
    std::vector<std::vector<float>> got(4);
    std::vector<std::thread> threads;
    for (auto& one : got) threads.emplace_back([&] { one = rows.decode(record, 0, kRows); });
    for (std::thread& thread : threads) thread.join();
    for (const auto& one : got)
      if (!equal_bits(one, whole)) return "decode() answers other values when threads call it at once";
  }
  return "";
}

std::string check_fault(const tenon_dtype& record) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const RandomRows rows(record, seed);
    for (int64_t r = 0; r < kRows; ++r) {
      const std::vector<float> values = rows.decode(record, r, 1);
      const auto odd = std::find_if(values.begin(), values.end(), [](float v) { return !std::isfinite(v); });
      const bool finite = odd == values.end();
      records().error();
      const tenon_status status = record.check(&rows.table, r, 1);
      if (finite && status != TENON_OK)
        return "check() refuses a row whose values are finite, row " + std::to_string(r) + ": " + records().error();
      if (!finite && status == TENON_OK)
        return "check() passes row " + std::to_string(r) + ", whose value " + std::to_string(odd - values.begin()) +
               " is decoded to " + std::to_string(*odd) + ", which is not finite";
      if (status != TENON_OK && records().error().empty()) return "check() failed without a message";
    }
  }
  return "";
}

std::string encode_fault(const std::string& name, const tenon_dtype& record) {
  const int64_t cols = int64_t(record.block_cols) * (record.block_cols == 1 ? 64 : 3);
  std::vector<float> values = Random(5).normals(size_t(kRows * cols), 10);
  for (float& v : values) v = std::nearbyint(std::fabs(v));  // fits integers, too
  const Weight one = Weight::encoded(name, kRows, cols, values), two = Weight::encoded(name, kRows, cols, values);
  if (one.plane[0] != two.plane[0]) return "encode() gave other bytes the second time";
  // Bytes between rows that are further apart than they need be are not its own.
  const int64_t step = one.row_bytes + 64;
  Bytes wide(size_t(kRows * step) + 64, 0xa5);
  tenon_weight table = {};
  table.struct_size = sizeof table, table.rows = kRows, table.cols = cols, table.row_bytes = step;
  table.plane[0] = reinterpret_cast<tenon_addr>(wide.data());
  BorderBytes planes[4];
  add_planes(record, planes, table);
  if (record.encode(values.data(), kRows, cols, &table) != TENON_OK) return "encode() failed: " + records().error();
  for (int64_t r = 0; r < kRows; ++r) {
    if (!std::equal(one.plane[0].begin() + r * one.row_bytes, one.plane[0].begin() + (r + 1) * one.row_bytes,
                    wide.begin() + r * step))
      return "encode() gave other bytes for rows that lie further apart";
    for (int64_t i = r * step + one.row_bytes; i < (r + 1) * step; ++i)
      if (wide[size_t(i)] != 0xa5) return "encode() wrote between the rows";
  }
  const Difference d = compare(one.decoded(), values);
  // One bit a value with a shared scale keeps about that much of whole numbers around 10.
  return d.comparable && d.relative_rms < 0.7 ? "" : "what was encoded comes back otherwise: " + d.text();
}

}  // namespace

Group dtype_checks(const Subject& subject) {
  return {"dtypes", [&subject](Session& session) {
            const Opened opened(subject, session.options());
            if (!opened.fault().empty()) return;
            for (const tenon_dtype* record : opened.contents().registered_dtypes) {
              const std::string name = text_of(record->name), title = "dtype " + name + ": ";
              session.check(title + "decodes rows one by one as at once, and always the same", "P11 P16",
                            [&] { return outcome(decode_fault(*record)); });
              session.check(title + "check() finds exactly the rows that are not finite", "P10 P11",
                            [&] { return record->check ? outcome(check_fault(*record)) : skip("it has no check()"); });
              session.check(title + "encodes to the same bytes, within its rows, and back", "P11 P16", [&] {
                return record->encode ? outcome(encode_fault(name, *record)) : skip("it has no encoder");
              });
            }
          }};
}

}  // namespace tenon::kit
