// processes.hpp: a model over ranks that are processes, over one or many hosts. Rank 0 loads and is called as any model; each of
// the others follows it: it loads its own share and executes commands until rank 0 has dropped the model.
#pragma once

#include "loaded.hpp"
#include "parallel/control.hpp"
#include "ranks.hpp"
#include "wire.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace tenon::engine {

// What times follow from how long a rank may keep the others waiting.
struct Patience {
  explicit Patience(uint32_t timeout_ms);
  std::chrono::milliseconds beat;   // between signs of life of rank 0
  std::chrono::milliseconds grace;  // for the others, once one has failed or refused: before they give up by themselves
};

// Ranks that are processes, seen from rank 0. Signs of life go out from a thread of its own between commands.
class ProcessRanks final : public OtherRanks {
 public:
  // `values` is the group in which steps exchange values; it must outlive this object. `answers` is one for answers of rank 0 to
  // what every rank asks while it executes a command: 8 bytes each, 1 = stop.
  ProcessRanks(std::unique_ptr<parallel::Control> control, std::unique_ptr<parallel::Communicator> answers, const parallel::Communicator& values,
               Patience patience);
  ~ProcessRanks() override;
  std::vector<Outcome> run(const Command& command, const Own& own, const CancelCallback& cancelled) override;

 private:
  void tell_all(const parallel::Writer& message);
  void answer(bool stop);
  void wake() const;
  void beat();
  wire::Result result_of(uint32_t rank);
  std::vector<wire::Result> results(const wire::Result* own_failure);
  void judge(const wire::Result& own, std::vector<wire::Result>& others);

  std::unique_ptr<parallel::Control> control_;
  std::unique_ptr<parallel::Communicator> answers_;
  const parallel::Communicator& values_;
  Patience patience_;
  uint64_t serial_ = 0;
  std::string broken_;  // why no rank can go on; "" = sound
  std::vector<uint32_t> silent_;
  std::mutex mutex_;  // one command or one sign of life at a time
  std::condition_variable condition_;
  bool ends_ = false;
  std::thread beats_;
};

// Rank 0 while all ranks load. Its destructor ends the others where complete() was not reached.
class FirstProcess {
 public:
  // Throws Error(kUsage) where the plan has not as many ranks as there are processes.
  FirstProcess(const tenon_collective& collective, const ModelOptions& options, uint32_t n_ranks);
  ~FirstProcess();
  const RankPlace& place() const { return place_; }
  const ModelOptions& options() const { return options_; }  // to be loaded with
  // Waits for the others, adds their shares to `info` and answers the ranks. Throws the failure of another rank.
  std::unique_ptr<OtherRanks> complete(const parallel::Communicator& values, ModelInfo& info);
  // What is to be thrown instead of this rank's own failure: that of the rank that failed first.
  void rethrow_other() const;

 private:
  void greet();
  void listen();
  bool hear(uint32_t rank);  // true once it has loaded
  void stop_listening();

  ModelOptions options_;
  Patience patience_;
  RankPlace place_;
  std::unique_ptr<parallel::Control> control_;
  std::unique_ptr<parallel::Communicator> answers_;
  ProgressCallback progress_;
  std::mutex progress_mutex_;
  mutable std::mutex mutex_;
  std::condition_variable condition_;
  bool ends_ = false, all_loaded_ = false;
  std::vector<wire::Share> shares_;
  std::exception_ptr failure_;
  std::atomic<bool> failed_ = false;
  std::thread listener_;
};

// Serves as one of the other ranks. `make` builds a model from its parts.
using MakeModel = std::function<std::unique_ptr<Model>(std::unique_ptr<Loaded>)>;
FollowReport follow(plugin::PluginHost& plugins, const FollowOptions& options, const MakeModel& make);

}  // namespace tenon::engine
