// linear_q8.cuh: y = x Wᵀ for packed weights and rows encoded as q8_32, by products of codes on tensor cores.
//
// A block takes tiles of 16 outputs one after the other, for up to 64 rows; its warps take a tile's chunks of 256 columns
// in turns, and the next ones come through shared memory meanwhile. Products of codes are exact. What is rounded: of the
// groups of a chunk each two neighbours are scaled and added, then these sums in pairs; minimums by one product of eight
// groups at a time with the scaled sums of codes, cut in two numbers of eleven bits; then chunks of a warp in ascending
// order, then warps. How many warps there are follows from K alone, so a row has the same bits alone and among others.
// Weights are read once for up to 64 rows.
#pragma once

#include "mma.cuh"
#include "packed.cuh"

namespace tenon::cuda {

constexpr int kMaxLinearWarps = 4, kMaxProducts = 4;
constexpr int kTokenTile = 8;  // rows of x in one product of fragments

// Warps that share a tile's chunks: as many as have work of about equal size.
TENON_BOTH_SIDES constexpr int linear_warps(int32_t chunks) {
  const int32_t each = (chunks + kMaxLinearWarps - 1) / kMaxLinearWarps;
  return int((chunks + each - 1) / each);
}

// Rows of q8_32.
struct Q8Rows {
  const uint8_t* data;
  int64_t row_bytes;
  int32_t scale_at, sum_at, groups;  // bytes; groups of 32 columns
};

struct Product {
  Packed w;
  View y;
  int32_t end;  // tiles of this product and those before it
};

struct LinearQ8 {
  Q8Rows x;
  Product of[kMaxProducts];
  int32_t n;
  Live live;
};

// Scales of a lane's two rows, g and g + 8, for one chunk.
template <Codec codec>
struct ChunkScales {
  static constexpr ScaleKind kind = packed_form(codec).scales;
  uint4 of[2];
  uint32_t whole[2];
  uint16_t halves[4];  // minimums as mma wants them

  template <typename Chunk>
  __device__ __forceinline__ void load(const Chunk& chunk, int lane) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int r = lane / 4 + 8 * i;
      if constexpr (kind == ScaleKind::kBytes32) {
        const uint2 v = chunk.template get<uint2>(r * 8);
        of[i] = uint4{v.x, v.y, 0, 0};
        whole[i] = chunk.template get<uint16_t>(128 + 2 * r);
      } else {
        of[i] = chunk.template get<uint4>(r * 16);
        if constexpr (kind == ScaleKind::kBytes16) whole[i] = chunk.template get<uint16_t>(256 + 2 * r);
        if constexpr (kind == ScaleKind::kNibblesMin) whole[i] = chunk.template get<uint32_t>(256 + 4 * r);
      }
    }
    if constexpr (kind == ScaleKind::kHalfMin)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        halves[i] = chunk.template get<uint16_t>(256 + ((lane / 4 + 8 * (i % 2)) * 8 + lane % 4 + 4 * (i / 2)) * 2);
    if constexpr (kind == ScaleKind::kSuper) unpack_six_bits();
  }

  static __device__ __forceinline__ uint32_t word(const uint4& v, int i) {
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
  }
  // f16 number j of a vector.
  static __device__ __forceinline__ float half(const uint4& v, int j) {
    return half_to_float(uint16_t(word(v, j / 2) >> 16 * (j % 2)));
  }
  static __device__ __forceinline__ int byte(const uint4& v, int j) { return byte_of(word(v, j / 4), j % 4); }
  static __device__ __forceinline__ int signed_byte(const uint4& v, int j) { return signed_byte_of(word(v, j / 4), j % 4); }

 private:
  // Twelve bytes of six-bit numbers to eight scales and eight minimums, a byte each: of = scales, minimums; whole = d, dmin.
  __device__ __forceinline__ void unpack_six_bits() {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32_t a = of[i].y, b = of[i].z, c = of[i].w;
      whole[i] = of[i].x;
      of[i] = uint4{a & 0x3f3f3f3fu, (c & 0x0f0f0f0fu) | (a >> 2 & 0x30303030u), b & 0x3f3f3f3fu,
                    (c >> 4 & 0x0f0f0f0fu) | (b >> 2 & 0x30303030u)};
    }
  }
};

// Of one of a lane's two rows the scales of groups 2t and 2t + 1, side by side from a word's lowest bits on.
template <Codec codec>
struct OwnScales {
  uint32_t word;
  template <typename Chunk>
  __device__ __forceinline__ OwnScales(const ChunkScales<codec>& all, const Chunk& chunk, int lane, int which) {
    constexpr ScaleKind kind = packed_form(codec).scales;
    const int t = lane % 4, r = lane / 4 + 8 * which;
    if constexpr (kind == ScaleKind::kSuper) {
      const uint32_t four = t < 2 ? all.of[which].x : all.of[which].y;
      word = four >> 16 * (t % 2);
    } else if constexpr (kind == ScaleKind::kBytes32) {
      word = chunk.template get<uint16_t>(r * 8 + 2 * t);
    } else {
      word = chunk.template get<uint32_t>(r * 16 + 4 * t);
    }
  }
};

// Where a lane reads eight rows of x: codes of row g, scales of rows 2t and 2t + 1. A row that is not there is replaced
// by one that is: what comes of it is not written. Offsets in bytes.
struct RowOffsets {
  uint32_t codes, scales[2];

  __device__ __forceinline__ RowOffsets(const Q8Rows& x, uint32_t row0, uint32_t rows, int lane) {
    const uint32_t last = rows - 1, g = uint32_t(lane) / 4, t = uint32_t(lane) % 4;
    const auto row = [&](uint32_t r) { return (r < last ? r : last) * uint32_t(x.row_bytes); };
    codes = row(row0 + g);
#pragma unroll
    for (int i = 0; i < 2; ++i) scales[i] = row(row0 + 2 * t + uint32_t(i)) + uint32_t(x.scale_at);
  }
};

// What a lane needs of them for one chunk. A group beyond the last is replaced by the last: weights are zeros there.
template <Codec codec>
struct ChunkRows {
  static constexpr int kGroups = kChunkCols / 32;
  uint32_t codes[kGroups][2];
  float scale[2][kGroups];

  template <bool kWhole>
  __device__ __forceinline__ void load(const Q8Rows& x, const RowOffsets& at, int32_t chunk, int lane) {
    constexpr PackedForm form = packed_form(codec);
    const int32_t last = x.groups - 1 - chunk * kGroups;
    const uint8_t* from = x.data + at.codes + uint32_t(chunk * kChunkCols + form.column(lane % 4, 0));
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
      const int group = kWhole || j < last ? j : last;
      if constexpr (form.is_fine()) {
        codes[j][0] = *reinterpret_cast<const uint32_t*>(from + 32 * group);
        codes[j][1] = *reinterpret_cast<const uint32_t*>(from + 32 * group + 16);
      } else {
        const uint2 both = *reinterpret_cast<const uint2*>(from + 32 * group);
        codes[j][0] = both.x, codes[j][1] = both.y;
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float* scales = reinterpret_cast<const float*>(x.data + at.scales[i]) + chunk * kGroups;
      if constexpr (kWhole) {
#pragma unroll
        for (int j = 0; j < kGroups; j += 4) {
          const float4 four = *reinterpret_cast<const float4*>(scales + j);
          scale[i][j] = four.x, scale[i][j + 1] = four.y, scale[i][j + 2] = four.z, scale[i][j + 3] = four.w;
        }
      } else {
#pragma unroll
        for (int j = 0; j < kGroups; ++j) scale[i][j] = scales[j < last ? j : last];
      }
    }
  }
};

// An integer below 2^22 as f32: exact, and without the slow unit.
__device__ __forceinline__ float exact_float(int number) { return __uint_as_float(0x4b400000u + uint32_t(number)) - 12582912.0f; }
__device__ __forceinline__ float byte_float(uint32_t word, uint32_t which) {
#ifdef TENON_CUDA_IS_EMULATED
  return float(word >> 8 * which & 0xff);
#else
  return __uint_as_float(__byte_perm(word, 0x4b000000u, 0x7440u | which)) - 8388608.0f;
#endif
}

// Sums of a row's codes with their scales, as the product with minimums wants them: lane t has groups t and t + 4 of each
// eight.
template <Codec codec>
struct RowSums {
  static constexpr bool is_fine = packed_form(codec).is_fine();
  static constexpr int kParts = is_fine ? 2 : 1;
  uint32_t both[kParts][2];  // sums of both halves of a group of 32
  float scale[kParts][2];

  // `own` is the row, moved on to the chunk's first group in its scales and sums. Beyond the last group minimums are zeros,
  // and what is read is of the last.
  __device__ __forceinline__ void load(const uint8_t* own_scales, const uint8_t* own_sums, int32_t last, int lane) {
#pragma unroll
    for (int part = 0; part < kParts; ++part)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int32_t number = 8 * part + 4 * i + lane % 4, any = is_fine ? number / 2 : number;
        const int32_t group = any < last ? any : last;
        both[part][i] = reinterpret_cast<const uint32_t*>(own_sums)[group];
        scale[part][i] = reinterpret_cast<const float*>(own_scales)[group];
      }
  }
  __device__ __forceinline__ float value(int part, int i, int lane) const {
    const int low = int16_t(both[part][i] & 0xffff), high = int16_t(both[part][i] >> 16);
    return scale[part][i] * exact_float(!is_fine ? low + high : lane % 2 ? high : low);
  }
};

// c += minimums × scaled sums of x's codes, over the groups of a chunk.
template <Codec codec>
__device__ __forceinline__ void add_minimums(const ChunkScales<codec>& scales, const RowSums<codec>& sums, int lane, float (&c)[4]) {
  constexpr ScaleKind kind = packed_form(codec).scales;
  const uint32_t t = uint32_t(lane) % 4;
#pragma unroll
  for (int part = 0; part < RowSums<codec>::kParts; ++part) {
    float m[4], high[2], low[2];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (kind == ScaleKind::kSuper) {
        m[i] = byte_float(i < 2 ? scales.of[i % 2].z : scales.of[i % 2].w, t);
      } else if constexpr (kind == ScaleKind::kHalfMin) {
        m[i] = half_to_float(scales.halves[i]);
      } else {
        const uint4& v = scales.of[i % 2];
        const uint32_t word = part == 0 ? (i < 2 ? v.x : v.y) : (i < 2 ? v.z : v.w);
        m[i] = byte_float(word >> 4 & 0x0f0f0f0fu, t);
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float value = sums.value(part, i, lane);
      high[i] = __uint_as_float(__float_as_uint(value) & 0xffffe000u);
      low[i] = __uint_as_float(__float_as_uint(value - high[i]) & 0xffffe000u);
    }
    mma_floats(c, m, high[0], high[1]);
    mma_floats(c, m, low[0], low[1]);
  }
}

// An output's sum and that of one chunk more.
template <Codec codec>
__device__ __forceinline__ float with_chunk(float acc, float sum, float min, uint32_t whole) {
  constexpr ScaleKind kind = packed_form(codec).scales;
  if constexpr (kind == ScaleKind::kHalf) {
    return acc + sum;
  } else if constexpr (kind == ScaleKind::kHalfMin) {
    return acc + (sum + min);
  } else {
    acc = fmaf(half_to_float(uint16_t(whole)), sum, acc);
    return packed_form(codec).has_min() ? fmaf(-half_to_float(uint16_t(whole >> 16)), min, acc) : acc;
  }
}

// Adds the products of one chunk for eight rows to acc.
template <Codec codec>
__device__ __forceinline__ void add_chunk(const ChunkCodes<codec>& codes, const ChunkScales<codec>& scales,
                                          const Q8Rows& x, const ChunkRows<codec>& own, uint32_t row_at, int32_t index,
                                          int lane, float (&acc)[4]) {
  constexpr PackedForm form = packed_form(codec);
  constexpr ScaleKind kind = form.scales;
  constexpr bool is_signed = ChunkCodes<codec>::is_signed;
  using Scales = ChunkScales<codec>;
  float sum[4][4];  // of two groups each
#pragma unroll
  for (int j = 0; j < kChunkCols / 32; ++j) {
    uint32_t a[4];
    codes.operand(j, a);
    int dots[4] = {}, fine[4] = {};
    if constexpr (form.is_fine()) {
      mma_k16<is_signed>(dots, a[0], a[1], own.codes[j][0]);
      mma_k16<is_signed>(fine, a[2], a[3], own.codes[j][1]);
    } else {
      mma_k32<is_signed>(dots, a, own.codes[j][0], own.codes[j][1]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint4& s = scales.of[i / 2];
      const float scale = own.scale[i % 2][j], before = j % 2 ? sum[j / 2][i] : 0.0f;
      if constexpr (kind == ScaleKind::kHalf || kind == ScaleKind::kHalfMin) {
        sum[j / 2][i] = fmaf(exact_float(dots[i]), Scales::half(s, j) * scale, before);
      } else if constexpr (kind == ScaleKind::kSuper) {
        sum[j / 2][i] = fmaf(exact_float(dots[i] * Scales::byte(s, j)), scale, before);
      } else if constexpr (kind == ScaleKind::kBytes32) {
        sum[j / 2][i] = fmaf(float(dots[i] * Scales::signed_byte(s, j)), scale, before);
      } else if constexpr (kind == ScaleKind::kBytes16) {
        const int both = dots[i] * Scales::signed_byte(s, 2 * j) + fine[i] * Scales::signed_byte(s, 2 * j + 1);
        sum[j / 2][i] = fmaf(float(both), scale, before);
      } else {
        const int both = dots[i] * (Scales::byte(s, 2 * j) & 15) + fine[i] * (Scales::byte(s, 2 * j + 1) & 15);
        sum[j / 2][i] = fmaf(exact_float(both), scale, before);
      }
    }
  }
  float min[4] = {};
  if constexpr (form.has_min()) {
    const int32_t first = index * (kChunkCols / 32);
    RowSums<codec> sums;
    sums.load(x.data + row_at + x.scale_at + first * 4, x.data + row_at + x.sum_at + first * 4, x.groups - 1 - first, lane);
    add_minimums<codec>(scales, sums, lane, min);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
    acc[i] = with_chunk<codec>(acc[i], (sum[0][i] + sum[1][i]) + (sum[2][i] + sum[3][i]), min[i], scales.whole[i / 2]);
}

// What a lane needs of one row of x for a chunk: codes of group g, scales of groups 2t and 2t + 1, sums.
template <Codec codec>
struct ChunkOfOne {
  uint32_t codes[2];
  float scale[2];
  RowSums<codec> sums;
};

// One row of x, read chunk by chunk.
template <Codec codec>
class OneRow {
 public:
  __device__ __forceinline__ OneRow(const Q8Rows& x, uint32_t row, int lane) : groups_(x.groups), lane_(lane) {
    constexpr PackedForm form = packed_form(codec);
    const uint8_t* begin = x.data + row * x.row_bytes;
    is_even_ = x.groups % kGroups == 0;
    codes_ = begin + form.column(lane % 4, 0) + (is_even_ ? lane / 4 * 32 : 0);
    scales_ = begin + x.scale_at, sums_ = begin + x.sum_at;
    own_scales_ = scales_ + lane % 4 * 8;
  }
  __device__ __forceinline__ void load(int32_t index, ChunkOfOne<codec>& chunk) const {
    constexpr PackedForm form = packed_form(codec);
    const uint8_t *from = codes_ + index * kChunkCols, *scales = scales_ + index * (kGroups * 4);
    const int32_t last = groups_ - 1 - index * kGroups;
    if (is_even_) {
      fill(from, chunk);
      const float2 two = *reinterpret_cast<const float2*>(own_scales_ + index * (kGroups * 4));
      chunk.scale[0] = two.x, chunk.scale[1] = two.y;
      if constexpr (form.has_min()) chunk.sums.load(scales, sums_ + index * (kGroups * 4), kGroups - 1, lane_);
    } else {  // beyond the last group weights are zeros, and what is read is of the last
      fill(from + (lane_ / 4 < last ? lane_ / 4 : last) * 32, chunk);
      for (int i = 0; i < 2; ++i) {
        const int32_t group = 2 * (lane_ % 4) + i;
        chunk.scale[i] = reinterpret_cast<const float*>(scales)[group < last ? group : last];
      }
      if constexpr (form.has_min()) chunk.sums.load(scales, sums_ + index * (kGroups * 4), last, lane_);
    }
  }

 private:
  static constexpr int kGroups = kChunkCols / 32;
  static __device__ __forceinline__ void fill(const uint8_t* from, ChunkOfOne<codec>& chunk) {
    constexpr PackedForm form = packed_form(codec);
    if constexpr (form.is_fine()) {
      chunk.codes[0] = *reinterpret_cast<const uint32_t*>(from), chunk.codes[1] = *reinterpret_cast<const uint32_t*>(from + 16);
    } else {
      const uint2 both = *reinterpret_cast<const uint2*>(from);
      chunk.codes[0] = both.x, chunk.codes[1] = both.y;
    }
  }
  const uint8_t *codes_, *scales_, *sums_, *own_scales_;
  int32_t groups_;
  int lane_;
  bool is_even_;
};

// The same for one row of x; acc are rows g and g + 8. Groups take the places of rows: of the eight columns of the second
// operand only one is not zeros for a group, and so lane t ends up with groups 2t and 2t + 1.
template <Codec codec, typename Chunk>
__device__ __forceinline__ void add_chunk_of_one(const ChunkCodes<codec>& codes, const ChunkScales<codec>& scales, const Chunk& chunk,
                                                 const ChunkOfOne<codec>& own, int lane, float (&acc)[2]) {
  constexpr PackedForm form = packed_form(codec);
  constexpr ScaleKind kind = form.scales;
  constexpr bool is_signed = ChunkCodes<codec>::is_signed;
  constexpr int kGroups = kChunkCols / 32;
  const int g = lane / 4;
  int dots[4] = {}, fine[4] = {};  // without fine scales: of odd groups
#pragma unroll
  for (int j = 0; j < kGroups; ++j) {
    uint32_t a[4];
    codes.operand(j, a);
    const uint32_t b0 = g == j ? own.codes[0] : 0u, b1 = g == j ? own.codes[1] : 0u;
    if constexpr (form.is_fine()) {
      mma_k16<is_signed>(dots, a[0], a[1], b0);
      mma_k16<is_signed>(fine, a[2], a[3], b1);
    } else if (j % 2) {
      mma_k32<is_signed>(fine, a, b0, b1);
    } else {
      mma_k32<is_signed>(dots, a, b0, b1);
    }
  }
  float sum[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const OwnScales<codec> s(scales, chunk, lane, r);
    sum[r] = 0;
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const int i = 2 * r + k;
      if constexpr (kind == ScaleKind::kHalf || kind == ScaleKind::kHalfMin) {
        const int dot = dots[i] + fine[i];
        sum[r] = fmaf(exact_float(dot), half_to_float(uint16_t(s.word >> 16 * k)) * own.scale[k], sum[r]);
      } else if constexpr (kind == ScaleKind::kSuper) {
        sum[r] = fmaf(exact_float((dots[i] + fine[i]) * byte_of(s.word, k)), own.scale[k], sum[r]);
      } else if constexpr (kind == ScaleKind::kBytes32) {
        sum[r] = fmaf(float((dots[i] + fine[i]) * signed_byte_of(s.word, k)), own.scale[k], sum[r]);
      } else if constexpr (kind == ScaleKind::kBytes16) {
        const int both = dots[i] * signed_byte_of(s.word, 2 * k) + fine[i] * signed_byte_of(s.word, 2 * k + 1);
        sum[r] = fmaf(float(both), own.scale[k], sum[r]);
      } else {
        const int both = dots[i] * (byte_of(s.word, 2 * k) & 15) + fine[i] * (byte_of(s.word, 2 * k + 1) & 15);
        sum[r] = fmaf(exact_float(both), own.scale[k], sum[r]);
      }
    }
    sum[r] += __shfl_xor_sync(kAll, sum[r], 1);
    sum[r] += __shfl_xor_sync(kAll, sum[r], 2);
  }
  float min[4] = {};
  if constexpr (form.has_min()) add_minimums<codec>(scales, own.sums, lane, min);
  // Lanes with t > 0 have other rows' minimums, of which there are none.
#pragma unroll
  for (int r = 0; r < 2; ++r) acc[r] = with_chunk<codec>(acc[r], sum[r], min[2 * r], scales.whole[r]);
}

// Chunks of a warp that are on their way: about 8 KiB, so that three blocks of eight warps find room.
template <Codec codec>
struct Stages {
  static constexpr int kBytes = packed_form(codec).chunk_bytes(kChunkCols / kStepCols);
  static constexpr int kCount = kBytes <= 2560 ? 4 : kBytes <= 3072 ? 3 : 2;
};

// The tiles of a block: every gridDim.x-th from blockIdx.x on, of all products together.
struct TileWalk {
  int32_t number, which, first;  // of the tile; its product; number of the product's first tile
  __device__ __forceinline__ void begin(const LinearQ8& call) {
    number = int32_t(blockIdx.x), which = 0, first = 0;
    find(call);
  }
  __device__ __forceinline__ void step(const LinearQ8& call) {
    number += int32_t(gridDim.x);
    find(call);
  }
  __device__ __forceinline__ bool is_done(const LinearQ8& call) const { return which >= call.n; }
  __device__ __forceinline__ int32_t tile() const { return number - first; }

 private:
  __device__ __forceinline__ void find(const LinearQ8& call) {
    while (which < call.n && number >= call.of[which].end) first = call.of[which++].end;
  }
};

// The chunks that one warp takes of its block's tiles, coming through shared memory.
template <Codec codec>
class ChunkStream {
 public:
  static constexpr int kStages = Stages<codec>::kCount, kBytes = Stages<codec>::kBytes;
  // Memory: kStages × kBytes, and as many arrivals.
  __device__ __forceinline__ ChunkStream(const LinearQ8& call, Shared memory, Shared arrivals, int warp, int lane)
      : call_(call), memory_(memory), arrivals_(arrivals), warp_(warp), is_first_(lane == 0) {
    if (is_first_)
      for (int i = 0; i < kStages; ++i) prepare(arrivals_ + i * kArrivalBytes);
    arrivals_are_prepared();
    keep_in_register(memory_), keep_in_register(arrivals_);
    walk_.begin(call_);
    find_chunk();
    for (int i = 0; i < kStages; ++i) ask(i);
  }
  __device__ __forceinline__ Shared wait() const {
    wait_for(arrivals_ + stage_ * kArrivalBytes, parity_);
    return memory_ + stage_ * kBytes;
  }
  // The chunk that was waited for is in registers: its place is free for another.
  __device__ __forceinline__ void release() {
    warp_sync();
    ask(stage_);
    if (++stage_ == kStages) stage_ = 0, parity_ ^= 1;
  }

 private:
  // The next one to be asked for is chunk `index_` of the walk's tile.
  __device__ __forceinline__ void find_chunk() {
    if (walk_.is_done(call_)) return;
    const Packed& w = call_.of[walk_.which].w;
    index_ = warp_;
    next_ = w.chunk(walk_.tile(), index_);
    chunks_ = w.shape.chunks, last_bytes_ = uint32_t(w.shape.tile_bytes - int64_t(chunks_ - 1) * w.shape.chunk_bytes);
  }
  __device__ __forceinline__ void ask(int stage) {
    if (walk_.is_done(call_)) return;
    if (is_first_)
      copy_async(memory_ + stage * kBytes, next_, index_ + 1 == chunks_ ? last_bytes_ : uint32_t(kBytes),
                 arrivals_ + stage * kArrivalBytes);
    const int32_t warps = int32_t(blockDim.x / kWarp);
    index_ += warps, next_ += warps * kBytes;
    if (index_ < chunks_) return;
    walk_.step(call_);
    find_chunk();
  }
  const LinearQ8& call_;
  Shared memory_, arrivals_;
  const uint8_t* next_ = nullptr;
  TileWalk walk_;
  int32_t index_ = 0, chunks_ = 0;
  int warp_, stage_ = 0;
  uint32_t last_bytes_ = 0, parity_ = 0;
  bool is_first_;
};

// A warp's part of one tile for one row of x, to parts[16]. `next` is what the first chunk needs of x, and then what the
// next tile's first one does.
template <Codec codec>
__device__ __forceinline__ void tile_product_of_one(ChunkStream<codec>& stream, const PackedShape& shape, const OneRow<codec>& x, int warp,
                                                    int lane, ChunkOfOne<codec>& next, float* parts) {
  const int warps = int(blockDim.x / kWarp);
  float acc[2] = {};
  for (int32_t index = warp; index < shape.chunks; index += warps) {
    const ChunkOfOne<codec> own = next;
    x.load(index + warps < shape.chunks ? index + warps : warp, next);
    const InShared chunk = {stream.wait()};
    ChunkCodes<codec> codes;
    ChunkScales<codec> scales;
    if (index + 1 < shape.chunks || shape.last_steps == kChunkCols / kStepCols) {
      codes.template load<true>(chunk, lane, 0);
    } else {
      codes.template load<false>(chunk, lane, shape.last_steps);
    }
    scales.load(chunk, lane);
    add_chunk_of_one<codec>(codes, scales, chunk, own, lane, acc);
    stream.release();
  }
  if (lane % 4 == 0) parts[lane / 4] = acc[0], parts[lane / 4 + 8] = acc[1];
}

// The same for kTiles × 8 rows, to parts[row][16].
template <Codec codec, int kTiles>
__device__ __forceinline__ void tile_product(ChunkStream<codec>& stream, const PackedShape& shape, const Q8Rows& x, uint32_t row0,
                                             uint32_t rows, int warp, int lane, float* parts) {
  const int warps = int(blockDim.x / kWarp);
  float acc[kTiles][4] = {};
  for (int32_t index = warp; index < shape.chunks; index += warps) {
    const InShared chunk = {stream.wait()};
    ChunkCodes<codec> codes;
    ChunkScales<codec> scales;
    if (index + 1 < shape.chunks || shape.last_steps == kChunkCols / kStepCols) {
      codes.template load<true>(chunk, lane, 0);
    } else {
      codes.template load<false>(chunk, lane, shape.last_steps);
    }
    scales.load(chunk, lane);
    stream.release();
    const bool is_whole = (index + 1) * (kChunkCols / 32) <= x.groups;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const RowOffsets at(x, row0 + uint32_t(n * kTokenTile), rows, lane);
      ChunkRows<codec> own;
      if (is_whole) {
        own.template load<true>(x, at, index, lane);
      } else {
        own.template load<false>(x, at, index, lane);
      }
      add_chunk<codec>(codes, scales, x, own, at.codes, index, lane, acc[n]);
    }
  }
  const int g = lane / 4, t = lane % 4;
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) parts[(n * kTokenTile + 2 * t + i % 2) * kTileRows + g + 8 * (i / 2)] = acc[n][i];
}

// Shared memory of a launch: chunks on their way.
template <Codec codec>
constexpr uint32_t linear_q8_memory(unsigned threads) {
  return threads / kWarp * uint32_t(Stages<codec>::kCount * Stages<codec>::kBytes);
}

// Grid: blocks that share the tiles of all products, whose weights have one codec; rows of x, kTiles × 8 at a time.
template <Codec codec, int kTiles>
__global__ void __launch_bounds__(kMaxLinearWarps* kWarp, kTiles <= 2 ? 4 : 2)
    linear_q8(const __grid_constant__ LinearQ8 call) {
  constexpr int kRows = kTiles ? kTiles * kTokenTile : 1;
  constexpr int kSets = kTiles <= 2 ? 2 : 1;  // of parts: with two, warps go on to the next tile while one is added up
  constexpr int kStages = Stages<codec>::kCount;
  __shared__ float parts[kSets][kMaxLinearWarps][kRows][kTileRows];
  __shared__ uint64_t arrivals[kMaxLinearWarps][kStages];
  TENON_SHARED_MEMORY(memory);
  int lane = int(threadIdx.x % kWarp), warp = int(threadIdx.x / kWarp);
  keep_in_register(lane), keep_in_register(warp);
  const int warps = int(blockDim.x / kWarp);
  ChunkStream<codec> stream(call, shared_address(memory) + warp * (kStages * Stages<codec>::kBytes),
                            shared_address(arrivals) + warp * (kStages * kArrivalBytes), warp, lane);
  wait_for_launch_before();  // weights are on their way
  const uint32_t row0 = blockIdx.y * kRows;
  const OneRow<codec> one_row(call.x, kTiles ? 0 : row0, lane);
  ChunkOfOne<codec> next;
  if constexpr (kTiles == 0) one_row.load(warp, next);
  uint32_t live = *call.live.count;
  int set = 0;
  TileWalk walk;
  for (walk.begin(call); !walk.is_done(call); walk.step(call)) {
    const Product& product = call.of[walk.which];
    float* own = &parts[set][warp][0][0];
    if constexpr (kTiles == 0) {
      tile_product_of_one<codec>(stream, product.w.shape, one_row, warp, lane, next, own);
    } else {
      tile_product<codec, kTiles>(stream, product.w.shape, call.x, row0, call.live.bound, warp, lane, own);
    }
    __syncthreads();
    keep_in_register(live);  // else it is waited for at the begin
    const uint32_t rows = live < call.live.bound ? live : call.live.bound;
    const int32_t column0 = walk.tile() * kTileRows;
    for (int at = warp * int(kWarp) + lane; at < kRows * kTileRows; at += warps * int(kWarp)) {
      const int r = at / kTileRows, c = at % kTileRows;
      float sum = parts[set][0][r][c];
      for (int i = 1; i < warps; ++i) sum += parts[set][i][r][c];
      if (packed_form(codec).low_bit()) sum *= 1.0f / float(1 << packed_form(codec).low_bit());
      if (row0 + uint32_t(r) < rows && column0 + c < product.w.shape.rows) *product.y.at(row0 + r, column0 + c) = sum;
    }
    if (kSets == 1) __syncthreads();
    set ^= kSets - 1;
  }
  let_next_launch_begin();
}

template <int kTiles>
bool enqueue_linear_q8_of(const Launch& launch, Codec codec, const LinearQ8& call, dim3 grid, unsigned threads) {
  const auto run = [&]<Codec one>() {
    enqueue_as({linear_q8_memory<one>(threads), launch.is_early}, launch, "linear", linear_q8<one, kTiles>, grid, threads, call);
  };
  return BlockCodecs32::with(codec, run) || BlockCodecs256::with(codec, run);
}

// One translation unit each: rows that a block serves.
bool enqueue_linear_q8_1(const Launch&, Codec, const LinearQ8&, dim3 grid, unsigned threads);
bool enqueue_linear_q8_8(const Launch&, Codec, const LinearQ8&, dim3 grid, unsigned threads);
bool enqueue_linear_q8_16(const Launch&, Codec, const LinearQ8&, dim3 grid, unsigned threads);
bool enqueue_linear_q8_32(const Launch&, Codec, const LinearQ8&, dim3 grid, unsigned threads);
bool enqueue_linear_q8_64(const Launch&, Codec, const LinearQ8&, dim3 grid, unsigned threads);

}  // namespace tenon::cuda
