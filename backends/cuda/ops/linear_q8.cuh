// linear_q8.cuh: y = x Wᵀ for packed weights and rows encoded as q8_32, by integer products on tensor cores.
//
// A block owns a tile of 16 outputs for up to 64 rows; its warps take the tile's chunks of 256 columns in turns. Products
// of codes are exact. What is rounded: each group of columns is scaled and added in ascending order, chunks of a warp in
// ascending order, then warps in ascending order. How many warps there are follows from K alone, so a row has the same
// bits alone and among others. Weights are read once for up to 64 rows.
#pragma once

#include "mma.cuh"
#include "packed.cuh"

namespace tenon::cuda {

constexpr int kMaxLinearWarps = 8, kMaxProducts = 4;
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
  static constexpr bool is_wide = kind == ScaleKind::kHalf || kind == ScaleKind::kHalfMin || kind == ScaleKind::kSuper ||
                                  kind == ScaleKind::kBytes16 || kind == ScaleKind::kNibblesMin;
  uint4 of[2], more[2];
  uint32_t whole[2];

  __device__ __forceinline__ void load(const uint8_t* chunk, int lane) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int r = lane / 4 + 8 * i;
      if constexpr (kind == ScaleKind::kBytes32) {
        const uint2 v = *reinterpret_cast<const uint2*>(chunk + r * 8);
        of[i] = uint4{v.x, v.y, 0, 0};
        whole[i] = reinterpret_cast<const uint16_t*>(chunk + 128)[r];
      } else {
        of[i] = *reinterpret_cast<const uint4*>(chunk + r * 16);
        if constexpr (kind == ScaleKind::kHalfMin) more[i] = *reinterpret_cast<const uint4*>(chunk + 256 + r * 16);
        if constexpr (kind == ScaleKind::kBytes16) whole[i] = reinterpret_cast<const uint16_t*>(chunk + 256)[r];
        if constexpr (kind == ScaleKind::kNibblesMin) whole[i] = reinterpret_cast<const uint32_t*>(chunk + 256)[r];
      }
    }
    if constexpr (kind == ScaleKind::kSuper) unpack_six_bits();
  }

  static __device__ __forceinline__ uint32_t word(const uint4& v, int i) {
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
  }
  // f16 number j of a vector.
  static __device__ __forceinline__ float half(const uint4& v, int j) {
    return half_to_float(uint16_t(word(v, j / 2) >> 16 * (j % 2)));
  }
  static __device__ __forceinline__ int byte(const uint4& v, int j) { return int(word(v, j / 4) >> 8 * (j % 4) & 0xff); }
  static __device__ __forceinline__ int signed_byte(const uint4& v, int j) { return int8_t(word(v, j / 4) >> 8 * (j % 4)); }

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

// What a lane needs of the rows of x: codes of row g, scales and sums of rows 2t and 2t + 1 of a tile of eight; with
// kOne of row 0 alone. Rows that do not live are zeros.
template <bool kOne>
struct TokenTile {
  static constexpr int kOwn = kOne ? 1 : 2;
  const uint8_t *codes, *own[kOwn];  // null: no such row

  __device__ __forceinline__ TokenTile(const Q8Rows& x, uint32_t row0, uint32_t rows, int lane) {
    const uint32_t g = uint32_t(lane) / 4, t = uint32_t(lane) % 4;
    codes = row0 + g < rows ? x.data + (row0 + g) * x.row_bytes + 4 * t : nullptr;
    for (int i = 0; i < kOwn; ++i) {
      const uint32_t row = kOne ? row0 : row0 + 2 * t + i;
      own[i] = row < rows ? x.data + row * x.row_bytes : nullptr;
    }
  }
  __device__ __forceinline__ uint32_t code_word(int32_t column) const {
    return codes ? *reinterpret_cast<const uint32_t*>(codes + column) : 0u;
  }
  __device__ __forceinline__ float scale(const Q8Rows& x, int i, int32_t group) const {
    return own[i] ? reinterpret_cast<const float*>(own[i] + x.scale_at)[group] : 0.0f;
  }
  // Sums of both halves of a group.
  __device__ __forceinline__ int2 sums(const Q8Rows& x, int i, int32_t group) const {
    const uint32_t both = own[i] ? reinterpret_cast<const uint32_t*>(own[i] + x.sum_at)[group] : 0u;
    return int2{int16_t(both & 0xffff), int16_t(both >> 16)};
  }
};

// Adds the products of one chunk for eight rows to acc; with kOne acc[1] and acc[3] are left alone.
template <Codec codec, bool kOne>
__device__ __forceinline__ void add_chunk(const ChunkCodes<codec>& codes, const ChunkScales<codec>& scales, const Q8Rows& x,
                                          const TokenTile<kOne>& tokens, int32_t chunk, float (&acc)[4]) {
  constexpr PackedForm form = packed_form(codec);
  constexpr ScaleKind kind = form.scales;
  using Scales = ChunkScales<codec>;
  constexpr bool is_fine = kind == ScaleKind::kBytes16 || kind == ScaleKind::kNibblesMin;
  constexpr bool has_min = kind == ScaleKind::kHalfMin || kind == ScaleKind::kSuper || kind == ScaleKind::kNibblesMin;
  constexpr bool is_nested = kind != ScaleKind::kHalf && kind != ScaleKind::kHalfMin;
  float sum[4] = {}, min[4] = {};
#pragma unroll
  for (int j = 0; j < kChunkCols / 32; ++j) {
    const int32_t group = chunk * (kChunkCols / 32) + j;
    if (group >= x.groups) continue;
    uint32_t a[4];
    codes.operand(j, a);
    const uint32_t b0 = tokens.code_word(group * 32), b1 = tokens.code_word(group * 32 + 16);
    float scale[2];
    int2 sums[2];
#pragma unroll
    for (int i = 0; i < tokens.kOwn; ++i) {
      scale[i] = tokens.scale(x, i, group);
      if (has_min || form.offset) sums[i] = tokens.sums(x, i, group);
    }
    int dots[4] = {}, fine[4] = {};
    if constexpr (is_fine) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (form.offset && !(kOne && i % 2)) {
          dots[i] = -form.offset * sums[i % 2].x, fine[i] = -form.offset * sums[i % 2].y;
        }
      mma_k16(dots, a[0], a[1], b0);
      mma_k16(fine, a[2], a[3], b1);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (form.offset && !(kOne && i % 2)) dots[i] = -form.offset * (sums[i % 2].x + sums[i % 2].y);
      mma_k32<ChunkCodes<codec>::is_signed>(dots, a, b0, b1);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (kOne && i % 2) continue;
      const int row = i / 2, token = i % 2;
      if constexpr (kind == ScaleKind::kHalf || kind == ScaleKind::kHalfMin) {
        acc[i] = fmaf(float(dots[i]), Scales::half(scales.of[row], j) * scale[token], acc[i]);
        if (has_min)
          acc[i] = fmaf(Scales::half(scales.more[row], j), scale[token] * float(sums[token].x + sums[token].y), acc[i]);
      } else if constexpr (kind == ScaleKind::kSuper) {
        sum[i] = fmaf(float(dots[i] * Scales::byte(scales.of[row], j)), scale[token], sum[i]);
        min[i] = fmaf(float(Scales::byte(scales.of[row], 8 + j)),
                      scale[token] * float(sums[token].x + sums[token].y), min[i]);
      } else if constexpr (kind == ScaleKind::kBytes32) {
        sum[i] = fmaf(float(dots[i] * Scales::signed_byte(scales.of[row], j)), scale[token], sum[i]);
      } else if constexpr (kind == ScaleKind::kBytes16) {
        const int both = dots[i] * Scales::signed_byte(scales.of[row], 2 * j) +
                         fine[i] * Scales::signed_byte(scales.of[row], 2 * j + 1);
        sum[i] = fmaf(float(both), scale[token], sum[i]);
      } else {
        const int low = Scales::byte(scales.of[row], 2 * j), high = Scales::byte(scales.of[row], 2 * j + 1);
        sum[i] = fmaf(float(dots[i] * (low & 15) + fine[i] * (high & 15)), scale[token], sum[i]);
        min[i] = fmaf(float(sums[token].x * (low >> 4) + sums[token].y * (high >> 4)), scale[token], min[i]);
      }
    }
  }
  if constexpr (is_nested) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (kOne && i % 2) continue;
      acc[i] = fmaf(half_to_float(uint16_t(scales.whole[i / 2])), sum[i], acc[i]);
      if (has_min) acc[i] = fmaf(-half_to_float(uint16_t(scales.whole[i / 2] >> 16)), min[i], acc[i]);
    }
  }
}

// A warp's part of one tile for kTiles × 8 rows of x, kTiles 0: for one row, to parts[row][16].
template <Codec codec, int kTiles>
__device__ __forceinline__ void tile_product(const Packed& w, int32_t tile, const Q8Rows& x, uint32_t row0, uint32_t rows,
                                          float* parts) {
  constexpr int kCount = kTiles ? kTiles : 1;
  const int lane = int(threadIdx.x % kWarp), warps = int(blockDim.x / kWarp);
  float acc[kCount][4] = {};
  ChunkCodes<codec> codes;
  ChunkScales<codec> scales;
  int32_t index = int32_t(threadIdx.x / kWarp);
  if (index < w.shape.chunks) {
    codes.load(w.chunk(tile, index), lane, w.shape.steps(index));
    scales.load(w.chunk(tile, index), lane);
  }
  while (index < w.shape.chunks) {
    const int32_t next = index + warps;
    ChunkCodes<codec> next_codes;
    ChunkScales<codec> next_scales;
    if (next < w.shape.chunks) {
      next_codes.load(w.chunk(tile, next), lane, w.shape.steps(next));
      next_scales.load(w.chunk(tile, next), lane);
    }
#pragma unroll
    for (int n = 0; n < kCount; ++n) {
      const TokenTile<kTiles == 0> tokens(x, row0 + uint32_t(n * kTokenTile), rows, lane);
      add_chunk<codec, kTiles == 0>(codes, scales, x, tokens, index, acc[n]);
    }
    codes = next_codes, scales = next_scales;
    index = next;
  }
  const int g = lane / 4, t = lane % 4;
  if constexpr (kTiles == 0) {
    if (t == 0) parts[g] = acc[0][0], parts[g + 8] = acc[0][2];
  } else {
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) parts[(n * kTokenTile + 2 * t + i % 2) * kTileRows + g + 8 * (i / 2)] = acc[n][i];
  }
}

// Grid: tiles of all products, whose weights have one codec; rows of x, kTiles × 8 at a time.
template <Codec codec, int kTiles>
__global__ void __launch_bounds__(kMaxLinearWarps* kWarp) linear_q8(const __grid_constant__ LinearQ8 call) {
  constexpr int kRows = kTiles ? kTiles * kTokenTile : 1;
  __shared__ float parts[kMaxLinearWarps][kRows][kTileRows];
  int which = 0;
  while (int32_t(blockIdx.x) >= call.of[which].end) ++which;
  const Product& product = call.of[which];
  const int32_t tile = int32_t(blockIdx.x) - (which ? call.of[which - 1].end : 0);
  const uint32_t rows = call.live.get();
  const int warp = int(threadIdx.x / kWarp), warps = int(blockDim.x / kWarp);
  for (uint32_t row0 = blockIdx.y * kRows; row0 < rows; row0 += gridDim.y * kRows) {
    tile_product<codec, kTiles>(product.w, tile, call.x, row0, rows, &parts[warp][0][0]);
    __syncthreads();
    for (int at = int(threadIdx.x); at < kRows * kTileRows; at += int(blockDim.x)) {
      const int r = at / kTileRows, c = at % kTileRows;
      float sum = parts[0][r][c];
      for (int i = 1; i < warps; ++i) sum += parts[i][r][c];
      if (row0 + uint32_t(r) < rows && tile * kTileRows + c < product.w.shape.rows)
        *product.y.at(row0 + r, tile * kTileRows + c) = sum;
    }
    __syncthreads();
  }
}

template <int kTiles>
bool enqueue_linear_q8_of(const Launch& launch, Codec codec, const LinearQ8& call, dim3 grid, unsigned threads) {
  const auto run = [&]<Codec one>() { enqueue(launch, "linear", linear_q8<one, kTiles>, grid, threads, call); };
  return BlockCodecs32::with(codec, run) || BlockCodecs256::with(codec, run);
}

// One translation unit each: rows that a block serves.
bool enqueue_linear_q8_1(const Launch&, Codec, const LinearQ8&, dim3 grid, unsigned threads);
bool enqueue_linear_q8_8(const Launch&, Codec, const LinearQ8&, dim3 grid, unsigned threads);
bool enqueue_linear_q8_16(const Launch&, Codec, const LinearQ8&, dim3 grid, unsigned threads);
bool enqueue_linear_q8_32(const Launch&, Codec, const LinearQ8&, dim3 grid, unsigned threads);
bool enqueue_linear_q8_64(const Launch&, Codec, const LinearQ8&, dim3 grid, unsigned threads);

}  // namespace tenon::cuda
