// kv_write: a thread for each number of a row's K, then of its V.
#include "pages.cuh"

namespace tenon::cuda {
namespace {

constexpr unsigned kThreads = 128;

__device__ void store_float(Codec codec, uint8_t* row, int32_t i, float value) {
  if (codec == Codec::kF32) {
    reinterpret_cast<float*>(row)[i] = value;
  } else {
    reinterpret_cast<uint16_t*>(row)[i] = codec == Codec::kF16 ? float_to_half(value) : float_to_bf16(value);
  }
}

__global__ void kv_write(View k, View v, Pages pages, Codec codec_k, Codec codec_v, int32_t dim_k, int32_t dim_v,
                         const int32_t* seq, const int32_t* index, Live live) {
  int32_t c = int32_t(blockIdx.x * blockDim.x + threadIdx.x);
  const bool is_value = c >= k.cols;
  if (is_value) c -= k.cols;
  if (is_value && c >= v.cols) return;
  const uint32_t rows = live.get();
  for (uint32_t r = blockIdx.y; r < rows; r += gridDim.y) {
    const int32_t position = index[r];
    if (position < 0) continue;
    const int32_t page = pages.page(seq[r], position / TENON_PAGE_TOKENS), slot = position % TENON_PAGE_TOKENS;
    if (page < 0) continue;  // there is no place for it; a read of it gives NaN
    if (is_value) {
      store_float(codec_v, pages.values(page, c / dim_v) + slot * pages.row_bytes_v, c % dim_v, *v.at(r, c));
    } else {
      store_float(codec_k, pages.keys(page, c / dim_k) + slot * pages.row_bytes_k, c % dim_k, *k.at(r, c));
    }
  }
}

}  // namespace

void launch_kv_write(const OpPlan& plan, const Launch& launch) {
  const View k = view_of(launch.in(0)), v = view_of(launch.in(1));
  const Live rows = {array<uint32_t>(launch.step().n_rows), launch.rows()};
  enqueue(launch, "kv_write", kv_write, dim3(blocks_for(k.cols + v.cols, kThreads), row_blocks(launch.rows())),
          kThreads, k, v, pages_of(plan, launch), plan.codec[0], plan.codec[1], int32_t(plan.kv_write.head_dim),
          int32_t(plan.kv_write.head_dim_v), array<int32_t>(launch.step().seq), array<int32_t>(launch.step().index),
          rows);
}

}  // namespace tenon::cuda
