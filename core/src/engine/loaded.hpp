// loaded.hpp: the parts of a model between file and Programs, for running and for `inspect`.
#pragma once

#include "chunks.hpp"
#include "entry.hpp"
#include "graph/graph.hpp"
#include "graph/names.hpp"
#include "parallel/communicator.hpp"
#include "parallel/entries.hpp"
#include "parallel/plan.hpp"
#include "parallel/rank_share.hpp"
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
#include <array>
#include <chrono>
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

// A model's files, opened, configured and named.
struct Files {
  Files(const std::string& path, plugin::PluginHost& plugins);
  std::vector<std::string> entries() const;  // that can be built from them
  std::unique_ptr<source::ModelSource> source;
  std::unique_ptr<Configured> configured;
  std::unique_ptr<graph::NameMap> names;
};

// Where among the ranks of a model its parts are to be.
struct RankPlace {
  uint32_t n_ranks = 1, rank = 0;
  uint32_t ranks_here = 1;  // that share the cores of this machine
  const tenon_collective* collective = nullptr;  // where there are several
  std::array<uint8_t, 128> group = {};
};

// Everything of a model, or of one of its ranks, but its sequences. Members are built in this order and torn down in reverse. One thread.
class Loaded {
 public:
  // Opens, checks, builds and chooses kernels; reads no weight but small tables.
  Loaded(plugin::PluginHost& plugins, const ModelOptions& options, const RankPlace& place = {});
  // Joins the other ranks, packs weights, allocates stores and step record, compiles both phases.
  void prepare();
  // The same without packing: Programs can be looked at, not run.
  void prepare_unpacked();
  // Whether what ranks send arrives, of every rank at the same time; part of prepare() where ranks are threads. Throws
  // Error(kRuntime).
  void probe();

  // The phase's program, compiled at first use. Only a rank's entry has Twin::kOwnLogits.
  program::Program& program(Entry& entry, uint32_t phase, Twin twin = Twin::kPlain);
  program::Program& program(uint32_t phase) { return program(main(), phase); }
  std::unique_ptr<program::Program> compile(Entry& entry, uint32_t phase, Twin twin);

  Entry& main() { return *entries_.front(); }
  const Entry& main() const { return *entries_.front(); }
  // Throws Error(kUsage) for one that was not asked for when the model was loaded.
  Entry& entry(std::string_view name);
  const std::vector<std::unique_ptr<Entry>>& entries() const { return entries_; }
  // Entries that the files hold, whether asked for or not.
  const std::vector<std::string>& known_entries() const { return known_entries_; }

  const ModelOptions& options() const { return options_; }
  const source::ModelSource& source() const { return *files_.source; }
  const source::ModelSource* draft_source() const { return draft_files_ ? draft_files_->source.get() : nullptr; }
  const Configured& configured() const { return *files_.configured; }
  const graph::Graph& graph() const { return main().graph; }
  const program::Device& device() const { return *device_; }
  program::WeightSet& weights() { return *weights_; }
  store::Stores& stores() { return *main().stores; }
  program::StepRecord& step() { return *main().step; }
  const std::vector<std::string>& unused_tensors() const { return unused_; }
  int64_t context() const { return context_; }
  int64_t vocab() const { return main().vocab; }
  uint32_t n_workers() const { return n_workers_; }
  const RankPlace& place() const { return place_; }
  const parallel::Communicator* communicator() const { return communicator_.get(); }
  // Of one step. No chunk is longer than the context, whatever was asked for.
  uint32_t max_prefill_rows() const {
    const int64_t context = (context_ + TENON_PAGE_TOKENS - 1) / TENON_PAGE_TOKENS * TENON_PAGE_TOKENS;
    return uint32_t(longest_chunk(std::min<int64_t>(options_.prefill_chunk, context), options_.overlay));
  }
  // What each rank has and sends; none where there is one.
  std::vector<parallel::RankShare> rank_shares() const;
  const parallel::Plan& plan() const { return plan_; }
  const std::vector<uint32_t>& rank_devices() const { return rank_devices_; }
  std::string backend_description() const;
  program::Selection select(const Entry& entry, uint32_t phase);
  program::Selection select(uint32_t phase) { return select(main(), phase); }

 private:
  void build_entries();
  void cut_for_rank();
  std::vector<const graph::Graph*> uncut_graphs() const;
  parallel::CutOptions cut_options() const {
    return {plan_, place_.rank, options_.fast_sums, place_.collective && place_.collective->all_reduce};
  }
  std::chrono::milliseconds patience() const { return std::chrono::milliseconds(options_.rank_timeout_ms); }
  const graph::NameMap& names_of(const graph::Weight& weight) const { return weight.source ? *draft_files_->names : *files_.names; }
  parallel::Alignment alignment_of(const graph::Weight& weight) const;
  uint64_t bytes_of(const graph::Weight& weight) const;
  uint64_t bytes_of(const graph::Store& store) const;
  void check_draft_file() const;
  std::vector<int32_t> draft_ids(const graph::Graph& graph, const Files& files) const;
  void warn_about_unused(std::vector<std::string> used);
  void pick_backend(plugin::PluginHost& plugins);
  void warn_about_names(const char* option, const std::vector<std::string>& names) const;
  void pick_context();
  store::StoreOptions store_options() const;
  void allocate(Entry& entry);
  uint32_t max_outputs(const Entry& entry) const;

  plugin::PluginHost& plugins_;
  ModelOptions options_;
  RankPlace place_;
  Files files_;
  std::unique_ptr<Files> draft_files_;  // where drafts have files of their own
  std::vector<std::string> known_entries_, unused_;
  std::vector<uint32_t> rank_devices_;  // by rank
  uint32_t n_devices_ = 0;              // of the backend
  std::unique_ptr<program::Device> device_;
  uint32_t n_workers_ = 1;
  parallel::Plan plan_;
  int64_t context_ = 0;
  std::unique_ptr<parallel::Communicator> communicator_;
  std::unique_ptr<program::WeightSet> weights_;
  std::vector<std::unique_ptr<Entry>> entries_;  // main, then the drafts asked for
};

}  // namespace tenon::engine
