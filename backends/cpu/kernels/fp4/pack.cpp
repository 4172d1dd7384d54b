// pack.cpp: rows of codes and scales into panels; one packed form for every container.
#include <cstring>
#include <limits>

#include "family.hpp"

namespace tenon::fp4 {
namespace {

enum class Kind { kGguf, kModelOpt, kCompressedTensors };
constexpr struct {
  const char* dtype;
  Kind kind;
} kKinds[] = {{"nvfp4", Kind::kGguf}, {"nvfp4_modelopt", Kind::kModelOpt}, {"nvfp4_ct", Kind::kCompressedTensors}};

std::optional<Kind> kind_of(uint32_t dtype) {
  const std::string_view name = sdk::dtype_name(dtype);
  for (const auto& one : kKinds)
    if (name == one.dtype) return one.kind;
  return std::nullopt;
}

// The even bytes' low halves of a number of eight bytes with nothing in their high ones, side by side.
uint32_t gathered_nibbles(uint64_t bytes) {
  bytes = (bytes | bytes >> 4) & 0x00ff00ff00ff00ffu;
  bytes = (bytes | bytes >> 8) & 0x0000ffff0000ffffu;
  return static_cast<uint32_t>(bytes | bytes >> 16);
}

// A GGUF block of 64 columns: four scales, then for each 16 columns eight bytes: column i low, column i + 8 high. As
// the format's reference has it, scales have no sign and 0x7f counts as 0, but 0xff as 480: which 0x7f is in a panel.
void pack_block(const uint8_t* block, int64_t lane, uint8_t* unit) {
  constexpr uint64_t kLow = 0x0f0f0f0f0f0f0f0fu;
  for (int64_t group = 0; group < 4; ++group) {
    const uint8_t scale = block[group];
    unit[group * kRows + lane] = scale == 0x7f ? uint8_t{0} : static_cast<uint8_t>(scale & 0x7f);
    uint64_t codes;
    std::memcpy(&codes, block + 4 + 8 * group, 8);
    const uint32_t words[2] = {gathered_nibbles(codes & kLow), gathered_nibbles(codes >> 4 & kLow)};
    for (int64_t i = 0; i < 2; ++i) std::memcpy(unit + 64 + (2 * group + i) * 64 + lane * 4, &words[i], 4);
  }
}

void pack_gguf_row(const uint8_t* from, int64_t cols, int64_t lane, uint8_t* panel) {
  for (int64_t c = 0; c < cols; c += kUnitCols, from += 36)
    pack_block(from, lane, panel + 64 + c / kUnitCols * kUnitBytes);
}

// Codes lie as a panel's words have them. False when a scale is not a number.
bool pack_planes_row(const uint8_t* codes, const uint8_t* scales, int64_t cols, int64_t lane, uint8_t* panel) {
  bool numbers = true;
  for (int64_t c = 0; c < cols; c += kGroup) {
    uint8_t* to = panel + 64 + c / kUnitCols * kUnitBytes;
    const uint8_t scale = scales[c / kGroup];
    numbers = numbers && (scale & 0x7f) != 0x7f;
    to[scale_offset(c) + lane] = scale;
    for (int64_t i = 0; i < kGroup; i += kWordCols)
      std::memcpy(to + code_offset(c + i) + lane * 4, codes + (c + i) / 2, 4);
  }
  return numbers;
}

}  // namespace

std::optional<uint32_t> Family::layout_of(uint32_t dtype) {
  if (!kind_of(dtype)) return std::nullopt;
  return kLayout;
}

int64_t Family::block_cols(uint32_t dtype) { return kind_of(dtype) == Kind::kGguf ? kUnitCols : kGroup; }

void Family::pack_panel(const tenon_weight& src, uint32_t, int64_t row0, int64_t rows, uint8_t* panel) {
  const Kind kind = *kind_of(src.dtype);
  const int64_t row_bytes =
      src.row_bytes ? src.row_bytes : src.cols / (kind == Kind::kGguf ? 64 : 2) * (kind == Kind::kGguf ? 36 : 1);
  float factor = 1;
  if (kind != Kind::kGguf) std::memcpy(&factor, sdk::at<const uint8_t>(src.plane[TENON_PLANE_MACRO]), 4);
  if (kind == Kind::kCompressedTensors) factor = 1.0f / factor;
  float factors[kRows] = {};
  if (rows < kRows || src.cols % kUnitCols) std::memset(panel, 0, static_cast<size_t>(fp4::panel_bytes(src.cols)));
  for (int64_t lane = 0; lane < rows; ++lane) {
    const auto* codes = sdk::at<const uint8_t>(src.plane[TENON_PLANE_CODES], (row0 + lane) * row_bytes);
    factors[lane] = factor;
    if (kind == Kind::kGguf) {
      pack_gguf_row(codes, src.cols, lane, panel);
      continue;
    }
    const auto* scales = sdk::at<const uint8_t>(src.plane[TENON_PLANE_SCALES], (row0 + lane) * (src.cols / kGroup));
    if (!pack_planes_row(codes, scales, src.cols, lane, panel)) factors[lane] = std::numeric_limits<float>::quiet_NaN();
  }
  std::memcpy(panel, factors, sizeof factors);
}

}  // namespace tenon::fp4
