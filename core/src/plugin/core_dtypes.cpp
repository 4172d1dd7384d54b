// Value (r, c) of a plain type is element c at plane[0] + r × row_bytes, little endian as every machine we run on.
#include "core_dtypes.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "message.hpp"

namespace tenon::plugin {
namespace {

static_assert(std::endian::native == std::endian::little, "files and planes are little endian");

// IEEE binary16, exactly.
float f16_value(uint16_t bits) {
  const uint32_t sign = uint32_t(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & 31, fraction = bits & 0x3ff;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | fraction << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float magnitude = float(fraction) * 0x1p-24f;  // subnormal: exact in f32
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

// Nearest binary16, ties to even; too large gives infinity, NaN stays NaN.
uint16_t f16_bits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = uint16_t(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return uint16_t(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
  if (magnitude >= 0x477ff000) return uint16_t(sign | 0x7c00);  // 65520 and above
  if (magnitude < 0x38800000) {
    // Below 2^-14: adding 0.5 leaves the fraction in units of 2^-24, rounded as the addition rounds.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return uint16_t(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000));
  }
  const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return uint16_t(sign | ((rounded - (112u << 23)) >> 13));
}

uint16_t bf16_bits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return uint16_t(bits >> 16 | 0x40);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

struct F32 {
  using Stored = float;
  static float value(float x) { return x; }
  static float stored(float x) { return x; }
};
struct F16 {
  using Stored = uint16_t;
  static float value(uint16_t x) { return f16_value(x); }
  static uint16_t stored(float x) { return f16_bits(x); }
};
struct Bf16 {
  using Stored = uint16_t;
  static float value(uint16_t x) { return std::bit_cast<float>(uint32_t(x) << 16); }
  static uint16_t stored(float x) { return bf16_bits(x); }
};
template <typename T>
struct Plain {
  using Stored = T;
  static float value(T x) { return float(x); }
};

tenon_status refuse(const char* what) noexcept { return set_message(TENON_INVALID_ARGUMENT, what); }

// Null and a message when the rows are not all there.
const char* plane_of(const tenon_weight& weight, int64_t row0, int64_t n, size_t size) {
  if (weight.layout != 0 || weight.plane[0] == 0) {
    refuse("decode: expected the file's layout in host memory");
    return nullptr;
  }
  if (row0 < 0 || n < 0 || row0 > weight.rows - n || weight.cols < 0 ||
      weight.row_bytes < weight.cols * int64_t(size)) {
    refuse("decode: rows outside of the weight");
    return nullptr;
  }
  return reinterpret_cast<const char*>(weight.plane[0]) + row0 * weight.row_bytes;
}

template <typename Type>
tenon_status decode(const tenon_weight* weight, int64_t row0, int64_t n, float* out) noexcept {
  using Stored = typename Type::Stored;
  const char* row = plane_of(*weight, row0, n, sizeof(Stored));
  if (row == nullptr) return TENON_INVALID_ARGUMENT;
  for (int64_t r = 0; r < n; ++r, row += weight->row_bytes)
    for (int64_t c = 0; c < weight->cols; ++c) {
      Stored stored;  // a file may place a plane at any address
      std::memcpy(&stored, row + c * int64_t(sizeof stored), sizeof stored);
      *out++ = Type::value(stored);
    }
  return TENON_OK;
}

template <typename Type>
tenon_status encode(const float* values, int64_t rows, int64_t cols, const tenon_weight* out) noexcept {
  using Stored = typename Type::Stored;
  if (out->rows != rows || out->cols != cols || out->plane[0] == 0 || out->row_bytes < cols * int64_t(sizeof(Stored)))
    return refuse("encode: the planes do not hold rows × cols values");
  char* row = reinterpret_cast<char*>(out->plane[0]);
  for (int64_t r = 0; r < rows; ++r, row += out->row_bytes)
    for (int64_t c = 0; c < cols; ++c) {
      const Stored stored = Type::stored(*values++);
      std::memcpy(row + c * int64_t(sizeof stored), &stored, sizeof stored);
    }
  return TENON_OK;
}

template <typename Type>
tenon_status check(const tenon_weight* weight, int64_t row0, int64_t n) noexcept {
  using Stored = typename Type::Stored;
  const char* row = plane_of(*weight, row0, n, sizeof(Stored));
  if (row == nullptr) return TENON_INVALID_ARGUMENT;
  for (int64_t r = 0; r < n; ++r, row += weight->row_bytes)
    for (int64_t c = 0; c < weight->cols; ++c) {
      Stored stored;
      std::memcpy(&stored, row + c * int64_t(sizeof stored), sizeof stored);
      if (std::isfinite(Type::value(stored))) continue;
      char text[96];
      std::snprintf(text, sizeof text, "row %lld, column %lld: not a finite number", static_cast<long long>(row0 + r),
                    static_cast<long long>(c));
      return set_message(TENON_CORRUPT, text);
    }
  return TENON_OK;
}

template <typename Type>
constexpr tenon_dtype plain(std::string_view name) {
  tenon_dtype record{};
  record.struct_size = sizeof record, record.n_plane = 1;
  record.name = {name.data(), name.size()};
  record.block_cols = 1, record.block_bytes = sizeof(typename Type::Stored);
  record.plane_bytes[0] = sizeof(typename Type::Stored);
  record.decode = decode<Type>;
  if constexpr (requires { Type::stored(0.0f); }) record.encode = encode<Type>;
  if constexpr (std::is_same_v<Type, F32> || std::is_same_v<Type, F16> || std::is_same_v<Type, Bf16> ||
                std::is_same_v<Type, Plain<double>>)
    record.check = check<Type>;
  return record;
}

// In the order of the ids, which begin at 1.
constexpr tenon_dtype kCoreDtypes[] = {plain<F32>("f32"),
                                       plain<F16>("f16"),
                                       plain<Bf16>("bf16"),
                                       plain<Plain<double>>("f64"),
                                       plain<Plain<int8_t>>("i8"),
                                       plain<Plain<int16_t>>("i16"),
                                       plain<Plain<int32_t>>("i32"),
                                       plain<Plain<int64_t>>("i64"),
                                       plain<Plain<uint8_t>>("u8")};
static_assert(std::size(kCoreDtypes) == TENON_DTYPE_U8);

}  // namespace

const tenon_dtype* core_dtype(uint32_t id) {
  return id >= 1 && id <= std::size(kCoreDtypes) ? &kCoreDtypes[id - 1] : nullptr;
}

uint32_t core_dtype_id(std::string_view name) {
  for (uint32_t id = 1; id <= std::size(kCoreDtypes); ++id)
    if (const tenon_str& known = kCoreDtypes[id - 1].name; std::string_view(known.data, known.size) == name) return id;
  return TENON_DTYPE_NONE;
}

}  // namespace tenon::plugin
