// driver.hpp: runs a kernel record on memory of the test's own, where the harness is too coarse: a packed table given
// to embed, the bytes behind a row, timing.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "op_harness.hpp"

namespace tenon::block_test {

// CPU time of this thread: other processes that take the core do not count.
double thread_seconds();

// A weight in the form that a kernel asked for.
struct Packed {
  tenon_weight table = {};
  testing::Bytes bytes;
  double seconds = 0;  // CPU time of this thread that packing took
};
// Packs `weight` for layout `layout` in slices of `slice_rows`; throws with the kernel's message.
Packed pack(const tenon_kernel& kernel, const testing::Weight& weight, uint32_t layout, int64_t slice_rows = 64);

// A row-major f32 or encoded matrix with its view.
struct Matrix {
  Matrix(uint32_t encoding, int64_t rows, int64_t cols);
  void encode(const std::vector<float>& values);
  const float* row(int64_t r) const { return reinterpret_cast<const float*>(bytes.data() + r * view.row_bytes); }
  testing::Bytes bytes;  // poisoned with 0xff
  tenon_view view;
};

// linear on a fixed team: node, plan and scratch are made once, run() launches.
class LinearRun {
 public:
  LinearRun(const tenon_kernel& kernel, const std::vector<testing::Weight>& weights, int64_t rows, uint32_t phase,
            uint32_t workers);
  Matrix& x() { return x_; }
  const Matrix& out(size_t i) const { return outs_[i]; }
  uint64_t packed_bytes() const;
  double pack_seconds() const { return pack_seconds_; }
  void launch(uint32_t worker);  // this worker's share; the caller brings the threads
  void run();                    // all shares, one after the other

 private:
  const tenon_kernel& kernel_;
  uint32_t workers_, rows_;
  Matrix x_;
  std::vector<Matrix> outs_;
  std::vector<Packed> packed_;
  std::vector<tenon_weight> tables_;
  std::vector<tenon_view> out_views_;
  std::vector<testing::Bytes> scratch_;
  tenon_plan plan_ = {};
  double pack_seconds_ = 0;
};

}  // namespace tenon::block_test
