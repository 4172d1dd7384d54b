// ranks.hpp: a model over several ranks. Each rank is a model of its own, with its share of the weights and stores, and does
// what rank 0 does: the same commands with the same tokens.
#pragma once

#include "command.hpp"
#include "follower.hpp"
#include "loaded.hpp"
#include "parallel/rank_threads.hpp"
#include "plugin/plugin_host.hpp"

#include <tenon/engine.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace tenon::engine {

// The ranks of a model other than rank 0, which holds this. One thread.
class OtherRanks {
 public:
  virtual ~OtherRanks() = default;
  // Has every other rank execute the command while `own` does it here; answers what each of them does. `cancelled`, where it
  // is given, has one answer for all of them. Throws the first failure there was. What every rank refuses alike leaves the
  // ranks as they are; after another failure every call throws Error(kRuntime).
  using Own = std::function<void(const CancelCallback& cancelled)>;
  virtual std::vector<Outcome> run(const Command& command, const Own& own, const CancelCallback& cancelled) = 0;
};

// Ranks that are threads of this process.
class ThreadRanks final : public OtherRanks {
 public:
  // `threads` has as many ranks as there are followers, and rank 0.
  ThreadRanks(std::vector<std::unique_ptr<Follower>> followers, std::unique_ptr<parallel::RankThreads> threads)
      : followers_(std::move(followers)), threads_(std::move(threads)) {}
  std::vector<Outcome> run(const Command& command, const Own& own, const CancelCallback& cancelled) override;

 private:
  std::vector<std::unique_ptr<Follower>> followers_;  // of rank 1, 2 …
  std::unique_ptr<parallel::RankThreads> threads_;    // ends before they do
};

// The collective of that name; of "" the one for ranks that are threads: nccl over GPUs where it is installed, else threads.
// Throws Error(kUsage) saying what is installed.
const tenon_collective& find_collective(plugin::PluginHost& plugins, const std::string& name, const std::string& backend = "");
// Whether its ranks are processes, which something else has started.
bool has_processes(const tenon_collective& collective);
// This process among them. Throws Error where they cannot be reached, or are too many.
RankPlace process_place(const tenon_collective& collective, const std::string& name, uint32_t timeout_ms);
// A new group of all processes, for memory of the host; each of them makes its groups in the same order.
std::unique_ptr<parallel::Communicator> next_group(const RankPlace& place, const std::string& name);
// The machine and those of its cores on which this process may run: equal texts are of processes that share cores.
std::string own_cores();

// Rank 0 of a new group of as many ranks as the options name, over the collective that they name. Throws Error(kUsage) for too
// many ranks, and saying what is installed.
RankPlace first_place(plugin::PluginHost& plugins, const ModelOptions& options);

}  // namespace tenon::engine
