// weights.hpp: the weights of a graph on a device: as in the file, as small f32 tables, or packed for a kernel.
#pragma once

#include "assembled.hpp"
#include "bank.hpp"
#include "device.hpp"
#include "graph/graph.hpp"
#include "graph/names.hpp"
#include "share.hpp"

#include <tenon/abi.h>
#include <tenon/engine.hpp>

#include <array>
#include <map>
#include <memory>
#include <span>
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

// The experts of a layer are packed, copied and addressed one by one, as a matrix each.
// Weights that are no operand of linear, embed or expert_ffn become dense f32 at once: norms, convolution taps, biases.
// One thread, but for pack(), which uses `n_workers` threads of its own.
class WeightSet {
 public:
  // Of several graphs, of which the last one numbers the weights of all; `names` by the weights' source.
  // Throws Error(kFile) for a tensor whose dtype no plugin knows.
  WeightSet(std::span<const graph::Graph* const> graphs, std::span<const graph::NameMap* const> names,
            const plugin::Registry& registry, Device device);
  WeightSet(const graph::Graph& graph, const graph::NameMap& names, const plugin::Registry& registry, Device device)
      : WeightSet(std::array{&graph}, std::array{&names}, registry, device) {}

  // Without addresses, for accept(). layout: the packed form asked for before, or 0.
  tenon_weight described(int32_t id) const;
  uint32_t packed_layout(int32_t id) const { return entries_[size_t(id)].layout; }
  // Whether only some of its experts are here: kernels then have to pass over the others.
  bool is_partial(int32_t id) const { return entries_[size_t(id)].is_partial(); }
  std::string dtype_name(int32_t id) const;

  // Wants weight `id` in `layout` (0: as in the file). A weight has one packed form; a second layout throws Error(kRuntime).
  void request(int32_t id, uint32_t layout, const PackRequest& how);
  // Packs what was asked for, slice by slice, and gives the source's pages back. On failure nothing is kept.
  void pack(uint32_t n_workers, const ProgressCallback& progress, const CancelCallback& cancelled);

  // With addresses; after pack(). Of experts: the first one's that is here, and where all are, each one's distance from the
  // one before if that is the same.
  tenon_weight resolved(int32_t id, uint32_t layout) const;
  // Where every expert of gate, up and down lies in those layouts; after pack(). Lives as long as this object.
  const tenon_bank* bank(const std::vector<int32_t>& ids, const std::vector<uint32_t>& layouts);

  uint64_t source_bytes() const { return source_bytes_; }
  uint64_t packed_bytes() const { return packed_bytes_; }
  uint64_t bytes_of(int32_t id, uint32_t layout) const;

 private:
  struct Entry {
    const source::ModelSource* source = nullptr;
    const source::Tensor* tensor = nullptr;
    const graph::Binding* binding = nullptr;
    tenon_weight raw = {};  // of the share; n_expert counts those that are elsewhere too
    Share share;
    std::vector<int64_t> experts;  // that are here, by their number among all
    std::vector<float> dense;  // small f32 tables
    Planes assembled;          // of joined or turned matrices, from pack() on for as long as they are read
    bool is_matrix = false, wants_raw = false;
    uint32_t layout = 0;
    PackRequest how = {};
    Buffer packed, copied;
    uint64_t packed_step = 0, copied_step = 0;  // from one expert to the next
    uint64_t copied_plane[4] = {};              // where a matrix's planes begin in its copy
    uint64_t bytes = 0;
    bool is_partial() const { return experts.size() < raw.n_expert; }
    int64_t n_matrix() const { return raw.n_expert ? int64_t(experts.size()) : 1; }
  };
  struct Slice {
    Entry* entry;
    int64_t matrix, row0, rows;
  };
  // Bytes of a plane. `plane` and `offset` say where in the files; null where no file has them so.
  struct PlanePart {
    const uint8_t* data = nullptr;
    uint64_t bytes = 0;
    const source::Plane* plane = nullptr;
    uint64_t offset = 0;
  };
  void describe(const graph::Weight& weight, Entry& entry);
  void make_dense(const graph::Weight& weight, const graph::Binding& binding, Entry& entry);
  bool is_copied(const Entry& entry) const;
  void assemble(Entry& entry) const;
  void copy_matrices(Entry& entry);
  uint64_t place_slices(Entry& entry, std::vector<Slice>& slices);
  void pack_slice(const Slice& slice);
  // Part of a tensor's plane that belongs to one matrix of a weight, of experts the n-th one here; data null where the
  // tensor has none of that role.
  PlanePart part_of(const Entry& entry, int64_t matrix, uint32_t role) const;
  const tenon_dtype& dtype_of(const Entry& entry) const;
  // A share's rows of a matrix, gathered into `planes`, as kernels that pack see them.
  tenon_weight gathered(const Slice& slice, Planes& planes) const;
  void drop_pages(const Slice& slice) const;
  // One matrix in its file's layout, in host memory.
  tenon_weight source_matrix(const Entry& entry, int64_t matrix) const;
  tenon_addr matrix_address(const Entry& entry, uint32_t layout, int64_t matrix) const;
  uint32_t n_role(const Entry& entry) const;
  std::vector<float> macros(const Entry& entry) const;

  const plugin::Registry& registry_;
  Device device_;
  std::vector<Entry> entries_;
  std::map<std::pair<std::vector<int32_t>, std::vector<uint32_t>>, std::unique_ptr<Bank>> banks_;
  uint64_t source_bytes_ = 0, packed_bytes_ = 0;
};

}  // namespace tenon::program
