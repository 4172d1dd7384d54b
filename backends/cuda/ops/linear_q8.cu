// linear for packed weights and q8_32 rows: which kernel serves a launch.
#include <algorithm>

#include "linear_q8.cuh"

namespace tenon::cuda {
namespace {

Q8Rows q8_rows(const tenon_view& x) {
  return {reinterpret_cast<const uint8_t*>(x.data), x.row_bytes, int32_t(tenon_q8_32_scale_offset(x.cols)),
          int32_t(tenon_q8_32_sum_offset(x.cols)), int32_t(x.cols / 32)};
}

// Blocks that the device holds at once take the tiles in turns, all of them equally often but perhaps the last ones.
unsigned blocks_of(int32_t tiles) {
  constexpr int kBlocksOnOne = 4;
  int device = 0, processors = 0;
  TENON_CUDA(cudaGetDevice(&device));
  TENON_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
  const int32_t places = std::max(1, processors * kBlocksOnOne), each = (tiles + places - 1) / places;
  return unsigned((tiles + each - 1) / each);
}

void enqueue_products(const Launch& launch, Codec codec, const LinearQ8& call) {
  const uint32_t rows = launch.rows();
  const unsigned tiles = blocks_of(call.of[call.n - 1].end);
  const unsigned threads = unsigned(linear_warps(call.of[0].w.shape.chunks)) * kWarp;
  if (rows == 1) {
    enqueue_linear_q8_1(launch, codec, call, dim3(tiles), threads);
  } else if (rows <= 8) {
    enqueue_linear_q8_8(launch, codec, call, dim3(tiles), threads);
  } else if (rows <= 16) {
    enqueue_linear_q8_16(launch, codec, call, dim3(tiles), threads);
  } else if (rows <= 32) {
    enqueue_linear_q8_32(launch, codec, call, dim3(tiles), threads);
  } else {
    enqueue_linear_q8_64(launch, codec, call, dim3(tiles, row_blocks(blocks_for(rows, 64))), threads);
  }
}

}  // namespace

void launch_linear_q8(const OpPlan& plan, const Launch& launch) {
  const int n = int(launch.args.n_weight);
  unsigned done = 0;  // a bit for each weight: those of one codec go together
  for (int first = 0; first < n; ++first) {
    if (done >> first & 1) continue;
    LinearQ8 call = {q8_rows(launch.in(0)), {}, 0, live_rows(plan, launch)};
    int32_t end = 0;
    for (int i = first; i < n; ++i) {
      if (plan.codec[i] != plan.codec[first]) continue;
      done |= 1u << i;
      const tenon_weight& w = launch.weight(i);
      const PackedShape shape = packed_shape(plan.codec[i], w.rows, w.cols);
      end += shape.tiles();
      call.of[call.n++] = {{array<uint8_t>(w.plane[0]), shape}, view_of(launch.out(i)), end};
    }
    enqueue_products(launch, plan.codec[first], call);
  }
}

}  // namespace tenon::cuda
