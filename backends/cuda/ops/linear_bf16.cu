// linear for prompts on tensor cores: bf16 weights, forms that are decoded to bf16 first, and which kernel serves a launch.
#include "linear_bf16.cuh"

#include <algorithm>

#include "codecs_any.cuh"
#include "linear_bf16.hpp"

namespace tenon::cuda {
namespace {

constexpr unsigned kDecodeThreads = 256;

// Rows row0 … of a matrix as bf16, rows of `cols` rounded up to whole pieces of eight. A thread has eight columns.
__global__ void __launch_bounds__(kDecodeThreads) decode_rows(Matrix w, int32_t row0, int32_t rows, uint4* out) {
  const int32_t pieces = (w.cols + kEight - 1) / kEight;
  const int64_t n = int64_t(rows) * pieces;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += int64_t(gridDim.x) * blockDim.x) {
    const int32_t row = int32_t(i / pieces), k = int32_t(i % pieces) * kEight;
    float v[kEight];
    read_any(w, row0 + row, k, w.cols - k < kEight ? w.cols - k : kEight, v);
    out[i] = uint4{pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3]), pack_bf16(v[4], v[5]), pack_bf16(v[6], v[7])};
  }
}

Bf16Rows rows_of(const tenon_view& x) {
  const int64_t groups = std::max<int64_t>(x.groups, 1), width = x.cols / groups;
  const bool is_vector = x.data % 16 == 0 && x.row_bytes % 16 == 0 && (groups == 1 || (width % 8 == 0 && x.group_bytes % 16 == 0));
  return {reinterpret_cast<const uint8_t*>(x.data), x.row_bytes, x.group_bytes, int32_t(x.cols), int32_t(width), is_vector};
}

// Wide tiles do more with each decoded weight, where there are enough of them for half of the GPU.
bool wants_wide(const LinearBf16& call, uint32_t rows) {
#ifdef TENON_CUDA_IS_EMULATED
  constexpr int64_t kHalfOfTheSms = 2;  // so that small cases have wide tiles too
#else
  constexpr int64_t kHalfOfTheSms = 64;
#endif
  return rows > kNarrowTokens && int64_t(call.of[call.n - 1].end) * blocks_for(rows, kWideTokens) >= kHalfOfTheSms;
}

template <typename Enqueue>
void enqueue_products(const Launch& launch, LinearBf16 call, Enqueue enqueue) {
  const bool is_wide = wants_wide(call, launch.rows());
  call.token_tiles = int32_t(blocks_for(launch.rows(), is_wide ? kWideTokens : kNarrowTokens));
  if (!enqueue(call, dim3(unsigned(call.of[call.n - 1].end) * unsigned(call.token_tiles)), is_wide))
    throw sdk::Error(TENON_INTERNAL, "linear: a weight has a form that accept() refuses");
}

void enqueue_rows(const Launch& launch, LinearBf16 call, const Matrix& w, const View& y, int32_t first = 0) {
  call.of[0] = {w, y, int32_t(blocks_for(w.rows, kBf16Outputs)), first}, call.n = 1;
  enqueue_products(launch, call, [&](const LinearBf16& c, dim3 grid, bool is_wide) {
    if (is_wide) {
      enqueue_with_memory(launch, "linear", linear_rows_bf16<kWideTokens>, grid, kBf16Threads, row_bf16_memory(kWideTokens), c);
    } else {
      enqueue_with_memory(launch, "linear", linear_rows_bf16<kNarrowTokens>, grid, kBf16Threads, row_bf16_memory(kNarrowTokens), c);
    }
    return true;
  });
}

// Decodes as many rows at a time as the workspace holds.
void enqueue_decoded(const OpPlan& plan, const Launch& launch, const LinearBf16& call, int index) {
  const tenon_weight& weight = launch.weight(index);
  const Matrix from = matrix_of(weight, plan.codec[index]);
  Matrix w = from;
  w.data = reinterpret_cast<const uint8_t*>(launch.workspace), w.row_bytes = decoded_row_bytes(weight.cols);
  const int64_t slice = decoded_rows(weight.rows, weight.cols);
  for (int64_t row = 0; row < weight.rows; row += slice) {
    w.rows = int32_t(std::min(slice, weight.rows - row));
    const unsigned blocks = blocks_for(int64_t(w.rows) * blocks_for(w.cols, kEight), kDecodeThreads);
    enqueue(launch, "linear: decode", decode_rows, dim3(std::min(blocks, 1u << 20)), kDecodeThreads, from, int32_t(row), w.rows,
            reinterpret_cast<uint4*>(launch.workspace));
    enqueue_rows(launch, call, w, view_of(launch.out(index)), int32_t(row));
  }
}

}  // namespace

void launch_linear_bf16(const OpPlan& plan, const Launch& launch) {
  const int n = int(launch.args.n_weight);
  unsigned done = 0;  // a bit for each weight: packed ones of one codec go together
  for (int first = 0; first < n; ++first) {
    if (done >> first & 1) continue;
    LinearBf16 call = {rows_of(launch.in(0)), {}, 0, 0, live_rows(plan, launch)};
    const Codec codec = plan.codec[first];
    if (!has_packed_form(codec)) {
      if (is_read_as_bf16(launch.weight(first), codec)) {
        enqueue_rows(launch, call, matrix_of(launch.weight(first), codec), view_of(launch.out(first)));
      } else {
        enqueue_decoded(plan, launch, call, first);
      }
      continue;
    }
    int32_t end = 0;
    for (int i = first; i < n; ++i) {
      if (plan.codec[i] != codec) continue;
      done |= 1u << i;
      end += int32_t(blocks_for(launch.weight(i).rows, kBf16Outputs));
      call.of[call.n++] = {matrix_of(launch.weight(i), codec), view_of(launch.out(i)), end, 0};
    }
    enqueue_products(launch, call, [&](const LinearBf16& c, dim3 grid, bool is_wide) {
      return enqueue_bf16_q4(launch, codec, c, grid, is_wide) || enqueue_bf16_q5(launch, codec, c, grid, is_wide) ||
             enqueue_bf16_q6(launch, codec, c, grid, is_wide) || enqueue_bf16_levels(launch, codec, c, grid, is_wide);
    });
  }
}

}  // namespace tenon::cuda
