// gated_delta_rule, row after row: a block owns up to 128 value columns of one head of one sequence and keeps their state in
// registers for the whole step, so that a step reads and writes it once. A lane has four columns, a warp every 16th row of
// the state: 16-byte reads, all of them on their way at once. One function advances the state, wherever a row comes from,
// and taped numbers are those that were used; so a taped step committed in part leaves the bits of plain steps.
#include "delta.hpp"

#include "row.cuh"
#include "transaction.cuh"

namespace tenon::cuda {
namespace {

constexpr int kColumns = 128, kWarps = 16;
constexpr int kMaxKeyDim = 256;

struct DeltaShape {
  int32_t key_heads, value_heads, key_dim, value_dim;
  bool is_mod;
  float scale;
  __device__ int32_t key_head(int32_t h) const { return is_mod ? h % key_heads : h / (value_heads / key_heads); }
  // The first value head of its key head writes the tape's key.
  __device__ bool is_first(int32_t h) const { return is_mod ? h < key_heads : h % (value_heads / key_heads) == 0; }
  // A tape row: keys, values, decays, betas.
  __device__ int64_t values_at() const { return int64_t(key_heads) * key_dim; }
  __device__ int64_t decays_at() const { return values_at() + int64_t(value_heads) * value_dim; }
  __device__ int64_t betas_at() const { return decays_at() + value_heads; }
};

struct DeltaStore {
  uint8_t *base, *aux;
  const int32_t* slots;
  int64_t page_bytes, aux_bytes, tape_cols;
  bool has_vectors;
};

// What stands around the rule in a composite.
struct Around {
  NormShape query, key, out;
  Table weight;
  Operand gate;
  uint32_t activation;
  bool is_encoded;
  Encoded encoded;
};

struct DeltaCall {
  DeltaShape shape;
  Operand q, k, v, b, a, o;
  Table rate, bias;
  DeltaStore store;
  StepSeqs step;
  uint32_t max_row;
  Around around;
};

struct alignas(16) DeltaMemory {
  float key[2][kMaxKeyDim], query[2][kMaxKeyDim];  // of this row and the next
  float recalled[kWarps][kColumns], seen[kWarps][kColumns];
  float d[kColumns], o[kColumns];
};

// kOwn × 16 ≥ key_dim.
template <int kOwn, bool kFused>
class Delta {
 public:
  __device__ Delta(const DeltaCall& call, DeltaMemory& memory, const Transaction& t, int32_t s)
      : call_(call), memory_(memory), t_(t), shape_(call.shape), thread_(int(threadIdx.x)), warp_(thread_ / int(kWarp)),
        lane_(thread_ % int(kWarp)), head_(int32_t(blockIdx.y)), key_head_(shape_.key_head(head_)),
        first_(int32_t(blockIdx.x) * kColumns), own_(first_ + lane_ * kFour), column_(first_ + thread_),
        has_column_(thread_ < kColumns && column_ < shape_.value_dim) {
    const int64_t slot = call.store.slots[s];
    base_ = reinterpret_cast<float*>(call.store.base + slot * call.store.page_bytes) +
            int64_t(head_) * shape_.key_dim * shape_.value_dim;
    tapes_ = reinterpret_cast<float*>(call.store.aux + slot * call.store.aux_bytes);
  }

  __device__ void run() {
    load_base();
    for (int32_t i = 0; i < t_.accepted; ++i) apply_taped(tape_row(t_.replay, i));
    if (t_.is_taped() && t_.accepted > 0) store_base();
    for (int32_t i = 0; i < t_.earlier(); ++i) apply_taped(tape_row(t_.tape, i));
    if (t_.rows > 0) fetch(t_.row0);
    for (int32_t i = 0; i < t_.rows; ++i) apply(i);
    if (!t_.is_taped()) store_base();
  }

  // Rows of a step that cannot be: nothing is read or written but them.
  __device__ void fail() {
    for (int32_t r = t_.row0; r < t_.row0 + t_.rows && uint32_t(r) < call_.max_row; ++r) {
      if (has_column_) memory_.o[thread_] = quiet_nan();
      __syncthreads();
      give(r);
      __syncthreads();
    }
  }

 private:
  __device__ float* tape_row(int32_t which, int32_t row) const {
    return tapes_ + (int64_t(which) * TENON_DECODE_MAX_TOKENS + row) * call_.store.tape_cols;
  }

  // f(n, address of the state's row that this thread has as number n).
  template <typename F>
  __device__ void each_row(const F& f) {
#pragma unroll
    for (int n = 0; n < kOwn; ++n) {
      const int32_t k = warp_ + kWarps * n;
      if (k < shape_.key_dim && own_ < shape_.value_dim) f(n, base_ + int64_t(k) * shape_.value_dim + own_);
    }
  }
  __device__ void load_base() {
    each_row([&](int n, const float* from) {
      if (call_.store.has_vectors) {
        const float4 v = *reinterpret_cast<const float4*>(from);
        state_[n][0] = v.x, state_[n][1] = v.y, state_[n][2] = v.z, state_[n][3] = v.w;
      } else {
#pragma unroll
        for (int i = 0; i < kFour; ++i) state_[n][i] = own_ + i < shape_.value_dim ? from[i] : 0.0f;
      }
    });
  }
  __device__ void store_base() {
    each_row([&](int n, float* to) {
      if (call_.store.has_vectors) {
        *reinterpret_cast<float4*>(to) = {state_[n][0], state_[n][1], state_[n][2], state_[n][3]};
      } else {
#pragma unroll
        for (int i = 0; i < kFour; ++i)
          if (own_ + i < shape_.value_dim) to[i] = state_[n][i];
      }
    });
  }

  // S ← decay S; d = β (v − Sᵀk); o = scale (Sᵀq + d (k·q)), which is Sᵀq of the new state; S ← S + k dᵀ. The row's key, and
  // its query where one is asked for, are in half `half_` of the memory. d and o are there when it ends.
  template <bool kHasQuery>
  __device__ void advance(float v, float decay, float beta) {
    const float *key = memory_.key[half_], *query = memory_.query[half_];
    Four recalled = {}, seen = {};
#pragma unroll
    for (int n = 0; n < kOwn; ++n) {
      const int32_t k = warp_ + kWarps * n;
      if (k >= shape_.key_dim) continue;
#pragma unroll
      for (int i = 0; i < kFour; ++i) {
        state_[n][i] *= decay;
        recalled[i] = fmaf(state_[n][i], key[k], recalled[i]);
        if (kHasQuery) seen[i] = fmaf(state_[n][i], query[k], seen[i]);
      }
    }
    *reinterpret_cast<float4*>(&memory_.recalled[warp_][lane_ * kFour]) = {recalled[0], recalled[1], recalled[2], recalled[3]};
    if (kHasQuery) *reinterpret_cast<float4*>(&memory_.seen[warp_][lane_ * kFour]) = {seen[0], seen[1], seen[2], seen[3]};
    __syncthreads();
    if (thread_ < kColumns) {
      float sum = memory_.recalled[0][thread_];
#pragma unroll
      for (int w = 1; w < kWarps; ++w) sum += memory_.recalled[w][thread_];
      const float d = beta * (v - sum);
      memory_.d[thread_] = d;
      if (kHasQuery) {
        float product = 0, total = memory_.seen[0][thread_];
        for (int32_t k = lane_; k < shape_.key_dim; k += int32_t(kWarp)) product = fmaf(key[k], query[k], product);
        product = warp_sum(product);
#pragma unroll
        for (int w = 1; w < kWarps; ++w) total += memory_.seen[w][thread_];
        memory_.o[thread_] = fmaf(d, product, total) * shape_.scale;
      }
    }
    __syncthreads();
    const float4 d = *reinterpret_cast<const float4*>(&memory_.d[lane_ * kFour]);
#pragma unroll
    for (int n = 0; n < kOwn; ++n) {
      const int32_t k = warp_ + kWarps * n;
      if (k >= shape_.key_dim) continue;
      state_[n][0] = fmaf(key[k], d.x, state_[n][0]), state_[n][1] = fmaf(key[k], d.y, state_[n][1]);
      state_[n][2] = fmaf(key[k], d.z, state_[n][2]), state_[n][3] = fmaf(key[k], d.w, state_[n][3]);
    }
    half_ ^= 1;
  }

  __device__ void apply_taped(const float* row) {
    for (int k = thread_; k < shape_.key_dim; k += int(kWarp) * kWarps) memory_.key[half_][k] = row[key_head_ * shape_.key_dim + k];
    __syncthreads();
    advance<false>(has_column_ ? row[shape_.values_at() + head_ * shape_.value_dim + column_] : 0.0f,
                   row[shape_.decays_at() + head_], row[shape_.betas_at() + head_]);
  }

  // Warps 0 and 1 have the key and the query, up to 8 columns a lane; every thread has the rest.
  static constexpr int kVectors = kMaxKeyDim / kColumns;
  __device__ void fetch(int32_t r) {
    const int32_t begin = key_head_ * shape_.key_dim, end = begin + shape_.key_dim;
    if (warp_ < 2) {
#pragma unroll
      for (int j = 0; j < kVectors; ++j)
        load_four(warp_ == 0 ? call_.k : call_.q, r, begin + (lane_ + j * int(kWarp)) * kFour, end, next_[j]);
    }
    next_v_ = has_column_ ? *call_.v.view.at(r, head_ * shape_.value_dim + column_) : 0.0f;
    next_a_ = *call_.a.view.at(r, head_), next_b_ = *call_.b.view.at(r, head_);
  }
  __device__ void put_key_or_query() {
    if (warp_ >= 2) return;
    if (kFused) {
      const NormShape& norm = warp_ == 0 ? call_.around.key : call_.around.query;
      const float factor = norm_factor(norm, warp_sum(add_squares(0, next_[0])));
#pragma unroll
      for (int i = 0; i < kFour; ++i) next_[0][i] = normed(next_[0][i], factor, false, 0);
    }
    float* to = warp_ == 0 ? memory_.key[half_] : memory_.query[half_];
#pragma unroll
    for (int j = 0; j < kVectors; ++j)
#pragma unroll
      for (int i = 0; i < kFour; ++i)
        if (const int k = (lane_ + j * int(kWarp)) * kFour + i; k < shape_.key_dim) to[k] = next_[j][i];
  }

  __device__ void apply(int32_t i) {
    const int32_t r = t_.row0 + i;
    const float x = next_a_ + load_float(call_.bias.codec, call_.bias.data, head_);
    const float softplus = x > 20.0f ? x : log1pf(expf(x));
    const float decay = expf(load_float(call_.rate.codec, call_.rate.data, head_) * softplus);
    const float beta = sigmoid(next_b_), v = next_v_;
    put_key_or_query();
    __syncthreads();
    if (t_.is_taped()) write_tape(tape_row(t_.tape, t_.tape_start + i), v, decay, beta);
    if (i + 1 < t_.rows) fetch(r + 1);
    advance<true>(v, decay, beta);
    give(r);
  }
  __device__ void write_tape(float* row, float v, float decay, float beta) {
    if (blockIdx.x == 0 && shape_.is_first(head_))
      for (int k = thread_; k < shape_.key_dim; k += int(kWarp) * kWarps)
        row[key_head_ * shape_.key_dim + k] = memory_.key[half_][k];
    if (has_column_) row[shape_.values_at() + head_ * shape_.value_dim + column_] = v;
    if (blockIdx.x == 0 && thread_ == 0) row[shape_.decays_at() + head_] = decay, row[shape_.betas_at() + head_] = beta;
  }

  // memory.o as an output row, behind norm, gate and encoding where they belong to the group: the last warp's work.
  __device__ void give(int32_t r) {
    if (warp_ != kWarps - 1) return;
    const int32_t c = head_ * shape_.value_dim + own_, end = (head_ + 1) * shape_.value_dim;
    Four o;
#pragma unroll
    for (int i = 0; i < kFour; ++i) o[i] = c + i < end ? memory_.o[lane_ * kFour + i] : 0.0f;
    if constexpr (kFused) {
      const Around& around = call_.around;
      Four w, z;
      load_four(around.weight, own_, shape_.value_dim, w);
      load_four(around.gate, r, c, end, z);
      const float factor = norm_factor(around.out, warp_sum(add_squares(0, o)));
#pragma unroll
      for (int i = 0; i < kFour; ++i) o[i] = normed(o[i], factor, true, w[i]) * activate(around.activation, z[i]);
      if (around.is_encoded) return encode_four(around.encoded, r, c, end, o);
    }
    store_four(call_.o, r, c, end, o);
  }

  const DeltaCall& call_;
  DeltaMemory& memory_;
  const Transaction t_;
  const DeltaShape& shape_;
  const int thread_, warp_, lane_;
  const int32_t head_, key_head_, first_, own_, column_;  // own_: the first of four columns of the state
  const bool has_column_;
  float *base_, *tapes_;
  int half_ = 0;
  Four state_[kOwn] = {}, next_[kVectors];
  float next_v_, next_a_, next_b_;
};

// Grid: blocks of value columns, value heads, sequences.
template <int kOwn, bool kFused>
__global__ void __launch_bounds__(kWarp* kWarps) delta_rule(const __grid_constant__ DeltaCall call) {
  __shared__ DeltaMemory memory;
  wait_for_launch_before();
  let_next_launch_begin();
  const int32_t s = int32_t(blockIdx.z);
  if (uint32_t(s) >= *call.step.n_seqs) return;
  const Transaction t = transaction_of(call.step, s);
  Delta<kOwn, kFused> delta(call, memory, t, s);
  if (!t.holds() || uint32_t(t.row0 + t.rows) > call.max_row) {
    delta.fail();
  } else {
    delta.run();
  }
}

DeltaCall call_of(const OpPlan& plan, const Launch& launch, const tenon_store& from) {
  const tenon_gated_delta_rule_attr& attr = plan.delta;
  DeltaCall call = {};
  call.shape = {int32_t(attr.key_heads), int32_t(attr.value_heads),           int32_t(attr.key_dim),
                int32_t(attr.value_dim), attr.head_map == TENON_HEAD_MAP_MOD, attr.scale};
  call.store = {reinterpret_cast<uint8_t*>(from.base), reinterpret_cast<uint8_t*>(from.aux), array<int32_t>(from.table),
                from.page_bytes,                       from.aux_bytes,                       plan.store.tape_cols,
                from.base % 16 == 0 && from.page_bytes % 16 == 0 && attr.value_dim % kFour == 0};
  call.step = seqs_of(launch.step()), call.max_row = launch.rows();
  return call;
}

template <bool kFused>
void enqueue_delta(const Launch& launch, const DeltaCall& call) {
  const auto run = [&](auto kernel) {
    enqueue_early(launch, "gated_delta_rule", kernel,
                  dim3(blocks_for(call.shape.value_dim, kColumns), unsigned(call.shape.value_heads), launch.step().max_seqs),
                  kWarp * kWarps, call);
  };
  if (call.shape.key_dim <= 64) return run(delta_rule<4, kFused>);
  if (call.shape.key_dim <= 128) return run(delta_rule<8, kFused>);
  if constexpr (!kFused) run(delta_rule<16, false>);
}

// Vectors of a head begin where its columns do.
Operand heads_of(const tenon_view& v, int32_t dim) {
  Operand x = operand_of(v);
  if (dim % kFour) x.has_vectors = false;
  return x;
}

}  // namespace

void launch_delta(const OpPlan& plan, const Launch& launch) {
  DeltaCall call = call_of(plan, launch, launch.store(0));
  const int32_t dk = call.shape.key_dim, dv = call.shape.value_dim;
  call.q = heads_of(launch.in(0), dk), call.k = heads_of(launch.in(1), dk), call.v = operand_of(launch.in(2));
  call.b = operand_of(launch.in(3)), call.a = operand_of(launch.in(4)), call.o = heads_of(launch.out(0), dv);
  call.rate = table_of(launch.weight(0), plan.codec[0]), call.bias = table_of(launch.weight(1), plan.codec[1]);
  enqueue_delta<false>(launch, call);
}

void launch_delta_chain(const DeltaPlan& plan, const Launch& launch) {
  DeltaCall call = call_of(plan.op, launch, launch.store(0));
  const int32_t dk = call.shape.key_dim, dv = call.shape.value_dim;
  call.q = heads_of(launch.in(plan.query), dk), call.k = heads_of(launch.in(plan.key), dk);
  call.v = operand_of(launch.in(plan.value));
  call.b = operand_of(launch.in(plan.beta)), call.a = operand_of(launch.in(plan.alpha));
  call.rate = table_of(launch.weight(plan.rate), plan.op.codec[0]);
  call.bias = table_of(launch.weight(plan.bias), plan.op.codec[1]);
  Around& around = call.around;
  around.query = norm_shape(plan.query_norm, dk), around.key = norm_shape(plan.key_norm, dk);
  around.out = norm_shape(plan.out_norm, dv), around.weight = table_of(launch.weight(plan.weight), plan.norm_codec);
  around.gate = operand_of(launch.in(plan.gate)), around.activation = plan.activation;
  around.is_encoded = plan.encoding != TENON_ENC_NONE;
  if (around.is_encoded) {
    around.encoded = encoded_of(launch.out(0), plan.encoding);
  } else {
    call.o = operand_of(launch.out(0));
  }
  enqueue_delta<true>(launch, call);
}

}  // namespace tenon::cuda
