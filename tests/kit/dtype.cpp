// A dtype: a block holds 16 columns of a row as 16 signed bytes and the upper half of an f32 scale. Without a fault it
// keeps every duty.
#include <cmath>
#include <cstring>
#include <tenon/sdk/plugin.hpp>

#ifndef FAULT
#define FAULT kNone
#endif

namespace {

enum Fault { kNone, kReadsBeyond, kPassesInfinite };
constexpr Fault kFault = FAULT;

namespace sdk = tenon::sdk;

constexpr int kCols = 16, kBytes = 18;

float scale_of(const uint8_t* block) {
  uint32_t bits = 0;
  std::memcpy(&bits, block + kCols, kFault == kReadsBeyond ? 4 : 2);
  bits <<= 16;
  float scale = 0;
  std::memcpy(&scale, &bits, sizeof scale);
  return scale;
}

tenon_status decode(const tenon_weight* w, int64_t row0, int64_t n, float* out) noexcept {
  for (int64_t r = row0; r < row0 + n; ++r)
    for (int64_t b = 0; b < w->cols / kCols; ++b) {
      const auto* block = sdk::at<const uint8_t>(w->plane[0], r * w->row_bytes + b * kBytes);
      for (int i = 0; i < kCols; ++i) *out++ = scale_of(block) * float(static_cast<int8_t>(block[i]));
    }
  return TENON_OK;
}

// A large scale that is finite gives values that are not.
tenon_status check(const tenon_weight* w, int64_t row0, int64_t n) noexcept {
  for (int64_t r = row0; r < row0 + n; ++r)
    for (int64_t b = 0; b < w->cols / kCols; ++b) {
      const auto* block = sdk::at<const uint8_t>(w->plane[0], r * w->row_bytes + b * kBytes);
      for (int i = 0; i < kCols; ++i)
        if (!std::isfinite(scale_of(block) * (kFault == kPassesInfinite ? 1.0f : float(static_cast<int8_t>(block[i])))))
          return sdk::fail(TENON_CORRUPT, "a value is not finite");
    }
  return TENON_OK;
}

const tenon_dtype kDtype = {.struct_size = sizeof(tenon_dtype),
                            .n_plane = 1,
                            .name = {KIT_NAME, sizeof KIT_NAME - 1},
                            .block_cols = kCols,
                            .block_bytes = kBytes,
                            .tile_rows = 0,
                            .tile_cols = 0,
                            .plane_bytes = {kBytes, 0, 0, 0},
                            .decode = decode,
                            .encode = nullptr,
                            .check = check};

}  // namespace

TENON_PLUGIN(KIT_NAME, "0.1.0") { registrar.dtype(&kDtype); }
