// linear_bf16.cuh: y = x Wᵀ for prompts, on tensor cores: rows of x as bf16, weights rounded to bf16 as they are decoded,
// sums in f32.
//
// A block computes 128 outputs for kTokens rows; each of its two warp groups 64 of them. Products go over K in ascending
// steps of 64 columns, each four products of 16 columns, into one sum an output: a row has the same bits wherever it lies,
// and whatever the tiles' width. While one step is multiplied the next one's weights are decoded, and x is a few steps ahead.
#pragma once

#include "linear_q8.cuh"
#include "matrix.cuh"
#include "wgmma.cuh"

namespace tenon::cuda {

constexpr unsigned kBf16Threads = 256;
constexpr int kBf16Outputs = 128, kBf16Step = 64, kBf16Unroll = kChunkCols / kBf16Step;
constexpr int kWideTokens = 256, kNarrowTokens = 64;

// Rows of x as bf16.
struct Bf16Rows {
  const uint8_t* data;
  int64_t row_bytes, group_bytes;
  int32_t cols, width;
  bool is_vector;  // any 8 columns from a multiple of 8 on lie together at a multiple of 16 bytes
  __device__ int64_t column_at(int32_t c) const { return width == cols ? int64_t(c) * 2 : c / width * group_bytes + c % width * 2; }
};

struct Bf16Product {
  Matrix w;
  View y;
  int32_t end;    // tiles of outputs of this product and those before it
  int32_t first;  // column of y that the first row of w gives
};

struct LinearBf16 {
  Bf16Rows x;
  Bf16Product of[kMaxProducts];
  int32_t n, token_tiles;
  Live live;
};

// Columns 64 step … of kTokens rows of x from row0 on to a tile. Rows and columns that do not exist are zeros.
template <int kTokens>
__device__ __forceinline__ void bring_rows(const Bf16Rows& x, uint32_t row0, uint32_t rows, int32_t step, uint8_t* tile) {
  const int piece = int(threadIdx.x % 8);
  const int32_t k = step * kBf16Step + piece * kEight, left = x.cols - k, n = left < 0 ? 0 : left < kEight ? left : kEight;
  if (x.is_vector) {
    const uint8_t* column = x.data + (n > 0 ? x.column_at(k) : 0);
#pragma unroll
    for (int i = 0; i < kTokens / 32; ++i) {
      const int token = int(threadIdx.x / 8) + 32 * i;
      const uint32_t row = row0 + uint32_t(token);
      const bool is_there = row < rows;
      copy_async(tile + tile_place(token, piece), column + (is_there ? row : 0) * x.row_bytes, is_there ? 2 * n : 0);
    }
    return;
  }
#pragma unroll 1
  for (int i = 0; i < kTokens / 32; ++i) {
    const int token = int(threadIdx.x / 8) + 32 * i;
    const uint32_t row = row0 + uint32_t(token);
    uint16_t* to = reinterpret_cast<uint16_t*>(tile + tile_place(token, piece));
#pragma unroll 1
    for (int c = 0; c < kEight; ++c)
      to[c] = row < rows && c < n ? *reinterpret_cast<const uint16_t*>(x.data + row * x.row_bytes + x.column_at(k + c)) : uint16_t(0);
  }
}

// A warp group's 64 × kTokens sums: of a tile of 16 outputs a warp, kTokens / 8 groups of four a lane.
template <int kTokens>
struct Bf16Sums {
  static constexpr int kColumns = kTokens < 128 ? kTokens : 128, kTiles = kTokens / kColumns;
  float of[kTokens / 2];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (float& sum : of) sum = 0;
  }
  template <typename Left>
  __device__ __forceinline__ void add(const Left& a, const uint8_t* b, int step) {
#pragma unroll
    for (int i = 0; i < kTiles; ++i) multiply<kColumns>(of + i * kColumns / 2, a, b + i * kColumns * kTileBytes, step);
  }
  __device__ __forceinline__ void write(const Bf16Product& product, int32_t output0, uint32_t row0, uint32_t rows) const {
    const int lane = int(threadIdx.x % kWarp);
    const int32_t output = output0 + int32_t(threadIdx.x / kWarp) * kTileRows + lane / 4;
    uint8_t* column[2];
#pragma unroll
    for (int half = 0; half < 2; ++half)
      column[half] = output + 8 * half < product.w.rows
                         ? reinterpret_cast<uint8_t*>(product.y.at(0, product.first + output + 8 * half))
                         : nullptr;
#pragma unroll
    for (int j = 0; j < kTokens / 8; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint32_t row = row0 + uint32_t(8 * j + lane % 4 * 2 + i % 2);
        if (row < rows && column[i / 2]) *reinterpret_cast<float*>(column[i / 2] + row * product.y.row_bytes) = of[4 * j + i];
      }
  }
};

// Steps over K. Of `weights` begin() makes the first step's operand and next() the one after `step`, where they are decoded, or
// bring() copies a later step's to a stage; multiply() takes the operand of a step, s of its chunk.
template <int kTokens, int kStages, typename Weights>
__device__ __forceinline__ void bf16_product(Weights& weights, Bf16Sums<kTokens>& sums, const Bf16Rows& x, uint32_t row0,
                                             uint32_t rows, uint8_t* stages) {
  constexpr int kStageBytes = kTokens * kTileBytes, kAhead = kStages - 2;
  // Whole chunks: x is zeros beyond its columns, and a branch around products would make each wait for the one before.
  const int32_t steps = (x.cols + kChunkCols - 1) / kChunkCols * kBf16Unroll;
  for (int i = 0; i < kAhead; ++i) {
    bring_rows<kTokens>(x, row0, rows, i, stages + i * kStageBytes);
    weights.bring(i, i);
    copy_commit();
  }
  sums.clear();
  weights.begin();
  int read = 0, write = kAhead;  // stages
  for (int32_t step0 = 0; step0 < steps; step0 += kBf16Unroll) {
#pragma unroll
    for (int s = 0; s < kBf16Unroll; ++s) {
      const int32_t step = step0 + s;
      copy_wait<kAhead - 1>();
      publish_to_wgmma();
      __syncthreads();  // and all have done step - 2, whose stage is free
      wgmma_begin();
      weights.multiply(s, read, sums, stages + read * kStageBytes);
      wgmma_commit();
      bring_rows<kTokens>(x, row0, rows, step + kAhead, stages + write * kStageBytes);
      weights.bring(step + kAhead, write);
      copy_commit();
      wgmma_wait<1>();
      weights.next(s, step);
      read = read + 1 == kStages ? 0 : read + 1, write = write + 1 == kStages ? 0 : write + 1;
    }
  }
  wgmma_wait<0>();
}

// Packed weights: a warp has its tile of 16 outputs in registers, in the order that a product wants of its first operand.
template <Codec codec>
class PackedOperand {
 public:
  static constexpr PackedForm form = packed_form(codec);
  __device__ __forceinline__ PackedOperand(const Matrix& w, int32_t output0) : shape_(w.packed) {
    const int warp = int(threadIdx.x / kWarp);
    lane_ = int(threadIdx.x % kWarp);
    const int32_t tile = output0 / kTileRows + warp;
    data_ = w.data + (tile < shape_.tiles() ? tile : 0) * shape_.tile_bytes;
  }
  __device__ __forceinline__ void begin() {
    load_head(0);
    take_head();
#pragma unroll
    for (int s = 0; s < 4; ++s) load_step(0, s);
    decode(0);
    load_head(1), load_step(1, 0);
  }
  __device__ __forceinline__ void next(int s, int32_t step) {
    const int after = (s + 1) % 4;
    const int32_t chunk = (step + 1) / 4;
    if (after == 0) take_head();
    decode(after);
    load_step(chunk + 1, after);
    if (after == 0) load_head(chunk + 1);
  }
  __device__ __forceinline__ void bring(int32_t, int) {}
  template <int kTokens>
  __device__ __forceinline__ void multiply(int s, int, Bf16Sums<kTokens>& sums, const uint8_t* x) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sums.add(operand_[s % 2][i], x, i);
  }

 private:
  using Scales = ChunkScales<codec>;
  static constexpr bool has_min = form.scales == ScaleKind::kHalfMin || form.scales == ScaleKind::kSuper || form.scales == ScaleKind::kNibblesMin;
  static constexpr bool kLanesHaveEight = !packed_form(codec).is_fine();  // a lane's two words are columns that follow one another

  __device__ __forceinline__ const uint8_t* chunk_at(int32_t chunk) const { return data_ + int64_t(chunk) * shape_.chunk_bytes; }
  __device__ __forceinline__ void take_head() {
    scales_ = next_scales_, codes_.planes = next_planes_;
#pragma unroll
    for (int r = 0; r < 2; ++r) mins_[r] = next_mins_[r];
  }
  // Without branches, for the same reason: beyond the last chunk or step what is there is loaded again. A step that is not
  // there has scales of 0, and what a tile that is not there would give is not written.
  __device__ __forceinline__ void load_head(int32_t chunk) {
    const uint8_t* from = chunk_at(chunk < shape_.chunks ? chunk : shape_.chunks - 1);
    next_scales_.load(InGlobal{from}, lane_);
#pragma unroll
    for (int r = 0; r < 2; ++r)
      if constexpr (form.scales == ScaleKind::kHalfMin)
        next_mins_[r] = *reinterpret_cast<const uint4*>(from + 256 + (lane_ / 4 + 8 * r) * 16);
#pragma unroll
    for (int i = 0; i < form.plane_vectors(); ++i)
      next_planes_.of[i] = load_stream(from + form.planes_at() + i * kVectorBytes + lane_ * 16);
  }
  __device__ __forceinline__ void load_step(int32_t chunk, int s) {
    const bool is_last = chunk >= shape_.chunks - 1;
    const uint8_t* from = chunk_at(is_last ? shape_.chunks - 1 : chunk) + form.steps_at() + lane_ * 16;
    const int32_t which = is_last && s >= shape_.last_steps ? 0 : s;
#pragma unroll
    for (int i = 0; i < form.step_vectors(); ++i)
      codes_.steps.of[s * form.step_vectors() + i] = load_stream(from + (which * form.step_vectors() + i) * kVectorBytes);
  }

  // The low or the high halves of two words.
  static __device__ __forceinline__ uint32_t halves(uint32_t first, uint32_t second, bool high) {
#ifdef TENON_CUDA_IS_EMULATED
    return high ? first >> 16 | (second & 0xffff0000u) : (first & 0xffffu) | second << 16;
#else
    return __byte_perm(first, second, high ? 0x7632u : 0x5410u);
#endif
  }
  // Codes of four lanes t, 32 columns of a row, to where a product wants them: word h gets columns 16h + 2t, + 1, + 8 and + 9.
  __device__ __forceinline__ void deal(uint32_t first, uint32_t second, uint32_t (&out)[2]) const {
    const int t = lane_ % 4;
    if constexpr (kLanesHaveEight) {
      // Columns 8t … 8t + 7: half i of the four goes to lane i. First between neighbours, then between pairs of them.
      const bool is_odd = t % 2 != 0, is_late = t >= 2;
      const uint32_t own = halves(first, second, is_odd);
      const uint32_t other = uint32_t(__shfl_xor_sync(kAll, int(halves(first, second, !is_odd)), 1));
      const uint32_t even = is_odd ? other : own, odd = is_odd ? own : other;
      const uint32_t kept = halves(even, odd, is_late);
      const uint32_t got = uint32_t(__shfl_xor_sync(kAll, int(halves(even, odd, !is_late)), 2));
      out[0] = is_late ? got : kept, out[1] = is_late ? kept : got;
    } else {
      // Columns 4t … 4t + 3 and 16 + 4t …
      const int from = lane_ - t + t / 2;
      const uint32_t words[2] = {first, second};
#pragma unroll
      for (int h = 0; h < 2; ++h)
        out[h] = halves(uint32_t(__shfl_sync(kAll, int(words[h]), from)), uint32_t(__shfl_sync(kAll, int(words[h]), from + 2)), t % 2 != 0);
    }
  }

  struct Step {
    float scale, min;
  };
  // Of row half r, columns 32j + 16h … of the chunk.
  __device__ __forceinline__ Step step_of(int r, int j, int h) const {
    const uint4& of = scales_.of[r];
    const uint32_t whole = scales_.whole[r];
    if constexpr (form.scales == ScaleKind::kHalf) {
      return {Scales::half(of, j), 0.0f};
    } else if constexpr (form.scales == ScaleKind::kHalfMin) {
      return {Scales::half(of, j), -Scales::half(mins_[r], j)};
    } else if constexpr (form.scales == ScaleKind::kSuper) {
      return {half_to_float(uint16_t(whole)) * float(Scales::byte(of, j)),
              half_to_float(uint16_t(whole >> 16)) * float(Scales::byte(of, 8 + j))};
    } else if constexpr (form.scales == ScaleKind::kBytes32) {
      return {half_to_float(uint16_t(whole)) * float(Scales::signed_byte(of, j)), 0.0f};
    } else if constexpr (form.scales == ScaleKind::kBytes16) {
      return {half_to_float(uint16_t(whole)) * float(Scales::signed_byte(of, 2 * j + h)), 0.0f};
    } else {
      const int both = Scales::byte(of, 2 * j + h);
      return {half_to_float(uint16_t(whole)) * float(both & 15), half_to_float(uint16_t(whole >> 16)) * float(both >> 4)};
    }
  }

  // 2^23 + a byte, exactly.
  static __device__ __forceinline__ float large(uint32_t word, int byte) {
#ifdef TENON_CUDA_IS_EMULATED
    return 8388608.0f + float(word >> 8 * byte & 0xff);
#else
    return __uint_as_float(__byte_perm(word, 0x4b000000u, 0x7440u | uint32_t(byte)));
#endif
  }
  // Four codes of a word: columns 0, 1 and 8, 9 of what register pairs have. As read_packed() decodes them: the product is
  // rounded, then the minimum is taken off; then both are rounded to bf16.
  __device__ __forceinline__ void decode_word(uint32_t word, const Step& step, uint32_t& first, uint32_t& second) const {
    constexpr bool is_signed = ChunkCodes<codec>::is_signed;
    constexpr float kOffset = 8388608.0f + float(is_signed ? 128 : form.offset);
    constexpr float kUnit = 1.0f / float(1 << packed_form(codec).low_bit());  // codes may be stored so much larger
    if (is_signed) word ^= 0x80808080u;
    float value[4];
    // Exact: 2^23 times the scale is a number, so the sum is the code times the scale, rounded once.
    const float shift = -8388608.0f * step.scale;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (has_min) {
        value[i] = fmaf(large(word, i), step.scale, shift) - step.min;
      } else {
        value[i] = (large(word, i) - kOffset) * (step.scale * kUnit);
      }
    }
    first = pack_bf16(value[0], value[1]), second = pack_bf16(value[2], value[3]);
  }

  // Step s of the chunk, to the operands of that parity.
  __device__ __forceinline__ void decode(int s) {
#pragma unroll
    for (int jj = 0; jj < 2; ++jj) {
      const int j = 2 * s + jj;
      uint32_t codes[4], dealt[2][2];
      codes_.operand(j, codes);
      deal(codes[0], codes[2], dealt[0]), deal(codes[1], codes[3], dealt[1]);
#pragma unroll
      for (int h = 0; h < 2; ++h)
#pragma unroll
        for (int r = 0; r < 2; ++r)
          decode_word(dealt[r][h], step_of(r, j, h), operand_[s % 2][2 * jj + h][r], operand_[s % 2][2 * jj + h][2 + r]);
    }
  }

  const uint8_t* data_;
  PackedShape shape_;
  int lane_;
  ChunkCodes<codec> codes_;
  Vectors<form.plane_vectors()> next_planes_ = {};
  Scales scales_, next_scales_;
  uint4 mins_[2] = {}, next_mins_[2] = {};  // kHalfMin alone
  uint32_t operand_[2][4][4];
};

// Rows of bf16, aligned: a stage of 128 rows beside each of x.
template <int kStages>
class RowOperand {
 public:
  __device__ __forceinline__ RowOperand(const Matrix& w, int32_t output0, uint8_t* stages) : w_(w), output0_(output0), stages_(stages) {}
  __device__ __forceinline__ void begin() {}
  __device__ __forceinline__ void next(int, int32_t) {}
  __device__ __forceinline__ void bring(int32_t step, int stage) {
    const int piece = int(threadIdx.x % 8);
    const int32_t k = step * kBf16Step + piece * kEight, left = w_.cols - k, n = left < 0 ? 0 : left < kEight ? left : kEight;
    const uint8_t* column = w_.data + (n > 0 ? k * 2 : 0);
#pragma unroll
    for (int i = 0; i < kBf16Outputs / 32; ++i) {
      const int row = int(threadIdx.x / 8) + 32 * i;
      const bool is_there = output0_ + row < w_.rows;
      copy_async(at(stage) + tile_place(row, piece), column + (is_there ? output0_ + row : 0) * w_.row_bytes, is_there ? 2 * n : 0);
    }
  }
  template <int kTokens>
  __device__ __forceinline__ void multiply(int, int stage, Bf16Sums<kTokens>& sums, const uint8_t* x) {
    const uint8_t* own = at(stage) + threadIdx.x / 128 * (64 * kTileBytes);
#pragma unroll
    for (int i = 0; i < 4; ++i) sums.add(own, x, i);
  }
  static constexpr int kStageBytes = kBf16Outputs * kTileBytes;

 private:
  __device__ __forceinline__ uint8_t* at(int stage) const { return stages_ + stage * kStageBytes; }
  const Matrix& w_;
  int32_t output0_;
  uint8_t* stages_;
};

// Stages of 64 columns: as many as an SM has room for.
constexpr int kPackedStages = 6, kRowStages = 4;
constexpr uint32_t packed_bf16_memory(int tokens) { return kTileAlign + uint32_t(kPackedStages * tokens * kTileBytes); }
constexpr uint32_t row_bf16_memory(int tokens) { return kTileAlign + uint32_t(kRowStages * (tokens + kBf16Outputs) * kTileBytes); }

// Which product a block serves, and its tiles.
struct Bf16Place {
  int which;
  int32_t output0;
  uint32_t row0;
};
template <int kTokens>
__device__ __forceinline__ Bf16Place place_of(const LinearBf16& call) {
  const int32_t tile = int32_t(blockIdx.x) / call.token_tiles;
  int which = 0;
  while (tile >= call.of[which].end) ++which;
  return {which, (tile - (which ? call.of[which - 1].end : 0)) * kBf16Outputs,
          uint32_t(int32_t(blockIdx.x) % call.token_tiles * kTokens)};
}

template <Codec codec, int kTokens>
__global__ void __launch_bounds__(kBf16Threads, 1) linear_packed_bf16(const __grid_constant__ LinearBf16 call) {
  TENON_SHARED_MEMORY(memory);
  const Bf16Place place = place_of<kTokens>(call);
  const uint32_t rows = call.live.get();
  if (place.row0 >= rows) return;
  const Bf16Product& product = call.of[place.which];
  PackedOperand<codec> weights(product.w, place.output0);
  Bf16Sums<kTokens> sums;
  bf16_product<kTokens, kPackedStages>(weights, sums, call.x, place.row0, rows, aligned_memory(memory));
  sums.write(product, place.output0, place.row0, rows);
}

template <int kTokens>
__global__ void __launch_bounds__(kBf16Threads, 1) linear_rows_bf16(const __grid_constant__ LinearBf16 call) {
  TENON_SHARED_MEMORY(memory);
  const Bf16Place place = place_of<kTokens>(call);
  const uint32_t rows = call.live.get();
  if (place.row0 >= rows) return;
  const Bf16Product& product = call.of[place.which];
  uint8_t* stages = aligned_memory(memory);
  RowOperand<kRowStages> weights(product.w, place.output0, stages + kRowStages * kTokens * kTileBytes);
  Bf16Sums<kTokens> sums;
  bf16_product<kTokens, kRowStages>(weights, sums, call.x, place.row0, rows, stages);
  sums.write(product, place.output0, place.row0, rows);
}

// Enqueues products whose weights have one codec of the list; false if it is not there.
template <typename List>
bool enqueue_packed_bf16(const Launch& launch, Codec codec, const LinearBf16& call, dim3 grid, bool is_wide) {
  return List::with(codec, [&]<Codec one>() {
    if (is_wide) {
      enqueue_with_memory(launch, "linear", linear_packed_bf16<one, kWideTokens>, grid, kBf16Threads, packed_bf16_memory(kWideTokens), call);
    } else {
      enqueue_with_memory(launch, "linear", linear_packed_bf16<one, kNarrowTokens>, grid, kBf16Threads, packed_bf16_memory(kNarrowTokens), call);
    }
  });
}

// One translation unit each.
bool enqueue_bf16_q4(const Launch&, Codec, const LinearBf16&, dim3 grid, bool is_wide);
bool enqueue_bf16_q5(const Launch&, Codec, const LinearBf16&, dim3 grid, bool is_wide);
bool enqueue_bf16_q6(const Launch&, Codec, const LinearBf16&, dim3 grid, bool is_wide);
bool enqueue_bf16_levels(const Launch&, Codec, const LinearBf16&, dim3 grid, bool is_wide);

}  // namespace tenon::cuda
