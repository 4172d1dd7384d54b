// kv_write: a warp for 32 numbers of a row's K, then of its V; a latent row is K alone.
#include "cells.cuh"
#include "pages.cuh"

namespace tenon::cuda {
namespace {

constexpr unsigned kThreads = 128;

// A head's width, and the groups of 32 numbers that it has; the last one may be short.
struct HeadShape {
  int32_t dim, heads;
  __host__ __device__ int32_t groups() const { return (dim + 31) / 32; }
};

__global__ void kv_write(View k, View v, Pages pages, Codec codec_k, Codec codec_v, HeadShape key, HeadShape value,
                         const int32_t* seq, const int32_t* index, Live live) {
  wait_for_launch_before();
  let_next_launch_begin();
  int32_t unit = int32_t((blockIdx.x * blockDim.x + threadIdx.x) / kWarp);
  const bool is_value = unit >= key.heads * key.groups();
  if (is_value) unit -= key.heads * key.groups();
  const HeadShape shape = is_value ? value : key;
  if (unit >= shape.heads * shape.groups()) return;
  const View from = is_value ? v : k;
  const int32_t head = unit / shape.groups(), c = unit % shape.groups() * 32, lane = int32_t(threadIdx.x % kWarp);
  const int32_t n = shape.dim - c < 32 ? shape.dim - c : 32;
  const uint32_t rows = live.get();
  for (uint32_t r = blockIdx.y; r < rows; r += gridDim.y) {
    const int32_t position = index[r];
    if (position < 0) continue;
    const int32_t page = pages.page(seq[r], position / TENON_PAGE_TOKENS), slot = position % TENON_PAGE_TOKENS;
    if (page < 0) continue;  // there is no place for it; a read of it gives NaN
    const float number = lane < n ? *from.at(r, head * shape.dim + c + lane) : 0.0f;
    if (is_value) {
      store_cells(codec_v, pages.values(page, head) + slot * pages.row_bytes_v, c, n, number);
    } else {
      store_cells(codec_k, pages.keys(page, head) + slot * pages.row_bytes_k, c, n, number);
    }
  }
}

}  // namespace

void launch_kv_write(const OpPlan& plan, const Launch& launch) {
  const tenon_kv_write_attr& attr = plan.kv_write;
  const bool has_values = launch.args.n_in > 1;
  const View k = view_of(launch.in(0)), v = has_values ? view_of(launch.in(1)) : View{};
  const HeadShape key = {int32_t(attr.head_dim), int32_t(attr.kv_heads)};
  const HeadShape value = {has_values ? int32_t(attr.head_dim_v) : 0, has_values ? int32_t(attr.kv_heads) : 0};
  const Live rows = {array<uint32_t>(launch.step().n_rows), launch.rows()};
  const int64_t units = int64_t(key.heads) * key.groups() + int64_t(value.heads) * value.groups();
  enqueue_early(launch, "kv_write", kv_write, dim3(blocks_for(units * kWarp, kThreads), row_blocks(launch.rows())),
                kThreads, k, v, pages_of(plan, launch), plan.codec[0], plan.codec[1], key, value,
                array<int32_t>(launch.step().seq), array<int32_t>(launch.step().index), rows);
}

}  // namespace tenon::cuda
