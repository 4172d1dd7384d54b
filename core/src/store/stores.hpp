// stores.hpp: the stores of a model on a device: page pools, state slots, transactions, windows.
#pragma once

#include "program/device.hpp"
#include "graph/graph.hpp"
#include "sequence_state.hpp"

#include <tenon/abi.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace tenon::plugin {
struct Registry;
}

namespace tenon::store {

struct StoreOptions {
  uint32_t dtype_k = TENON_DTYPE_F16, dtype_v = TENON_DTYPE_F16;
  int64_t context = 0;  // tokens a sequence may hold
  uint32_t max_sequences = 1, max_step_tokens = 512;
  bool poison = false;  // for tests: fresh pages and tapes hold NaN
};

// Types of a graph's stores under the options: K/V dtypes for paged stores, f32 elsewhere.
std::vector<tenon_store_type> store_types(const graph::Graph& graph, const StoreOptions& options);

// One scheduler thread. Page ids are shared by all stores of one window (a page group); each has its own pool.
class Stores {
 public:
  // Throws Error(kCapacity) when memory is short, Error(kUsage) for a dtype no paged store can hold.
  Stores(const graph::Graph& graph, const StoreOptions& options, const plugin::Registry& registry, program::Device device);

  const std::vector<tenon_store_type>& types() const { return types_; }
  size_t n_groups() const { return groups_.size(); }
  uint32_t table_stride() const { return stride_; }
  bool has_recurrent() const { return has_recurrent_; }
  uint64_t bytes() const;
  const StoreOptions& options() const { return options_; }

  // The tables of the stores; `page_table(group)` and `slot_table` are addresses inside the step record.
  std::vector<tenon_store> tables(const std::vector<tenon_addr>& page_tables, tenon_addr slot_table) const;

  // A fresh sequence with zero state. Throws Error(kCapacity).
  SequenceState create();
  void drop(SequenceState& state);

  // Gives back pages out of every window's reach and takes pages for `n` more tokens. Throws Error(kCapacity), changing
  // nothing but what was given back.
  void reserve(SequenceState& state, int64_t n);
  // Writes the row of page group `group` into `out` (table_stride entries).
  void write_table(const SequenceState& state, size_t group, std::span<int32_t> out) const;

  // After a step of n tokens ran: lengths, tape and halves move on.
  void stepped(SequenceState& state, int64_t n) const;
  void begin(SequenceState& state) const;
  void commit(SequenceState& state, int64_t keep) const;
  void rollback(SequenceState& state) const;
  int64_t truncate(SequenceState& state, int64_t n);

  // Needs settled states (accepted = 0, no open transaction). Live rows only, and what a windowed page holds before them, so
  // equal contents give equal bytes. restore() throws Error(kUsage) for bytes that do not fit and leaves the state as it is.
  SequenceState fork(const SequenceState& state);
  std::vector<uint8_t> save(const SequenceState& state) const;
  void restore(SequenceState& state, std::span<const uint8_t> bytes);

 private:
  struct Group {
    int32_t window = 0;
    int64_t n_pages = 0;
    std::vector<int32_t> free;  // page ids, the next one last; filled when memory for the pages was had
  };
  struct Pool {
    program::Buffer base, aux;
    int64_t page_bytes = 0, value_offset = 0, aux_bytes = 0;
    int64_t row_bytes_k = 0, row_bytes_v = 0;  // of one head's row in a page
    int32_t group = -1;                        // -1: slots
  };
  void add_paged(const tenon_store_type& type, const plugin::Registry& registry, const program::Device& device);
  void add_slots(const tenon_store_type& type, const program::Device& device);
  int32_t group_of(int32_t window);
  void clear_slot(uint32_t slot);
  void free_page(Group& group, int32_t page) const;
  void poison_page(int32_t group, int32_t page) const;
  int64_t first_reachable_page(const SequenceState& state, int32_t window) const;
  template <typename Visit>
  void visit_live(const SequenceState& state, Visit&& visit) const;

  StoreOptions options_;
  program::Device device_;
  std::vector<tenon_store_type> types_;
  std::vector<Pool> pools_;
  std::vector<Group> groups_;
  std::vector<uint32_t> free_slots_;
  uint32_t stride_ = 1;
  bool has_recurrent_ = false;
};

}  // namespace tenon::store
