// Composites of row-wise ops: a block has a row, or a group of a norm, or where there is no norm a part of a row, four columns
// a thread and vector, and walks a list of steps over it. Inputs are read once, inner values never leave the registers. Each
// step is the plain op's own function: the bits are those of the parts.
#include "row_chain.hpp"

#include "row.cuh"

namespace tenon::cuda {
namespace {

struct ChainWeight {
  const float* data;  // at an address that a vector load takes
  bool is_one;
};
struct Chain {
  ChainStep step[kMaxChainSteps];
  Operand in[kMaxChainOperands], out[kMaxChainOperands];
  Encoded encoded[kMaxChainOperands];  // the outputs that an encode writes
  ChainWeight weight[kMaxChainOperands];
  int32_t n_step, n_weight, cols, width;
};

// The vectors of a thread.
template <int kEach>
struct Piece {
  Four v[kEach];
};

// kActs: it may hold glu and gate, whose code is long.
template <int kEach, bool kActs>
class Walk {
 public:
  __device__ Walk(const Chain& chain, float (&part)[kMaxThreads / kWarp])
      : chain_(chain), part_(part), begin_(int32_t(blockIdx.x) * chain.width),
        end_(begin_ + chain.width < chain.cols ? begin_ + chain.width : chain.cols) {}

  __device__ void row(int64_t r) {
    r_ = r;
    for (int32_t i = 0; i < chain_.n_step; ++i) {
      const ChainStep& step = chain_.step[i];
      run(step);
      if (step.save == 0) saved_[0] = current_;
      if (step.save == 1) saved_[1] = current_;
      if (step.out != kNothing && step.op != ChainOp::kEncode) store(chain_.out[step.out]);
    }
  }

 private:
  __device__ int32_t column(int j) const { return begin_ + (int32_t(threadIdx.x) + j * int32_t(blockDim.x)) * kFour; }
  template <typename F>
  __device__ void each(const F& f) {
#pragma unroll
    for (int j = 0; j < kEach; ++j) f(j, column(j));
  }
  __device__ void fetch(int32_t from, Piece<kEach>& into) {
    if (from == kCurrent) {
      into = current_;
    } else if (from < 0) {
      into = from == kSaved ? saved_[0] : saved_[1];
    } else {
      const Operand& x = chain_.in[from];
      each([&](int j, int32_t c) { load_four(x, r_, c, end_, into.v[j]); });
    }
  }
  __device__ void store(const Operand& y) {
    each([&](int j, int32_t c) { store_four(y, r_, c, end_, current_.v[j]); });
  }
  // current ← f(a, b) for each number.
  template <typename F>
  __device__ void combine(const Piece<kEach>& a, const Piece<kEach>& b, const F& f) {
#pragma unroll
    for (int j = 0; j < kEach; ++j)
#pragma unroll
      for (int i = 0; i < kFour; ++i) current_.v[j][i] = f(a.v[j][i], b.v[j][i]);
  }
  // Entries of a weight: of the group for a norm, of the row for others; one for all where it has one.
  __device__ void fetch_weight(const ChainWeight& w, int32_t origin, Piece<kEach>& into) {
    each([&](int j, int32_t c) {
      float4 v = {};
      if (c < end_) {
        if (w.is_one) {
          v.x = v.y = v.z = v.w = *w.data;
        } else {
          v = *reinterpret_cast<const float4*>(w.data + (c - origin));
        }
      }
      into.v[j][0] = v.x, into.v[j][1] = v.y, into.v[j][2] = v.z, into.v[j][3] = v.w;
    });
  }
  // Four columns share a gate, or each has its own.
  __device__ void fetch_gates(const Operand& g, int32_t group, Piece<kEach>& into) {
    each([&](int j, int32_t c) {
      if (group == 1) return load_four(g, r_, c, end_, into.v[j]);
      const float gate = c < end_ ? *g.view.at(r_, c / group) : 0.0f;
#pragma unroll
      for (int i = 0; i < kFour; ++i) into.v[j][i] = gate;
    });
  }
  __device__ void norm(const ChainStep& step, const Piece<kEach>& x, Piece<kEach>& w) {
    // The weight is on its way while the sum is made.
    const bool has_weight = step.weight != kNothing;
    if (has_weight) fetch_weight(chain_.weight[step.weight], begin_, w);
    float squares = 0;
#pragma unroll
    for (int j = 0; j < kEach; ++j) squares = add_squares(squares, x.v[j]);
    const float factor =
        norm_factor({chain_.width, step.norm.is_mean != 0, step.norm.eps}, block_sum(squares, part_));
    combine(x, w, [&](float value, float weight) { return normed(value, factor, has_weight, weight); });
  }
  __device__ void run(const ChainStep& step) {
    Piece<kEach> a, b = {};
    fetch(step.a, a);
    if (kActs && step.op == ChainOp::kGate) {
      fetch_gates(chain_.in[step.b], step.gate.group, b);
    } else if (step.b != kNothing) {
      fetch(step.b, b);
    } else if (step.weight != kNothing && step.op != ChainOp::kNorm) {
      fetch_weight(chain_.weight[step.weight], 0, b);
    }
    switch (step.op) {
      case ChainOp::kNorm:
        return norm(step, a, b);
      case ChainOp::kAdd:
        return combine(a, b, [](float x, float y) { return x + y; });
      case ChainOp::kMul:
        return combine(a, b, [](float x, float y) { return x * y; });
      case ChainOp::kScale:
        return combine(a, b, [&](float x, float) { return x * step.factor; });
      case ChainOp::kGlu:
        if constexpr (!kActs) return;
        return combine(a, b, [&](float x, float y) {
          return glu_of(step.glu.activation, step.glu.limit, step.glu.alpha, x, y);
        });
      case ChainOp::kGate:
        if constexpr (!kActs) return;
        return combine(a, b, [&](float x, float y) { return x * activate(step.gate.activation, y); });
      case ChainOp::kEncode:
        return each([&](int j, int32_t c) { encode_four(chain_.encoded[step.out], r_, c, end_, a.v[j]); });
    }
  }

  const Chain& chain_;
  float (&part_)[kMaxThreads / kWarp];
  int32_t begin_, end_;
  int64_t r_ = 0;
  Piece<kEach> current_ = {}, saved_[kSavedValues] = {};
};

template <int kEach, bool kActs>
__global__ void __launch_bounds__(kMaxThreads) row_chain(const __grid_constant__ Chain chain, Live live) {
  __shared__ float part[kMaxThreads / kWarp];
  // A weight is read after sums; ask for it now.
  for (int32_t i = 0; i < chain.n_weight; ++i) {
    const ChainWeight& w = chain.weight[i];
    const int32_t numbers = w.is_one ? 1 : chain.width, line = int32_t(threadIdx.x) * (128 / 4);
    if (line < numbers) prefetch_line(w.data + line);
  }
  wait_for_launch_before();
  let_next_launch_begin();
  const uint32_t rows = live.get();
  Walk<kEach, kActs> walk(chain, part);
  for (uint32_t r = blockIdx.y; r < rows; r += gridDim.y) walk.row(r);
}

}  // namespace

void launch_row_chain(const ChainPlan& plan, const Launch& launch) {
  Chain chain = {};
  for (int32_t i = 0; i < plan.n_in; ++i) chain.in[i] = operand_of(launch.in(i));
  for (int32_t i = 0; i < plan.n_out; ++i) chain.out[i] = operand_of(launch.out(i));
  for (int32_t i = 0; i < plan.n_step; ++i) {
    const ChainStep& step = chain.step[i] = plan.step[i];
    if (step.op == ChainOp::kEncode) chain.encoded[step.out] = encoded_of(launch.out(step.out), step.encoding);
  }
  chain.n_step = plan.n_step, chain.n_weight = int32_t(launch.args.n_weight);
  for (int32_t i = 0; i < chain.n_weight; ++i) {
    const tenon_weight& w = launch.weight(i);
    chain.weight[i] = {array<float>(w.plane[0]), w.rows * w.cols == 1};
  }
  chain.cols = int32_t(launch.out(0).cols), chain.width = plan.width;
  const dim3 grid(blocks_for(chain.cols, plan.width), row_blocks(launch.rows()));
  const Live live = live_rows(plan.op, launch);
  const bool is_short = plan.width <= int32_t(plan.threads) * kFour;
  const auto kernel = plan.has_activation ? (is_short ? row_chain<1, true> : row_chain<2, true>)
                                          : (is_short ? row_chain<1, false> : row_chain<2, false>);
  enqueue_early(launch, "row chain", kernel, grid, plan.threads, chain, live);
}

}  // namespace tenon::cuda
