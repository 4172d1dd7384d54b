#include "values.hpp"

#include <bit>
#include <cmath>
#include <limits>

namespace tenon::reference {
namespace {

uint16_t to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return uint16_t((bits >> 16) | 0x40);
  return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
float from_bf16(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

uint16_t to_f16(float value) {
  const uint16_t sign = uint16_t((std::bit_cast<uint32_t>(value) >> 16) & 0x8000);
  if (std::isnan(value)) return uint16_t(sign | 0x7e00);
  const double magnitude = std::fabs(double(value));
  if (magnitude >= 65520.0) return uint16_t(sign | 0x7c00);
  if (magnitude < 0x1p-14) return uint16_t(sign | uint16_t(std::nearbyint(magnitude * 0x1p24)));
  int exponent = 0;
  const double fraction = std::frexp(magnitude, &exponent);
  const auto mantissa = uint32_t(std::nearbyint(fraction * 2048.0));  // its implicit bit carries into the exponent
  return uint16_t(sign | ((uint32_t(exponent + 13) << 10) + mantissa));
}
float from_f16(uint16_t bits) {
  const uint32_t sign = uint32_t(bits & 0x8000) << 16, exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  if (exponent == 0) return std::copysign(float(mantissa) * 0x1p-24f, bits & 0x8000 ? -1.0f : 1.0f);
  if (exponent == 31) return std::bit_cast<float>(sign | (mantissa ? 0x7fc00000u : 0x7f800000u));
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

void write_q8_32(const float* values, int64_t cols, uint8_t* row) {
  auto* code = reinterpret_cast<int8_t*>(row);
  auto* scale = reinterpret_cast<float*>(row + tenon_q8_32_scale_offset(cols));
  auto* sum = reinterpret_cast<int16_t*>(row + tenon_q8_32_sum_offset(cols));
  for (int64_t block = 0; block < cols / 32; ++block) {
    const float* x = values + block * 32;
    float amax = 0;
    bool finite = true;
    for (int i = 0; i < 32; ++i) {
      finite = finite && std::isfinite(x[i]);
      amax = std::fabs(x[i]) > amax ? std::fabs(x[i]) : amax;
    }
    const bool zero = !finite || amax == 0;
    scale[block] = finite ? amax / 127.0f : std::numeric_limits<float>::quiet_NaN();
    const float inverse = zero ? 0.0f : 127.0f / amax;
    for (int i = 0; i < 32; ++i) {
      const float q = zero ? 0.0f : std::nearbyint(x[i] * inverse);
      code[block * 32 + i] = int8_t(q > 127.0f ? 127.0f : q < -127.0f ? -127.0f : q);
    }
    for (int half = 0; half < 2; ++half) {
      int total = 0;
      for (int i = 0; i < 16; ++i) total += code[block * 32 + half * 16 + i];
      sum[block * 2 + half] = int16_t(total);
    }
  }
}

[[noreturn]] void unknown_encoding(uint32_t encoding) {
  throw sdk::Error(TENON_UNSUPPORTED, sdk::text("the reference does not know encoding %u", encoding));
}

const tenon_dtype& record_of(uint32_t dtype) {
  const tenon_dtype* record = sdk::host().dtype(sdk::host().self, dtype);
  if (!record) throw sdk::Error(TENON_UNSUPPORTED, sdk::text("dtype %u is not registered", dtype));
  return *record;
}

tenon_weight as_weight(uint32_t dtype, tenon_addr address, int64_t cols) {
  tenon_weight weight = {};
  weight.struct_size = sizeof weight, weight.dtype = dtype, weight.plane[0] = address;
  weight.rows = 1, weight.cols = cols, weight.row_bytes = stored_bytes(dtype, cols);
  return weight;
}

}  // namespace

void read_row(const tenon_view& view, int64_t row, float* out) {
  const tenon_addr begin = view.data + uint64_t(row * view.row_bytes);
  if (view.encoding == TENON_ENC_Q8_32) {
    const auto* code = sdk::at<int8_t>(begin);
    const auto* scale = sdk::at<float>(begin, tenon_q8_32_scale_offset(view.cols));
    for (int64_t c = 0; c < view.cols; ++c) out[c] = float(code[c]) * scale[c / 32];
    return;
  }
  const int64_t width = view.cols / (view.groups > 1 ? view.groups : 1);
  for (int64_t c = 0; c < view.cols; ++c) {
    const tenon_addr group = begin + uint64_t(c / width * (view.groups > 1 ? view.group_bytes : 0));
    switch (view.encoding) {
      case TENON_ENC_F32:
        out[c] = sdk::at<float>(group)[c % width];
        break;
      case TENON_ENC_I32:
        out[c] = float(sdk::at<int32_t>(group)[c % width]);
        break;
      case TENON_ENC_BF16:
        out[c] = from_bf16(sdk::at<uint16_t>(group)[c % width]);
        break;
      case TENON_ENC_F16:
        out[c] = from_f16(sdk::at<uint16_t>(group)[c % width]);
        break;
      default:
        unknown_encoding(view.encoding);
    }
  }
}

void write_element(const tenon_view& view, int64_t row, int64_t col, float value) {
  const int64_t groups = view.groups > 1 ? view.groups : 1, width = view.cols / groups;
  const tenon_addr group =
      view.data + uint64_t(row * view.row_bytes + (groups > 1 ? col / width * view.group_bytes : 0));
  switch (view.encoding) {
    case TENON_ENC_F32:
      sdk::at<float>(group)[col % width] = value;
      break;
    case TENON_ENC_I32:
      sdk::at<int32_t>(group)[col % width] = int32_t(value);
      break;
    case TENON_ENC_BF16:
      sdk::at<uint16_t>(group)[col % width] = to_bf16(value);
      break;
    case TENON_ENC_F16:
      sdk::at<uint16_t>(group)[col % width] = to_f16(value);
      break;
    default:
      unknown_encoding(view.encoding);
  }
}

void write_row(const tenon_view& view, int64_t row, const float* values) {
  if (view.encoding == TENON_ENC_Q8_32)
    return write_q8_32(values, view.cols, sdk::at<uint8_t>(view.data + uint64_t(row * view.row_bytes)));
  for (int64_t c = 0; c < view.cols; ++c) write_element(view, row, c, values[c]);
}

int32_t read_id(const tenon_view& view, int64_t row, int64_t col) {
  return sdk::at<int32_t>(view.data + uint64_t(row * view.row_bytes))[col];
}

void decode_rows(const tenon_weight& weight, int64_t row0, int64_t n, float* out) {
  sdk::check(record_of(weight.dtype).decode(&weight, row0, n, out));
}

int64_t stored_bytes(uint32_t dtype, int64_t cols) {
  switch (dtype) {
    case TENON_DTYPE_F32:
      return cols * 4;
    case TENON_DTYPE_F16:
    case TENON_DTYPE_BF16:
      return cols * 2;
    default:
      break;
  }
  const tenon_dtype* record = sdk::host().dtype(sdk::host().self, dtype);
  if (!record || !record->block_cols || cols % record->block_cols) return 0;
  return cols / record->block_cols * record->block_bytes;
}

bool can_store(uint32_t dtype) {
  if (dtype == TENON_DTYPE_F32 || dtype == TENON_DTYPE_F16 || dtype == TENON_DTYPE_BF16) return true;
  const tenon_dtype* record = sdk::host().dtype(sdk::host().self, dtype);
  return record && record->n_plane == 1 && record->encode && record->decode;
}

void store_row(uint32_t dtype, tenon_addr address, const float* values, int64_t cols) {
  switch (dtype) {
    case TENON_DTYPE_F32:
      std::memcpy(sdk::at<float>(address), values, size_t(cols) * 4);
      return;
    case TENON_DTYPE_F16:
      for (int64_t c = 0; c < cols; ++c) sdk::at<uint16_t>(address)[c] = to_f16(values[c]);
      return;
    case TENON_DTYPE_BF16:
      for (int64_t c = 0; c < cols; ++c) sdk::at<uint16_t>(address)[c] = to_bf16(values[c]);
      return;
    default:
      break;
  }
  const tenon_weight row = as_weight(dtype, address, cols);
  sdk::check(record_of(dtype).encode(values, 1, cols, &row));
}

void load_row(uint32_t dtype, tenon_addr address, float* values, int64_t cols) {
  switch (dtype) {
    case TENON_DTYPE_F32:
      std::memcpy(values, sdk::at<float>(address), size_t(cols) * 4);
      return;
    case TENON_DTYPE_F16:
      for (int64_t c = 0; c < cols; ++c) values[c] = from_f16(sdk::at<uint16_t>(address)[c]);
      return;
    case TENON_DTYPE_BF16:
      for (int64_t c = 0; c < cols; ++c) values[c] = from_bf16(sdk::at<uint16_t>(address)[c]);
      return;
    default:
      break;
  }
  const tenon_weight row = as_weight(dtype, address, cols);
  sdk::check(record_of(dtype).decode(&row, 0, 1, values));
}

}  // namespace tenon::reference
