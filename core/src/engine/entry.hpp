// entry.hpp: an entry graph of a loaded model, and what it runs in: its stores, its step record, its Programs.
#pragma once

#include "graph/graph.hpp"
#include "parallel/exchange_kernel.hpp"
#include "program/program.hpp"
#include "program/step_record.hpp"
#include "store/stores.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tenon::engine {

// Programs of a phase: that with all logits on rank 0; that which keeps tapped values too; that in which the logits stay on the
// ranks that compute them.
enum class Twin : uint8_t { kPlain, kTaps, kOwnLogits };

// Weights are the model's. A draft has stores of its own and may read those of main, whose page tables then follow its own
// in its step record. One thread, as the model.
struct Entry {
  std::string name;  // "main", "draft.0" …
  graph::Graph graph;
  graph::Graph uncut;        // where it is cut for ranks or into parts
  Entry* main = nullptr;     // of a draft: the entry drafted for
  int64_t vocab = 0;         // columns of the logits, which only rank 0 has
  std::vector<int32_t> ids;  // of each logit; empty: its number
  std::vector<tenon_store_type> store_types;
  std::unique_ptr<program::StepRecord> step;
  std::unique_ptr<store::Stores> stores;  // its own
  program::Buffer hidden, overlay;        // f32 rows of its inputs of these names
  std::unique_ptr<parallel::ExchangeKernel> exchange;  // where there are several ranks
  std::unique_ptr<program::Program> programs[2][3];  // [decode, prefill][Twin]

  void take(graph::Graph built) {
    vocab = built.values[size_t(built.logits)].cols;
    graph = std::move(built);
  }
  // Columns of the hidden input; 0 = it takes none.
  int64_t hidden_cols() const {
    for (const graph::Value& value : graph.values)
      if (value.input == TENON_INPUT_HIDDEN) return value.cols;
    return 0;
  }
  // Columns of rows that stand in for embeddings; 0 = it takes none.
  int64_t overlay_cols() const { return graph.overlay < 0 ? 0 : graph.values[size_t(graph.overlay)].cols; }
  bool reads_main() const {
    for (const graph::Store& store : graph.stores)
      if (store.target >= 0) return true;
    return false;
  }
  size_t n_groups() const { return stores->n_groups() + (reads_main() ? main->stores->n_groups() : 0); }
  // The tables of all its stores, in the graph's order.
  std::vector<tenon_store> store_tables() const;
};

}  // namespace tenon::engine
