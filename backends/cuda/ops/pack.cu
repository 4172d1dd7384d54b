// Packing of a weight's rows: they are sent to the device as they are in the file, and packed there.
#include "pack.cuh"

#include "pack.hpp"

namespace tenon::cuda {
namespace {

constexpr unsigned kThreads = 128;

// Memory of the device for the rows of one slice, and a stream: one for each thread that packs.
class Staging {
 public:
  ~Staging() { release(); }
  uint8_t* room(int ordinal, uint64_t bytes) {
    if (ordinal != ordinal_) {
      release();
      ordinal_ = ordinal;
      TENON_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    }
    if (bytes > bytes_) {
      TENON_CUDA(cudaFree(data_));
      data_ = nullptr, bytes_ = 0;
      TENON_CUDA(cudaMalloc(&data_, bytes));
      bytes_ = bytes;
    }
    return static_cast<uint8_t*>(data_);
  }
  cudaStream_t stream() const { return stream_; }

 private:
  void release() {
    if (data_) cudaFree(data_);
    if (stream_) cudaStreamDestroy(stream_);
    data_ = nullptr, stream_ = nullptr, bytes_ = 0, ordinal_ = -1;
  }
  int ordinal_ = -1;
  cudaStream_t stream_ = nullptr;
  void* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace

void pack_weight(const tenon_pack& pack) {
  const tenon_weight& from = *pack.src;
  const Codec codec = codec_of(from.dtype);
  const PackedShape shape = packed_shape(codec, from.rows, from.cols);
  cudaPointerAttributes where = {};
  TENON_CUDA(cudaPointerGetAttributes(&where, reinterpret_cast<void*>(pack.dst)));
  TENON_CUDA(cudaSetDevice(where.device));
  thread_local Staging staging;  // ends with the thread, and those that load end with the load
  const uint64_t bytes = uint64_t(pack.rows) * uint64_t(from.row_bytes);
  uint8_t* rows = staging.room(where.device, bytes);
  TENON_CUDA(cudaMemcpyAsync(rows, reinterpret_cast<const uint8_t*>(from.plane[0]) + pack.row0 * from.row_bytes, bytes,
                             cudaMemcpyDefault, staging.stream()));
  PackedShape slice = shape;
  slice.rows = int32_t(pack.rows);
  uint8_t* out = reinterpret_cast<uint8_t*>(pack.dst) + pack.row0 / kTileRows * shape.tile_bytes;
  const auto run = [&]<Codec one>() {
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(unsigned(slice.chunks), unsigned(slice.tiles())), config.blockDim = dim3(kThreads);
    config.stream = staging.stream();
    check(cudaLaunchKernelEx(&config, pack_rows<one>, static_cast<const uint8_t*>(rows), from.row_bytes, slice, out),
          "pack a weight");
  };
  if (!BlockCodecs32::with(codec, run)) BlockCodecs256::with(codec, run);
  TENON_CUDA(cudaStreamSynchronize(staging.stream()));
}

}  // namespace tenon::cuda
