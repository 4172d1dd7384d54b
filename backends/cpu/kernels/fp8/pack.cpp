// pack.cpp: rows of codes into panels: bytes are transposed, sixteen by sixteen.
#include <cstring>
#include <limits>

#include "family.hpp"

namespace tenon::fp8 {
namespace {

enum class Extent { kNone, kTensor, kRow, kGrid };
struct Kind {
  const char* dtype;
  Extent extent;
  bool bf16;  // the scales' type
};
constexpr Kind kKinds[] = {{"fp8_e4m3", Extent::kNone, false},         {"fp8_tensor", Extent::kTensor, false},
                           {"fp8_tensor_bf16", Extent::kTensor, true}, {"fp8_row", Extent::kRow, false},
                           {"fp8_row_bf16", Extent::kRow, true},       {"fp8_b128", Extent::kGrid, false},
                           {"fp8_b128_bf16", Extent::kGrid, true}};

const Kind* kind_of(uint32_t dtype) {
  const std::string_view name = sdk::dtype_name(dtype);
  for (const Kind& kind : kKinds)
    if (name == kind.dtype) return &kind;
  return nullptr;
}

float scale_at(const tenon_weight& w, int plane, bool bf16, int64_t index) {
  uint32_t bits = 0;
  if (bf16) {
    uint16_t half;
    std::memcpy(&half, sdk::at<const uint8_t>(w.plane[plane], index * 2), 2);
    bits = static_cast<uint32_t>(half) << 16;
  } else {
    std::memcpy(&bits, sdk::at<const uint8_t>(w.plane[plane], index * 4), 4);
  }
  float scale;
  std::memcpy(&scale, &bits, 4);
  return scale;
}

bool all_numbers(const uint8_t* codes, int64_t n) {
  uint8_t odd = 0;
  for (int64_t i = 0; i < n; ++i) odd |= (codes[i] & 0x7f) == 0x7f;
  return odd == 0;
}

typedef uint8_t Bytes __attribute__((vector_size(16)));

// to[16 c + lane] = from[lane][c]: four rounds that interleave the first half of the vectors with the second.
void transpose16(const uint8_t* from, int64_t row_bytes, uint8_t* to) {
  Bytes a[16], b[16];
  for (int i = 0; i < 16; ++i) std::memcpy(&a[i], from + i * row_bytes, 16);
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 8; ++i) {
      b[2 * i] = __builtin_shufflevector(a[i], a[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      b[2 * i + 1] = __builtin_shufflevector(a[i], a[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
    std::memcpy(a, b, sizeof a);
  }
  std::memcpy(to, a, sizeof a);
}

void pack_codes(const uint8_t* from, int64_t row_bytes, int64_t rows, int64_t cols, uint8_t* codes) {
  int64_t c = 0;
  if (rows == kRows)
    for (; c + 16 <= cols; c += 16) transpose16(from + c, row_bytes, codes + c * kRows);
  for (; c < cols; ++c)
    for (int64_t lane = 0; lane < kRows; ++lane)
      codes[c * kRows + lane] = lane < rows ? from[lane * row_bytes + c] : uint8_t{0};
}

}  // namespace

std::optional<uint32_t> Family::layout_of(uint32_t dtype) {
  const Kind* kind = kind_of(dtype);
  if (!kind) return std::nullopt;
  return kind->extent == Extent::kGrid ? kGrid : kPlain;
}

void Family::pack_panel(const tenon_weight& src, uint32_t layout, int64_t row0, int64_t rows, uint8_t* panel) {
  const Kind& kind = *kind_of(src.dtype);
  const int64_t row_bytes = src.row_bytes ? src.row_bytes : src.cols;
  const auto* from = sdk::at<const uint8_t>(src.plane[TENON_PLANE_CODES], row0 * row_bytes);
  float factors[kRows] = {};
  for (int64_t lane = 0; lane < rows; ++lane) {
    float factor = 1;
    if (kind.extent == Extent::kTensor) factor = scale_at(src, TENON_PLANE_MACRO, kind.bf16, 0);
    if (kind.extent == Extent::kRow) factor = scale_at(src, TENON_PLANE_SCALES, kind.bf16, row0 + lane);
    if (!all_numbers(from + lane * row_bytes, src.cols)) factor = std::numeric_limits<float>::quiet_NaN();
    factors[lane] = factor;
  }
  std::memcpy(panel, factors, sizeof factors);
  uint8_t* codes = panel + codes_offset(layout, src.cols);
  if (kind.extent == Extent::kGrid) {
    const int64_t tiles = (src.cols + kGridCols - 1) / kGridCols;
    std::memset(panel + 64, 0, static_cast<size_t>(codes - panel - 64));
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const float scale = scale_at(src, TENON_PLANE_SCALES, kind.bf16, row0 / kGridCols * tiles + tile);
      std::memcpy(panel + 64 + tile * 4, &scale, 4);
    }
  }
  pack_codes(from, row_bytes, rows, src.cols, codes);
  std::memset(codes + src.cols * kRows, 0, static_cast<size_t>(padded(src.cols * kRows) - src.cols * kRows));
}

}  // namespace tenon::fp8
