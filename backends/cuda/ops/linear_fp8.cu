// linear for few rows and E4M3 weights, with every grid of scales: y = x Wᵀ in f32.
//
// A warp owns four outputs for up to eight rows; lane l takes columns 16l … 16l + 15 of every 512 of K. Products of
// those sixteen are added in ascending order, the sum is scaled where tiles of columns have scales, and added to the
// lane's total; lanes are added by a butterfly, and what scales a whole row comes last. The order depends on K alone,
// so a row has the same bits alone and among others. Weights are read once for eight rows, 16 bytes a lane.
#include "codecs_any.cuh"
#include "linear.cuh"

namespace tenon::cuda {
namespace {

constexpr int kColumns = 4, kWide = 16, kMaxProducts = 4, kMaxRows = 8;

struct Fp8Product {
  Matrix w;
  View y;
  int32_t end;  // blocks of this product and those before it
};
struct Fp8Call {
  View x;
  Fp8Product of[kMaxProducts];
  int32_t n;
  Live live;
};

// kPlain: rows of weights lie at multiples of 16 bytes, and rows of x in one piece at those.
template <bool kPlain>
__device__ __forceinline__ uint4 load_codes(const uint8_t* from) {
  if constexpr (kPlain) return load_stream(from);
  uint4 v = {};
  for (int i = 0; i < 4; ++i) {
    v.x |= uint32_t(from[i]) << 8 * i, v.y |= uint32_t(from[4 + i]) << 8 * i;
    v.z |= uint32_t(from[8 + i]) << 8 * i, v.w |= uint32_t(from[12 + i]) << 8 * i;
  }
  return v;
}
template <bool kPlain>
__device__ __forceinline__ void load_eight(const View& x, uint32_t r, int32_t k, float* input) {
  if constexpr (kPlain) {
    const float4* from = reinterpret_cast<const float4*>(reinterpret_cast<const float*>(x.data + r * x.row_bytes) + k);
    const float4 a = from[0], b = from[1];
    input[0] = a.x, input[1] = a.y, input[2] = a.z, input[3] = a.w;
    input[4] = b.x, input[5] = b.y, input[6] = b.z, input[7] = b.w;
  } else {
    for (int i = 0; i < kEight; ++i) input[i] = *x.at(r, k + i);
  }
}

// Four codes of a word as f32, exactly.
__device__ __forceinline__ void to_floats(uint32_t codes, float* w) {
#ifdef TENON_CUDA_IS_EMULATED
  for (int i = 0; i < 4; ++i) w[i] = e4m3_to_float(codes >> 8 * i & 0xff);
#else
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    uint32_t halves;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(uint16_t(codes >> 16 * i)));
    w[2 * i] = half_to_float(uint16_t(halves)), w[2 * i + 1] = half_to_float(uint16_t(halves >> 16));
  }
#endif
}

__device__ inline bool has_bf16_scales(Codec c) {
  return c == Codec::kFp8TensorBf16 || c == Codec::kFp8RowBf16 || c == Codec::kFp8B128Bf16;
}
__device__ inline bool has_tiles(Codec c) { return c == Codec::kFp8B128 || c == Codec::kFp8B128Bf16; }
// What the whole of a row is multiplied by.
__device__ inline float scale_of_row(const Matrix& w, int32_t row) {
  const bool is_bf16 = has_bf16_scales(w.codec);
  if (w.codec == Codec::kFp8Tensor || w.codec == Codec::kFp8TensorBf16) return load_scale(w.macro, 0, is_bf16);
  if (w.codec == Codec::kFp8Row || w.codec == Codec::kFp8RowBf16) return load_scale(w.scales, row, is_bf16);
  return 1.0f;
}

template <int kRows, bool kPlain>
__global__ void __launch_bounds__(kLinearWarps* kWarp) linear_fp8(const __grid_constant__ Fp8Call call) {
  int which = 0;
  while (int32_t(blockIdx.x) >= call.of[which].end) ++which;
  const Fp8Product& p = call.of[which];
  const int32_t block = int32_t(blockIdx.x) - (which ? call.of[which - 1].end : 0);
  const int32_t lane = int32_t(threadIdx.x % kWarp), cols = p.w.cols, last = p.w.rows - 1;
  const int32_t column0 = (block * int32_t(kLinearWarps) + int32_t(threadIdx.x / kWarp)) * kColumns;
  if (column0 > last) return;
  const bool is_tiled = has_tiles(p.w.codec), is_bf16 = has_bf16_scales(p.w.codec);
  const uint8_t* begin[kColumns];
  int32_t tiles[kColumns];  // the first scale of the row
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
    const int32_t column = column0 + c < last ? column0 + c : last;  // beyond the last: not written
    begin[c] = p.w.data + column * p.w.row_bytes;
    tiles[c] = column / 128 * ((cols + 127) / 128);
  }
  const uint32_t rows = call.live.get();
  for (uint32_t row0 = blockIdx.y * kRows; row0 < rows; row0 += gridDim.y * kRows) {
    float total[kColumns][kRows] = {};
    uint4 next[kColumns];
#pragma unroll
    for (int c = 0; c < kColumns; ++c)
      if (lane * kWide < cols) next[c] = load_codes<kPlain>(begin[c] + lane * kWide);
    for (int32_t k = lane * kWide; k < cols; k += int32_t(kWarp) * kWide) {
      uint4 codes[kColumns];
      float scale[kColumns];
      const int32_t ahead = k + int32_t(kWarp) * kWide;
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        codes[c] = next[c];
        if (ahead < cols) next[c] = load_codes<kPlain>(begin[c] + ahead);
        scale[c] = is_tiled ? load_scale(p.w.scales, tiles[c] + k / 128, is_bf16) : 1.0f;
      }
      float part[kColumns][kRows] = {};
#pragma unroll
      for (int eight = 0; eight < kWide; eight += kEight) {
        float weight[kColumns][kEight];
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
          to_floats(eight ? codes[c].z : codes[c].x, weight[c]);
          to_floats(eight ? codes[c].w : codes[c].y, weight[c] + 4);
        }
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          if (row0 + uint32_t(r) >= rows) continue;
          float input[kEight];
          load_eight<kPlain>(call.x, row0 + uint32_t(r), k + eight, input);
#pragma unroll
          for (int c = 0; c < kColumns; ++c)
#pragma unroll
            for (int i = 0; i < kEight; ++i) part[c][r] = fmaf(input[i], weight[c][i], part[c][r]);
        }
      }
#pragma unroll
      for (int c = 0; c < kColumns; ++c)
#pragma unroll
        for (int r = 0; r < kRows; ++r) total[c][r] = fmaf(part[c][r], scale[c], total[c][r]);
    }
#pragma unroll
    for (int c = 0; c < kColumns; ++c)
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (row0 + uint32_t(r) >= rows) continue;
        const float sum = warp_sum(total[c][r]);
        if (lane == 0 && column0 + c <= last)
          *p.y.at(row0 + uint32_t(r), column0 + c) = sum * scale_of_row(p.w, column0 + c);
      }
  }
}

void enqueue_fp8(const Launch& launch, const Fp8Call& call, bool is_plain) {
  const uint32_t rows = launch.rows();
  const unsigned threads = kLinearWarps * kWarp, blocks = unsigned(call.of[call.n - 1].end);
  const dim3 many(blocks, row_blocks(blocks_for(rows, kMaxRows)));
  if (!is_plain) return enqueue(launch, "linear", linear_fp8<kMaxRows, false>, many, threads, call);
  if (rows == 1) return enqueue(launch, "linear", linear_fp8<1, true>, dim3(blocks), threads, call);
  if (rows <= 4) return enqueue(launch, "linear", linear_fp8<4, true>, dim3(blocks), threads, call);
  enqueue(launch, "linear", linear_fp8<kMaxRows, true>, many, threads, call);
}

}  // namespace

void launch_linear_fp8(const OpPlan& plan, const Launch& launch) {
  const View x = view_of(launch.in(0));
  Fp8Call call = {x, {}, 0, live_rows(plan, launch)};
  bool is_plain = has_vectors(x) && x.width == x.cols;
  int32_t end = 0;
  for (int i = 0; i < int(launch.args.n_weight); ++i) {
    if (!is_fp8(plan.codec[i])) {
      launch_linear_one(plan, launch, i);
      continue;
    }
    const Matrix w = matrix_of(launch.weight(i), plan.codec[i]);
    end += int32_t(blocks_for(w.rows, kLinearWarps * kColumns));
    is_plain = is_plain && reinterpret_cast<uint64_t>(w.data) % 16 == 0 && w.row_bytes % 16 == 0;
    call.of[call.n++] = {w, view_of(launch.out(i)), end};
  }
  enqueue_fp8(launch, call, is_plain);
}

}  // namespace tenon::cuda
