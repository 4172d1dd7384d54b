// blocks.hpp: the block types of GGUF: one function a type that turns one block into f32. These are the definitions
// that every kernel is tested against: group scale first, then the integer, then the minimum, each rounded, never
// fused.
#pragma once

#include <cstdint>

namespace tenon::gguf {

// 32 columns
void decode_q4_0(const uint8_t* block, float* y);
void decode_q4_1(const uint8_t* block, float* y);
void decode_q5_0(const uint8_t* block, float* y);
void decode_q5_1(const uint8_t* block, float* y);
void decode_q8_0(const uint8_t* block, float* y);
void decode_iq4_nl(const uint8_t* block, float* y);
void decode_mxfp4(const uint8_t* block, float* y);
// 64 columns
void decode_nvfp4(const uint8_t* block, float* y);
// 256 columns
void decode_q2_k(const uint8_t* block, float* y);
void decode_q3_k(const uint8_t* block, float* y);
void decode_q4_k(const uint8_t* block, float* y);
void decode_q5_k(const uint8_t* block, float* y);
void decode_q6_k(const uint8_t* block, float* y);
void decode_iq1_s(const uint8_t* block, float* y);
void decode_iq1_m(const uint8_t* block, float* y);
void decode_iq2_xxs(const uint8_t* block, float* y);
void decode_iq2_xs(const uint8_t* block, float* y);
void decode_iq2_s(const uint8_t* block, float* y);
void decode_iq3_xxs(const uint8_t* block, float* y);
void decode_iq3_s(const uint8_t* block, float* y);
void decode_iq4_xs(const uint8_t* block, float* y);
void decode_tq1_0(const uint8_t* block, float* y);
void decode_tq2_0(const uint8_t* block, float* y);

// Encoders for one block of finite values. Those of 32 columns, iq4_nl apart, take the scale from the block's range: rows
// of a store are written with them. The others look for the scales with the least sum of squared errors.
void encode_q4_0(const float* x, uint8_t* block);
void encode_q4_1(const float* x, uint8_t* block);
void encode_q5_0(const float* x, uint8_t* block);
void encode_q5_1(const float* x, uint8_t* block);
void encode_q8_0(const float* x, uint8_t* block);
void encode_mxfp4(const float* x, uint8_t* block);
void encode_iq4_nl(const float* x, uint8_t* block);
void encode_q2_k(const float* x, uint8_t* block);
void encode_q3_k(const float* x, uint8_t* block);
void encode_q4_k(const float* x, uint8_t* block);
void encode_q5_k(const float* x, uint8_t* block);
void encode_q6_k(const float* x, uint8_t* block);
void encode_iq4_xs(const float* x, uint8_t* block);

// The 16 levels of iq4_nl and iq4_xs.
inline constexpr int8_t kNonLinear4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
// e2m1 codes, doubled so that they are whole numbers; code 8 decodes to +0.
inline constexpr int8_t kE2m1Doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

}  // namespace tenon::gguf
