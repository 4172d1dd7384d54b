#include "harness.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "launch_team.hpp"

namespace tenon::kit {
namespace {

constexpr uint8_t kGuard = 0xa5;
constexpr size_t kGuardBytes = 256;

std::string to_string(tenon_str text) { return {text.data, size_t(text.size)}; }
tenon_addr address(const void* p) { return reinterpret_cast<tenon_addr>(p); }

// Memory between two guards.
class Guarded {
 public:
  Guarded(size_t bytes, uint8_t fill) : bytes_(bytes), memory_(bytes + 2 * kGuardBytes, kGuard) {
    std::fill_n(memory_.begin() + kGuardBytes, bytes_, fill);
  }
  uint8_t* data() { return memory_.data() + kGuardBytes; }
  const uint8_t* data() const { return memory_.data() + kGuardBytes; }
  size_t size() const { return bytes_; }
  void keep() { kept_ = memory_; }
  void check(const std::string& what) const {
    for (size_t i = 0; i < kGuardBytes; ++i) {
      if (memory_[i] != kGuard) throw std::runtime_error(what + " was written before its begin");
      if (memory_[kGuardBytes + bytes_ + i] != kGuard) throw std::runtime_error(what + " was written beyond its end");
    }
    if (!kept_.empty() && kept_ != memory_)
      throw std::runtime_error(what + " was written, but a launch may only read it");
  }

 private:
  size_t bytes_;
  Bytes memory_, kept_;
};

// Tells two states of memory apart.
uint64_t digest(uint64_t seed, const void* data, size_t bytes) {
  const auto* byte = static_cast<const uint8_t*>(data);
  for (size_t i = 0; i < bytes; ++i) seed = (seed ^ byte[i]) * 0x100000001b3ull;
  return seed;
}

// The device that kernels are asked for where no backend is at hand.
bool device_has(const tenon_device& device, const std::string& feature) {
  for (uint32_t i = 0; i < device.n_feature; ++i)
    if (feature == std::string_view(device.features[i].data, device.features[i].size)) return true;
  return false;
}

// What backends/cpu lists of this machine.
const std::vector<std::string>& machine_features() {
  static const std::vector<std::string> found = [] {
    std::vector<std::string> out;
#if defined(__x86_64__)
    const auto add = [&](bool present, const char* name) {
      if (present) out.emplace_back(name);
    };
    add(__builtin_cpu_supports("avx2"), "avx2");
    add(__builtin_cpu_supports("fma"), "fma");
    add(__builtin_cpu_supports("avx2"), "f16c");  // every processor with the one has the other
    add(__builtin_cpu_supports("avx512f"), "avx512f");
    add(__builtin_cpu_supports("avx512bw"), "avx512bw");
    add(__builtin_cpu_supports("avx512dq"), "avx512dq");
    add(__builtin_cpu_supports("avx512vl"), "avx512vl");
    add(__builtin_cpu_supports("avx512vnni"), "avx512vnni");
    add(__builtin_cpu_supports("avx512bf16"), "avx512bf16");
    // GCC 12 has no names for the matrix extensions: leaf 7, and XCR0 for their state.
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid(1, &a, &b, &c, &d) && (c >> 27 & 1) && __get_cpuid_count(7, 0, &a, &b, &c, &d)) {
      unsigned saved_low = 0, saved_high = 0;
      __asm__ volatile("xgetbv" : "=a"(saved_low), "=d"(saved_high) : "c"(0));
      // Linux grants the state of tiles to a process that asks (ARCH_REQ_XCOMP_PERM, XTILEDATA).
      const bool tiles = (saved_low & 0x60000) == 0x60000 && syscall(SYS_arch_prctl, 0x1023, 18) == 0;
      add(tiles && (d >> 24 & 1), "amx_tile");
      add(tiles && (d >> 25 & 1), "amx_int8");
      add(tiles && (d >> 22 & 1), "amx_bf16");
    }
#endif
    return out;
  }();
  return found;
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

uint32_t live_rows(const OpCase& c, uint32_t domain) {
  if (domain == TENON_DOMAIN_TOKENS) return c.step.n_rows;
  return domain == TENON_DOMAIN_OUTPUT_ROWS ? c.step.n_outputs : c.step.n_seqs;
}

// Blocks have no views: abi.h.
bool can_be_view(uint32_t encoding) {
  return encoding == TENON_ENC_F32 || encoding == TENON_ENC_BF16 || encoding == TENON_ENC_F16 ||
         encoding == TENON_ENC_I32;
}

// A case's operands in memory and its node, for one run.
class Bound {
 public:
  Bound(const tenon_kernel& kernel, const OpCase& c, const RunOptions& options)
      : kernel_(kernel), case_(c), options_(options), step_(c.step) {
    result_.stores = c.stores;
    node_ = {};
    node_.struct_size = sizeof node_, node_.op = c.op, node_.phase = c.phases, node_.layer = c.layer;
    node_.name = {"test", 4};
    node_.attr = c.attr.empty() ? nullptr : c.attr.data();
    for (size_t i = 0; i < c.in.size(); ++i) {
      const Input& x = c.in[i];
      const uint32_t plain = x.ids ? TENON_ENC_I32 : TENON_ENC_F32;
      const uint32_t encoding = i < options.in_encoding.size() ? options.in_encoding[i] : plain;
      types_in_.push_back({encoding, x.domain, x.cols, can_be_view(encoding) ? x.groups : 1});
    }
    for (const Output& y : c.out) types_out_.push_back({y.encoding, y.domain, y.cols, 1});
    for (const Weight& w : c.weights) {
      tenon_weight table = {};
      table.struct_size = sizeof table, table.dtype = records().dtype_id(w.dtype);
      table.rows = w.rows, table.cols = w.cols, table.row_bytes = w.row_bytes, table.parts = w.parts;
      table.n_expert = w.n_expert, table.expert_stride = w.expert_stride, table.flags = w.flags;
      weights_.push_back(table);
    }
    for (const Store& s : c.stores) store_types_.push_back(s.type);
    node_.in = types_in_.data(), node_.n_in = uint32_t(types_in_.size());
    node_.out = types_out_.data(), node_.n_out = uint32_t(types_out_.size());
    node_.weight = weights_.data(), node_.n_weight = uint32_t(weights_.size());
    node_.store = store_types_.data(), node_.n_store = uint32_t(store_types_.size());
    for (const Part& part : c.parts) {
      PartOperands& operands = part_operands_.emplace_back();
      const tenon_type type = {TENON_ENC_F32, TENON_DOMAIN_TOKENS, c.in.empty() ? 0 : c.in[0].cols, 1};
      operands.in.assign(part.in.size(), type), operands.out.assign(part.out.size(), type);
      for (const size_t id : part.weight) operands.weight.push_back(weights_[id]);
      tenon_node node = {};
      node.struct_size = sizeof node, node.op = part.op, node.phase = c.phases, node.layer = c.layer;
      node.name = node_.name, node.attr = part.attr.empty() ? nullptr : part.attr.data();
      node.in = operands.in.data(), node.n_in = uint32_t(operands.in.size());
      node.out = operands.out.data(), node.n_out = uint32_t(operands.out.size());
      node.weight = operands.weight.data(), node.n_weight = uint32_t(operands.weight.size());
      part_nodes_.push_back(node);
    }
    node_.part = part_nodes_.data(), node_.n_part = uint32_t(part_nodes_.size());
  }

  bool accept() {
    std::vector<tenon_str> present;
    for (const std::string& feature : machine_features()) present.push_back({feature.data(), feature.size()});
    tenon_device device = {};
    device.struct_size = sizeof device, device.backend = kernel_.backend, device.name = {"test", 4};
    device.features = present.data(), device.n_feature = uint32_t(present.size());
    device.max_workers = options_.workers;
    if (options_.device != nullptr) device = *options_.device;
    for (const std::string& wanted : words(to_string(kernel_.feature)))
      if (!device_has(device, wanted)) return result_.why_not = "the machine has no " + wanted, false;
    tenon_offer& offer = result_.offer;
    offer.struct_size = sizeof offer;
    for (size_t i = 0; i < 8; ++i) {
      offer.in_encoding[i] = i < case_.in.size() && case_.in[i].ids ? TENON_ENC_I32 : TENON_ENC_F32;
      offer.out_encoding[i] = i < case_.out.size() ? case_.out[i].encoding : uint32_t(TENON_ENC_F32);
    }
    // A route's ids leave as i32.
    if (case_.op == TENON_OP_ROUTE) offer.out_encoding[0] = types_out_[0].encoding = TENON_ENC_I32;
    const tenon_status status = kernel_.accept(&kernel_, &node_, &device, &offer);
    offer.why_not[sizeof offer.why_not - 1] = '\0';
    if (status == TENON_UNSUPPORTED) return result_.why_not = offer.why_not, false;
    check(status, "accept");
    if (!case_.absent.empty() && !(offer.flags & TENON_OFFER_PARTIAL_BANK))
      return result_.why_not = "it does not offer to skip experts that are elsewhere", false;
    result_.accepted = true;
    for (size_t i = 0; i < case_.in.size(); ++i) {
      if (i >= options_.in_encoding.size() && offer.in_encoding[i] != types_in_[i].encoding) {
        // The executor encodes a view into a value without gaps.
        types_in_[i].encoding = offer.in_encoding[i];
        types_in_[i].groups = 1;
      }
      result_.in_encoding.push_back(types_in_[i].encoding);
    }
    for (size_t i = 0; i < case_.out.size(); ++i)
      result_.out_encoding.push_back(types_out_[i].encoding = offer.out_encoding[i]);
    return true;
  }

  RunResult run() {
    prepare();
    for (uint32_t i = 0; i < std::max(1u, options_.repeats); ++i) launch();
    collect();
    drop();
    return std::move(result_);
  }
  std::string shares();
  RunResult take() { return std::move(result_); }

 private:
  void prepare() {
    pack();
    const uint32_t max_rows = options_.max_rows ? options_.max_rows : step_.max_rows;
    tenon_plan& plan = result_.plan;
    plan.struct_size = sizeof plan;
    check(kernel_.plan(&kernel_, &node_, max_rows, options_.max_context, options_.workers, &plan), "plan");
    bind_inputs();
    bind_outputs(plan.partition == TENON_PART_REPLICATE ? options_.workers : 1);
  }
  void drop() {
    if (kernel_.drop) kernel_.drop(&kernel_, &result_.plan);
  }
  void check(tenon_status status, const char* what) const {
    if (status != TENON_OK)
      throw std::runtime_error(to_string(kernel_.name) + ": " + what + " answered " + std::to_string(status) + ": " +
                               records().error());
  }

  void pack() {
    bind_weights();
    for (size_t i = 0; i < weights_.size(); ++i) {
      const uint32_t layout = result_.offer.pack_layout[i];
      if (layout) pack_weight(i, layout);
    }
    bind_bank();
  }

  void bind_weights() {
    for (size_t i = 0; i < weights_.size(); ++i) std::ranges::copy(case_.weights[i].planes(), weights_[i].plane);
  }

  // Experts are packed one by one, as a matrix each.
  void pack_weight(size_t i, uint32_t layout) {
    const Weight& w = case_.weights[i];
    const int64_t n_matrix = std::max<uint32_t>(1, w.n_expert), step = options_.pack_rows;
    tenon_weight source = weights_[i];
    source.n_expert = 0, source.expert_stride = 0;
    tenon_pack request = {};
    request.struct_size = sizeof request, request.weight = uint32_t(i), request.layout = layout;
    request.src = &source, request.rows = w.rows;
    check(kernel_.pack(&kernel_, &node_, &request), "pack (size)");
    const int64_t bytes = int64_t(request.bytes + 63) / 64 * 64;
    packed_.emplace_back(size_t(n_matrix > 1 ? bytes * n_matrix : int64_t(request.bytes)), uint8_t(0));
    const tenon_addr begin = address(packed_.back().data());
    const int64_t n_slice = (w.rows + step - 1) / step;
    for (int64_t e = 0; e < n_matrix; ++e) {
      std::ranges::copy(w.planes(uint32_t(e)), source.plane);
      request.dst = begin + uint64_t(e * bytes);
      for (int64_t s = 0; s < n_slice; ++s) {
        request.row0 = (options_.pack_backwards ? n_slice - 1 - s : s) * step;
        request.rows = std::min<int64_t>(step, w.rows - request.row0);
        check(kernel_.pack(&kernel_, &node_, &request), "pack");
      }
    }
    packed_.back().check("a packed weight");
    packed_.back().keep();
    result_.packed.emplace_back(packed_.back().data(), packed_.back().data() + packed_.back().size());
    weights_[i].layout = layout;
    weights_[i].plane[0] = begin;
    if (w.n_expert) weights_[i].expert_stride = bytes;
    for (int p = 1; p < 4; ++p) weights_[i].plane[p] = 0;
  }

  void bind_bank() {
    if (case_.op != TENON_OP_EXPERT_FFN) return;
    bank_ = {};
    bank_.struct_size = sizeof bank_, bank_.n_expert = weights_[0].n_expert;
    for (const tenon_weight& w : weights_)
      for (uint32_t e = 0; e < w.n_expert; ++e) experts_.push_back(w.plane[0] + e * uint64_t(w.expert_stride));
    for (const uint32_t e : case_.absent)
      for (size_t which = 0; which < weights_.size(); ++which) experts_[which * bank_.n_expert + e] = 0;
    for (tenon_weight& w : weights_)
      if (!case_.absent.empty()) w.expert_stride = 0;
    bank_.address = address(experts_.data());
    if (!case_.macro.empty()) bank_.macro = address(case_.macro.data());
    for (tenon_weight& w : weights_) w.bank = &bank_;
  }

  // Bytes from the end of a row to the next one, beyond those that its encoding asks for.
  int64_t row_gap(uint32_t encoding) const { return can_be_view(encoding) ? options_.row_gap : 0; }

  void bind_inputs() {
    for (size_t i = 0; i < case_.in.size(); ++i) {
      const Input& x = case_.in[i];
      const uint32_t encoding = types_in_[i].encoding;
      const bool as_given = encoding == TENON_ENC_F32 || encoding == TENON_ENC_I32 ||
                            (i < options_.in_encoding.size() && can_be_view(encoding));
      const int64_t groups = types_in_[i].groups, width = x.cols / groups;
      const int64_t lead = as_given ? x.lead : 0, gap = as_given ? x.gap : 0, full = lead + groups * (width + gap);
      const int64_t item = encoding == TENON_ENC_F32 || encoding == TENON_ENC_I32 ? 4 : 2;
      const int64_t row_bytes = tenon_encoding_row_bytes(encoding, full) + row_gap(encoding), rows = x.rows + 3;
      inputs_.emplace_back(size_t(rows * row_bytes), options_.poison);
      for (int64_t r = 0; r < x.rows; ++r)
        for (int64_t g = 0; g < groups; ++g)
          encode_row(encoding, x.data.data() + r * x.cols + g * width, width,
                     inputs_.back().data() + r * row_bytes + (lead + g * (width + gap)) * item);
      tenon_view view = {};
      view.data = address(inputs_.back().data()) + uint64_t(lead * item), view.rows = rows, view.cols = x.cols;
      view.row_bytes = row_bytes, view.groups = groups, view.encoding = encoding;
      view.group_bytes = groups > 1 ? (width + gap) * item : width * item;
      views_in_.push_back(view);
      inputs_.back().keep();
    }
  }

  void bind_outputs(uint32_t copies) {
    views_out_.resize(copies);
    for (uint32_t copy = 0; copy < copies; ++copy)
      for (size_t i = 0; i < case_.out.size(); ++i) {
        const int64_t cols = case_.out[i].cols;
        const uint32_t encoding = types_out_[i].encoding;
        tenon_view view = {};
        view.rows = live_rows(case_, case_.out[i].domain) + 3, view.cols = cols, view.groups = 1;
        view.row_bytes = tenon_encoding_row_bytes(encoding, cols) + row_gap(encoding), view.encoding = encoding;
        view.group_bytes = view.row_bytes;
        outputs_.emplace_back(size_t(view.rows * view.row_bytes), options_.poison);
        view.data = address(outputs_.back().data());
        views_out_[copy].push_back(view);
      }
  }

  // One worker's call. False: it failed, and this thread's message says why.
  bool launch_worker(uint32_t w, Team& team, Guarded& workspace, Guarded& scratch, const tenon_step& step,
                     const std::vector<tenon_store>& stores) {
    const uint32_t domain = case_.out.empty() ? uint32_t(TENON_DOMAIN_TOKENS) : case_.out[0].domain;
    tenon_args args = {};
    args.struct_size = sizeof args, args.rows = live_rows(case_, domain);
    args.in = views_in_.data(), args.n_in = uint32_t(views_in_.size());
    const auto& outs = views_out_[views_out_.size() > 1 ? w : 0];
    args.out = outs.data(), args.n_out = uint32_t(outs.size());
    args.weight = weights_.data(), args.n_weight = uint32_t(weights_.size());
    args.store = stores.data(), args.n_store = uint32_t(stores.size()), args.step = &step;
    tenon_exec exec = {};
    exec.struct_size = sizeof exec, exec.workspace = address(workspace.data()), exec.scratch = scratch.data();
    exec.worker = w, exec.n_workers = options_.workers, exec.team = &team, exec.counter = &team.counter;
    exec.barrier = Team::barrier, exec.claim = Team::claim;
    if (options_.watch) options_.watch->begin();
    const tenon_status status = kernel_.launch(&kernel_, &result_.plan, &args, &exec);
    if (options_.watch) options_.watch->end();
    return status == TENON_OK;
  }

  // Of everything that a launch may only read and that has no guard of its own.
  uint64_t read_only() const {
    uint64_t sum = 1;
    for (const Weight& w : case_.weights)
      for (const BorderBytes& plane : w.plane) sum = digest(sum, plane.data(), plane.size());
    for (const auto* array : {&step_.token, &step_.position, &step_.index, &step_.seq, &step_.row_start, &step_.kv_len,
                              &step_.seq_end, &step_.accepted, &step_.replay, &step_.tape, &step_.tape_start,
                              &step_.half, &step_.span, &step_.overlay, &step_.out_row})
      sum = digest(sum, array->data(), array->size() * sizeof(int32_t));
    for (const Store& s : result_.stores) sum = digest(sum, s.table.data(), s.table.size() * sizeof(int32_t));
    return digest(sum, &step_.n_rows, sizeof step_.n_rows);
  }

  void check_gaps(const Guarded& output, const tenon_view& view, int64_t live) const {
    const int64_t gap = row_gap(view.encoding);
    for (int64_t r = 0; r < live; ++r)
      for (int64_t at = (r + 1) * view.row_bytes - gap; at < (r + 1) * view.row_bytes; ++at)
        if (output.data()[at] != options_.poison)
          throw std::runtime_error("what lies between rows " + std::to_string(r) + " and " + std::to_string(r + 1) +
                                   " of an output was written");
  }

  void check_memory(const Guarded& workspace, const std::deque<Guarded>& scratch) const {
    workspace.check("the workspace");
    for (const Guarded& s : scratch) s.check("a worker's scratch");
    for (const Guarded& o : outputs_) o.check("an output");
    for (const Guarded& x : inputs_) x.check("an input");
    for (const Guarded& p : packed_) p.check("a packed weight");
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const tenon_view& view = views_out_[i / case_.out.size()][i % case_.out.size()];
      const auto live = int64_t(live_rows(case_, case_.out[i % case_.out.size()].domain));
      check_gaps(outputs_[i], view, live);
      for (int64_t at = live * view.row_bytes; at < view.rows * view.row_bytes; ++at)
        if (outputs_[i].data()[at] != options_.poison)
          throw std::runtime_error("row " + std::to_string(at / view.row_bytes) +
                                   " of an output was written, but only " + std::to_string(live) + " rows are live");
    }
  }

  void launch() {
    const tenon_plan& plan = result_.plan;
    const uint32_t workers = options_.workers;
    Guarded workspace(size_t(plan.workspace), options_.poison);
    std::deque<Guarded> scratch;
    for (uint32_t w = 0; w < workers; ++w) scratch.emplace_back(size_t(plan.scratch), options_.poison);
    const tenon_step step = step_.table();
    std::vector<tenon_store> stores;
    for (Store& s : result_.stores) stores.push_back(s.view());
    const uint64_t before = read_only();
    Team team(plan.partition == TENON_PART_ONE ? 1 : workers);
    std::optional<Turnstile> turns;
    if (options_.turns != Turns::kNone && team.workers > 1)
      team.turns = &turns.emplace(team.workers, options_.turns == Turns::kDescending);
    std::mutex mutex;
    std::string failure;
    const auto body = [&](uint32_t w) {
      if (turns) turns->enter(w);
      const bool done = launch_worker(w, team, workspace, scratch[w], step, stores);
      if (turns) turns->leave();
      team.returned.fetch_add(1);
      if (done) return;
      const std::lock_guard lock(mutex);
      failure = records().error();
      if (failure.empty()) failure = "it left no message";
    };
    const auto begin = std::chrono::steady_clock::now();
    if (team.workers == 1) {
      body(0);
    } else {
      std::vector<std::thread> threads;
      for (uint32_t w = 1; w < workers; ++w) threads.emplace_back(body, w);
      body(0);
      for (std::thread& t : threads) t.join();
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    result_.seconds = result_.seconds == 0 ? seconds : std::min(result_.seconds, seconds);
    if (!failure.empty()) throw std::runtime_error(to_string(kernel_.name) + ": launch failed: " + failure);
    if (team.uneven || (turns && turns->uneven()))
      throw std::runtime_error("a worker returned while others waited for it at a barrier");
    check_memory(workspace, scratch);
    if (read_only() != before)
      throw std::runtime_error(
          "a weight, a page table or the step record was written, but a launch may only read them");
  }

  void collect() {
    for (size_t i = 0; i < case_.out.size(); ++i) {
      const uint32_t rows = live_rows(case_, case_.out[i].domain);
      std::vector<float> values(size_t(rows) * size_t(case_.out[i].cols));
      for (uint32_t copy = 0; copy < views_out_.size(); ++copy) {
        const tenon_view& view = views_out_[copy][i];
        std::vector<float> mine(values.size());
        for (uint32_t r = 0; r < rows; ++r)
          decode_row(view.encoding, reinterpret_cast<const void*>(view.data + uint64_t(r * view.row_bytes)), view.cols,
                     mine.data() + int64_t(r) * view.cols);
        if (copy == 0) values = mine;
        if (!equal_bits(values, mine)) throw std::runtime_error("two workers' copies of an output differ");
      }
      result_.out.push_back(std::move(values));
    }
    result_.status = step_.status;
  }

  const tenon_kernel& kernel_;
  const OpCase& case_;
  const RunOptions& options_;
  Step step_;
  RunResult result_;
  tenon_node node_;
  struct PartOperands {
    std::vector<tenon_type> in, out;
    std::vector<tenon_weight> weight;
  };
  std::deque<PartOperands> part_operands_;
  std::vector<tenon_node> part_nodes_;
  std::vector<tenon_type> types_in_, types_out_;
  std::vector<tenon_weight> weights_;
  std::vector<tenon_addr> experts_;
  tenon_bank bank_ = {};
  std::vector<tenon_store_type> store_types_;
  std::deque<Guarded> inputs_, outputs_, packed_;
  std::vector<tenon_view> views_in_;
  std::vector<std::vector<tenon_view>> views_out_;
};

// The elements of an output that the partition gives to a worker.
bool owns(const tenon_plan& plan, uint32_t w, uint32_t workers, int64_t row, int64_t rows, int64_t col, int64_t cols) {
  int64_t unit = 0, n = 0;
  switch (plan.partition) {
    case TENON_PART_ONE:
      return w == 0;
    case TENON_PART_ROWS:
      unit = row, n = rows;
      break;
    case TENON_PART_OUT_COLS:
      unit = col / plan.unit_cols, n = (cols + plan.unit_cols - 1) / plan.unit_cols;
      break;
    case TENON_PART_HEADS:
      unit = col / (cols / plan.n_units), n = plan.n_units;
      break;
    default:
      return true;
  }
  return unit >= TENON_SHARE(n, w, workers) && unit < TENON_SHARE(n, w + 1, workers);
}

std::string Bound::shares() {
  prepare();
  const tenon_plan& plan = result_.plan;
  std::string fault;
  if (plan.partition == TENON_PART_OUT_COLS && plan.unit_cols <= 0) fault = "OUT_COLS without unit_cols";
  for (const Output& y : case_.out)
    if (plan.partition == TENON_PART_HEADS && (plan.n_units <= 0 || y.cols % plan.n_units))
      fault = std::to_string(y.cols) + " columns are not " + std::to_string(plan.n_units) + " equal groups";
  const tenon_step step = step_.table();
  std::vector<tenon_store> stores;
  for (Store& s : result_.stores) stores.push_back(s.view());
  const bool looked_at =
      plan.partition == TENON_PART_ROWS || plan.partition == TENON_PART_OUT_COLS || plan.partition == TENON_PART_HEADS;
  for (uint32_t w = 0; looked_at && fault.empty() && w < options_.workers; ++w) {
    Team team(options_.workers);
    team.alone = true;
    Guarded workspace(size_t(plan.workspace), options_.poison), scratch(size_t(plan.scratch), options_.poison);
    for (Guarded& output : outputs_) std::fill_n(output.data(), output.size(), options_.poison);
    if (!launch_worker(w, team, workspace, scratch, step, stores) || team.calls > 0 || team.counter > 0) break;
    for (size_t i = 0; i < case_.out.size() && fault.empty(); ++i) {
      const tenon_view& view = views_out_[0][i];
      if (view.encoding != TENON_ENC_F32 && view.encoding != TENON_ENC_I32) continue;
      const int64_t rows = live_rows(case_, case_.out[i].domain);
      for (int64_t r = 0; r < rows && fault.empty(); ++r)
        for (int64_t c = 0; c < view.cols && fault.empty(); ++c) {
          const uint8_t* element = outputs_[i].data() + r * view.row_bytes + c * 4;
          const bool written = std::any_of(element, element + 4, [&](uint8_t b) { return b != options_.poison; });
          if (written == owns(plan, w, options_.workers, r, rows, c, view.cols)) continue;
          fault = "worker " + std::to_string(w) + " of " + std::to_string(options_.workers) +
                  (written ? " wrote" : " did not write") + " row " + std::to_string(r) + ", column " +
                  std::to_string(c) + " of output " + std::to_string(i) + ", which is " +
                  (written ? "another's" : "its own");
        }
    }
  }
  drop();
  return fault;
}

const char* reference_name(uint32_t op) {
  static const std::map<uint32_t, const char*> names = {{TENON_OP_EMBED, "reference.embed"},
                                                        {TENON_OP_ENCODE, "reference.encode"},
                                                        {TENON_OP_NORM, "reference.norm"},
                                                        {TENON_OP_LINEAR, "reference.linear"},
                                                        {TENON_OP_GLU, "reference.glu"},
                                                        {TENON_OP_GATE, "reference.gate"},
                                                        {TENON_OP_ADD, "reference.add"},
                                                        {TENON_OP_MUL, "reference.mul"},
                                                        {TENON_OP_SCALE, "reference.scale"},
                                                        {TENON_OP_SOFTCAP, "reference.softcap"},
                                                        {TENON_OP_CONCAT, "reference.concat"},
                                                        {TENON_OP_ROPE, "reference.rope"},
                                                        {TENON_OP_KV_WRITE, "reference.kv_write"},
                                                        {TENON_OP_ATTENTION, "reference.attention"},
                                                        {TENON_OP_LATENT_ATTENTION, "reference.latent_attention"},
                                                        {TENON_OP_SHORT_CONV, "reference.short_conv"},
                                                        {TENON_OP_GATED_DELTA_RULE, "reference.gated_delta_rule"},
                                                        {TENON_OP_ROUTE, "reference.route"},
                                                        {TENON_OP_EXPERT_FFN, "reference.expert_ffn"},
                                                        {TENON_OP_FOLD_SLOTS, "reference.fold_slots"},
                                                        {TENON_OP_SELECT_ROWS, "reference.select_rows"},
                                                        {TENON_OP_LOGITS_TAIL, "reference.logits_tail"}};
  const auto found = names.find(op);
  if (found == names.end()) throw std::runtime_error("the reference has no op " + std::to_string(op));
  return found->second;
}

}  // namespace

RunResult run_op(const tenon_kernel& kernel, const OpCase& op_case, const RunOptions& options) {
  Bound bound(kernel, op_case, options);
  return bound.accept() ? bound.run() : bound.take();
}

RunResult run_reference(const OpCase& op_case, const RunResult& like) {
  RunOptions options;
  options.in_encoding = like.in_encoding;
  const tenon_kernel& reference = records().kernel(reference_name(op_case.op));
  if (!(like.offer.flags & TENON_OFFER_BF16_WEIGHTS)) return run_op(reference, op_case, options);
  OpCase rounded = op_case;
  for (Weight& w : rounded.weights) w = Weight::encoded("bf16", w.rows, w.cols, w.decoded());
  return run_op(reference, rounded, options);
}
RunResult run_reference(const OpCase& op_case) { return run_op(records().kernel(reference_name(op_case.op)), op_case); }

bool machine_has(const std::string& features) {
  const std::vector<std::string> wanted = words(features);
  return std::all_of(wanted.begin(), wanted.end(), [](const std::string& w) {
    return std::find(machine_features().begin(), machine_features().end(), w) != machine_features().end();
  });
}

std::string share_fault(const tenon_kernel& kernel, const OpCase& op_case, const RunOptions& options) {
  Bound bound(kernel, op_case, options);
  return bound.accept() ? bound.shares() : "refused: " + bound.take().why_not;
}

RunResult offer_of(const tenon_kernel& kernel, const OpCase& op_case, const RunOptions& options) {
  Bound bound(kernel, op_case, options);
  bound.accept();
  return bound.take();
}

}  // namespace tenon::kit
