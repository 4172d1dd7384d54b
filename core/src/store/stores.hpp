// stores.hpp: the stores of a model on a device: page pools, state slots, transactions, windows.
#pragma once

#include "cache_plan.hpp"
#include "graph/graph.hpp"
#include "page_pool.hpp"
#include "program/device.hpp"
#include "sequence_state.hpp"

#include <tenon/abi.h>

#include <cstdint>
#include <functional>
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
  int64_t prefix_cache_bytes = 0;  // as for plan_cache()
};

// A stored beginning of a sequence, its length a multiple of 64 tokens.
struct StoredPrefix {
  int64_t length = 0, exact = 0;            // exact: as in SequenceState
  std::vector<std::vector<int32_t>> pages;  // by page group, then by page number; -1 below what a query can reach
  int32_t snapshot = -1;                    // of the states, where the model has any
};

// Types of a graph's stores under the options: K/V dtypes for paged stores, f32 elsewhere.
std::vector<tenon_store_type> store_types(const graph::Graph& graph, const StoreOptions& options);

// Several ranks' shares of a sequence as what one device with all of it would save. Throws Error(kRuntime) where they do not fit together.
std::vector<uint8_t> join_shares(std::span<const std::vector<uint8_t>> shares);

// One scheduler thread. Page ids are shared by all stores of one window (a page group); each has its own pool. A rank of several
// counts all of a model's stores, whatever its share of them, so that all ranks decide alike.
class Stores {
 public:
  // Throws Error(kCapacity) when memory is short, Error(kUsage) for a dtype no paged store can hold.
  Stores(const graph::Graph& graph, const StoreOptions& options, const plugin::Registry& registry, program::Device device);

  const std::vector<tenon_store_type>& types() const { return types_; }
  size_t n_groups() const { return groups_.size(); }
  uint32_t table_stride() const { return stride_; }
  bool has_recurrent() const { return has_recurrent_; }
  uint64_t bytes() const;  // the prefix cache's included
  const StoreOptions& options() const { return options_; }
  int32_t window(size_t group) const { return groups_[group].window; }
  uint64_t page_bytes(size_t group) const;  // of one page in all of the group's stores, on all ranks
  uint64_t snapshot_bytes() const;
  // The first page that a query behind `length` tokens can read.
  int64_t first_page_in_reach(size_t group, int64_t length) const;

  // The tables of the stores; `page_table(group)` and `slot_table` are addresses inside the step record.
  std::vector<tenon_store> tables(const std::vector<tenon_addr>& page_tables, tenon_addr slot_table) const;

  // A fresh sequence with zero state. Throws Error(kCapacity).
  SequenceState create();
  void drop(SequenceState& state);

  // Gives back pages out of every window's reach and takes pages for `n` more tokens; a shared page that they will write to
  // is copied first. Throws Error(kCapacity), changing nothing but what was given back.
  void reserve(SequenceState& state, int64_t n);
  // Writes the row of page group `group` into `out` (table_stride entries).
  void write_table(const SequenceState& state, size_t group, std::span<int32_t> out) const;

  // After a step of n tokens ran: lengths, tape and halves move on.
  void stepped(SequenceState& state, int64_t n, uint32_t phase = TENON_PHASE_DECODE) const;
  void begin(SequenceState& state) const;
  void commit(SequenceState& state, int64_t keep) const;
  void rollback(SequenceState& state) const;
  // The largest length up to n that truncate() can keep.
  int64_t resumable(const SequenceState& state, int64_t n) const;
  int64_t truncate(SequenceState& state, int64_t n);

  // Needs settled states (accepted = 0, no open transaction). Live rows only, and what a windowed page holds before them, so
  // equal contents give equal bytes. restore() throws Error(kUsage) for bytes that do not fit and leaves the state as it is.
  // A fork shares all pages until one of both writes to them.
  SequenceState fork(const SequenceState& state);
  // A rank's share is for join_shares(), whose bytes every rank restores its share from.
  std::vector<uint8_t> save(const SequenceState& state) const;
  std::vector<uint8_t> save_share(const SequenceState& state) const;
  void restore(SequenceState& state, std::span<const uint8_t> bytes);

  // For the prefix index, which holds pages and snapshots beside the live sequences.
  const CachePlan& cache() const { return cache_; }
  PagePool& page_pool(size_t group) { return groups_[group].pool; }
  // Called when a group has no free page: makes one free, or answers false when it holds none.
  void set_reclaim(std::function<bool(size_t group)> reclaim) { reclaim_ = std::move(reclaim); }
  int64_t n_free_snapshots() const { return int64_t(free_snapshots_.size()); }
  // Copies the states of a settled sequence; there must be a free snapshot.
  int32_t take_snapshot(const SequenceState& state);
  void drop_snapshot(int32_t snapshot) { free_snapshots_.push_back(snapshot); }
  void load_snapshot(const SequenceState& state, int32_t snapshot);  // over the sequence's states
  // The sequence gives back what it holds and shares the prefix.
  void adopt(SequenceState& state, const StoredPrefix& prefix);

 private:
  struct Group {
    int32_t window = 0;
    int64_t a_sequence = 0, cached = 0;  // pages that one sequence can need, and that the prefix cache adds
    PagePool pool;                       // filled when memory for the pages was had
  };
  struct Pool {
    program::Buffer base, aux, snapshots;
    int64_t page_bytes = 0, value_offset = 0, aux_bytes = 0;
    int64_t row_bytes_k = 0, row_bytes_v = 0;  // of one head's row in a page
    int64_t state_bytes = 0, half_bytes = 0;   // of a slot's live part; from one half to the other
    int64_t all_page_bytes = 0, all_state_bytes = 0;  // with what other ranks have of it
    int32_t group = -1;                        // -1: slots
  };
  Pool pool_of(const tenon_store_type& type, const plugin::Registry& registry);
  Pool paged(const tenon_store_type& type, const plugin::Registry& registry);
  static Pool slots(const tenon_store_type& type);
  int32_t group_of(int32_t window);
  void plan_the_cache();
  void allocate(Pool& pool);
  void clear_slot(uint32_t slot);
  tenon_addr slot_address(const Pool& pool, const SequenceState& state) const;
  int32_t take_page(size_t group);
  void need_pages(size_t group, int64_t n);
  void give_back_pages(SequenceState& state);
  void poison_page(int32_t group, int32_t page) const;
  void copy_page(int32_t group, int32_t to, int32_t from) const;
  int64_t first_reachable_page(const SequenceState& state, size_t group) const {
    return first_page_in_reach(group, state.is_open ? state.base : state.length);
  }
  template <typename Visit>
  uint64_t visit_live(const SequenceState& state, Visit&& visit) const;

  StoreOptions options_;
  program::Device device_;
  std::vector<graph::Store> shapes_;
  std::vector<tenon_store_type> types_;
  std::vector<Pool> pools_;
  std::vector<Group> groups_;
  std::vector<uint32_t> free_slots_;
  std::vector<int32_t> free_snapshots_;
  std::function<bool(size_t)> reclaim_;
  CachePlan cache_;
  uint32_t stride_ = 1;
  bool has_recurrent_ = false;
};

}  // namespace tenon::store
