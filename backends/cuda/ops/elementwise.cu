// Ops that treat each element on its own: one thread an element.
#include "row.cuh"

namespace tenon::cuda {
namespace {

constexpr unsigned kThreads = 256;

// out(r, c) = f(r, c) over live rows.
template <typename F>
__global__ void each_element(View out, Live live, F f) {
  wait_for_launch_before();
  let_next_launch_begin();
  const int32_t c = int32_t(blockIdx.x * blockDim.x + threadIdx.x);
  if (c >= out.cols) return;
  const uint32_t rows = live.get();
  for (uint32_t r = blockIdx.y; r < rows; r += gridDim.y) *out.at(r, c) = f(r, c);
}

template <typename F>
void run(const OpPlan& plan, const Launch& launch, const char* name, F f) {
  const View out = view_of(launch.out(0));
  enqueue_early(launch, name, each_element<F>, dim3(blocks_for(out.cols, kThreads), row_blocks(launch.rows())), kThreads,
                out, live_rows(plan, launch), f);
}

struct Add {
  View a, b;
  __device__ float operator()(uint32_t r, int32_t c) const { return *a.at(r, c) + *b.at(r, c); }
};
struct AddWeight {
  View a;
  const void* w;
  Codec codec;
  __device__ float operator()(uint32_t r, int32_t c) const { return *a.at(r, c) + load_float(codec, w, c); }
};
struct Mul {
  View a, b;
  __device__ float operator()(uint32_t r, int32_t c) const { return *a.at(r, c) * *b.at(r, c); }
};
struct MulWeight {
  View a;
  const void* w;
  Codec codec;
  bool is_one;
  __device__ float operator()(uint32_t r, int32_t c) const {
    return *a.at(r, c) * load_float(codec, w, is_one ? 0 : c);
  }
};
struct Scale {
  View a;
  float factor;
  __device__ float operator()(uint32_t r, int32_t c) const { return *a.at(r, c) * factor; }
};
struct Softcap {
  View a;
  float cap;
  __device__ float operator()(uint32_t r, int32_t c) const { return cap * tanhf(*a.at(r, c) / cap); }
};
struct Glu {
  View gate, up;
  uint32_t activation;
  float limit, alpha;
  __device__ float operator()(uint32_t r, int32_t c) const {
    return glu_of(activation, limit, alpha, *gate.at(r, c), *up.at(r, c));
  }
};
struct Gate {
  View x, g;
  uint32_t activation, group;
  __device__ float operator()(uint32_t r, int32_t c) const {
    return *x.at(r, c) * activate(activation, *g.at(r, c / int32_t(group)));
  }
};
struct Concat {
  View a, b;
  __device__ float operator()(uint32_t r, int32_t c) const { return c < a.cols ? *a.at(r, c) : *b.at(r, c - a.cols); }
};

}  // namespace

void launch_add(const OpPlan& plan, const Launch& launch) {
  const View a = view_of(launch.in(0));
  if (launch.args.n_in == 2) return run(plan, launch, "add", Add{a, view_of(launch.in(1))});
  run(plan, launch, "add", AddWeight{a, array<void>(launch.weight(0).plane[0]), plan.codec[0]});
}

void launch_mul(const OpPlan& plan, const Launch& launch) {
  const View a = view_of(launch.in(0));
  if (launch.args.n_in == 2) return run(plan, launch, "mul", Mul{a, view_of(launch.in(1))});
  const tenon_weight& w = launch.weight(0);
  run(plan, launch, "mul", MulWeight{a, array<void>(w.plane[0]), plan.codec[0], w.rows * w.cols == 1});
}

void launch_scale(const OpPlan& plan, const Launch& launch) {
  run(plan, launch, "scale", Scale{view_of(launch.in(0)), plan.scale.factor});
}

void launch_softcap(const OpPlan& plan, const Launch& launch) {
  run(plan, launch, "softcap", Softcap{view_of(launch.in(0)), plan.scale.factor});
}

void launch_glu(const OpPlan& plan, const Launch& launch) {
  run(plan, launch, "glu",
      Glu{view_of(launch.in(0)), view_of(launch.in(1)), plan.glu.activation, plan.glu.limit, plan.glu.alpha});
}

void launch_gate(const OpPlan& plan, const Launch& launch) {
  const View x = view_of(launch.in(0));
  run(plan, launch, "gate",
      Gate{x, view_of(launch.in(1)), plan.gate.activation, plan.gate.group ? plan.gate.group : uint32_t(x.cols)});
}

void launch_concat(const OpPlan& plan, const Launch& launch) {
  run(plan, launch, "concat", Concat{view_of(launch.in(0)), view_of(launch.in(1))});
}

}  // namespace tenon::cuda
