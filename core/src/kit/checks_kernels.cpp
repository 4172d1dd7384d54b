// Kernels of plain ops against the reference, and against themselves under every change that must not matter.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <thread>

#include "call_watch.hpp"
#include "composite_cases.hpp"
#include "graph/ops.hpp"
#include "store_cases.hpp"
#include "subject.hpp"

namespace tenon::kit {
namespace {

constexpr uint32_t kRowCounts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 33, 64};
constexpr uint32_t kMostRows = 64;

// A case that the kernel took, in a phase.
struct Taken {
  KernelCase one;
  uint32_t phase, flags;
  bool packs, has_store;
  std::string label() const { return one.label + (phase == TENON_PHASE_DECODE ? ", decode" : ", prefill"); }
  OpCase make(uint32_t rows, Values values = Values::kUsual) const {
    OpCase c = one.make(rows, values);
    c.phase(phase);
    return c;
  }
};

std::string bits_fault(const RunResult& got, const RunResult& want) {
  for (size_t i = 0; i < want.out.size(); ++i)
    if (!equal_bits(got.out[i], want.out[i]))
      return "output " + std::to_string(i) + " differs: " + compare(got.out[i], want.out[i]).text();
  for (size_t i = 0; i < want.stores.size(); ++i)
    if (got.stores[i].base != want.stores[i].base || got.stores[i].aux != want.stores[i].aux)
      return "the store differs";
  return got.status == want.status ? "" : "the step's status words differ";
}

// Of output i, rows of `cols` each.
std::span<const float> row(const RunResult& run, size_t i, size_t r, size_t cols) {
  return {run.out[i].data() + r * cols, cols};
}

class KernelChecks {
 public:
  KernelChecks(const Opened& opened, const tenon_kernel& kernel) : opened_(opened), kernel_(kernel) {}

  void run(Session& session) {
    const std::string name = "kernel " + text_of(kernel_.name) + ": ";
    const auto add = [&](const char* what, const char* duties, std::string (KernelChecks::*fault)()) {
      session.check(name + what, duties, [&] {
        prepare();
        // A kernel that takes none of the nodes still has to say why.
        if (!missing_.empty() && (cases_.empty() || fault != &KernelChecks::accept_fault)) return skip(missing_);
        left_out_.clear(), looked_at_.clear();
        std::string found = (this->*fault)();
        return found.empty() && !left_out_.empty() ? skip(left_out_) : outcome(std::move(found), looked_at_);
      });
    };
    add("accepts or says why not, and always the same", "P11 P14", &KernelChecks::accept_fault);
    // Before all others that launch: what a kernel allocates once and keeps is allocated in its first launch.
    add("allocates nothing, locks nothing and starts no thread in a launch", "P15", &KernelChecks::launch_fault);
    add("writes only its share of the outputs", "P16", &KernelChecks::share_of_outputs_fault);
    add("agrees with the reference", "", &KernelChecks::value_fault);
    add("reads no padding, and nothing that was in workspace and scratch", "P16 P17", &KernelChecks::poison_fault);
    add("finds rows wherever they lie", "P16", &KernelChecks::gap_fault);
    add("repeats to the bit", "P17", &KernelChecks::repeat_fault);
    add("gives equal bits for any number of workers", "P17", &KernelChecks::worker_fault);
    add("gives a row equal bits alone and in any company", "P17", &KernelChecks::row_fault);
    add("gives equal bits as the others of its numeric class", "P17", &KernelChecks::class_fault);
    add("keeps a row that is not finite to itself", "P19", &KernelChecks::finite_fault);
    if (view(kernel_.pattern) == "expert_ffn") {
      add("refuses an expert that does not exist", "P13", &KernelChecks::id_fault);
      add("gives slots whose sum is its own, on one device and on several", "P17", &KernelChecks::slot_fault);
    }
    add("packs a weight to the same bytes in any slices", "P18", &KernelChecks::pack_fault);
    if (!state_ops(view(kernel_.pattern)).empty())
      add("replays transactions as plain steps", "P17", &KernelChecks::transaction_fault);
  }

 private:
  // Inside of the first check that runs, so that a crash of accept() has a name.
  void prepare() {
    if (prepared_) return;
    prepared_ = true;
    const tenon_backend* backend = opened_.backend(view(kernel_.backend));
    if (!backend) {
      missing_ = "no plugin on the path has backend " + text_of(kernel_.backend);
      return;
    }
    options_.device = opened_.device(*backend, &missing_);
    if (!options_.device) return;
    if (!(backend->flags & TENON_BACKEND_HOST_MEMORY)) {
      missing_ = "the memory of backend " + text_of(kernel_.backend) +
                 " is not the host's; this kit runs kernels on host memory";
      return;
    }
    if (backend->flags & TENON_BACKEND_SPMD) workers_ = {1, 2, 3, 7};
    choose();
  }
  bool is_composite() const { return view(kernel_.pattern).find("->") != std::string_view::npos; }
  RunResult reference(const OpCase& c, const RunResult& like) const {
    if (!is_composite()) return run_reference(c, like);
    return run_parts(c, like, [](const OpCase& part) { return run_reference(part); });
  }
  RunOptions with(uint32_t workers) const {
    RunOptions options = options_;
    options.workers = workers;
    return options;
  }
  uint32_t rows_within(uint32_t wanted) const {
    if (kernel_.max_rows != 0) wanted = std::min(wanted, kernel_.max_rows);
    return std::max(wanted, kernel_.min_rows);
  }

  void choose() {
    try {
      cases_ = is_composite() ? composite_cases(view(kernel_.pattern)) : kernel_cases(view(kernel_.pattern));
      if (cases_.empty()) cases_ = store_cases(view(kernel_.pattern));
      for (const KernelCase& one : cases_)
        for (const uint32_t phase : {TENON_PHASE_DECODE, TENON_PHASE_PREFILL}) {
          if (!(kernel_.phases & phase)) continue;
          std::optional<OpCase> c;
          try {
            c = one.make(2, Values::kUsual);
          } catch (const std::exception&) {
            continue;  // a dtype for which there are no values
          }
          c->phase(phase);
          const RunResult asked = offer_of(kernel_, *c, options_);
          if (!asked.accepted) {
            if (refusal_.empty()) refusal_ = asked.why_not;
            continue;
          }
          Taken taken = {one, phase, asked.offer.flags, false, !c->stores.empty()};
          for (size_t i = 0; i < c->weights.size() && i < 8; ++i)
            taken.packs = taken.packs || asked.offer.pack_layout[i];
          taken_.push_back(std::move(taken));
        }
    } catch (const std::exception& error) {
      missing_ = error.what();
    }
    if (!missing_.empty() || !taken_.empty()) return;
    missing_ = cases_.empty()
                   ? "the kit has no cases of " + text_of(kernel_.pattern)
                   : "it takes none of the kit's nodes: " + (refusal_.empty() ? "no reason given" : refusal_);
  }

  // Runs `body` for every case that was taken; answers the first fault with the case's name.
  std::string each(const std::function<std::string(const Taken&)>& body) {
    size_t n = 0;
    for (const Taken& taken : taken_) {
      std::string fault;
      try {
        fault = body(taken);
      } catch (const std::exception& error) {
        fault = error.what();
      }
      if (!fault.empty()) return taken.label() + ": " + fault;
      ++n;
    }
    looked_at_ = std::to_string(n) + (n == 1 ? " node" : " nodes");
    return "";
  }

  std::string one_accept_fault(const OpCase& c) const {
    const RunResult a = offer_of(kernel_, c, options_), b = offer_of(kernel_, c, options_);
    if (a.accepted != b.accepted || a.why_not != b.why_not || std::memcmp(&a.offer, &b.offer, sizeof a.offer) != 0)
      return "accept() answered something else the second time";
    if (!a.accepted) return a.why_not.empty() ? "was refused without a reason" : "";
    for (size_t i = 0; i < c.in.size() && i < 8; ++i)
      if (tenon_encoding_row_bytes(a.offer.in_encoding[i], 64) == 0) return "wants an input in an unknown encoding";
    for (size_t i = 0; i < c.weights.size() && i < 8; ++i)
      if (a.offer.pack_layout[i] && !kernel_.pack) return "wants a packed weight, but has no pack()";
    return "";
  }

  std::string accept_fault() {
    size_t n = 0;
    for (const KernelCase& one : cases_)
      for (const uint32_t phase : {TENON_PHASE_DECODE, TENON_PHASE_PREFILL}) {
        if (!(kernel_.phases & phase)) continue;
        std::optional<OpCase> c;
        try {
          c = one.make(2, Values::kUsual);
        } catch (const std::exception&) {
          continue;
        }
        c->phase(phase), ++n;
        std::string fault = one_accept_fault(*c);
        // What it may know nothing of: pinned folds, experts.
        for (Weight& w : c->weights) w.parts = 3;
        if (fault.empty() && !c->weights.empty()) fault = one_accept_fault(*c);
        for (Weight& w : c->weights) w.parts = 0, w.n_expert = 4;
        if (fault.empty() && !c->weights.empty()) fault = one_accept_fault(*c);
        if (!fault.empty()) return one.label + ": " + fault;
      }
    looked_at_ = std::to_string(n) + " nodes, takes " + std::to_string(taken_.size());
    if (taken_.empty()) return "";
    // From several threads at once.
    const OpCase c = taken_[0].make(2);
    const RunResult want = offer_of(kernel_, c, options_);
    std::vector<RunResult> got(4);
    std::vector<std::thread> threads;
    for (RunResult& one : got)
      threads.emplace_back([&] {
        for (int i = 0; i < 50; ++i) one = offer_of(kernel_, c, options_);
      });
    for (std::thread& thread : threads) thread.join();
    for (const RunResult& one : got)
      if (std::memcmp(&one.offer, &want.offer, sizeof want.offer) != 0)
        return "accept() answers otherwise when threads call it at once";
    return "";
  }

  std::string share_of_outputs_fault() {
    return each([&](const Taken& t) {
      const OpCase c = t.make(rows_within(5));
      // Looks at all guards. NaN from a padding row would look as if nothing had been written, so other bytes as well.
      for (const uint8_t byte : {0xff, 0x3f}) {
        RunOptions options = with(workers_.back());
        options.poison = byte;
        run_op(kernel_, c, options);
      }
      for (const uint32_t workers : workers_)
        if (std::string fault = share_fault(kernel_, c, with(workers)); !fault.empty()) return fault;
      return std::string();
    });
  }

  // Kernels that read experts' rows as codes hold the hidden rows as codes too.
  static std::string_view with_encoding(std::string_view op, const RunResult& got) {
    return op == "expert_ffn" && got.in_encoding[0] != TENON_ENC_F32 ? "expert_ffn, encoded" : op;
  }

  Tolerance tolerance(const RunResult& got, const OpCase& c) const {
    if (is_composite()) return {"", composite_tolerance(c), "the sum of the bounds of its parts"};
    return tolerance_of(with_encoding(view(kernel_.pattern), got));
  }

  std::string output_fault(const RunResult& got, std::span<const float> want, size_t i, const OpCase& c) const {
    const Difference d = compare(got.out[i], want);
    const Tolerance usual = tolerance(got, c);
    const double bound = c.op == TENON_OP_ROUTE && i == 0
                             ? 0
                             : usual.relative_rms + (c.op == TENON_OP_ENCODE ? 0 : encoding_bound(got.out_encoding[i]));
    if (d.comparable && d.relative_rms <= bound) return "";
    return "output " + std::to_string(i) + ": " + d.text() + "; expected at most " + std::to_string(bound * 1e6) +
           "e-6 (" + std::string(usual.reason) + ")";
  }

  std::string difference(const RunResult& got, const OpCase& c) const {
    const RunResult want = reference(c, got);
    for (size_t i = 0; i < got.out.size(); ++i)
      if (std::string fault = output_fault(got, want.out[i], i, c); !fault.empty()) return fault;
    for (size_t i = 0; i < got.stores.size(); ++i) {
      if (c.op == TENON_OP_KV_WRITE || c.op == TENON_OP_ATTENTION) {
        if (got.stores[i].base != want.stores[i].base) return "the store's bytes are not the reference's";
        continue;
      }
      Store a = got.stores[i], b = want.stores[i];
      for (uint32_t s = 0; s < c.step.n_seqs; ++s)
        for (uint32_t half = 0; half < (a.type.kind == TENON_STORE_CONV ? 2u : 1u); ++half) {
          const Difference d = compare({a.state(s, half), a.state_size()}, {b.state(s, half), b.state_size()});
          if (!d.comparable || d.relative_rms > tolerance(got, c).relative_rms)
            return "state of sequence " + std::to_string(s) + ": " + d.text();
        }
    }
    return "";
  }

  std::string value_fault() {
    return each([&](const Taken& t) {
      for (const uint32_t rows : {1u, 2u, 7u, 17u, 33u})
        for (const Values values : {Values::kUsual, Values::kEdges}) {
          if (rows_within(rows) != rows || (values == Values::kEdges && rows != 7)) continue;
          const OpCase c = t.make(rows, values);
          const std::string fault = difference(run_op(kernel_, c, with(1)), c);
          if (!fault.empty()) return std::to_string(rows) + " rows: " + fault;
        }
      return t.flags & TENON_OFFER_ROW_EXACT ? std::string() : row_count_fault(t);
    });
  }

  // Kernels that are not row-exact may have code of their own for every number of rows.
  std::string row_count_fault(const Taken& t) const {
    if (t.one.label == "every third row") return "";  // its rows are not the step's
    const uint32_t most = rows_within(kMostRows);
    const OpCase all = t.make(most);
    const RunResult want = reference(all, run_op(kernel_, all, with(1)));
    for (const uint32_t rows : kRowCounts) {
      if (rows > most || rows_within(rows) != rows) continue;
      const RunResult got = run_op(kernel_, t.make(rows), with(1));
      for (size_t i = 0; i < got.out.size(); ++i) {
        const std::string fault = output_fault(got, {want.out[i].data(), got.out[i].size()}, i, all);
        if (!fault.empty()) return std::to_string(rows) + " rows: " + fault;
      }
    }
    return "";
  }

  std::string poison_fault() {
    return each([&](const Taken& t) {
      const OpCase c = t.make(rows_within(5));
      RunOptions options = with(workers_.size() > 1 ? 2 : 1);
      const RunResult want = run_op(kernel_, c, options);
      for (const uint8_t byte : {0x00, 0x3f, 0x7b}) {
        options.poison = byte;
        const std::string fault = bits_fault(run_op(kernel_, c, options), want);
        if (!fault.empty()) return "with other bytes in padding rows, gaps, workspace and scratch " + fault;
      }
      return std::string();
    });
  }

  // A view of some columns of a wider value has rows that lie further apart, and its type says nothing of it.
  std::string gap_fault() {
    return each([&](const Taken& t) {
      const OpCase c = t.make(rows_within(5));
      RunOptions options = with(workers_.back());
      const RunResult want = run_op(kernel_, c, options);
      options.row_gap = 192;
      const std::string fault = bits_fault(run_op(kernel_, c, options), want);
      return fault.empty() ? fault : "with rows that lie further apart " + fault;
    });
  }

  std::string repeat_fault() {
    return each([&](const Taken& t) {
      const OpCase c = t.make(rows_within(17));
      const uint32_t workers = workers_.size() > 1 ? 3 : 1;
      return bits_fault(run_op(kernel_, c, with(workers)), run_op(kernel_, c, with(workers)));
    });
  }

  std::string worker_fault() {
    if (workers_.size() == 1) return left_out_ = "the backend has one worker", "";
    return each([&](const Taken& t) {
      for (const uint32_t rows : {1u, 5u, 33u}) {
        if (rows_within(rows) != rows) continue;
        const OpCase c = t.make(rows);
        const RunResult want = run_op(kernel_, c, with(1));
        for (const uint32_t workers : workers_) {
          const std::string fault = bits_fault(run_op(kernel_, c, with(workers)), want);
          if (!fault.empty()) return std::to_string(rows) + " rows, " + std::to_string(workers) + " workers: " + fault;
        }
        if (rows == 1) continue;
        for (const auto& [turns, first] : {std::pair{Turns::kAscending, "first"}, {Turns::kDescending, "last"}}) {
          RunOptions options = with(3);
          options.turns = turns;
          const std::string fault = bits_fault(run_op(kernel_, c, options), want);
          if (!fault.empty())
            return std::to_string(rows) + " rows, 3 workers in turns, the " + first + " one first: " + fault;
        }
      }
      return std::string();
    });
  }

  std::string row_fault() {
    bool any = false;
    std::string fault = each([&](const Taken& t) {
      if (!(t.flags & TENON_OFFER_ROW_EXACT) || t.one.reads_later_rows) return std::string();
      any = true;
      const uint32_t most = rows_within(kMostRows);
      const OpCase all = t.make(most);
      const RunResult want = run_op(kernel_, all, with(1));
      if (t.one.label == "every third row") return std::string();  // its rows are not the step's
      for (const uint32_t rows : kRowCounts) {
        if (rows > most || rows_within(rows) != rows) continue;
        const RunResult got = run_op(kernel_, t.make(rows), with(1));
        for (size_t i = 0; i < got.out.size(); ++i)
          if (!equal_bits(got.out[i], {want.out[i].data(), got.out[i].size()}))
            return "rows among " + std::to_string(rows) + " are not those among " + std::to_string(most) + ": " +
                   compare(got.out[i], {want.out[i].data(), got.out[i].size()}).text();
      }
      if (t.has_store) return std::string();
      // Alone, and in other company and places.
      for (const std::vector<uint32_t>& chosen :
           {std::vector<uint32_t>{most - 1}, {most / 2}, {most - 1, 0, most / 2, 3 % most, most / 3}}) {
        if (rows_within(uint32_t(chosen.size())) != chosen.size()) continue;
        const RunResult got = run_op(kernel_, only_rows(all, chosen), with(1));
        for (size_t i = 0; i < got.out.size(); ++i) {
          const size_t cols = got.out[i].size() / chosen.size();
          for (size_t r = 0; r < chosen.size(); ++r)
            if (!equal_bits(row(got, i, r, cols), row(want, i, chosen[r], cols)))
              return "row " + std::to_string(chosen[r]) + " is another one among " + std::to_string(chosen.size()) +
                     " rows: " + compare(row(got, i, r, cols), row(want, i, chosen[r], cols)).text();
        }
      }
      return std::string();
    });
    if (!any) left_out_ = "it does not offer row exactness";
    return fault;
  }

  // A part, by the kernel of the same backend that the engine would choose.
  RunResult run_part(const OpCase& part) const {
    const tenon_kernel* best = nullptr;
    RunResult result;
    for (const tenon_kernel* other : opened_.registry().kernels) {
      if (view(other->backend) != view(kernel_.backend) || view(other->pattern) != graph::op_name(part.op)) continue;
      if (!(other->phases & part.phases) || (best && other->priority <= best->priority)) continue;
      const RunResult asked = offer_of(*other, part, options_);
      if (asked.accepted)
        best = other;
      else
        result.why_not = asked.why_not;
    }
    return best ? run_op(*best, part, with(1)) : result;
  }

  // Class "parts" says: the bits of the plain ops.
  std::string parts_fault() {
    return each([&](const Taken& t) {
      const OpCase c = t.make(rows_within(7));
      const RunResult mine = run_op(kernel_, c, with(1));
      const RunResult want = run_parts(c, mine, [&](const OpCase& part) { return run_part(part); });
      std::string fault = bits_fault(mine, want);
      return fault.empty() ? fault : "its class says that it equals its parts, but " + fault;
    });
  }

  std::string class_fault() {
    if (is_composite() && view(kernel_.numeric_class) == "parts") return parts_fault();
    std::vector<const tenon_kernel*> others;
    for (const tenon_kernel* other : opened_.registry().kernels)
      if (other != &kernel_ && view(other->numeric_class) == view(kernel_.numeric_class) &&
          view(other->pattern) == view(kernel_.pattern) && view(other->backend) == view(kernel_.backend))
        others.push_back(other);
    if (others.empty()) return left_out_ = "no other kernel is of class " + text_of(kernel_.numeric_class), "";
    return each([&](const Taken& t) {
      const OpCase c = t.make(rows_within(7));
      const RunResult mine = run_op(kernel_, c, with(1));
      for (const tenon_kernel* other : others) {
        if (!(other->phases & t.phase)) continue;
        const RunResult got = run_op(*other, c, with(1));
        if (!got.accepted || got.in_encoding != mine.in_encoding) continue;
        const std::string fault = bits_fault(mine, got);
        if (!fault.empty())
          return "kernel " + text_of(other->name) + " of class " + text_of(kernel_.numeric_class) +
                 " gives other bits: " + fault;
      }
      return std::string();
    });
  }

  std::string finite_fault() {
    return each([&](const Taken& t) {
      const OpCase clean = t.make(rows_within(5));
      if (clean.out.empty() || clean.step.n_outputs != 0) return std::string();
      const RunResult usual = run_op(kernel_, clean, with(1));
      for (size_t i = 0; i < clean.in.size(); ++i) {
        if (clean.in[i].ids) continue;
        const int64_t cols = clean.in[i].cols;
        // In the body of a vectorised loop, and in what it leaves over.
        for (const int64_t col : {cols / 3, cols - 1})
          for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
            OpCase dirty = clean;
            dirty.in[i].data[size_t(int64_t(clean.step.rows() / 2) * cols + col)] = value;
            const std::string fault = spread_fault(t, dirty, usual, std::isnan(value));
            if (!fault.empty())
              return std::to_string(value) + " in column " + std::to_string(col) + " of input " + std::to_string(i) +
                     ": " + fault;
          }
      }
      return std::string();
    });
  }

  // `dirty` is the case of `usual` with a number that is not finite in its middle row.
  std::string spread_fault(const Taken& t, const OpCase& dirty, const RunResult& usual, bool is_nan) const {
    const uint32_t rows = dirty.step.rows(), bad = rows / 2;
    const RunResult got = run_op(kernel_, dirty, with(1)), want = reference(dirty, got);
    for (size_t i = 0; i < got.out.size(); ++i) {
      const size_t width = got.out[i].size() / rows;
      for (uint32_t r = 0; r < rows; ++r) {
        const bool reaches = r == bad || (t.has_store && r > bad && dirty.step.seq[r] == dirty.step.seq[bad]);
        if (!reaches && !equal_bits(row(usual, i, r, width), row(got, i, r, width)))
          return "row " + std::to_string(r) + " changes when row " + std::to_string(bad) + " is not finite";
      }
      const auto mine = row(got, i, bad, width), theirs = row(want, i, bad, width);
      const auto finite = [](float v) { return std::isfinite(v); };
      if (!std::all_of(theirs.begin(), theirs.end(), finite) && std::all_of(mine.begin(), mine.end(), finite))
        return "the row comes out finite";
      for (size_t k = 0; k < width && is_nan && c_elementwise(dirty.op); ++k)
        if (std::isnan(theirs[k]) && !std::isnan(mine[k]))
          return "column " + std::to_string(k) + " comes out as a number, expected NaN";
    }
    return "";
  }
  // NaN of an element stays NaN of that element, whatever the encodings.
  static bool c_elementwise(uint32_t op) { return op != TENON_OP_ROUTE && op != TENON_OP_ENCODE; }

  // Ids come from a kernel of route, which may be anybody's.
  std::string id_fault() {
    return each([&](const Taken& t) {
      OpCase c = t.make(rows_within(5));
      const int64_t n = c.weights[0].n_expert;
      for (const int64_t id : {n, int64_t(-1)}) {
        c.in[1].data.back() = float(id);
        try {
          run_op(kernel_, c, with(workers_.back()));
        } catch (const std::exception& error) {
          if (std::string_view(error.what()).find(std::to_string(id)) == std::string_view::npos)
            return "its message for expert " + std::to_string(id) + " of " + std::to_string(n) + " does not name it: " + error.what();
          continue;
        }
        return "expert " + std::to_string(id) + " of " + std::to_string(n) + " is taken";
      }
      return std::string();
    });
  }

  // The same node with its slots summed up.
  static OpCase summed(OpCase slots) {
    auto& attr = *reinterpret_cast<tenon_expert_ffn_attr*>(slots.attr.data());
    attr.combine = 0, slots.out[0].cols /= attr.top_k;
    return slots;
  }

  // As fold_slots adds, which is defined to the bit.
  static std::vector<float> folded(const RunResult& slots, const Input& weights) {
    const size_t top_k = size_t(weights.cols), rows = size_t(weights.rows), cols = slots.out[0].size() / rows / top_k;
    std::vector<float> out(rows * cols);
    for (size_t r = 0; r < rows; ++r)
      for (size_t s = 0; s < top_k; ++s)
        for (size_t c = 0; c < cols; ++c) {
          const float term = weights.data[r * top_k + s] * slots.out[0][(r * top_k + s) * cols + c];
          out[r * cols + c] += term;
        }
    return out;
  }

  std::string slot_fault() {
    const auto gives_slots = [](const OpCase& c) {
      return reinterpret_cast<const tenon_expert_ffn_attr*>(c.attr.data())->combine == 1;
    };
    if (std::none_of(taken_.begin(), taken_.end(), [&](const Taken& t) { return gives_slots(t.make(1)); }))
      return left_out_ = "it does not give the slots one by one", "";
    return each([&](const Taken& t) {
      for (const uint32_t rows : {1u, 5u, 33u}) {
        OpCase c = t.make(rows_within(rows));
        if (!gives_slots(c)) return std::string();
        const RunResult all = run_op(kernel_, c, with(1));
        if (!equal_bits(folded(all, c.in[2]), run_op(kernel_, summed(c), with(1)).out[0]))
          return std::to_string(rows) + " rows: the sum of its slots is not what it gives with combine 0";
        if (!c.absent.empty() || !(t.flags & TENON_OFFER_PARTIAL_BANK)) continue;
        // Every third expert here: each slot is computed on one of three devices, and zeros on the others.
        std::vector<float> sum(all.out[0].size(), 0);
        for (uint32_t device = 0; device < 3; ++device) {
          c.absent.clear();
          for (uint32_t e = 0; e < c.weights[0].n_expert; ++e)
            if (e % 3 != device) c.absent.push_back(e);
          const RunResult part = run_op(kernel_, c, with(workers_.back()));
          for (size_t i = 0; i < sum.size(); ++i) sum[i] += part.out[0][i];
        }
        // Zero is told apart from -0 by no sum over slots.
        for (size_t i = 0; i < sum.size(); ++i)
          if (sum[i] == 0 && all.out[0][i] == 0) sum[i] = all.out[0][i];
        if (!equal_bits(sum, all.out[0]))
          return std::to_string(rows) + " rows: slots from three devices are not those of one";
      }
      return std::string();
    });
  }

  std::string pack_fault() {
    if (std::none_of(taken_.begin(), taken_.end(), [](const Taken& t) { return t.packs; }))
      return left_out_ = "it packs nothing", "";
    return each([&](const Taken& t) {
      if (!t.packs) return std::string();
      const OpCase c = t.make(rows_within(2));
      RunOptions options = with(1);
      const RunResult want = run_op(kernel_, c, options), again = run_op(kernel_, c, options);
      if (want.packed != again.packed) return std::string("pack() gave other bytes the second time");
      options.pack_backwards = true;
      if (run_op(kernel_, c, options).packed != want.packed)
        return std::string("slices in another order give other bytes: a slice writes beyond its own");
      options.pack_backwards = false, options.pack_rows = 1 << 20;
      if (run_op(kernel_, c, options).packed != want.packed)
        return std::string("one slice of all rows gives other bytes than slices of 64");
      return std::string();
    });
  }

  std::string launch_fault() {
    if (const std::string fault = install_call_watch(); !fault.empty()) return left_out_ = fault, "";
    return each([&](const Taken& t) {
      for (const uint32_t rows : {1u, 7u, 33u})
        for (const uint32_t workers : {1u, workers_.back()}) {
          if (rows_within(rows) != rows) continue;
          CallWatch watch;
          RunOptions options = with(workers);
          options.watch = &watch;
          run_op(kernel_, t.make(rows), options);
          if (std::string fault = watch.launch_fault(); !fault.empty())
            return std::to_string(rows) + " rows, " + std::to_string(workers) + " workers: " + fault;
        }
      return std::string();
    });
  }

  std::string transaction_fault() {
    if (!(kernel_.phases & TENON_PHASE_DECODE)) return left_out_ = "transactions are of the decode phase", "";
    size_t n = 0;
    for (const auto& [label, op] : state_ops(view(kernel_.pattern)))
      for (uint64_t seed = 1; seed <= 3; ++seed) {
        std::string fault;
        try {
          fault = play_transactions(op, kernel_, kernel_, seed, 25, workers_[workers_.size() / 2]);
        } catch (const std::exception& error) {
          fault = error.what();
          if (fault.starts_with("refused: ")) continue;
        }
        if (!fault.empty()) return label + ": " + fault;
        ++n;
      }
    looked_at_ = std::to_string(n) + " runs of 25 steps";
    return "";
  }

  const Opened& opened_;
  const tenon_kernel& kernel_;
  bool prepared_ = false;
  RunOptions options_;
  std::vector<uint32_t> workers_ = {1};
  std::vector<KernelCase> cases_;
  std::vector<Taken> taken_;
  std::string missing_;  // why there is nothing to check
  std::string refusal_, left_out_, looked_at_;
};

}  // namespace

Group kernel_checks(const Subject& subject) {
  return {"kernels", [&subject](Session& session) {
            const Opened opened(subject, session.options());
            if (!opened.fault().empty()) return;  // the opening's check says so
            std::vector<tenon_kernel> before;
            for (const tenon_kernel* kernel : opened.contents().kernels) before.push_back(*kernel);
            for (const tenon_kernel* kernel : opened.contents().kernels) KernelChecks(opened, *kernel).run(session);
            if (before.empty()) return;
            session.check("kernels: their records do not change", "P7", [&] {
              for (size_t i = 0; i < before.size(); ++i)
                if (std::memcmp(&before[i], opened.contents().kernels[i], sizeof before[i]) != 0)
                  return fail("the record of kernel " + text_of(before[i].name) + " has changed");
              return pass();
            });
          }};
}

}  // namespace tenon::kit
