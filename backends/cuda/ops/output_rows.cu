// Ops at the model's end: select_rows and logits_tail.
#include "device.cuh"

namespace tenon::cuda {
namespace {

constexpr unsigned kThreads = 256;

// A row that does not exist gives NaN, so that the fault stays in its output row.
__global__ void select_rows(View x, View y, const int32_t* out_row, const uint32_t* n_rows, Live outputs) {
  const int32_t c = int32_t(blockIdx.x * blockDim.x + threadIdx.x);
  if (c >= y.cols) return;
  const uint32_t n = outputs.get();
  for (uint32_t j = blockIdx.y; j < n; j += gridDim.y) {
    const int32_t from = out_row[j];
    *y.at(j, c) = from >= 0 && uint32_t(from) < *n_rows ? *x.at(from, c) : quiet_nan();
  }
}

__global__ void clear_status(uint32_t* status, Live outputs) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < outputs.get()) status[i] = 0;
}

__global__ void cap_logits(View x, View y, float cap, uint32_t* status, Live outputs) {
  const int32_t c = int32_t(blockIdx.x * blockDim.x + threadIdx.x);
  if (c >= y.cols) return;
  const uint32_t n = outputs.get();
  for (uint32_t r = blockIdx.y; r < n; r += gridDim.y) {
    const float value = *x.at(r, c);
    if (status && !isfinite(value)) atomicOr(&status[r], 1u);  // a bit: the order of threads does not show
    *y.at(r, c) = cap > 0 ? cap * tanhf(value / cap) : value;
  }
}

__global__ void mask_never(View y, const int32_t* never, int64_t n_never, Live outputs) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n_never || never[i] < 0 || never[i] >= y.cols) return;
  const uint32_t n = outputs.get();
  for (uint32_t r = blockIdx.y; r < n; r += gridDim.y) *y.at(r, never[i]) = __uint_as_float(0xff800000u);
}

}  // namespace

void launch_select_rows(const OpPlan&, const Launch& launch) {
  const View y = view_of(launch.out(0));
  const Live outputs = {array<uint32_t>(launch.step().n_outputs), launch.rows()};
  enqueue(launch, "select_rows", select_rows, dim3(blocks_for(y.cols, kThreads), row_blocks(launch.rows())), kThreads,
          view_of(launch.in(0)), y, array<int32_t>(launch.step().out_row), array<uint32_t>(launch.step().n_rows),
          outputs);
}

void launch_logits_tail(const OpPlan& plan, const Launch& launch) {
  const View y = view_of(launch.out(0));
  const Live outputs = live_rows(plan, launch);
  auto* status = reinterpret_cast<uint32_t*>(launch.step().status);
  if (status)
    enqueue(launch, "logits_tail: status", clear_status, dim3(blocks_for(launch.rows(), kThreads)), kThreads, status,
            outputs);
  enqueue(launch, "logits_tail: cap", cap_logits, dim3(blocks_for(y.cols, kThreads), row_blocks(launch.rows())),
          kThreads, view_of(launch.in(0)), y, plan.scale.factor, status, outputs);
  if (!launch.args.n_weight) return;
  const tenon_weight& never = launch.weight(0);
  const int64_t n_never = never.rows * never.cols;
  enqueue(launch, "logits_tail: mask", mask_never, dim3(blocks_for(n_never, kThreads), row_blocks(launch.rows())),
          kThreads, y, array<int32_t>(never.plane[0]), n_never, outputs);
}

}  // namespace tenon::cuda
