// encode: rows of f32 in another encoding. q8_32 takes a warp a block of 32 columns.
#include "device.cuh"

namespace tenon::cuda {
namespace {

constexpr unsigned kThreads = 256;

__global__ void encode_plain(View x, uint8_t* out, int64_t row_bytes, uint32_t encoding, Live live) {
  const int32_t c = int32_t(blockIdx.x * blockDim.x + threadIdx.x);
  if (c >= x.cols) return;
  const uint32_t rows = live.get();
  for (uint32_t r = blockIdx.y; r < rows; r += gridDim.y) {
    const float value = *x.at(r, c);
    uint8_t* row = out + r * row_bytes;
    if (encoding == TENON_ENC_F32) {
      reinterpret_cast<float*>(row)[c] = value;
    } else {
      reinterpret_cast<uint16_t*>(row)[c] = encoding == TENON_ENC_F16 ? float_to_half(value) : float_to_bf16(value);
    }
  }
}

struct Q8Row {
  int64_t scale, sum;  // offsets in bytes
};

__global__ void encode_q8_32(View x, uint8_t* out, int64_t row_bytes, Q8Row at, Live live) {
  const int32_t block = int32_t((blockIdx.x * blockDim.x + threadIdx.x) / kWarp);
  const int32_t lane = int32_t(threadIdx.x % kWarp), c = block * 32 + lane;
  if (c >= x.cols) return;  // whole warps: a row is a whole number of blocks
  const uint32_t rows = live.get();
  for (uint32_t r = blockIdx.y; r < rows; r += gridDim.y) {
    const float value = *x.at(r, c);
    const bool is_finite = __all_sync(kAll, isfinite(value));
    const float largest = warp_max(fabsf(value));
    const bool is_zero = !is_finite || largest == 0;
    const float inverse = is_zero ? 0.0f : 127.0f / largest;
    float rounded = is_zero ? 0.0f : rintf(value * inverse);
    if (rounded > 127.0f) rounded = 127.0f;
    if (rounded < -127.0f) rounded = -127.0f;
    const int code = int(rounded);
    int sum = code;  // over the 16 lanes of this half
    for (unsigned step = 8; step > 0; step /= 2) sum += __shfl_xor_sync(kAll, sum, step);
    uint8_t* row = out + r * row_bytes;
    reinterpret_cast<int8_t*>(row)[c] = int8_t(code);
    if (lane == 0) reinterpret_cast<float*>(row + at.scale)[block] = is_finite ? largest / 127.0f : quiet_nan();
    if (lane % 16 == 0) reinterpret_cast<int16_t*>(row + at.sum)[block * 2 + lane / 16] = int16_t(sum);
  }
}

}  // namespace

void launch_encode(const OpPlan& plan, const Launch& launch) {
  const View x = view_of(launch.in(0));
  const tenon_view& y = launch.out(0);
  uint8_t* out = reinterpret_cast<uint8_t*>(y.data);
  const dim3 grid(blocks_for(x.cols, kThreads), row_blocks(launch.rows()));
  if (plan.encode.encoding == TENON_ENC_Q8_32) {
    const Q8Row at = {tenon_q8_32_scale_offset(x.cols), tenon_q8_32_sum_offset(x.cols)};
    enqueue(launch, "encode", encode_q8_32, grid, kThreads, x, out, y.row_bytes, at, live_rows(plan, launch));
  } else {
    enqueue(launch, "encode", encode_plain, grid, kThreads, x, out, y.row_bytes, plan.encode.encoding,
            live_rows(plan, launch));
  }
}

}  // namespace tenon::cuda
