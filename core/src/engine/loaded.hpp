// loaded.hpp: the parts of a model between file and Programs, for running and for `inspect`.
#pragma once

#include "chunks.hpp"
#include "graph/graph.hpp"
#include "graph/names.hpp"
#include "plugin/plugin_host.hpp"
#include "program/device.hpp"
#include "program/program.hpp"
#include "program/select.hpp"
#include "program/step_record.hpp"
#include "program/weights.hpp"
#include "source/model_source.hpp"
#include "store/stores.hpp"

#include <tenon/engine.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace tenon::engine {

// A configured architecture model, dropped by the destructor.
class Configured {
 public:
  // Picks the architecture by the metadata's ids and the plugins' scores. Throws Error(kFile) saying what is installed.
  Configured(const source::ModelSource& source, plugin::PluginHost& plugins);
  ~Configured();
  Configured(const Configured&) = delete;
  Configured& operator=(const Configured&) = delete;
  const tenon_architecture& architecture() const { return *architecture_; }
  void* model() const { return model_; }
  const tenon_limits& limits() const { return limits_; }
  std::string name() const;
  const std::string& plugin() const { return plugin_; }  // that serves it: name and version

 private:
  const tenon_architecture* architecture_ = nullptr;
  std::string plugin_;
  void* model_ = nullptr;
  tenon_limits limits_ = {};
};

// Everything of a model but its sequences. Members are built in this order and torn down in reverse. One thread.
class Loaded {
 public:
  // Opens, checks, builds and chooses kernels; reads no weight but small tables.
  Loaded(plugin::PluginHost& plugins, const ModelOptions& options);
  // Packs weights, allocates stores and step record, compiles both phases.
  void prepare();
  // The same without packing: Programs can be looked at, not run.
  void prepare_unpacked();

  // The phase's program; with keep_taps its twin that keeps tapped values, compiled at first use.
  program::Program& program(uint32_t phase, bool keep_taps);
  std::unique_ptr<program::Program> compile(uint32_t phase, bool keep_taps);

  const ModelOptions& options() const { return options_; }
  const source::ModelSource& source() const { return *source_; }
  const Configured& configured() const { return *configured_; }
  const graph::Graph& graph() const { return graph_; }
  const program::Device& device() const { return *device_; }
  program::WeightSet& weights() { return *weights_; }
  store::Stores& stores() { return *stores_; }
  program::StepRecord& step() { return *step_; }
  const std::vector<std::string>& unused_tensors() const { return unused_; }
  int64_t context() const { return context_; }
  int64_t vocab() const;
  uint32_t n_workers() const { return n_workers_; }
  uint32_t max_outputs() const;
  // Of one step. No chunk is longer than the context, whatever was asked for.
  uint32_t max_prefill_rows() const {
    const int64_t context = (context_ + TENON_PAGE_TOKENS - 1) / TENON_PAGE_TOKENS * TENON_PAGE_TOKENS;
    return uint32_t(longest_chunk(std::min<int64_t>(options_.prefill_chunk, context)));
  }
  std::string backend_description() const;
  program::Selection select(uint32_t phase);

 private:
  void pick_backend(plugin::PluginHost& plugins);
  void warn_about_names(const char* option, const std::vector<std::string>& names) const;
  store::StoreOptions store_options() const;

  plugin::PluginHost& plugins_;
  ModelOptions options_;
  std::unique_ptr<source::ModelSource> source_;
  std::unique_ptr<Configured> configured_;
  std::unique_ptr<graph::NameMap> names_;
  graph::Graph graph_;
  std::vector<std::string> unused_;
  std::unique_ptr<program::Device> device_;
  uint32_t n_workers_ = 1;
  int64_t context_ = 0;
  std::vector<tenon_store_type> store_types_;
  std::unique_ptr<program::WeightSet> weights_;
  std::unique_ptr<program::StepRecord> step_;
  std::unique_ptr<store::Stores> stores_;
  std::unique_ptr<program::Program> programs_[2][2];  // [decode, prefill][plain, taps]
};

}  // namespace tenon::engine
