// short_conv: every output row reads its own taps, so rows, channels and the new base are all computed at once. Nothing
// that is read is written in the same step: the base is read from one half and written to the other, and the tape grows
// behind the rows that are read.
#include "transaction.cuh"

namespace tenon::cuda {
namespace {

constexpr unsigned kThreads = 128;

struct ConvStore {
  uint8_t *base, *aux;
  const int32_t* slots;
  int64_t page_bytes, aux_bytes;
};

// The inputs of a sequence in order: base, accepted rows, earlier rows of the transaction, rows of this step.
struct History {
  View x;
  const float *base, *tapes;
  Transaction t;
  int32_t keep, channels;
  __device__ const float* tape_row(int32_t which, int32_t row) const {
    return tapes + (int64_t(which) * TENON_DECODE_MAX_TOKENS + row) * channels;
  }
  __device__ float at(int32_t i, int32_t c) const {
    if (i < keep) return base[int64_t(i) * channels + c];
    i -= keep;
    if (i < t.accepted) return tape_row(t.replay, i)[c];
    i -= t.accepted;
    if (i < t.earlier()) return tape_row(t.tape, i)[c];
    return *x.at(t.row0 + i - t.earlier(), c);
  }
  __device__ int32_t before_step() const { return keep + t.accepted + t.earlier(); }
};

// Blocks 0 … rows - 1 of the grid's y compute rows; the last `seqs` blocks, one a sequence, write the new bases.
__global__ void short_conv(View x, View y, const void* w, Codec codec, int32_t taps, uint32_t activation,
                           ConvStore store, StepSeqs step, const int32_t* seq, Live rows, uint32_t row_blocks) {
  wait_for_launch_before();
  let_next_launch_begin();
  const int32_t c = int32_t(blockIdx.x * blockDim.x + threadIdx.x);
  if (c >= x.cols) return;
  const int32_t keep = taps - 1;
  const auto history_of = [&](int32_t s) {
    History h;
    const int64_t slot = store.slots[s];
    h.x = x, h.t = transaction_of(step, s), h.keep = keep, h.channels = x.cols;
    h.base =
        reinterpret_cast<const float*>(store.base + slot * store.page_bytes) + int64_t(step.half[s]) * keep * x.cols;
    h.tapes = reinterpret_cast<const float*>(store.aux + slot * store.aux_bytes);
    return h;
  };
  if (blockIdx.y >= row_blocks) {
    const int32_t s = int32_t(blockIdx.y - row_blocks);
    if (uint32_t(s) >= *step.n_seqs) return;
    const History h = history_of(s);
    if (!h.t.holds() || (h.t.is_taped() && h.t.accepted == 0)) return;
    const int32_t end = keep + h.t.accepted + (h.t.is_taped() ? 0 : h.t.rows);
    float* base = reinterpret_cast<float*>(store.base + store.slots[s] * store.page_bytes) +
                  int64_t(1 - step.half[s]) * keep * x.cols;
    for (int32_t i = 0; i < keep; ++i) base[int64_t(i) * x.cols + c] = h.at(end - keep + i, c);
    return;
  }
  const uint32_t n_rows = rows.get();
  for (uint32_t r = blockIdx.y; r < n_rows; r += row_blocks) {
    const int32_t s = seq[r];
    const History h = history_of(s);
    float sum = 0;
    if (!h.t.holds()) {
      sum = quiet_nan();
    } else {
      const int32_t own = h.before_step() + int32_t(r) - h.t.row0;
      for (int32_t j = 0; j < taps; ++j)
        sum = fmaf(load_float(codec, w, int64_t(c) * taps + j), h.at(own - keep + j, c), sum);
      if (h.t.is_taped()) {
        const int32_t row = h.t.tape_start + int32_t(r) - h.t.row0;
        const_cast<float*>(h.tape_row(h.t.tape, row))[c] = *x.at(r, c);
      }
    }
    *y.at(r, c) = activate(activation, sum);
  }
}

}  // namespace

void launch_short_conv(const OpPlan& plan, const Launch& launch) {
  const View x = view_of(launch.in(0));
  const tenon_store& from = launch.store(0);
  const tenon_step& step = launch.step();
  const ConvStore store = {reinterpret_cast<uint8_t*>(from.base), reinterpret_cast<uint8_t*>(from.aux),
                           array<int32_t>(from.table), from.page_bytes, from.aux_bytes};
  const unsigned for_rows = row_blocks(launch.rows());
  const Live rows = {array<uint32_t>(step.n_rows), launch.rows()};
  enqueue_early(launch, "short_conv", short_conv, dim3(blocks_for(x.cols, kThreads), for_rows + step.max_seqs), kThreads, x,
                view_of(launch.out(0)), array<void>(launch.weight(0).plane[0]), plan.codec[0],
                int32_t(plan.short_conv.taps), plan.short_conv.activation, store, seqs_of(step), array<int32_t>(step.seq),
                rows, for_rows);
}

}  // namespace tenon::cuda
