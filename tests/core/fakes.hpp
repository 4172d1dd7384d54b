// fakes.hpp: a device, kernels, a model file and an architecture that live in the test, for the parts between file and
// steps.
#pragma once

#include <tenon/abi.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/builder.hpp"
#include "graph/graph.hpp"
#include "graph/names.hpp"
#include "plugin/registry.hpp"
#include "program/device.hpp"
#include "source/model_source.hpp"

namespace tenon::core_test {

inline tenon_str str(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view view(tenon_str text) { return {text.data, size_t(text.size)}; }

// The one stream of a fake device: what it was given waits until somebody waits for it, or is kept for a graph. Kernels
// that find it in their tenon_exec put their work on it.
struct FakeStream {
  using Work = std::vector<std::function<void()>>;
  void submit(std::function<void()> one) { (is_capturing ? captured : waiting).push_back(std::move(one)); }
  bool is_capturing = false;
  Work waiting, captured;
  std::deque<std::unique_ptr<Work>> graphs;  // null where a graph was destroyed
};

// A backend "fake" over host memory with one device, which has the feature "fast". Memory can be limited. With `spmd`
// it has a team of threads, after add_stream() a stream that can capture.
class FakeDevice {
 public:
  explicit FakeDevice(bool spmd = false);
  FakeDevice(const FakeDevice&) = delete;
  FakeDevice& operator=(const FakeDevice&) = delete;
  program::Device device() const { return {&backend_, &device_}; }
  uint64_t limit_bytes = UINT64_MAX;
  uint64_t n_allocations() const { return sizes_.size(); }
  void add_stream();
  FakeStream stream;

 private:
  uint64_t used_ = 0;
  std::map<tenon_addr, uint64_t> sizes_;
  tenon_str features_[1];
  tenon_device device_ = {};
  tenon_backend backend_ = {};
};

// A kernel whose accept() is a function. It refuses nothing when that is empty.
struct FakeKernel {
  using Accept = std::function<const char*(const tenon_node&, tenon_offer&)>;  // the reason of a refusal, or null
  FakeKernel(std::string name, std::string pattern, Accept accept = {});
  FakeKernel(const FakeKernel&) = delete;
  FakeKernel& operator=(const FakeKernel&) = delete;
  FakeKernel& numeric_class(std::string text);
  FakeKernel& priority(int32_t value) { return table.priority = value, *this; }
  FakeKernel& feature(std::string text);
  FakeKernel& phases(uint32_t value) { return table.phases = value, *this; }

  std::string name, pattern, class_name, feature_name;
  Accept accept;
  int n_pack_slices = 0, n_pack_sizes = 0;  // calls of pack(); 64 bytes a row
  std::vector<std::string> packed_nodes;    // names of the nodes given to pack() for sizes
  tenon_kernel table = {};
};

// Kernels on the fake device.
class Kernels {
 public:
  FakeKernel& add(std::string name, std::string pattern, FakeKernel::Accept accept = {});
  // A kernel for each op that reads and emits f32.
  Kernels& add_plain(std::initializer_list<const char*> ops);
  plugin::Registry registry(bool reversed = false) const;

 private:
  std::deque<FakeKernel> kernels_;
};

// A model file in memory: f32, f16 … tensors of zeros, or of given f32 values.
class FakeSource final : public source::ModelSource {
 public:
  void add(const std::string& name, int64_t rows, int64_t cols, uint32_t dtype = TENON_DTYPE_F32);
  void add(const std::string& name, int64_t rows, int64_t cols, const std::vector<float>& values);
  void add_stack(const std::string& name, int64_t n_expert, int64_t rows, int64_t cols);
  void add_factors(const std::string& name, const std::vector<float>& values);  // beside a tensor that is there

  const Metadata& metadata() const override { return no_metadata_; }
  const std::vector<source::Tensor>& tensors() const override { return tensors_; }
  const source::Tensor* find(std::string_view name) const override;
  std::string_view format() const override { return "fake"; }
  std::string_view scheme() const override { return "gguf"; }
  const std::vector<std::string>& file_paths() const override { return paths_; }
  uint64_t file_bytes() const override { return data_.size(); }
  const tenon_meta* meta_handle() const override { return nullptr; }
  const uint8_t* data(const source::Plane& plane) const override { return data_.data() + plane.offset; }
  void drop_pages(const source::Plane&, uint64_t, uint64_t) const override { ++n_dropped; }
  mutable int n_dropped = 0;

 private:
  struct NoMetadata final : Metadata {
    const tenon_value* find(std::string_view) const override { return nullptr; }
    size_t size() const override { return 0; }
    std::string_view key_at(size_t) const override { return {}; }
    const tenon_value& value_at(size_t) const override { return none; }
    tenon_value none = {};
  };
  NoMetadata no_metadata_;
  std::vector<source::Tensor> tensors_;
  std::vector<std::string> paths_ = {"fake.model"};
  std::vector<uint8_t> data_;
};

// What an architecture's build() does, with the builder's table at hand. Calls that must succeed throw BuildFailure.
struct BuildFailure {
  tenon_status status;
};
class Builder {
 public:
  explicit Builder(const tenon_builder* table) : table(table) {}
  int32_t weight(std::string_view name, int64_t rows, int64_t cols) const;
  int32_t stack(std::string_view name, int64_t rows, int64_t cols, uint32_t n_expert) const;
  int32_t tied(std::string_view name, int64_t rows, int64_t cols, std::string_view to) const;
  int32_t store(uint32_t kind, uint32_t heads, int64_t cols_k, int64_t cols_v, int32_t window = 0,
                int64_t tape_cols = 0) const;
  int32_t tokens() const;
  int32_t view(int32_t value, int64_t col0, int64_t cols, int64_t groups = 1, int64_t step = 0) const;
  std::vector<int32_t> op(uint32_t op, const void* attr, std::vector<int32_t> in, std::vector<int32_t> weights = {},
                          std::vector<int32_t> stores = {}, uint32_t n_out = 1) const;
  // Ops with the attributes that tests want most often.
  int32_t embed(int32_t table_weight) const;
  int32_t norm(int32_t x, int32_t w, uint32_t group = 0) const;
  int32_t add(int32_t a, int32_t b) const;
  std::vector<int32_t> linear(int32_t x, std::vector<int32_t> weights) const;
  int32_t glu(int32_t gate, int32_t up) const;
  int32_t select(int32_t x) const;
  void layer(uint32_t index) const;
  void tap(int32_t value, std::string_view name) const;
  void logits(int32_t value, float softcap = 0, std::span<const int32_t> never = {}) const;
  const tenon_builder* table;
};

// Builds a graph for a file by a function in an architecture's place. Throws what build_graph() throws.
graph::Graph build(const graph::NameMap& names, const std::function<void(const Builder&)>& body,
                   const graph::DraftFor* draft = nullptr, bool with_overlay = false);

// Each of the parts stands in the text.
void expect_in(const std::string& text, std::initializer_list<const char*> parts);

}  // namespace tenon::core_test
