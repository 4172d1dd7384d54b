#include "driver.hpp"

#include <algorithm>
#include <ctime>
#include <stdexcept>

namespace tenon::block_test {
namespace {

tenon_addr address(const void* p) { return reinterpret_cast<tenon_addr>(p); }

void check(tenon_status status, const char* what) {
  if (status != TENON_OK) throw std::runtime_error(std::string(what) + ": " + testing::Kit::instance().error());
}

tenon_weight file_weight(const testing::Weight& weight) {
  tenon_weight table = {};
  table.struct_size = sizeof table;
  table.dtype = testing::Kit::instance().dtype_id(weight.dtype);
  table.plane[0] = address(weight.plane[0].data());
  table.rows = weight.rows, table.cols = weight.cols, table.row_bytes = weight.row_bytes;
  return table;
}

}  // namespace

double thread_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

Packed pack(const tenon_kernel& kernel, const testing::Weight& weight, uint32_t layout, int64_t slice_rows) {
  const tenon_weight source = file_weight(weight);
  tenon_node node = {};
  node.struct_size = sizeof node;
  tenon_pack request = {};
  request.struct_size = sizeof request, request.layout = layout, request.src = &source, request.rows = weight.rows;
  check(kernel.pack(&kernel, &node, &request), "pack (size)");
  Packed out;
  out.bytes.assign(request.bytes, 0xff);
  request.dst = address(out.bytes.data());
  const double begin = thread_seconds();
  for (int64_t row = 0; row < weight.rows; row += slice_rows) {
    request.row0 = row, request.rows = std::min(slice_rows, weight.rows - row);
    check(kernel.pack(&kernel, &node, &request), "pack");
  }
  out.seconds = thread_seconds() - begin;
  out.table = source;
  out.table.layout = layout;
  out.table.plane[0] = request.dst;
  return out;
}

Matrix::Matrix(uint32_t encoding, int64_t rows, int64_t cols)
    : bytes(static_cast<size_t>(rows * tenon_encoding_row_bytes(encoding, cols)), 0xff), view{} {
  view.data = address(bytes.data()), view.rows = rows, view.cols = cols;
  view.row_bytes = tenon_encoding_row_bytes(encoding, cols);
  view.groups = 1, view.group_bytes = view.row_bytes, view.encoding = encoding;
}

void Matrix::encode(const std::vector<float>& values) {
  for (int64_t r = 0; r < view.rows; ++r)
    testing::encode_row(view.encoding, values.data() + r * view.cols, view.cols, bytes.data() + r * view.row_bytes);
}

LinearRun::LinearRun(const tenon_kernel& kernel, const std::vector<testing::Weight>& weights, int64_t rows,
                     uint32_t phase, uint32_t workers)
    : kernel_(kernel),
      workers_(workers),
      rows_(static_cast<uint32_t>(rows)),
      x_(std::string_view(kernel.name.data, kernel.name.size) == "block.linear.amx" ? TENON_ENC_BF16 : TENON_ENC_Q8_32,
         rows, weights[0].cols) {
  std::vector<tenon_type> outs;
  for (const testing::Weight& weight : weights) {
    outs.push_back({TENON_ENC_F32, TENON_DOMAIN_TOKENS, weight.rows, 1});
    tables_.push_back(file_weight(weight));
    tables_.back().plane[0] = 0;
    outs_.emplace_back(TENON_ENC_F32, rows, weight.rows);
  }
  const tenon_type in = {TENON_ENC_F32, TENON_DOMAIN_TOKENS, weights[0].cols, 1};
  tenon_node node = {};
  node.struct_size = sizeof node, node.op = TENON_OP_LINEAR, node.phase = phase, node.layer = 0;
  node.in = &in, node.n_in = 1, node.out = outs.data(), node.n_out = static_cast<uint32_t>(outs.size());
  node.weight = tables_.data(), node.n_weight = static_cast<uint32_t>(tables_.size());
  tenon_device device = {};
  device.struct_size = sizeof device;
  tenon_offer offer = {};
  offer.struct_size = sizeof offer;
  if (kernel.accept(&kernel, &node, &device, &offer) != TENON_OK) throw std::runtime_error(offer.why_not);
  plan_.struct_size = sizeof plan_;
  check(kernel.plan(&kernel, &node, rows_, 4096, workers, &plan_), "plan");
  for (size_t i = 0; i < weights.size(); ++i) {
    packed_.push_back(pack(kernel, weights[i], offer.pack_layout[i]));
    pack_seconds_ += packed_[i].seconds;
    tables_[i] = packed_[i].table;
    out_views_.push_back(outs_[i].view);
  }
  for (uint32_t w = 0; w < workers; ++w) scratch_.emplace_back(plan_.scratch, uint8_t{0xff});
}

uint64_t LinearRun::packed_bytes() const {
  uint64_t sum = 0;
  for (const Packed& p : packed_) sum += p.bytes.size();
  return sum;
}

void LinearRun::launch(uint32_t worker) {
  tenon_args args = {};
  args.struct_size = sizeof args, args.rows = rows_;
  args.in = &x_.view, args.n_in = 1;
  args.out = out_views_.data(), args.n_out = static_cast<uint32_t>(out_views_.size());
  args.weight = tables_.data(), args.n_weight = static_cast<uint32_t>(tables_.size());
  tenon_exec exec = {};
  exec.struct_size = sizeof exec, exec.worker = worker, exec.n_workers = workers_;
  exec.scratch = scratch_[worker].data();
  check(kernel_.launch(&kernel_, &plan_, &args, &exec), "launch");
}

void LinearRun::run() {
  for (uint32_t w = 0; w < workers_; ++w) launch(w);
}

}  // namespace tenon::block_test
