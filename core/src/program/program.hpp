// program.hpp: a phase of an entry, ready to run: kernels with their plans, operands at fixed addresses, barriers.
#pragma once

#include "arena.hpp"
#include "barriers.hpp"
#include "device.hpp"
#include "select.hpp"
#include "step_record.hpp"
#include "weights.hpp"

#include <tenon/abi.h>

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tenon::program {

struct ProgramOptions {
  uint32_t max_rows = 1, max_outputs = 1, n_workers = 1;
  int64_t max_context = 0;
  bool keep_taps = false;  // tapped values survive the run
  tenon_addr hidden = 0, overlay = 0;  // rows of the graph's inputs of these names
  bool capture = false;    // record the launches of each size once and replay them, where the backend can
  // Instead of the backend's own sync(), where what is on the stream needs others: throws when it will not be done.
  std::function<void(void* stream)> wait;
};

// A segment of a Program. The body computes token rows; the tail computes output rows from what the body left, and may run
// several times for different rows. kAll is both in one go.
enum class Segment { kBody, kTail, kAll };

// Runs on one device. One thread at a time; borrows weights, stores and step record.
class Program {
 public:
  // Throws Error(kRuntime) when a kernel cannot plan, Error(kCapacity) when the arena cannot be had.
  Program(Selection selection, const Device& device, WeightSet& weights, const std::vector<tenon_store>& stores,
          const tenon_step* step, const ProgramOptions& options);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Rows as the step record says. Throws Error(kRuntime) naming the node that failed.
  void run(Segment segment, uint32_t n_rows, uint32_t n_outputs);

  const graph::Graph& graph() const { return selection_.graph; }
  const std::vector<Choice>& choices() const { return selection_.choices; }
  // Reads row r of an f32 value, or of ids as numbers, after a run, when it was kept.
  void read_row(int32_t value, uint32_t row, float* out) const;
  // Host address of a row of the logits, or null when device memory is not host memory.
  const float* host_row(int32_t value, uint32_t row) const;

  bool is_capturing() const { return capture_; }
  uint32_t n_launches() const { return uint32_t(nodes_.size()); }
  uint32_t n_barriers() const { return n_barriers_; }
  // Barriers and launches in each layer.
  struct LayerCounts {
    uint32_t barriers = 0, launches = 0;
  };
  std::vector<LayerCounts> layer_counts() const;
  // Bytes of the weights that `linear` reads in one run.
  uint64_t weight_bytes() const { return weight_bytes_; }
  uint64_t arena_bytes() const { return shared_.bytes() + private_.bytes() + scratch_.bytes(); }
  // Fills everything that a run must not read with 0xff: for tests.
  void poison();
  std::string describe() const;  // a line a launch, for `inspect --graph`
  // Seconds spent in each node by worker 0 since the last call; empty unless profiling is on.
  void set_profiling(bool on) { profiling_ = on; }
  std::vector<std::pair<std::string, double>> take_profile();

 private:
  struct Launch {
    const Selected* selected;
    tenon_plan plan = {};
    bool barrier_before = false, by_outputs = false, is_row_wise = false;
    uint64_t workspace = 0;
    double seconds = 0;
  };
  struct Run;
  void make_plans(const ProgramOptions& options);
  void make_operands(WeightSet& weights, const std::vector<tenon_store>& stores, const tenon_step* step,
                     const ProgramOptions& options);
  tenon_view view_of(int32_t value, uint32_t worker, const tenon_step* step, const ProgramOptions& options) const;
  void work(Run& run, const tenon_exec& exec);
  tenon_status launch(size_t index, uint32_t rows, const tenon_exec& exec);
  tenon_status launch_sliced(size_t index, const tenon_args& args, const tenon_exec& exec);
  void drop_plans();
  void run_on_team(Run& run);
  void run_on_stream(Run& run, Segment segment);
  void* capture(Run& run);
  void enqueue(Run& run);

  Selection selection_;
  Device device_;
  uint32_t n_workers_, max_rows_, max_outputs_;
  std::vector<Launch> nodes_;
  size_t tail_begin_ = 0;
  uint32_t n_barriers_ = 0;
  uint64_t weight_bytes_ = 0;
  ArenaPlan arena_;
  Buffer shared_, private_, scratch_;
  uint64_t private_step_ = 0, scratch_step_ = 0;
  // Operands by worker and node; views, weights and stores lie in flat arrays that args point into.
  std::vector<tenon_view> views_;
  std::vector<tenon_weight> weights_;
  std::vector<tenon_store> stores_;
  std::vector<tenon_args> args_;  // [worker][node]
  struct alignas(64) Counter {
    std::atomic<int64_t> value = 0;
  };
  std::unique_ptr<Counter[]> counters_;
  // Devices with streams: one stream, and the recorded graphs by segment, rows and outputs.
  void* stream_ = nullptr;
  std::function<void(void* stream)> wait_;
  void* kernel_stream_ = nullptr;  // the same, as the backend's kernels know it
  bool capture_ = false;
  std::map<std::array<uint32_t, 3>, void*> graphs_;
  bool profiling_ = false;
};

}  // namespace tenon::program
