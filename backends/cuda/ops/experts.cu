// expert_ffn: grouping of slots by expert, the fold of a prompt's slots, and the launches.
#include "experts.cuh"
#include "experts_q8.cuh"
#include "experts_tile.cuh"

namespace tenon::cuda {
namespace {

constexpr int kGroupThreads = 256;
constexpr int32_t kElsewhere = -1, kUnknown = -2;  // places of pairs in no group

// Sum over a block's threads of what they counted, and of the threads before this one.
struct Scan {
  int32_t before, all;
};
__device__ Scan scan(int32_t own, int32_t* memory) {
  __syncthreads();
  memory[threadIdx.x] = own;
  __syncthreads();
  Scan out = {0, 0};
  for (int i = 0; i < kGroupThreads; ++i) {
    if (i < int(threadIdx.x)) out.before += memory[i];
    out.all += memory[i];
  }
  return out;
}

// A thread's share of the pairs: consecutive ones, so that order is kept.
struct Share {
  int64_t begin, end;
};
__device__ Share share_of(int64_t pairs) {
  const int64_t each = (pairs + kGroupThreads - 1) / kGroupThreads, begin = int64_t(threadIdx.x) * each;
  return {begin < pairs ? begin : pairs, begin + each < pairs ? begin + each : pairs};
}

// A block an expert: how many pairs it has.
__global__ void __launch_bounds__(kGroupThreads)
    count_pairs(const __grid_constant__ Experts experts, Ids ids, Live live, int32_t* count) {
  __shared__ int32_t memory[kGroupThreads];
  const auto expert = int32_t(blockIdx.x);
  const Share share = share_of(int64_t(live.get()) * experts.top_k);
  int32_t own = 0;
  if (experts.is_here(expert))
    for (int64_t pair = share.begin; pair < share.end; ++pair) own += ids.of(pair) == expert;
  const Scan counted = scan(own, memory);
  if (threadIdx.x == 0) count[expert] = counted.all;
}

// A block an expert: its pairs to their places, and its tiles. The block behind the last expert marks pairs of none.
__global__ void __launch_bounds__(kGroupThreads)
    place_pairs(const __grid_constant__ Experts experts, Ids ids, Live live, const int32_t* count, ExpertTile* tiles,
                int32_t* n_tiles, int32_t* pair_at, int32_t* place_of) {
  __shared__ int32_t memory[kGroupThreads];
  const auto expert = int32_t(blockIdx.x);
  const Share share = share_of(int64_t(live.get()) * experts.top_k);
  if (expert == experts.n_expert) {
    for (int64_t pair = share.begin; pair < share.end; ++pair)
      if (!experts.has(ids.of(pair))) place_of[pair] = kUnknown;
    return;
  }
  const bool is_here = experts.is_here(expert);
  int32_t before = 0, tiles_before = 0;
  for (int32_t e = int32_t(threadIdx.x); e < expert; e += kGroupThreads)
    before += count[e], tiles_before += (count[e] + int32_t(kExpertTile) - 1) / int32_t(kExpertTile);
  const int32_t first = scan(before, memory).all, first_tile = scan(tiles_before, memory).all;
  int32_t own = 0;
  for (int64_t pair = share.begin; pair < share.end; ++pair) own += ids.of(pair) == expert;
  int32_t place = first + scan(own, memory).before;
  for (int64_t pair = share.begin; pair < share.end; ++pair) {
    if (ids.of(pair) != expert) continue;
    place_of[pair] = is_here ? place : kElsewhere;
    if (is_here) pair_at[place++] = int32_t(pair);
  }
  const int32_t n = count[expert], own_tiles = (n + int32_t(kExpertTile) - 1) / int32_t(kExpertTile);
  for (int32_t t = int32_t(threadIdx.x); t < own_tiles; t += kGroupThreads) {
    const int32_t begin = first + t * int32_t(kExpertTile), end = begin + int32_t(kExpertTile);
    tiles[first_tile + t] = {expert, begin, end < first + n ? end : first + n};
  }
  if (expert == experts.n_expert - 1 && threadIdx.x == 0) *n_tiles = first_tile + own_tiles;
}

// The slots of a row: their sum, or each by itself.
__global__ void combine_slots(const __grid_constant__ Experts experts, const float* slots, const int32_t* place_of,
                              View weights, View y, Live live) {
  const int32_t c = int32_t(blockIdx.x * blockDim.x + threadIdx.x);
  if (c >= experts.cols) return;
  const uint32_t rows = live.get();
  for (uint32_t r = blockIdx.y; r < rows; r += gridDim.y) {
    float sum = 0;
    for (int32_t slot = 0; slot < experts.top_k; ++slot) {
      const int32_t place = place_of[int64_t(r) * experts.top_k + slot];
      const float value = place >= 0            ? slots[int64_t(place) * experts.cols + c]
                          : place == kElsewhere ? 0.0f
                                                : quiet_nan();
      if (experts.combine) *y.at(r, slot * experts.cols + c) = value;
      if (!experts.combine && place != kElsewhere) sum += *weights.at(r, slot) * value;
    }
    if (!experts.combine) *y.at(r, c) = sum;
  }
}

ExpertStack stack_of(const OpPlan& plan, const Launch& launch, int which) {
  const tenon_weight& w = launch.weight(which);
  const tenon_bank* bank = w.bank;
  const int64_t row = int64_t(which) * w.n_expert;
  return {matrix_of(w, plan.codec[which]), bank && bank->address ? array<uint64_t>(bank->address) + row : nullptr,
          w.expert_stride, bank && bank->macro ? array<float>(bank->macro) + row : nullptr};
}

ExpertLaunch expert_launch(const OpPlan& plan, const Launch& launch) {
  const tenon_expert_ffn_attr& attr = plan.expert_ffn;
  const tenon_weight &gate = launch.weight(0), &down = launch.weight(2);
  const tenon_view& ids = launch.in(1);
  const View x = view_of(launch.in(0));
  ExpertLaunch e = {};
  e.experts = {stack_of(plan, launch, 0),
               stack_of(plan, launch, 1),
               stack_of(plan, launch, 2),
               int32_t(gate.n_expert),
               int32_t(gate.rows),
               int32_t(down.rows),
               int32_t(ids.cols),
               attr.activation,
               attr.combine,
               attr.limit,
               attr.alpha};
  e.x = x, e.weights = view_of(launch.in(2)), e.y = view_of(launch.out(0)), e.is_vector = has_vectors(x);
  e.ids = {array<uint8_t>(ids.data), ids.row_bytes, int32_t(ids.cols)};
  e.live = live_rows(plan, launch), e.workspace = reinterpret_cast<uint8_t*>(launch.workspace);
  return e;
}

void refused(bool done) {
  if (!done) throw sdk::Error(TENON_INTERNAL, "expert_ffn: a weight has a form that accept() refuses");
}
// Gate and up are decoded by one kernel, which looks the forms up where they differ.
Codec codec_of_hidden(const OpPlan& plan) { return plan.codec[0] == plan.codec[1] ? plan.codec[0] : Codec::kNone; }

}  // namespace

void launch_expert_ffn(const OpPlan& plan, const Launch& launch) {
  const ExpertLaunch e = expert_launch(plan, launch);
  for (const bool is_down : {false, true}) {
    const Codec codec = is_down ? plan.codec[2] : codec_of_hidden(plan);
    refused(enqueue_experts_decode_float(launch, e, codec, is_down) ||
            enqueue_experts_decode_32(launch, e, codec, is_down) ||
            enqueue_experts_decode_256(launch, e, codec, is_down) || enqueue_experts_decode_any(launch, e, is_down));
  }
}

void launch_expert_ffn_q8(const OpPlan& plan, const Launch& launch) {
  const ExpertLaunch plain = expert_launch(plan, launch);
  const auto rows_of = [](const uint8_t* data, int64_t row_bytes, int64_t cols) {
    return Q8Rows{data, row_bytes, int32_t(tenon_q8_32_scale_offset(cols)), int32_t(tenon_q8_32_sum_offset(cols)),
                  int32_t(cols / 32)};
  };
  const tenon_view& x = launch.in(0);
  const int64_t hidden = plain.experts.hidden;
  const ExpertLaunchQ8 e = {plain.experts,
                            rows_of(array<uint8_t>(x.data), x.row_bytes, x.cols),
                            rows_of(plain.workspace, tenon_encoding_row_bytes(TENON_ENC_Q8_32, hidden), hidden),
                            plain.weights,
                            plain.y,
                            plain.ids,
                            plain.live};
  for (const bool is_down : {false, true}) {
    const Codec codec = plan.codec[is_down ? 2 : 0];
    refused(enqueue_experts_q8_32(launch, e, codec, is_down) || enqueue_experts_q8_256(launch, e, codec, is_down));
  }
}

void launch_expert_ffn_tile(const OpPlan& plan, const Launch& launch) {
  ExpertLaunch e = expert_launch(plan, launch);
  const Experts& experts = e.experts;
  e.at = expert_workspace(launch.rows(), experts.top_k, experts.n_expert, experts.hidden, experts.cols);
  auto* count = reinterpret_cast<int32_t*>(e.workspace + e.at.count);
  auto* tiles = reinterpret_cast<ExpertTile*>(e.workspace + e.at.tiles);
  auto* n_tiles = reinterpret_cast<int32_t*>(e.workspace + e.at.n_tiles);
  auto* pair = reinterpret_cast<int32_t*>(e.workspace + e.at.pair);
  auto* place = reinterpret_cast<int32_t*>(e.workspace + e.at.place);
  enqueue(launch, "expert_ffn: count", count_pairs, dim3(unsigned(experts.n_expert)), unsigned(kGroupThreads), experts,
          e.ids, e.live, count);
  enqueue(launch, "expert_ffn: group", place_pairs, dim3(unsigned(experts.n_expert) + 1), unsigned(kGroupThreads),
          experts, e.ids, e.live, static_cast<const int32_t*>(count), tiles, n_tiles, pair, place);
  for (const bool is_down : {false, true}) {
    const Codec codec = is_down ? plan.codec[2] : codec_of_hidden(plan);
    refused(enqueue_experts_tile_float(launch, e, codec, is_down) ||
            enqueue_experts_tile_32(launch, e, codec, is_down) || enqueue_experts_tile_256(launch, e, codec, is_down) ||
            enqueue_experts_tile_any(launch, e, is_down));
  }
  enqueue(launch, "expert_ffn: fold", combine_slots,
          dim3(blocks_for(experts.cols, kGroupThreads), row_blocks(launch.rows())), unsigned(kGroupThreads), experts,
          reinterpret_cast<const float*>(e.workspace + e.at.slots), static_cast<const int32_t*>(place), e.weights, e.y,
          e.live);
}

}  // namespace tenon::cuda
