#include "types.hpp"

#include <cmath>

#include "dtype/blocks.hpp"

namespace tenon::gguf {
namespace {

using DecodeBlock = void (*)(const uint8_t* block, float* y);
using EncodeBlock = void (*)(const float* x, uint8_t* block);

// First byte of row `row`; rows count through a stack of experts.
uint8_t* row_begin(const tenon_weight& weight, int64_t row, int64_t packed_row_bytes) {
  const int64_t step = weight.row_bytes > 0 ? weight.row_bytes : packed_row_bytes;
  uint64_t offset = uint64_t(row) * uint64_t(step);
  if (weight.n_expert > 1 && weight.expert_stride > 0) {
    offset =
        uint64_t(row / weight.rows) * uint64_t(weight.expert_stride) + uint64_t(row % weight.rows) * uint64_t(step);
  }
  return reinterpret_cast<uint8_t*>(weight.plane[TENON_PLANE_CODES] + offset);
}

void check_shape(const char* what, const tenon_weight& weight, int64_t row0, int64_t n, uint32_t block_cols) {
  const int64_t rows = weight.n_expert > 1 ? weight.rows * int64_t(weight.n_expert) : weight.rows;
  if (weight.layout != 0 || weight.plane[TENON_PLANE_CODES] == 0) {
    throw sdk::Error(TENON_INVALID_ARGUMENT, sdk::text("%s: needs a weight in the file's layout", what));
  }
  if (weight.cols <= 0 || weight.cols % block_cols != 0) {
    throw sdk::Error(TENON_INVALID_ARGUMENT, sdk::text("%s: %lld columns are no multiple of its block of %u", what,
                                                       (long long)weight.cols, block_cols));
  }
  if (row0 < 0 || n < 0 || row0 > rows || n > rows - row0) {
    throw sdk::Error(TENON_INVALID_ARGUMENT, sdk::text("%s: rows %lld and %lld more leave the weight's %lld rows", what,
                                                       (long long)row0, (long long)n, (long long)rows));
  }
}

template <uint32_t Cols, uint32_t Bytes, DecodeBlock Block>
tenon_status decode(const tenon_weight* weight, int64_t row0, int64_t n, float* out) noexcept {
  return sdk::guard([&] {
    check_shape("decode", *weight, row0, n, Cols);
    const int64_t blocks = weight->cols / Cols;
    for (int64_t row = row0; row < row0 + n; ++row) {
      const uint8_t* block = row_begin(*weight, row, blocks * Bytes);
      for (int64_t i = 0; i < blocks; ++i, block += Bytes, out += Cols) Block(block, out);
    }
  });
}

template <uint32_t Cols, uint32_t Bytes, DecodeBlock Block>
tenon_status check(const tenon_weight* weight, int64_t row0, int64_t n) noexcept {
  return sdk::guard([&] {
    check_shape("check", *weight, row0, n, Cols);
    const int64_t blocks = weight->cols / Cols;
    float values[Cols];
    for (int64_t row = row0; row < row0 + n; ++row) {
      const uint8_t* block = row_begin(*weight, row, blocks * Bytes);
      for (int64_t i = 0; i < blocks; ++i, block += Bytes) {
        Block(block, values);
        for (uint32_t column = 0; column < Cols; ++column) {
          if (std::isfinite(values[column])) continue;
          throw sdk::Error(TENON_CORRUPT, sdk::text("row %lld, column %lld is not finite", (long long)row,
                                                    (long long)(i * Cols + column)));
        }
      }
    }
  });
}

template <uint32_t Cols, uint32_t Bytes, EncodeBlock Block>
tenon_status encode(const float* values, int64_t rows, int64_t cols, const tenon_weight* out) noexcept {
  return sdk::guard([&] {
    check_shape("encode", *out, 0, rows, Cols);
    if (cols != out->cols) {
      throw sdk::Error(TENON_INVALID_ARGUMENT,
                       sdk::text("encode: %lld columns for a weight of %lld", (long long)cols, (long long)out->cols));
    }
    for (int64_t i = 0; i < rows * cols; ++i) {
      if (std::isfinite(values[i])) continue;
      throw sdk::Error(TENON_INVALID_ARGUMENT, sdk::text("encode: row %lld, column %lld is not finite",
                                                         (long long)(i / cols), (long long)(i % cols)));
    }
    for (int64_t row = 0; row < rows; ++row) {
      uint8_t* block = row_begin(*out, row, cols / Cols * Bytes);
      for (int64_t i = 0; i < cols / Cols; ++i, block += Bytes, values += Cols) Block(values, block);
    }
  });
}

template <uint32_t Cols, uint32_t Bytes, DecodeBlock Decode>
constexpr tenon_dtype record(std::string_view name) {
  tenon_dtype dtype = {};
  dtype.struct_size = sizeof dtype, dtype.n_plane = 1, dtype.name = sdk::to_str(name);
  dtype.block_cols = Cols, dtype.block_bytes = Bytes, dtype.plane_bytes[0] = Bytes;
  dtype.decode = decode<Cols, Bytes, Decode>, dtype.check = check<Cols, Bytes, Decode>;
  return dtype;
}

template <uint32_t Cols, uint32_t Bytes, DecodeBlock Decode, EncodeBlock Encode>
constexpr tenon_dtype record(std::string_view name) {
  tenon_dtype dtype = record<Cols, Bytes, Decode>(name);
  dtype.encode = encode<Cols, Bytes, Encode>;
  return dtype;
}

struct BlockType {
  uint32_t number;
  tenon_dtype dtype;
};

// Numbers, block sizes: the tensor types of the GGUF specification.
// clang-format off
const BlockType kBlockTypes[] = {
    {2, record<32, 18, decode_q4_0, encode_q4_0>("q4_0")},
    {3, record<32, 20, decode_q4_1, encode_q4_1>("q4_1")},
    {6, record<32, 22, decode_q5_0, encode_q5_0>("q5_0")},
    {7, record<32, 24, decode_q5_1, encode_q5_1>("q5_1")},
    {8, record<32, 34, decode_q8_0, encode_q8_0>("q8_0")},
    {10, record<256, 84, decode_q2_k, encode_q2_k>("q2_k")},
    {11, record<256, 110, decode_q3_k, encode_q3_k>("q3_k")},
    {12, record<256, 144, decode_q4_k, encode_q4_k>("q4_k")},
    {13, record<256, 176, decode_q5_k, encode_q5_k>("q5_k")},
    {14, record<256, 210, decode_q6_k, encode_q6_k>("q6_k")},
    {16, record<256, 66, decode_iq2_xxs>("iq2_xxs")},
    {17, record<256, 74, decode_iq2_xs>("iq2_xs")},
    {18, record<256, 98, decode_iq3_xxs>("iq3_xxs")},
    {19, record<256, 50, decode_iq1_s>("iq1_s")},
    {20, record<32, 18, decode_iq4_nl, encode_iq4_nl>("iq4_nl")},
    {21, record<256, 110, decode_iq3_s>("iq3_s")},
    {22, record<256, 82, decode_iq2_s>("iq2_s")},
    {23, record<256, 136, decode_iq4_xs, encode_iq4_xs>("iq4_xs")},
    {29, record<256, 56, decode_iq1_m>("iq1_m")},
    {34, record<256, 54, decode_tq1_0>("tq1_0")},
    {35, record<256, 66, decode_tq2_0>("tq2_0")},
    {39, record<32, 17, decode_mxfp4, encode_mxfp4>("mxfp4")},
    {40, record<64, 36, decode_nvfp4>("nvfp4")},
};
// clang-format on

constexpr uint32_t kNumbers = 43;

// Indexed by the number in the file. Written once, while the plugin is initialised.
TensorType (&table())[kNumbers] {
  static TensorType types[kNumbers] = {};
  return types;
}

void add(uint32_t number, const char* name, uint32_t cols, uint32_t bytes, uint32_t dtype, const char* refusal) {
  table()[number] = {name, cols, bytes, dtype, refusal};
}

}  // namespace

const TensorType* tensor_type(uint32_t number) {
  return number < kNumbers && table()[number].name ? &table()[number] : nullptr;
}

std::optional<uint32_t> number_of_dtype(uint32_t dtype) {
  for (uint32_t number = 0; number < kNumbers; ++number)
    if (table()[number].dtype == dtype && !table()[number].refusal && table()[number].name) return number;
  return std::nullopt;
}

void register_dtypes(sdk::Registrar& registrar) {
  add(0, "f32", 1, 4, TENON_DTYPE_F32, nullptr);
  add(1, "f16", 1, 2, TENON_DTYPE_F16, nullptr);
  add(30, "bf16", 1, 2, TENON_DTYPE_BF16, nullptr);
  add(24, "i8", 1, 1, TENON_DTYPE_I8, nullptr);
  add(25, "i16", 1, 2, TENON_DTYPE_I16, nullptr);
  add(26, "i32", 1, 4, TENON_DTYPE_I32, nullptr);
  add(27, "i64", 1, 8, TENON_DTYPE_I64, nullptr);
  add(28, "f64", 1, 8, TENON_DTYPE_F64, nullptr);
  for (const BlockType& type : kBlockTypes) {
    const uint32_t id = registrar.dtype(&type.dtype);
    add(type.number, type.dtype.name.data, type.dtype.block_cols, type.dtype.block_bytes, id, nullptr);
  }
  for (const uint32_t number : {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u}) {
    static constexpr const char* kRetired = "the format has retired it; convert the model again";
    static constexpr const char* kNames[] = {"q4_2",     "q4_3",       "q4_0_4_4",   "q4_0_4_8",
                                             "q4_0_8_8", "iq4_nl_4_4", "iq4_nl_4_8", "iq4_nl_8_8"};
    const uint32_t index = number < 6 ? number - 4 : number < 34 ? number - 29 : number - 31;
    add(number, kNames[index], 0, 0, TENON_DTYPE_NONE, kRetired);
  }
  add(9, "q8_1", 32, 36, TENON_DTYPE_NONE, "it is for activations, not for files");
  add(15, "q8_k", 256, 292, TENON_DTYPE_NONE, "it is for activations, not for files");
  add(41, "q1_0", 128, 18, TENON_DTYPE_NONE, "this plugin has no decoder for it");
  add(42, "q2_0", 64, 18, TENON_DTYPE_NONE, "this plugin has no decoder for it");
}

}  // namespace tenon::gguf
