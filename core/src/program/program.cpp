#include "program.hpp"

#include "graph/ops.hpp"
#include "plugin/plugin_host.hpp"

#include <tenon/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <utility>

namespace tenon::program {
namespace {

std::string_view view(tenon_str text) { return {text.data, size_t(text.size)}; }

// May begin before the launch in front of it on the stream has ended.
bool is_early(const tenon_offer& offer) { return offer.flags & TENON_OFFER_PDL; }

// Rows are rounded up to these, so that few graphs serve every batch; beyond the last one to multiples of 64.
constexpr uint32_t kBuckets[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};

uint32_t bucket(uint32_t rows) {
  for (uint32_t b : kBuckets)
    if (rows <= b) return b;
  return (rows + 63) / 64 * 64;
}

bool is_output_domain(const graph::Graph& graph, const graph::Node& node) { return graph::domain_of(graph, node) == TENON_DOMAIN_OUTPUT_ROWS; }

}  // namespace

// State of one run, shared by the team.
struct Program::Run {
  Program* program;
  size_t begin, end;
  uint32_t rows, outputs;
  std::atomic<bool> failed = false;
  std::atomic<size_t> stop_at = SIZE_MAX;  // first node that is not launched any more
  std::mutex mutex;
  std::string message;
};

Program::Program(Selection selection, const Device& device, WeightSet& weights, const std::vector<tenon_store>& stores,
                 const tenon_step* step, const ProgramOptions& options)
    : selection_(std::move(selection)), device_(device), n_workers_(device.is_spmd() ? options.n_workers : 1),
      max_rows_(options.max_rows),
      max_outputs_(options.max_outputs), wait_(options.wait) {
  auto& nodes = selection_.nodes;
  std::stable_partition(nodes.begin(), nodes.end(),
                        [&](const auto& one) { return !is_output_domain(selection_.graph, one->node); });
  tail_begin_ = size_t(std::find_if(nodes.begin(), nodes.end(), [&](const auto& one) {
                         return is_output_domain(selection_.graph, one->node);
                       }) - nodes.begin());
  const tenon_backend& backend = device_.backend();
  try {
    if (!device_.is_spmd() && backend.stream) {
      plugin::check_status(backend.stream(backend.self, device_.table().index, 0, &stream_), "create a stream");
      kernel_stream_ = backend.native ? backend.native(backend.self, TENON_HANDLE_STREAM, stream_) : stream_;
    }
    make_plans(options);
    make_operands(weights, stores, step, options);
    capture_ = options.capture && stream_ && (backend.flags & TENON_BACKEND_CAPTURE) &&
               std::all_of(nodes_.begin(), nodes_.end(), [](const Launch& node) {
                 return node.selected->offer.flags & TENON_OFFER_CAPTURABLE;
               });
  } catch (...) {
    drop_plans();
    throw;
  }
}

Program::~Program() { drop_plans(); }

void Program::drop_plans() {
  for (Launch& node : nodes_)
    if (node.plan.impl && node.selected->kernel->drop) node.selected->kernel->drop(node.selected->kernel, &node.plan);
  nodes_.clear();
  const tenon_backend& backend = device_.backend();
  for (const auto& [key, graph] : graphs_) backend.destroy(backend.self, TENON_HANDLE_GRAPH, graph);
  graphs_.clear();
  if (stream_) backend.destroy(backend.self, TENON_HANDLE_STREAM, std::exchange(stream_, nullptr));
}

void Program::make_plans(const ProgramOptions& options) {
  const graph::Graph& graph = selection_.graph;
  std::vector<tenon_plan> plans;
  for (const auto& one : selection_.nodes) {
    Launch node;
    node.selected = one.get();
    node.by_outputs = is_output_domain(graph, one->node);
    const graph::OpInfo* info = graph::op_info(one->node.op);
    node.is_row_wise = info && info->row_local && one->node.store.empty();
    node.plan.struct_size = sizeof node.plan;
    const uint32_t rows = node.by_outputs ? options.max_outputs : options.max_rows;
    plugin::check_status(one->kernel->plan(one->kernel, one->table->get(), rows, options.max_context, n_workers_, &node.plan),
                         fmt::format("{}: kernel {} cannot plan", one->node.name, view(one->kernel->name)));
    plans.push_back(node.plan);
    nodes_.push_back(node);
  }
  std::vector<bool> barriers = place_barriers(selection_, plans, n_workers_);
  if (tail_begin_ < barriers.size()) barriers[tail_begin_] = n_workers_ > 1;  // a segment begins with every worker at hand
  std::vector<int32_t> pinned;
  if (graph.logits >= 0) pinned.push_back(graph.logits);
  if (options.keep_taps)
    for (const auto& [name, value] : graph.taps)
      if (value >= 0) pinned.push_back(value);
  arena_ = plan_arena(selection_, plans, barriers, pinned, options.max_rows, options.max_outputs, n_workers_);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    nodes_[i].barrier_before = barriers[i];
    nodes_[i].workspace = arena_.workspaces[i];
    n_barriers_ += nodes_[i].barrier_before;
    scratch_step_ = std::max(scratch_step_, (plans[i].scratch + 4095) & ~uint64_t(4095));
  }
  private_step_ = (arena_.private_bytes + 4095) & ~uint64_t(4095);
  shared_ = Buffer(device_, arena_.shared_bytes, "the arena");
  private_ = Buffer(device_, private_step_ * n_workers_, "the arena");
  scratch_ = Buffer(device_, scratch_step_ * n_workers_, "scratch memory");
  counters_ = std::make_unique<Counter[]>(nodes_.size());
}

tenon_view Program::view_of(int32_t id, uint32_t worker, const tenon_step* step, const ProgramOptions& options) const {
  const graph::Value& value = selection_.graph.values[size_t(id)];
  const graph::Value& base = selection_.graph.values[size_t(selection_.graph.base_of(id))];
  tenon_view out = {};
  out.encoding = value.encoding, out.cols = value.cols;
  out.rows = value.domain == TENON_DOMAIN_OUTPUT_ROWS ? options.max_outputs : options.max_rows;
  out.groups = 1;
  if (value.input == TENON_INPUT_TOKENS) {
    out.data = step->token, out.row_bytes = 4;
    return out;
  }
  const Place& place = arena_.values[size_t(id)];
  out.data = place.is_private ? private_.address() + private_step_ * worker + place.offset : shared_.address() + place.offset;
  if (base.input == TENON_INPUT_HIDDEN) out.data = options.hidden;
  if (base.input == TENON_INPUT_OVERLAY) out.data = options.overlay;
  out.row_bytes = tenon_encoding_row_bytes(base.encoding, base.cols);
  out.group_bytes = out.row_bytes;
  if (value.is_view()) {
    out.data += uint64_t(value.col0) * 4;
    out.groups = value.groups, out.group_bytes = value.group_step * 4;
  }
  return out;
}

void Program::make_operands(WeightSet& weights, const std::vector<tenon_store>& stores, const tenon_step* step,
                            const ProgramOptions& options) {
  size_t n_views = 0, n_weights = 0, n_stores = 0;
  for (const Launch& node : nodes_) {
    n_views += node.selected->node.in.size() + node.selected->node.out.size();
    n_weights += node.selected->node.weight.size();
    n_stores += node.selected->node.store.size();
  }
  views_.reserve(n_views * n_workers_), weights_.reserve(n_weights), stores_.reserve(n_stores);
  args_.resize(nodes_.size() * n_workers_);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const graph::Node& node = nodes_[i].selected->node;
    const tenon_weight* weight = weights_.data() + weights_.size();
    const tenon_store* store = stores_.data() + stores_.size();
    for (size_t k = 0; k < node.weight.size(); ++k) {
      weights_.push_back(weights.resolved(node.weight[k], nodes_[i].selected->layouts[k]));
      const uint64_t bytes = weights.bytes_of(node.weight[k], nodes_[i].selected->layouts[k]);
      if (node.op == TENON_OP_LINEAR) weight_bytes_ += bytes;
      if (node.op != TENON_OP_EXPERT_FFN) continue;
      // What one row reads: the experts that it is sent to.
      weight_bytes_ += bytes / weights_.back().n_expert * node.attr_as<tenon_expert_ffn_attr>().top_k;
      weights_.back().bank = weights.bank(node.weight, nodes_[i].selected->layouts);
    }
    for (int32_t id : node.store) stores_.push_back(stores[size_t(id)]);
    for (uint32_t w = 0; w < n_workers_; ++w) {
      tenon_args& args = args_[w * nodes_.size() + i];
      args.struct_size = sizeof args;
      args.n_in = uint32_t(node.in.size()), args.n_out = uint32_t(node.out.size());
      args.n_weight = uint32_t(node.weight.size()), args.n_store = uint32_t(node.store.size());
      args.in = views_.data() + views_.size();
      for (int32_t id : node.in) views_.push_back(view_of(id, w, step, options));
      args.out = views_.data() + views_.size();
      for (int32_t id : node.out) views_.push_back(view_of(id, w, step, options));
      args.weight = weight, args.store = store, args.step = step;
    }
  }
}

tenon_status Program::launch_sliced(size_t index, const tenon_args& args, const tenon_exec& exec) {
  const tenon_kernel* kernel = nodes_[index].selected->kernel;
  std::array<tenon_view, 16> views;
  tenon_args slice = args;
  tenon_status first = TENON_OK;
  for (uint32_t row = 0; row < args.rows; row += kernel->max_rows) {
    slice.rows = std::min(kernel->max_rows, args.rows - row);
    for (uint32_t i = 0; i < args.n_in + args.n_out && i < views.size(); ++i) {
      views[i] = i < args.n_in ? args.in[i] : args.out[i - args.n_in];
      views[i].data += uint64_t(views[i].row_bytes) * row, views[i].rows -= row;
    }
    slice.in = views.data(), slice.out = views.data() + args.n_in;
    // Workspace and counter serve the next slice when nobody uses them for this one any more.
    if (row && nodes_[index].plan.partition != TENON_PART_ONE) {
      exec.barrier(exec.team);
      if (exec.worker == 0) counters_[index].value.store(0, std::memory_order_relaxed);
      exec.barrier(exec.team);
    }
    const tenon_status status = kernel->launch(kernel, &nodes_[index].plan, &slice, &exec);
    if (first == TENON_OK) first = status;  // the other workers go on, so this one does
  }
  return first;
}

tenon_status Program::launch(size_t index, uint32_t rows, const tenon_exec& exec) {
  const Launch& node = nodes_[index];
  const tenon_kernel* kernel = node.selected->kernel;
  if (node.plan.partition == TENON_PART_ONE && exec.worker != 0) return TENON_OK;
  tenon_args args = args_[exec.worker * nodes_.size() + index];
  args.rows = rows;
  if (kernel->max_rows && rows > kernel->max_rows && node.is_row_wise && args.n_in + args.n_out <= 16)
    return launch_sliced(index, args, exec);
  return kernel->launch(kernel, &node.plan, &args, &exec);
}

void Program::work(Run& run, const tenon_exec& team_exec) {
  tenon_exec exec = team_exec;
  exec.scratch = reinterpret_cast<void*>(scratch_.address() + scratch_step_ * exec.worker);
  const bool timed = profiling_ && exec.worker == 0;
  for (size_t i = run.begin; i < run.end; ++i) {
    Launch& node = nodes_[i];
    const auto start = timed ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point();
    if (node.barrier_before && i != run.begin) exec.barrier(exec.team);
    // After a failure launches end for all workers at the same barrier, and everyone still walks on: nobody waits alone at a
    // barrier, be it one between nodes or one inside a kernel.
    if (i < run.stop_at.load(std::memory_order_relaxed)) {
      exec.workspace = shared_.address() + node.workspace;
      exec.counter = &counters_[i].value;
      exec.flags = i != run.begin && is_early(nodes_[i].selected->offer) && is_early(nodes_[i - 1].selected->offer) ? uint32_t(TENON_OFFER_PDL) : 0u;
      const tenon_status status = launch(i, node.by_outputs ? run.outputs : run.rows, exec);
      if (status != TENON_OK) {
        const std::lock_guard lock(run.mutex);
        size_t stop = i + 1;
        while (stop < run.end && !nodes_[stop].barrier_before) ++stop;
        run.stop_at = std::min(run.stop_at.load(), stop);
        if (!run.failed.exchange(true))
          run.message = fmt::format("{}: kernel {} failed with status {}: {}", node.selected->node.name,
                                    view(node.selected->kernel->name), status, plugin::PluginHost::take_message());
      }
    }
    if (timed) node.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
}

void Program::run(Segment segment, uint32_t n_rows, uint32_t n_outputs) {
  Run run = {.program = this, .begin = segment == Segment::kTail ? tail_begin_ : 0,
             .end = segment == Segment::kBody ? tail_begin_ : nodes_.size(), .rows = n_rows, .outputs = n_outputs,
             .mutex = {}, .message = {}};
  if (run.begin == run.end) return;  // a rank need not have a part in each segment
  if (device_.is_spmd()) {
    run_on_team(run);
  } else if (stream_) {
    run_on_stream(run, segment);
  } else {
    enqueue(run);
  }
  if (run.failed) throw Error(ErrorKind::kRuntime, run.message);
}

void Program::run_on_team(Run& run) {
  for (size_t i = run.begin; i < run.end; ++i) counters_[i].value.store(0, std::memory_order_relaxed);
  const auto body = [](void* arg, const tenon_exec* exec) {
    Run& r = *static_cast<Run*>(arg);
    r.program->work(r, *exec);
  };
  const tenon_backend& backend = device_.backend();
  plugin::check_status(backend.team(backend.self, device_.table().index, n_workers_, body, &run), "run a program");
}

// One worker that enqueues the launches in order; without a stream they are done when it returns.
void Program::enqueue(Run& run) {
  for (size_t i = run.begin; i < run.end; ++i) counters_[i].value.store(0, std::memory_order_relaxed);
  tenon_exec exec = {};
  exec.struct_size = sizeof exec, exec.n_workers = 1, exec.stream = kernel_stream_;
  exec.barrier = [](void*) noexcept {};
  exec.claim = [](void* counter, int64_t n) noexcept { return static_cast<std::atomic<int64_t>*>(counter)->fetch_add(n); };
  work(run, exec);
}

void Program::run_on_stream(Run& run, Segment segment) {
  const tenon_backend& backend = device_.backend();
  if (!capture_ || run.rows == 0) {
    enqueue(run);
  } else {
    // A graph fixes grid sizes only: live rows and lengths are in the step record.
    const uint32_t rows = std::min(bucket(run.rows), max_rows_), outputs = std::min(bucket(run.outputs), max_outputs_);
    void*& graph = graphs_[{uint32_t(segment), rows, outputs}];
    if (!graph) {
      run.rows = rows, run.outputs = outputs;
      graph = capture(run);
    }
    if (!run.failed) plugin::check_status(backend.replay(backend.self, graph, stream_), "replay a graph");
  }
  // Also after a failure: launches before it may still be at work on memory that the caller is about to reuse.
  if (wait_ && !run.failed) return wait_(stream_);
  const tenon_status status = backend.sync(backend.self, stream_, 0);
  if (!run.failed) plugin::check_status(status, "wait for the device");
}

// Null when the run has failed: a graph that lacks launches is not kept.
void* Program::capture(Run& run) {
  const tenon_backend& backend = device_.backend();
  plugin::check_status(backend.capture_begin(backend.self, stream_), "begin a capture");
  enqueue(run);
  void* graph = nullptr;
  const tenon_status status = backend.capture_end(backend.self, stream_, &graph);
  if (!run.failed) {
    plugin::check_status(status, "end a capture");
    return graph;
  }
  if (status == TENON_OK) backend.destroy(backend.self, TENON_HANDLE_GRAPH, graph);
  return nullptr;
}

const float* Program::host_row(int32_t value, uint32_t row) const {
  if (!device_.is_host_memory()) return nullptr;
  const Place& place = arena_.values[size_t(value)];
  const graph::Value& v = selection_.graph.values[size_t(value)];
  const tenon_addr base = place.is_private ? private_.address() : shared_.address();
  return reinterpret_cast<const float*>(base + place.offset + uint64_t(tenon_encoding_row_bytes(v.encoding, v.cols)) * row);
}

void Program::read_row(int32_t value, uint32_t row, float* out) const {
  const Place& place = arena_.values[size_t(value)];
  const graph::Value& v = selection_.graph.values[size_t(value)];
  const tenon_addr base = place.is_private ? private_.address() : shared_.address();
  device_.download(out, base + place.offset + uint64_t(tenon_encoding_row_bytes(v.encoding, v.cols)) * row,
                   uint64_t(v.cols) * 4);
  if (v.encoding != TENON_ENC_I32) return;
  for (int64_t c = 0; c < v.cols; ++c) {
    int32_t number = 0;
    std::memcpy(&number, &out[c], sizeof number);
    out[c] = float(number);
  }
}

std::vector<Program::LayerCounts> Program::layer_counts() const {
  std::vector<LayerCounts> out(selection_.graph.n_layers);
  for (const Launch& node : nodes_) {
    const uint32_t layer = node.selected->node.layer;
    if (layer >= out.size() || node.by_outputs) continue;
    out[layer].launches++;
    out[layer].barriers += node.barrier_before;
  }
  return out;
}

void Program::poison() {
  device_.fill(shared_.address(), 0xff, shared_.bytes());
  device_.fill(private_.address(), 0xff, private_.bytes());
  device_.fill(scratch_.address(), 0xff, scratch_.bytes());
}

std::string Program::describe() const {
  std::string out;
  for (const Launch& node : nodes_) {
    static constexpr const char* kParts[] = {"one", "out_cols", "rows", "heads", "replicate", "claim"};
    out += fmt::format("{} {:<44} {:<18} {:<10} {}\n", node.barrier_before ? "|" : " ", node.selected->node.name,
                       graph::op_name(node.selected->node.op), kParts[std::min<uint32_t>(node.plan.partition, 5)],
                       view(node.selected->kernel->name));
  }
  return out;
}

std::vector<std::pair<std::string, double>> Program::take_profile() {
  std::vector<std::pair<std::string, double>> out;
  for (Launch& node : nodes_) {
    if (node.seconds > 0) out.emplace_back(fmt::format("{} {}", graph::op_name(node.selected->node.op), view(node.selected->kernel->name)), node.seconds);
    node.seconds = 0;
  }
  return out;
}

}  // namespace tenon::program
