// route: a warp chooses the experts of a row by the scalar rule of docs/ops.md, to the bit: exponentials are computed
// in f64 and rounded, the sum over all experts ascends, equal scores go to the lower index, NaN comes last.
#include "device.cuh"
#include "expert_limits.hpp"

namespace tenon::cuda {
namespace {

// Larger for what is chosen first; NaN is the least. Zeros of both signs are equal.
__device__ uint32_t rank_of(float score) {
  if (isnan(score)) return 1;
  const uint32_t bits = __float_as_uint(score + 0.0f);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

struct RouteMemory {
  float p[kMaxExperts];
  uint32_t rank[kMaxExperts];  // 0: taken
  int32_t chosen[kMaxTopK];
};

// p of all experts, each rounded to f32.
__device__ void probabilities(uint32_t gating, const View& x, uint32_t r, RouteMemory& memory) {
  const int32_t n = x.cols, lane = int32_t(threadIdx.x);
  if (gating == 1) {
    for (int32_t e = lane; e < n; e += int32_t(kWarp)) memory.p[e] = float(1.0 / (1.0 + exp(-double(*x.at(r, e)))));
    __syncthreads();
    return;
  }
  float top = __uint_as_float(0xff800000u);
  for (int32_t e = lane; e < n; e += int32_t(kWarp)) {
    const float logit = *x.at(r, e);
    if (logit > top) top = logit;
  }
  top = warp_max(top);
  for (int32_t e = lane; e < n; e += int32_t(kWarp)) {
    const float logit = *x.at(r, e);
    memory.p[e] = logit == top ? 1.0f : float(exp(double(logit) - double(top)));
  }
  __syncthreads();
  float sum = 0;  // by every lane: the order is part of the rule
  for (int32_t e = 0; e < n; ++e)
    if (!isnan(memory.p[e])) sum += memory.p[e];
  __syncthreads();
  for (int32_t e = lane; e < n; e += int32_t(kWarp)) memory.p[e] /= sum;
  __syncthreads();
}

__device__ int32_t take_best(RouteMemory& memory, int32_t n) {
  const int32_t lane = int32_t(threadIdx.x);
  uint32_t best = 0;
  int32_t at = kMaxExperts;
  for (int32_t e = lane; e < n; e += int32_t(kWarp))
    if (memory.rank[e] > best) best = memory.rank[e], at = e;
  for (unsigned step = kWarp / 2; step > 0; step /= 2) {
    const uint32_t other = uint32_t(__shfl_xor_sync(kAll, int(best), int(step)));
    const int32_t other_at = __shfl_xor_sync(kAll, at, int(step));
    if (other > best || (other == best && other_at < at)) best = other, at = other_at;
  }
  if (lane == at % int32_t(kWarp)) memory.rank[at] = 0;
  __syncthreads();
  return at;
}

struct Table {
  const void* data;  // null: none
  Codec codec;
};

__global__ void __launch_bounds__(kWarp)
    route(View x, View ids, View weights, Table bias, Table scale, tenon_route_attr attr, Live live) {
  __shared__ RouteMemory memory;
  wait_for_launch_before();
  let_next_launch_begin();
  const int32_t n = x.cols, lane = int32_t(threadIdx.x), top_k = int32_t(attr.top_k);
  const uint32_t rows = live.get();
  for (uint32_t r = blockIdx.y; r < rows; r += gridDim.y) {
    probabilities(attr.gating, x, r, memory);
    for (int32_t e = lane; e < n; e += int32_t(kWarp))
      memory.rank[e] = rank_of(bias.data ? memory.p[e] + load_float(bias.codec, bias.data, e) : memory.p[e]);
    __syncthreads();
    for (int32_t i = 0; i < top_k; ++i) {
      const int32_t best = take_best(memory, n);
      if (lane == 0) memory.chosen[i] = best;
    }
    __syncthreads();
    float sum = 0;
    for (int32_t i = 0; i < top_k; ++i) sum += memory.p[memory.chosen[i]];
    if (sum < attr.floor) sum = attr.floor;
    for (int32_t i = lane; i < top_k; i += int32_t(kWarp)) {
      const int32_t id = memory.chosen[i];
      float weight = memory.p[id];
      if (attr.normalize) weight /= sum;
      weight *= attr.scale;
      if (scale.data) weight *= load_float(scale.codec, scale.data, id);
      *reinterpret_cast<int32_t*>(ids.at(r, i)) = id;
      *weights.at(r, i) = weight;
    }
    __syncthreads();
  }
}

}  // namespace

void launch_route(const OpPlan& plan, const Launch& launch) {
  const auto table = [&](unsigned i) {
    return i < launch.args.n_weight ? Table{array<void>(launch.weight(int(i)).plane[0]), plan.codec[i]} : Table{};
  };
  enqueue_early(launch, "route", route, dim3(1, row_blocks(launch.rows())), kWarp, view_of(launch.in(0)),
                view_of(launch.out(0)), view_of(launch.out(1)), table(0), table(1), plan.route,
                live_rows(plan, launch));
}

}  // namespace tenon::cuda
