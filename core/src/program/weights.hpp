// weights.hpp: the weights of a graph on a device: as in the file, as small f32 tables, or packed for a kernel.
#pragma once

#include "device.hpp"
#include "graph/graph.hpp"
#include "graph/names.hpp"

#include <tenon/abi.h>
#include <tenon/engine.hpp>

#include <map>
#include <memory>
#include <vector>

namespace tenon::plugin {
struct Registry;
}

namespace tenon::program {

// A kernel's wish for a weight in its own layout.
struct PackRequest {
  const tenon_kernel* kernel;
  const tenon_node* node;  // alive until pack() has returned
  uint32_t index;          // of the weight in the node
};

// Weights that are no operand of linear, embed or expert_ffn become dense f32 at once: norms, convolution taps, biases.
// One thread, but for pack(), which uses `n_workers` threads of its own.
class WeightSet {
 public:
  // Throws Error(kFile) for a tensor whose dtype no plugin knows.
  WeightSet(const graph::Graph& graph, const graph::NameMap& names, const plugin::Registry& registry, Device device);

  // Without addresses, for accept(). layout: the packed form asked for before, or 0.
  tenon_weight described(int32_t id) const;
  uint32_t packed_layout(int32_t id) const { return entries_[size_t(id)].layout; }
  std::string dtype_name(int32_t id) const;

  // Wants weight `id` in `layout` (0: as in the file). A weight has one packed form; a second layout throws Error(kRuntime).
  void request(int32_t id, uint32_t layout, const PackRequest& how);
  // Packs what was asked for, slice by slice, and gives the source's pages back. On failure nothing is kept.
  void pack(uint32_t n_workers, const ProgressCallback& progress, const CancelCallback& cancelled);

  // With addresses; after pack().
  tenon_weight resolved(int32_t id, uint32_t layout) const;

  uint64_t source_bytes() const { return source_bytes_; }
  uint64_t packed_bytes() const { return packed_bytes_; }
  uint64_t bytes_of(int32_t id, uint32_t layout) const;

 private:
  struct Entry {
    const source::Tensor* tensor = nullptr;
    tenon_weight raw = {};
    std::vector<float> dense;  // small f32 tables
    bool is_matrix = false, wants_raw = false;
    uint32_t layout = 0;
    PackRequest how = {};
    Buffer packed, copied;
    uint64_t bytes = 0;
  };
  void make_dense(const graph::Weight& weight, const graph::Binding& binding, Entry& entry);
  void pack_slice(Entry& entry, int64_t row0, int64_t rows);

  const plugin::Registry& registry_;
  const source::ModelSource& source_;
  Device device_;
  std::vector<Entry> entries_;
  uint64_t source_bytes_ = 0, packed_bytes_ = 0;
};

}  // namespace tenon::program
