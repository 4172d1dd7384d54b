// packed.cuh: reading the packed form: a lane's codes of a chunk as operands of mma, its rows' scales, and eight columns
// of a row as f32, operation by operation as codecs.cuh decodes the file's form.
#pragma once

#include "codecs.cuh"
#include "packed.hpp"
#include "ring.cuh"

namespace tenon::cuda {

// A packed matrix on the device.
struct Packed {
  const uint8_t* data;
  PackedShape shape;
  __device__ const uint8_t* chunk(int32_t tile, int32_t index) const {
    return data + int64_t(tile) * shape.tile_bytes + int64_t(index) * shape.chunk_bytes;
  }
};

// A byte of a word, and one with a sign.
__device__ __forceinline__ int byte_of(uint32_t word, int i) {
#ifdef TENON_CUDA_IS_EMULATED
  return int(word >> 8 * i & 0xff);
#else
  return int(__byte_perm(word, 0, 0x4440u | unsigned(i)));
#endif
}
__device__ __forceinline__ int signed_byte_of(uint32_t word, int i) {
#ifdef TENON_CUDA_IS_EMULATED
  return int8_t(word >> 8 * i);
#else
  int out;  // a selector's fourth bit repeats the sign
  asm("prmt.b32 %0, %1, %1, %2;" : "=r"(out) : "r"(word), "r"(0x8880u + unsigned(i) * 0x1111u));
  return out;
#endif
}

template <int n>
struct Vectors {
  uint4 of[n > 0 ? n : 1];
  __device__ __forceinline__ uint32_t word(int i) const {
    const uint4& v = of[i / 4];
    return i % 4 == 0 ? v.x : i % 4 == 1 ? v.y : i % 4 == 2 ? v.z : v.w;
  }
};

// Four levels by the four codes in the low nibbles of a word's bytes.
__device__ __forceinline__ uint32_t levels_of(uint32_t codes) {
  constexpr uint32_t kLevels[4] = {0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u};
#ifdef TENON_CUDA_IS_EMULATED
  uint32_t out = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t code = codes >> 8 * i & 15;
    out |= (kLevels[code / 4] >> 8 * (code % 4) & 0xff) << 8 * i;
  }
  return out;
#else
  // A permutation picks among eight bytes by three bits; the fourth chooses between two such picks.
  const uint32_t three = codes & 0x07070707u;
  const uint32_t pick = (three | three >> 4) & 0x00ff00ffu, select = (pick | pick >> 8) & 0xffffu;
  const uint32_t low = __byte_perm(kLevels[0], kLevels[1], select), high = __byte_perm(kLevels[2], kLevels[3], select);
  const uint32_t is_high = (codes >> 3 & 0x01010101u) * 0xffu;
  return (low & ~is_high) | (high & is_high);
#endif
}

// A lane's codes of one chunk, in registers.
template <Codec codec>
struct ChunkCodes {
  static constexpr PackedForm form = packed_form(codec);
  static constexpr bool is_signed = codec == Codec::kQ8_0 || form.has_levels || form.offset != 0;
  Vectors<form.plane_vectors()> planes;
  Vectors<4 * form.step_vectors()> steps;

  // Of a chunk that is not whole only n_steps are there.
  template <bool kWhole, typename Chunk>
  __device__ __forceinline__ void load(const Chunk& chunk, int lane, int n_steps) {
    const auto vector = [&](int at, int i) { return chunk.template get<uint4>(lane * 16 + at + i * kVectorBytes); };
#pragma unroll
    for (int i = 0; i < form.plane_vectors(); ++i) planes.of[i] = vector(form.planes_at(), i);
#pragma unroll
    for (int i = 0; i < 4 * form.step_vectors(); ++i)
      steps.of[i] = kWhole || i < n_steps * form.step_vectors() ? vector(form.steps_at(), i) : uint4{0, 0, 0, 0};
  }

  // The four registers for columns 32j … 32j + 31. Codes with an offset are numbers 2^low_bit() times as large as theirs.
  __device__ __forceinline__ void operand(int j, uint32_t (&a)[4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = one_register(j, i);
  }

 private:
  static __device__ __forceinline__ uint32_t moved(uint32_t word, int left) { return left < 0 ? word >> -left : word << left; }
  __device__ __forceinline__ uint32_t one_register(int j, int i) const {
    if constexpr (form.step_bits == 8) return steps.word(4 * j + i);
    constexpr uint32_t kEach = 0x01010101u;
    constexpr int low = form.low_bit(), twos_at = low + form.step_bits, ones_at = twos_at + 2 * form.twos;
    uint32_t codes = 0;
    // A word has register i of an even group in its low nibbles, and of the next group in its high ones.
    if constexpr (form.step_bits == 4) codes = moved(steps.word(j / 2 * 4 + i), low - j % 2 * 4) & (15 * kEach << low);
    if constexpr (form.twos) codes |= moved(planes.word(4 * form.ones + j), twos_at - 2 * i) & (3 * kEach << twos_at);
    if constexpr (form.ones) codes |= moved(planes.word(j / 2), ones_at - (4 * (j % 2) + i)) & (kEach << ones_at);
    if constexpr (form.has_levels) codes = levels_of(codes);
    return codes;
  }
};

// One code of row r of a tile's chunk without its offset; column c of the chunk.
template <Codec codec>
__device__ inline int code_at(const uint8_t* chunk, int r, int c) {
  constexpr PackedForm form = packed_form(codec);
  const int j = c / 32, in = c % 32, t = form.is_fine() ? in % 16 / 4 : in / 8, half = form.is_fine() ? in / 16 : in / 4 % 2;
  const int lane = r % 8 * 4 + t, i = r / 8 + 2 * half, byte = in % 4;
  const auto plane_word = [&](int at, int n) {
    return *reinterpret_cast<const uint32_t*>(chunk + at + n / 4 * kVectorBytes + lane * 16 + n % 4 * 4) >> 8 * byte;
  };
  if (form.step_bits == 8) return int8_t(plane_word(form.steps_at(), 4 * j + i));
  uint32_t code = 0;
  if (form.step_bits == 4) code = plane_word(form.steps_at(), j / 2 * 4 + i) >> j % 2 * 4 & 15;
  if (form.twos) code |= (plane_word(form.planes_at() + form.ones * kVectorBytes, j) >> 2 * i & 3) << form.step_bits;
  if (form.ones) code |= (plane_word(form.planes_at(), j / 2) >> (4 * (j % 2) + i) & 1) << (form.step_bits + 2 * form.twos);
  return int(code ^ uint32_t(form.offset)) - form.offset;
}

// Columns k … k + 7 of row `row` as f32; k a multiple of 8.
template <Codec codec>
__device__ inline void read_packed(const Packed& w, int32_t row, int32_t k, float* values) {
  constexpr PackedForm form = packed_form(codec);
  const uint8_t* chunk = w.chunk(row / kTileRows, k / kChunkCols);
  const int r = row % kTileRows, c = k % kChunkCols, group = c / 32, half_group = c / 16;
  const uint16_t* halves = reinterpret_cast<const uint16_t*>(chunk);
  int codes[kEight];
  for (int i = 0; i < kEight; ++i) codes[i] = code_at<codec>(chunk, r, c + i);
  if constexpr (form.scales == ScaleKind::kHalf || form.scales == ScaleKind::kHalfMin) {
    const float d = half_to_float(halves[r * 8 + group]);
    const float m = form.scales == ScaleKind::kHalfMin ? half_to_float(halves[128 + r * 8 + group]) : 0.0f;
    for (int i = 0; i < kEight; ++i) {
      values[i] = d * (form.has_levels ? level16(uint32_t(codes[i])) : float(codes[i]));
      if (form.scales == ScaleKind::kHalfMin) values[i] += m;
    }
  } else if constexpr (form.scales == ScaleKind::kSuper) {
    const ScaleMin s = scale_min(chunk + r * 16, group);
    for (int i = 0; i < kEight; ++i) values[i] = s.scale * float(codes[i]) - s.min;
  } else if constexpr (form.scales == ScaleKind::kNibblesMin) {
    const uint32_t packed = chunk[r * 16 + half_group];
    const uint16_t* d = reinterpret_cast<const uint16_t*>(chunk + 256) + 2 * r;
    const float scale = half_to_float(d[0]) * float(packed & 15), min = half_to_float(d[1]) * float(packed >> 4);
    for (int i = 0; i < kEight; ++i) values[i] = scale * float(codes[i]) - min;
  } else {
    constexpr bool is_wide = form.scales == ScaleKind::kBytes32;
    const int8_t whole = int8_t(is_wide ? chunk[r * 8 + group] : chunk[r * 16 + half_group]);
    const float d = half_to_float(*reinterpret_cast<const uint16_t*>(chunk + (is_wide ? 128 : 256) + 2 * r));
    const float scale = d * float(whole);
    for (int i = 0; i < kEight; ++i)
      values[i] = scale * (form.has_levels ? level16(uint32_t(codes[i])) : float(codes[i]));
  }
}

}  // namespace tenon::cuda
