#include "write_tensors.hpp"

#include <tenon/error.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "plugin/message.hpp"
#include "plugin/plugin_host.hpp"

namespace tenon::quantize {
namespace {

// Values of a slice: enough to amortise a call, little enough that a slice's values stay in a core's cache.
constexpr int64_t kSliceValues = 1 << 17;
constexpr uint64_t kCopyBytes = 4 << 20;

std::string text_of(tenon_str text) { return {text.data, size_t(text.size)}; }

struct Slice {
  size_t tensor;
  int64_t row0, rows;
};

class Writer {
 public:
  Writer(const std::vector<FileTensor>& tensors, const std::vector<uint64_t>& offsets, const source::ModelSource& source,
         const plugin::Registry& registry, const QuantizeSink& sink)
      : tensors_(tensors), offsets_(offsets), source_(source), registry_(registry), sink_(sink), left_(tensors.size()) {
    for (size_t t = 0; t < tensors.size(); ++t) {
      const int64_t rows = tensors[t].n_rows(), step = std::max<int64_t>(1, kSliceValues / tensors[t].dim[0]);
      for (int64_t row = 0; row < rows; row += step) slices_.push_back({t, row, std::min(step, rows - row)}), ++left_[t];
      total_ += tensor_bytes(tensors[t], registry);
    }
  }

  void run(uint32_t n_threads, const ProgressCallback& progress, const CancelCallback& cancelled) {
    const auto work = [&](bool reports) {
      try {
        for (size_t i = next_++; i < slices_.size() && !stop_; i = next_++) {
          done_ += write(slices_[i]);
          if (--left_[slices_[i].tensor] == 0) give_back(tensors_[slices_[i].tensor]);
          if (!reports) continue;
          if (progress) progress({"quantize", done_, total_});
          if (cancelled && cancelled()) throw Error(ErrorKind::kInterrupted, "interrupted");
        }
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!failure_) failure_ = std::current_exception();
        stop_ = true;
      }
    };
    std::vector<std::thread> threads;
    try {
      for (uint32_t i = 1; i < n_threads; ++i) threads.emplace_back(work, false);
    } catch (const std::system_error&) {
      // No more threads to be had: those there are do the work.
    }
    work(true);
    for (std::thread& thread : threads) thread.join();
    if (failure_) std::rethrow_exception(failure_);
    if (progress) progress({"quantize", total_, total_});
  }

 private:
  uint64_t write(const Slice& slice) const {
    const FileTensor& tensor = tensors_[slice.tensor];
    const tenon_dtype& dtype = *registry_.dtype(tensor.dtype);
    const uint64_t row_bytes = uint64_t(tensor.dim[0]) / dtype.block_cols * dtype.block_bytes;
    const uint64_t begin = uint64_t(slice.row0) * row_bytes, bytes = uint64_t(slice.rows) * row_bytes;
    if (tensor.whole && tensor.whole->dtype == tensor.dtype && !tensor.whole->factors_apart) {
      const uint8_t* data = source_.data(tensor.whole->planes.at(0)) + begin;
      for (uint64_t at = 0; at < bytes; at += kCopyBytes)
        sink_(offsets_[slice.tensor] + begin + at, {data + at, size_t(std::min(kCopyBytes, bytes - at))});
    } else {
      sink_(offsets_[slice.tensor] + begin, encoded(tensor, dtype, slice, row_bytes));
    }
    return bytes;
  }

  // Rows of a slice in the tensor's dtype; a buffer of this thread.
  std::span<const uint8_t> encoded(const FileTensor& tensor, const tenon_dtype& dtype, const Slice& slice,
                                   uint64_t row_bytes) const {
    thread_local std::vector<float> values;
    thread_local std::vector<uint8_t> bytes;
    const int64_t cols = tensor.dim[0];
    values.resize(size_t(slice.rows * cols));
    bytes.resize(size_t(slice.rows) * row_bytes);
    tensor.rows->read(slice.row0, slice.rows, values.data());
    const auto fault = std::find_if(values.begin(), values.end(), [](float v) { return !std::isfinite(v); });
    if (fault != values.end()) {
      const int64_t at = fault - values.begin();
      throw Error(ErrorKind::kFile, "tensor " + tensor.name + ": row " + std::to_string(slice.row0 + at / cols) + ", column " +
                                        std::to_string(at % cols) + " is not finite");
    }
    tenon_weight out = {};
    out.struct_size = sizeof out, out.dtype = tensor.dtype, out.rows = slice.rows, out.cols = cols;
    out.row_bytes = int64_t(row_bytes), out.plane[0] = reinterpret_cast<tenon_addr>(bytes.data());
    plugin::check_status(dtype.encode(values.data(), slice.rows, cols, &out), "tensor " + tensor.name);
    if (dtype.check && dtype.check(&out, 0, slice.rows) != TENON_OK)
      throw Error(ErrorKind::kFile, "tensor " + tensor.name + ": values near row " + std::to_string(slice.row0) +
                                        " are too large for " + text_of(dtype.name) + " (" + plugin::take_message() + ")");
    return bytes;
  }

  void give_back(const FileTensor& tensor) const {
    if (!tensor.whole) return;
    for (const source::Plane& plane : tensor.whole->planes) source_.drop_pages(plane, 0, plane.bytes);
  }

  const std::vector<FileTensor>& tensors_;
  const std::vector<uint64_t>& offsets_;
  const source::ModelSource& source_;
  const plugin::Registry& registry_;
  const QuantizeSink& sink_;
  std::vector<std::atomic<int64_t>> left_;  // slices of each tensor
  std::vector<Slice> slices_;
  std::atomic<size_t> next_ = 0;
  std::atomic<uint64_t> done_ = 0;
  std::atomic<bool> stop_ = false;
  uint64_t total_ = 0;
  std::mutex mutex_;
  std::exception_ptr failure_;
};

}  // namespace

uint64_t tensor_bytes(const FileTensor& tensor, const plugin::Registry& registry) {
  const tenon_dtype& dtype = *registry.dtype(tensor.dtype);
  int64_t bytes = 0;
  if (__builtin_mul_overflow(tensor.dim[0] / dtype.block_cols, int64_t(dtype.block_bytes), &bytes) ||
      __builtin_mul_overflow(bytes, tensor.n_rows(), &bytes))
    throw Error(ErrorKind::kFile, "tensor " + tensor.name + ": its size passes 2^63 bytes");
  return uint64_t(bytes);
}

void write_tensors(const std::vector<FileTensor>& tensors, const std::vector<uint64_t>& offsets, const source::ModelSource& source,
                   const plugin::Registry& registry, const QuantizeOptions& options, const QuantizeSink& sink) {
  const uint32_t cores = std::max(1u, std::thread::hardware_concurrency());
  Writer(tensors, offsets, source, registry, sink).run(options.threads ? options.threads : cores, options.progress, options.cancelled);
}

}  // namespace tenon::quantize
