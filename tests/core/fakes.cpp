#include "fakes.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "plugin/core_dtypes.hpp"
#include "plugin/message.hpp"

namespace tenon::core_test {
namespace {

void need(tenon_status status) {
  if (status != TENON_OK) throw BuildFailure{status};
}
int32_t need_id(int32_t id) {
  if (id < 0) throw BuildFailure{-id};
  return id;
}

FakeStream& stream_of(void* device) { return static_cast<FakeDevice*>(device)->stream; }
const FakeKernel& of(const tenon_kernel* table) { return *static_cast<const FakeKernel*>(table->self); }

}  // namespace

FakeDevice::FakeDevice(bool spmd) {
  features_[0] = str("fast");
  device_.struct_size = sizeof device_, device_.backend = str("fake"), device_.name = str("fake device");
  device_.features = features_, device_.n_feature = 1, device_.max_workers = 64;
  backend_.struct_size = sizeof backend_, backend_.flags = TENON_BACKEND_HOST_MEMORY, backend_.name = str("fake");
  backend_.self = this;
  backend_.alloc = [](void* self, uint32_t, uint32_t, uint64_t bytes, uint64_t align, tenon_addr* out) noexcept {
    FakeDevice& device = *static_cast<FakeDevice*>(self);
    if (device.used_ > device.limit_bytes || bytes > device.limit_bytes - device.used_)
      return plugin::set_message(TENON_OUT_OF_MEMORY, "the fake is full");
    const uint64_t step = std::max<uint64_t>(align, 64);
    void* block = std::aligned_alloc(step, (bytes + step - 1) / step * step);
    std::memset(block, 0, bytes);
    *out = reinterpret_cast<tenon_addr>(block);
    device.sizes_[*out] = bytes, device.used_ += bytes;
    return int32_t(TENON_OK);
  };
  backend_.free = [](void* self, uint32_t, uint32_t, tenon_addr address) noexcept {
    FakeDevice& device = *static_cast<FakeDevice*>(self);
    device.used_ -= device.sizes_.at(address);
    device.sizes_.erase(address);
    std::free(reinterpret_cast<void*>(address));
  };
  backend_.copy = [](void*, void*, uint32_t, tenon_addr dst, uint32_t, tenon_addr src, uint64_t row_bytes,
                     uint64_t rows, uint64_t dst_step, uint64_t src_step) noexcept {
    for (uint64_t r = 0; r < rows; ++r)
      std::memcpy(reinterpret_cast<void*>(dst + r * dst_step), reinterpret_cast<const void*>(src + r * src_step),
                  row_bytes);
    return int32_t(TENON_OK);
  };
  if (spmd) backend_.flags |= TENON_BACKEND_SPMD;
  backend_.team = [](void*, uint32_t, uint32_t workers, void (*body)(void*, const tenon_exec*), void* arg) noexcept {
    std::barrier<> barrier(workers);
    std::vector<std::thread> threads;
    const auto work = [&](uint32_t worker) {
      tenon_exec exec = {};
      exec.struct_size = sizeof exec, exec.worker = worker, exec.n_workers = workers, exec.team = &barrier;
      exec.barrier = [](void* team) noexcept { static_cast<std::barrier<>*>(team)->arrive_and_wait(); };
      exec.claim = [](void* counter, int64_t n) noexcept {
        return static_cast<std::atomic<int64_t>*>(counter)->fetch_add(n);
      };
      body(arg, &exec);
    };
    for (uint32_t w = 1; w < workers; ++w) threads.emplace_back(work, w);
    work(0);
    for (std::thread& thread : threads) thread.join();
    return int32_t(TENON_OK);
  };
  backend_.fill = [](void*, void*, uint32_t, tenon_addr address, uint32_t byte, uint64_t bytes) noexcept {
    std::memset(reinterpret_cast<void*>(address), int(byte), bytes);
    return int32_t(TENON_OK);
  };
}

void FakeDevice::add_stream() {
  backend_.flags |= TENON_BACKEND_CAPTURE;
  // The handle is not what kernels get.
  backend_.stream = [](void* self, uint32_t, int32_t, void** out) noexcept { return *out = self, int32_t(TENON_OK); };
  backend_.native = [](void* self, uint32_t, void* handle) noexcept -> void* {
    return handle == self ? &stream_of(self) : nullptr;
  };
  backend_.sync = [](void* self, void*, uint64_t) noexcept {
    for (const auto& work : std::exchange(stream_of(self).waiting, {})) work();
    return int32_t(TENON_OK);
  };
  backend_.capture_begin = [](void* self, void*) noexcept {
    return stream_of(self).is_capturing = true, int32_t(TENON_OK);
  };
  backend_.capture_end = [](void* self, void*, void** graph) noexcept {
    FakeStream& stream = stream_of(self);
    stream.is_capturing = false;
    stream.graphs.push_back(std::make_unique<FakeStream::Work>(std::exchange(stream.captured, {})));
    return *graph = stream.graphs.back().get(), int32_t(TENON_OK);
  };
  backend_.replay = [](void* self, void* graph, void*) noexcept {
    for (const auto& work : *static_cast<FakeStream::Work*>(graph)) stream_of(self).submit(work);
    return int32_t(TENON_OK);
  };
  backend_.destroy = [](void* self, uint32_t what, void* handle) noexcept {
    if (what == TENON_HANDLE_GRAPH)
      for (auto& graph : stream_of(self).graphs)
        if (graph.get() == handle) graph.reset();
  };
}

FakeKernel::FakeKernel(std::string name_, std::string pattern_, Accept accept_)
    : name(std::move(name_)), pattern(std::move(pattern_)), class_name("class." + name), accept(std::move(accept_)) {
  table.struct_size = sizeof table, table.phases = TENON_PHASE_DECODE | TENON_PHASE_PREFILL;
  table.name = str(name), table.backend = str("fake"), table.pattern = str(pattern),
  table.numeric_class = str(class_name);
  table.self = this;
  table.accept = [](const tenon_kernel* kernel, const tenon_node* node, const tenon_device*,
                    tenon_offer* offer) noexcept {
    if (!of(kernel).accept) return int32_t(TENON_OK);
    const char* reason = of(kernel).accept(*node, *offer);
    if (!reason) return int32_t(TENON_OK);
    std::strncpy(offer->why_not, reason, sizeof offer->why_not - 1);
    return int32_t(TENON_UNSUPPORTED);
  };
  table.pack = [](const tenon_kernel* kernel, const tenon_node* node, tenon_pack* pack) noexcept {
    FakeKernel& self = *static_cast<FakeKernel*>(kernel->self);
    if (!pack->dst) {
      ++self.n_pack_sizes;
      self.packed_nodes.emplace_back(view(node->name));
      pack->bytes = uint64_t(pack->rows) * 64, pack->align = 64, pack->tail_pad = 0;
    } else {
      ++self.n_pack_slices;
      std::memset(reinterpret_cast<void*>(pack->dst + uint64_t(pack->row0) * 64), int(pack->layout),
                  uint64_t(pack->rows) * 64);
    }
    return int32_t(TENON_OK);
  };
}

FakeKernel& FakeKernel::numeric_class(std::string text) {
  class_name = std::move(text), table.numeric_class = str(class_name);
  return *this;
}
FakeKernel& FakeKernel::feature(std::string text) {
  feature_name = std::move(text), table.feature = str(feature_name);
  return *this;
}

FakeKernel& Kernels::add(std::string name, std::string pattern, FakeKernel::Accept accept) {
  return kernels_.emplace_back(std::move(name), std::move(pattern), std::move(accept));
}
Kernels& Kernels::add_plain(std::initializer_list<const char*> ops) {
  for (const char* op : ops) add(std::string("plain.") + op, op);
  return *this;
}
plugin::Registry Kernels::registry(bool reversed) const {
  plugin::Registry out;
  for (const FakeKernel& kernel : kernels_)
    out.kernels.insert(reversed ? out.kernels.begin() : out.kernels.end(), &kernel.table);
  return out;
}

void FakeSource::add(const std::string& name, int64_t rows, int64_t cols, uint32_t dtype) {
  const tenon_dtype* record = plugin::core_dtype(dtype);
  source::Tensor tensor;
  tensor.name = name, tensor.dtype = dtype, tensor.dim = {cols, rows};
  const uint64_t bytes = uint64_t(rows) * uint64_t(cols) / record->block_cols * record->block_bytes;
  tensor.planes.push_back({TENON_PLANE_CODES, dtype, 0, tensor.dim, data_.size(), bytes});
  data_.resize(data_.size() + (bytes + 63) / 64 * 64);
  tensors_.push_back(std::move(tensor));
}
void FakeSource::add(const std::string& name, int64_t rows, int64_t cols, const std::vector<float>& values) {
  add(name, rows, cols);
  std::memcpy(data_.data() + tensors_.back().planes[0].offset, values.data(), values.size() * 4);
}
void FakeSource::add_stack(const std::string& name, int64_t n_expert, int64_t rows, int64_t cols) {
  add(name, n_expert * rows, cols);
  tensors_.back().dim = tensors_.back().planes[0].dim = {cols, rows, n_expert};
}
void FakeSource::add_factors(const std::string& name, const std::vector<float>& values) {
  add(name + " factors", 1, int64_t(values.size()), values);
  source::Plane plane = tensors_.back().planes[0];
  plane.role = TENON_PLANE_MACRO;
  tensors_.pop_back();
  for (source::Tensor& tensor : tensors_)
    if (tensor.name == name) tensor.planes.push_back(plane), tensor.factors_apart = true;
}
const source::Tensor* FakeSource::find(std::string_view name) const {
  for (const source::Tensor& tensor : tensors_)
    if (tensor.name == name) return &tensor;
  return nullptr;
}

int32_t Builder::weight(std::string_view name, int64_t rows, int64_t cols) const { return tied(name, rows, cols, ""); }
int32_t Builder::tied(std::string_view name, int64_t rows, int64_t cols, std::string_view to) const {
  tenon_weight_decl decl = {};
  decl.struct_size = sizeof decl, decl.name = str(name), decl.rows = rows, decl.cols = cols, decl.tied_to = str(to);
  return need_id(table->weight(table->self, &decl));
}
int32_t Builder::stack(std::string_view name, int64_t rows, int64_t cols, uint32_t n_expert) const {
  tenon_weight_decl decl = {};
  decl.struct_size = sizeof decl, decl.name = str(name), decl.rows = rows, decl.cols = cols, decl.n_expert = n_expert;
  decl.role = TENON_ROLE_EXPERT;
  return need_id(table->weight(table->self, &decl));
}
int32_t Builder::store(uint32_t kind, uint32_t heads, int64_t cols_k, int64_t cols_v, int32_t window,
                       int64_t tape_cols) const {
  tenon_store_decl decl = {};
  decl.struct_size = sizeof decl, decl.kind = kind, decl.heads = heads, decl.cols_k = cols_k, decl.cols_v = cols_v;
  decl.window = window, decl.tape_cols = tape_cols, decl.alias = -1;
  return need_id(table->store(table->self, &decl));
}
int32_t Builder::tokens() const { return need_id(table->input(table->self, TENON_INPUT_TOKENS)); }
int32_t Builder::view(int32_t value, int64_t col0, int64_t cols, int64_t groups, int64_t step) const {
  return need_id(table->view(table->self, value, col0, cols, groups, step ? step : cols / groups));
}
std::vector<int32_t> Builder::op(uint32_t op, const void* attr, std::vector<int32_t> in, std::vector<int32_t> weights,
                                 std::vector<int32_t> stores, uint32_t n_out) const {
  std::vector<int32_t> out(n_out, -1);
  need(table->op(table->self, op, attr, in.data(), uint32_t(in.size()), weights.data(), uint32_t(weights.size()),
                 stores.data(), uint32_t(stores.size()), out.data(), n_out));
  return out;
}
int32_t Builder::embed(int32_t table_weight) const {
  const tenon_embed_attr attr = {sizeof attr, 1.0f};
  return op(TENON_OP_EMBED, &attr, {tokens()}, {table_weight})[0];
}
int32_t Builder::norm(int32_t x, int32_t w, uint32_t group) const {
  const tenon_norm_attr attr = {sizeof attr, TENON_NORM_RMS, 1e-6f, group};
  return op(TENON_OP_NORM, &attr, {x}, w < 0 ? std::vector<int32_t>{} : std::vector<int32_t>{w})[0];
}
int32_t Builder::add(int32_t a, int32_t b) const { return op(TENON_OP_ADD, nullptr, {a, b})[0]; }
std::vector<int32_t> Builder::linear(int32_t x, std::vector<int32_t> weights) const {
  const tenon_linear_attr attr = {sizeof attr, 0};
  return op(TENON_OP_LINEAR, &attr, {x}, weights, {}, uint32_t(weights.size()));
}
int32_t Builder::glu(int32_t gate, int32_t up) const {
  const tenon_glu_attr attr = {sizeof attr, TENON_ACT_SILU, 0, 0};
  return op(TENON_OP_GLU, &attr, {gate, up})[0];
}
int32_t Builder::select(int32_t x) const { return op(TENON_OP_SELECT_ROWS, nullptr, {x})[0]; }
void Builder::layer(uint32_t index) const { need_id(table->layer(table->self, index)); }
void Builder::tap(int32_t value, std::string_view name) const { need(table->tap(table->self, value, str(name))); }
void Builder::logits(int32_t value, float softcap, std::span<const int32_t> never) const {
  need(table->logits(table->self, value, softcap, never.data(), uint32_t(never.size())));
}

graph::Graph build(const graph::NameMap& names, const std::function<void(const Builder&)>& body,
                   const graph::DraftFor* draft, bool with_overlay) {
  tenon_architecture architecture = {};
  architecture.struct_size = sizeof architecture, architecture.name = str("fakearch");
  architecture.build = [](void* model, tenon_str, const tenon_builder* table) noexcept {
    try {
      (*static_cast<const std::function<void(const Builder&)>*>(model))(Builder(table));
      return int32_t(TENON_OK);
    } catch (const BuildFailure& failure) {
      return failure.status;
    }
  };
  return graph::build_graph(architecture, const_cast<std::function<void(const Builder&)>*>(&body), "main", names, draft,
                            with_overlay);
}

void expect_in(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << '"' << part << "\" in: " << text;
}

}  // namespace tenon::core_test
