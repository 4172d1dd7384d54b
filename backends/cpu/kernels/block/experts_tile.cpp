// experts_tile.cpp: what stands between the products of experts; built once an instruction set. Loops that a compiler
// turns into vectors, without sums whose order could depend on it.
#include <tenon/abi.h>

#include <cstring>
#include <tenon/sdk/experts.hpp>

#include "float_bits.hpp"
#include "linear.hpp"

namespace tenon::block::TENON_ISA {
namespace {

constexpr int kBlock = 32;

// e^x: x = n log 2 + r, a polynomial in |r| ≤ log 2 / 2 (the well-known coefficients of Cephes' expf), 2^n from bits.
// Far arguments are drawn to where the result is nearly 0 or huge; NaN stays NaN.
inline float exp_of(float x) {
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  const float shifted = x * 1.44269504f + kMagic, n = shifted - kMagic;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691e-4f;
  p = p * r + 1.3981999e-3f;
  p = p * r + 8.3334519e-3f;
  p = p * r + 4.1665795e-2f;
  p = p * r + 1.6666665e-1f;
  p = p * r + 5.0000001e-1f;
  p = p * r * r + r + 1.0f;
  return p * float_of((bits_of(shifted) - kMagicBits + 127) << 23);
}
inline float sigmoid(float x) { return 1.0f / (1.0f + exp_of(-x)); }
inline float gelu(float x) {  // 0.5 x (1 + tanh(u)) = x sigmoid(2u)
  return x * sigmoid(1.59576912f * (x + 0.044715f * x * x * x));
}

template <uint32_t activation>
void activate(const HiddenJob& job, const float* gate, const float* up, float* out) {
  const float bound = job.limit > 0 ? job.limit : __builtin_inff();
  for (int i = 0; i < kBlock; ++i) {
    const float g = gate[i] * job.gate_factor;
    float u = up[i] * job.up_factor;
    u = u > bound ? bound : u;
    u = u < -bound ? -bound : u;
    if constexpr (activation == TENON_ACT_SWIGLU_OAI) {  // its limit stands before the activation, the others' behind
      const float limited = g > bound ? bound : g;
      out[i] = limited * sigmoid(job.alpha * limited) * (u + 1.0f);
      continue;
    }
    float a = g;
    if constexpr (activation == TENON_ACT_GELU_TANH) {
      a = gelu(g);
    } else if constexpr (activation == TENON_ACT_SIGMOID) {
      a = sigmoid(g);
    } else if constexpr (activation != TENON_ACT_NONE) {
      a = g * sigmoid(g);
    }
    out[i] = (a > bound ? bound : a) * u;
  }
}

// A block of q8_32, as abi.h defines it.
void encode(const float* x, int8_t* code, float* scale, int16_t* sum) {
  constexpr int kLanes = 8;  // of a maximum and a check that the compiler may not reorder by itself
  float tops[kLanes] = {}, odds[kLanes] = {}, top = 0, odd = 0;
  int32_t bits[kBlock];
  for (int i = 0; i < kBlock; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) {
      const float size = x[i + l] < 0 ? -x[i + l] : x[i + l];
      tops[l] = size > tops[l] ? size : tops[l];
      odds[l] += x[i + l] * 0.0f;  // 0, or NaN where a value is not finite
    }
  }
  for (int l = 0; l < kLanes; ++l) top = tops[l] > top ? tops[l] : top, odd += odds[l];
  const bool finite = odd == 0.0f;
  *scale = finite ? top / 127.0f : __builtin_nanf("");
  const float inverse = finite && top > 0 ? 127.0f / top : 0.0f;
  for (int i = 0; i < kBlock; ++i) {
    float q = finite ? x[i] * inverse : 0.0f;
    q = q > 127.0f ? 127.0f : q;
    q = q < -127.0f ? -127.0f : q;
    bits[i] = bits_of(q + kMagic) - kMagicBits;
  }
  for (int half = 0; half < 2; ++half) {
    int32_t all = 0;
    for (int i = 0; i < 16; ++i) all += bits[half * 16 + i];
    sum[half] = static_cast<int16_t>(all);
  }
  for (int i = 0; i < kBlock; ++i) code[i] = static_cast<int8_t>(bits[i]);
}

template <uint32_t activation>
void hidden_rows(const HiddenJob& job) {
  for (int64_t r = 0; r < job.rows; ++r) {
    uint8_t* row = job.out + r * job.out_row_bytes;
    auto* code = reinterpret_cast<int8_t*>(row);
    auto* scale = reinterpret_cast<float*>(row + tenon_q8_32_scale_offset(job.cols));
    auto* sum = reinterpret_cast<int16_t*>(row + tenon_q8_32_sum_offset(job.cols));
    for (int64_t b = 0; b < job.blocks; ++b) {
      float values[kBlock];
      const int64_t at = job.block0 + b;
      activate<activation>(job, job.gate + r * job.row_floats + b * kBlock, job.up + r * job.row_floats + b * kBlock,
                           values);
      encode(values, code + at * kBlock, scale + at, sum + 2 * at);
    }
  }
}

}  // namespace

void hidden(const HiddenJob& job) {
  switch (job.activation) {
    case TENON_ACT_NONE:
      return hidden_rows<TENON_ACT_NONE>(job);
    case TENON_ACT_GELU_TANH:
      return hidden_rows<TENON_ACT_GELU_TANH>(job);
    case TENON_ACT_SIGMOID:
      return hidden_rows<TENON_ACT_SIGMOID>(job);
    case TENON_ACT_SWIGLU_OAI:
      return hidden_rows<TENON_ACT_SWIGLU_OAI>(job);
    default:
      return hidden_rows<TENON_ACT_SILU>(job);
  }
}

void fold(const FoldJob& job) {
  const auto bytes = static_cast<size_t>(job.cols) * sizeof(float);
  for (int64_t r = 0; r < job.rows; ++r) {
    const auto* share = reinterpret_cast<const float*>(job.share + r * job.share_row_bytes);
    const int32_t* place = job.place + r * job.top_k;
    uint8_t* out = job.out + r * job.out_row_bytes;
    const auto slot = [&](int64_t s) { return place[s] < 0 ? nullptr : job.slots + place[s] * job.wide; };
    if (!job.slot_bytes) {
      sdk::fold_slots(
          job.top_k, job.cols, [&](int64_t s) { return share[s]; }, slot, reinterpret_cast<float*>(out));
      continue;
    }
    for (int64_t s = 0; s < job.top_k; ++s)
      if (const float* from = slot(s))
        std::memcpy(out + s * job.slot_bytes, from, bytes);
      else
        std::memset(out + s * job.slot_bytes, 0, bytes);
  }
}

}  // namespace tenon::block::TENON_ISA
