// embed: a thread for eight columns of a row. What cannot be looked up gives NaN, so that the fault stays in its row.
#include "codecs_any.cuh"

namespace tenon::cuda {
namespace {

constexpr unsigned kThreads = 128;

template <Codec codec>
__device__ void look_up(const Matrix& table, int32_t id, int32_t c, int32_t n, float* values) {
  if constexpr (has_packed_form(codec)) {
    if (table.is_packed) return read_packed<codec>({table.data, table.packed}, id, c, values);
  }
  read_eight<codec>(table, id, c, n, values);
}

template <Codec codec>
__global__ void embed(Matrix table, float scale, const uint8_t* token, int64_t token_step, View overlay,
                      int64_t overlay_rows, const int32_t* overlay_row, View y, Live live) {
  const int32_t c = int32_t(blockIdx.x * blockDim.x + threadIdx.x) * kEight;
  if (c >= y.cols) return;
  const int32_t n = y.cols - c < kEight ? y.cols - c : kEight;
  const uint32_t rows = live.get();
  for (uint32_t r = blockIdx.y; r < rows; r += gridDim.y) {
    float values[kEight];
    const int32_t from = overlay_row ? overlay_row[r] : -1;
    const int32_t id = *reinterpret_cast<const int32_t*>(token + r * token_step);
    if (from >= 0) {
      for (int i = 0; i < n; ++i) values[i] = from < overlay_rows ? *overlay.at(from, c + i) : quiet_nan();
    } else if (id >= 0 && id < table.rows) {
      look_up<codec>(table, id, c, n, values);
      for (int i = 0; i < n; ++i) values[i] *= scale;
    } else {
      for (int i = 0; i < n; ++i) values[i] = quiet_nan();
    }
    for (int i = 0; i < n; ++i) *y.at(r, c + i) = values[i];
  }
}

}  // namespace

void launch_embed(const OpPlan& plan, const Launch& launch) {
  const tenon_view& token = launch.in(0);
  const Matrix table = matrix_of(launch.weight(0), plan.codec[0]);
  const bool has_overlay = launch.args.n_in > 1 && launch.step().overlay;
  const View y = view_of(launch.out(0)), overlay = has_overlay ? view_of(launch.in(1)) : View{};
  const dim3 grid(blocks_for(y.cols, kThreads * kEight), row_blocks(launch.rows()));
  const auto run = [&]<Codec codec>() {
    enqueue(launch, "embed", embed<codec>, grid, kThreads, table, plan.embed.scale, array<uint8_t>(token.data),
            token.row_bytes, overlay, has_overlay ? launch.in(1).rows : int64_t(0),
            has_overlay ? array<int32_t>(launch.step().overlay) : nullptr, y, live_rows(plan, launch));
  };
  const Codec codec = plan.codec[0];
  if (!FloatCodecs::with(codec, run) && !BlockCodecs32::with(codec, run) && !BlockCodecs256::with(codec, run))
    AnyCodec::with(codec, run);
}

}  // namespace tenon::cuda
