#include "bench_run.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <deque>
#include <map>
#include <numeric>

#include "checks.hpp"
#include "device_run.hpp"

namespace tenon::gpu_bench {
namespace {

using gpu_test::Device;
using gpu_test::output_of_part;
using gpu_test::random_weight;

constexpr uint32_t kHost = UINT32_MAX;
constexpr int64_t kPatternRows = 128;  // a multiple of every tile of scales
constexpr uint32_t kMinLaunches = 20, kMaxCopies = 128;

// The node of a case and what a kernel answers to it.
class Node {
 public:
  Node(const Device& device, const tenon_kernel& kernel, const BenchCase& c) : device_(device), kernel_(kernel) {
    node_.struct_size = sizeof node_, node_.op = c.op, node_.phase = c.phase;
    node_.name = {"bench", 5};
    node_.attr = c.attr.empty() ? nullptr : c.attr.data();
    for (const BenchInput& x : c.in)
      in.push_back({x.ids_below ? uint32_t(TENON_ENC_I32) : uint32_t(TENON_ENC_F32), c.domain, x.cols, 1});
    for (const int64_t cols : c.out_cols) out.push_back({TENON_ENC_F32, c.domain, cols, 1});
    if (c.op == TENON_OP_ROUTE) out[0].encoding = TENON_ENC_I32;
    for (const BenchWeight& w : c.weights) weight.push_back(weight_table(w));
    for (const BenchStore& s : c.stores) store.push_back(s.type);
    parts(c);
    node_.in = in.data(), node_.n_in = uint32_t(in.size());
    node_.out = out.data(), node_.n_out = uint32_t(out.size());
    node_.weight = weight.data(), node_.n_weight = uint32_t(weight.size());
    node_.store = store.data(), node_.n_store = uint32_t(store.size());
  }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // Empty, and the encodings are those of the offer; or the reason.
  std::string ask() {
    offer.struct_size = sizeof offer;
    for (size_t i = 0; i < 8; ++i) {
      offer.in_encoding[i] = i < in.size() ? in[i].encoding : uint32_t(TENON_ENC_NONE);
      offer.out_encoding[i] = i < out.size() ? out[i].encoding : uint32_t(TENON_ENC_NONE);
    }
    const tenon_status status = kernel_.accept(&kernel_, &node_, &device_.table(), &offer);
    if (status == TENON_UNSUPPORTED) return offer.why_not[0] ? offer.why_not : "refused";
    device_.check(status, "accept");
    for (size_t i = 0; i < in.size(); ++i) in[i].encoding = offer.in_encoding[i];
    for (size_t i = 0; i < out.size(); ++i) out[i].encoding = offer.out_encoding[i];
    return "";
  }
  const tenon_node* get() const { return &node_; }

  std::vector<tenon_type> in, out;
  std::vector<tenon_weight> weight;
  std::vector<tenon_store_type> store;
  tenon_offer offer = {};

 private:
  struct Operands {
    std::vector<tenon_type> in, out;
    std::vector<tenon_weight> weight;
    std::vector<tenon_store_type> store;
  };

  static tenon_weight weight_table(const BenchWeight& w) {
    const tenon_dtype& record = records().dtype(w.dtype);
    tenon_weight table = {};
    table.struct_size = sizeof table, table.dtype = records().dtype_id(w.dtype);
    table.rows = w.rows, table.cols = w.cols, table.n_expert = w.n_expert;
    table.row_bytes = w.cols / record.block_cols * record.block_bytes;
    table.expert_stride = w.n_expert ? table.rows * table.row_bytes : 0;
    return table;
  }

  void parts(const BenchCase& c) {
    std::map<size_t, tenon_type> types;
    for (size_t i = 0; i < in.size(); ++i) types[i] = in[i];
    for (const Part& part : c.parts) {
      Operands& operands = operands_.emplace_back();
      for (const size_t id : part.in) operands.in.push_back(types.at(id));
      for (const size_t id : part.weight) operands.weight.push_back(weight[id]);
      for (const size_t id : part.store) operands.store.push_back(store[id]);
      for (const size_t id : part.out) {
        tenon_type type = output_of_part(part, operands.in);
        type.cols = c.value_cols[id];
        operands.out.push_back(types[id] = type);
      }
      tenon_node one = node_;
      one.op = part.op, one.attr = part.attr.empty() ? nullptr : part.attr.data();
      one.in = operands.in.data(), one.n_in = uint32_t(operands.in.size());
      one.out = operands.out.data(), one.n_out = uint32_t(operands.out.size());
      one.weight = operands.weight.data(), one.n_weight = uint32_t(operands.weight.size());
      one.store = operands.store.data(), one.n_store = uint32_t(operands.store.size());
      parts_.push_back(one);
    }
    node_.part = parts_.data(), node_.n_part = uint32_t(parts_.size());
    if (parts_.empty()) return;
    // Outputs are told apart by what the text returns; encodings follow from the parts that give them.
    for (size_t i = 0; i < out.size() && i < c.part_outputs.size(); ++i) out[i] = types.at(c.part_outputs[i]);
  }

  const Device& device_;
  const tenon_kernel& kernel_;
  tenon_node node_ = {};
  std::deque<Operands> operands_;
  std::vector<tenon_node> parts_;
};

class Bench {
 public:
  Bench(const Device& device, const tenon_kernel& kernel, const BenchCase& c, const BenchOptions& options)
      : device_(device), kernel_(kernel), case_(c), options_(options), node_(device, kernel, c), rows_(c.rows()), step_(c.sequences) {}

  BenchResult run() {
    result_.why_not = node_.ask();
    if (!result_.why_not.empty()) return std::move(result_);
    tenon_plan plan = {};
    plan.struct_size = sizeof plan;
    int64_t context = 1;
    for (const SeqRows& s : case_.sequences) context = std::max<int64_t>(context, s.past + s.rows);
    check(kernel_.plan(&kernel_, node_.get(), rows_, context, 1, &plan), "plan");
    try {
      bind(plan);
      time(plan);
    } catch (...) {
      if (kernel_.drop) kernel_.drop(&kernel_, &plan);
      throw;
    }
    if (kernel_.drop) kernel_.drop(&kernel_, &plan);
    return std::move(result_);
  }

 private:
  void check(tenon_status status, const char* what) const { device_.check(status, what); }

  tenon_addr room(uint64_t bytes) {
    const uint64_t begin = (used_ + 1023) & ~uint64_t(1023);
    if (begin + bytes > device_.bytes())
      throw std::runtime_error("the case needs more than " + std::to_string(device_.bytes() >> 20) + " MiB");
    used_ = begin + bytes;
    return device_.memory() + begin;
  }
  void send(tenon_addr to, const void* from, uint64_t bytes) const {
    const tenon_backend& b = device_.backend();
    check(b.copy(b.self, nullptr, device_.table().index, to, kHost, reinterpret_cast<tenon_addr>(from), bytes, 1, 0, 0), "copy");
  }
  void copy(tenon_addr to, tenon_addr from, uint64_t bytes) const {
    const tenon_backend& b = device_.backend();
    const uint32_t dev = device_.table().index;
    check(b.copy(b.self, nullptr, dev, to, dev, from, bytes, 1, 0, 0), "copy");
  }
  // The pattern, as often as it fits.
  void fill(tenon_addr to, uint64_t bytes, const void* pattern, uint64_t period) const {
    uint64_t done = std::min(bytes, period);
    send(to, pattern, done);
    for (uint64_t n; done < bytes; done += n) copy(to + done, to, n = std::min(done / period * period, bytes - done));
  }
  tenon_addr numbers(const std::vector<int32_t>& values) {
    const tenon_addr at = room(values.size() * 4 + 4);
    send(at, values.data(), values.size() * 4);
    return at;
  }

  void bind(const tenon_plan& plan) {
    for (size_t i = 0; i < case_.in.size(); ++i) bind_input(i);
    for (const tenon_type& type : node_.out) {
      tenon_view view = view_of(type);
      view.data = room(uint64_t(view.rows * view.row_bytes));
      out_.push_back(view);
      result_.bytes += uint64_t(rows_) * uint64_t(view.row_bytes);
    }
    workspace_ = room(plan.workspace);
    bind_step();
    uint64_t cold = 0;
    for (const tenon_weight& w : node_.weight) cold += uint64_t(w.rows * w.row_bytes) * std::max(1u, w.n_expert);
    for (const BenchStore& s : case_.stores) cold += s.type.kind == TENON_STORE_PAGED ? case_.read_keys * uint64_t(s.token_bytes) : uint64_t(s.page_bytes) * step_.n_seqs;
    const uint64_t one_bank = case_.op == TENON_OP_EXPERT_FFN ? cold : 0;
    result_.copies = cold ? uint32_t(std::clamp<uint64_t>((options_.cold_bytes + cold - 1) / cold, 1, kMaxCopies)) : 1;
    if (one_bank) result_.copies = kMinLaunches;  // other experts each time, of one bank
    copies_.resize(result_.copies);
    for (size_t i = 0; i < node_.weight.size(); ++i) bind_weight(i);
    for (const BenchStore& s : case_.stores) bind_store(s);
    for (size_t i = 0; i < case_.in.size(); ++i)
      if (case_.in[i].ids_below) bind_ids(i);
    if (one_bank) bind_bank();
  }

  tenon_view view_of(const tenon_type& type) const {
    tenon_view view = {};
    view.rows = rows_ + 3, view.cols = type.cols, view.groups = 1, view.encoding = type.encoding;
    view.row_bytes = view.group_bytes = tenon_encoding_row_bytes(type.encoding, type.cols);
    return view;
  }

  void bind_input(size_t i) {
    tenon_view view = view_of(node_.in[i]);
    const int64_t rows = std::min<int64_t>(view.rows, 16);
    std::vector<uint8_t> pattern(size_t(rows * view.row_bytes));
    for (int64_t r = 0; r < rows && !case_.in[i].ids_below; ++r) {
      const auto values = Random(uint64_t(100 * i) + uint64_t(r)).normals(size_t(view.cols));
      encode_row(view.encoding, values.data(), view.cols, pattern.data() + r * view.row_bytes);
    }
    view.data = room(uint64_t(view.rows * view.row_bytes));
    fill(view.data, uint64_t(view.rows * view.row_bytes), pattern.data(), pattern.size());
    in_.push_back(view);
    result_.bytes += uint64_t(rows_) * uint64_t(view.row_bytes);
  }

  // Other ids in every copy.
  void bind_ids(size_t i) {
    Random random(77);
    const uint32_t n = case_.in[i].ids_below;
    const int64_t k = case_.in[i].cols;
    std::vector<int32_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::vector<bool> is_used(n);
    for (Copy& copy : copies_) {
      std::vector<int32_t> ids(size_t(in_[i].rows * k), -1);
      std::fill(is_used.begin(), is_used.end(), false);
      for (uint32_t r = 0; r < rows_; ++r)
        for (int64_t slot = 0; slot < k; ++slot) {
          std::swap(order[size_t(slot)], order[size_t(slot) + random.below(n - uint32_t(slot))]);
          ids[size_t(r * k + slot)] = order[size_t(slot)], is_used[size_t(order[size_t(slot)])] = true;
        }
      copy.in = in_;
      copy.in[i].data = numbers(ids);
    }
    uint64_t expert = 0;
    for (const tenon_weight& w : node_.weight) expert += uint64_t(w.rows * w.row_bytes);
    result_.bytes += expert * uint64_t(std::count(is_used.begin(), is_used.end(), true));
  }

  void bind_weight(size_t i) {
    const BenchWeight& w = case_.weights[i];
    tenon_weight table = node_.weight[i];
    const bool is_bank = w.n_expert > 0;
    const int64_t all_rows = w.rows * std::max(1u, w.n_expert);
    const int64_t pattern_rows = std::min(all_rows, kPatternRows);
    const Weight pattern = random_weight(w.dtype, pattern_rows, w.cols, 5 + i);
    const int64_t times = (all_rows + pattern_rows - 1) / pattern_rows;
    if (!is_bank)
      for (int p = 0; p < 4; ++p) result_.bytes += uint64_t(pattern.plane[p].size()) * uint64_t(all_rows) / uint64_t(pattern_rows);
    const uint32_t layout = node_.offer.pack_layout[i];
    tenon_pack pack = {};
    if (layout) {
      std::vector<uint8_t> rows = tiled(pattern, times);
      tenon_weight source = table;
      source.plane[0] = reinterpret_cast<tenon_addr>(rows.data());
      pack.struct_size = sizeof pack, pack.weight = uint32_t(i), pack.layout = layout, pack.rows = source.rows, pack.src = &source;
      check(kernel_.pack(&kernel_, node_.get(), &pack), "pack");
      const uint64_t bytes = pack.bytes;
      table.layout = layout;
      for (size_t n = 0; n < copies_.size(); ++n) {
        table.plane[0] = n && is_bank ? copies_[0].weight[i].plane[0] : room(bytes);
        copies_[n].weight.push_back(table);
        if (n && !is_bank) copy(table.plane[0], copies_[0].weight[i].plane[0], bytes);
        if (n) continue;
        constexpr int64_t kSlice = 4096;
        for (int64_t row = 0; row < source.rows; row += kSlice) {
          pack.row0 = row, pack.rows = std::min(kSlice, source.rows - row), pack.dst = table.plane[0];
          check(kernel_.pack(&kernel_, node_.get(), &pack), "pack");
        }
      }
      return;
    }
    for (size_t n = 0; n < copies_.size(); ++n) {
      for (int p = 0; p < 4; ++p) {
        const auto& plane = pattern.plane[p];
        if (plane.empty()) continue;
        if (n && is_bank) {
          table.plane[p] = copies_[0].weight[i].plane[p];
          continue;
        }
        const uint64_t bytes = uint64_t(plane.size()) * uint64_t(times);
        table.plane[p] = room(bytes);
        if (n) {
          copy(table.plane[p], copies_[0].weight[i].plane[p], bytes);
        } else {
          fill(table.plane[p], bytes, plane.data(), plane.size());
        }
      }
      copies_[n].weight.push_back(table);
    }
  }

  static std::vector<uint8_t> tiled(const Weight& pattern, int64_t times) {
    std::vector<uint8_t> out;
    out.reserve(pattern.plane[0].size() * size_t(times));
    for (int64_t t = 0; t < times; ++t) out.insert(out.end(), pattern.plane[0].begin(), pattern.plane[0].end());
    return out;
  }

  void bind_bank() {
    std::vector<uint64_t> experts;
    for (const tenon_weight& w : copies_[0].weight)
      for (uint32_t e = 0; e < w.n_expert; ++e) experts.push_back(w.plane[0] + e * uint64_t(w.expert_stride));
    bank_.struct_size = sizeof bank_, bank_.n_expert = case_.weights[0].n_expert;
    bank_.address = room(experts.size() * 8);
    send(bank_.address, experts.data(), experts.size() * 8);
    for (Copy& copy : copies_)
      for (tenon_weight& w : copy.weight) w.bank = &bank_;
  }

  void bind_store(const BenchStore& s) {
    const bool is_paged = s.type.kind == TENON_STORE_PAGED;
    int64_t longest = 1;
    for (const SeqRows& q : case_.sequences) longest = std::max<int64_t>(longest, q.past + q.rows);
    const uint32_t entries = is_paged ? uint32_t((longest + TENON_PAGE_TOKENS - 1) / TENON_PAGE_TOKENS) : 1;
    const uint32_t pages = entries * step_.n_seqs, stride = is_paged ? entries + 1 : 1;
    std::vector<int32_t> order(pages), table(size_t(step_.n_seqs + 1) * stride, -1);
    std::iota(order.begin(), order.end(), 0);
    Random random(9);
    for (uint32_t i = pages; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    for (uint32_t q = 0; q < step_.n_seqs; ++q)
      for (uint32_t p = 0; p < entries; ++p) table[size_t(q) * stride + p] = order[size_t(q) * entries + p];
    tenon_store out = {};
    out.table = numbers(table);
    out.page_bytes = s.page_bytes, out.value_offset = s.value_offset, out.aux_bytes = s.aux_bytes;
    out.page_tokens = is_paged ? TENON_PAGE_TOKENS : 0, out.table_stride = stride;
    // Keys and values as rows of a weight of their dtype; states as numbers.
    const Weight pattern = is_paged ? random_weight(dtype_name(s.type.dtype_k), 64, s.type.cols_k, 3)
                                    : Weight::encoded("f32", 1, 4096, Random(4).normals(4096, 0.1f));
    for (Copy& copy : copies_) {
      const uint64_t bytes = uint64_t(s.page_bytes) * pages;
      out.base = room(bytes);
      fill(out.base, bytes, pattern.plane[0].data(), pattern.plane[0].size());
      if (s.aux_bytes) out.aux = room(uint64_t(s.aux_bytes) * pages);
      copy.store.push_back(out);
    }
    result_.bytes += is_paged ? case_.read_keys * uint64_t(s.token_bytes) : 2 * uint64_t(s.page_bytes) * pages;
  }

  static std::string dtype_name(uint32_t id) {
    const tenon_str name = records().dtype_record(id)->name;
    return {name.data, size_t(name.size)};
  }

  void bind_step() {
    if (case_.domain == TENON_DOMAIN_OUTPUT_ROWS) {
      std::vector<int32_t> rows(rows_);
      std::iota(rows.begin(), rows.end(), 0);
      step_.select(rows);
    }
    table_.struct_size = sizeof table_, table_.max_rows = step_.max_rows, table_.max_seqs = step_.max_seqs;
    table_.max_pages = step_.max_pages;
    table_.n_rows = numbers({int32_t(step_.n_rows)}), table_.n_seqs = numbers({int32_t(step_.n_seqs)});
    table_.n_outputs = numbers({int32_t(step_.n_outputs)});
    table_.token = numbers(step_.token), table_.position = numbers(step_.position), table_.index = numbers(step_.index);
    table_.seq = numbers(step_.seq), table_.row_start = numbers(step_.row_start), table_.kv_len = numbers(step_.kv_len);
    table_.seq_end = numbers(step_.seq_end), table_.accepted = numbers(step_.accepted);
    table_.replay = numbers(step_.replay), table_.tape = numbers(step_.tape);
    table_.tape_start = numbers(step_.tape_start), table_.half = numbers(step_.half), table_.span = numbers(step_.span);
    table_.overlay = numbers(step_.overlay), table_.out_row = numbers(step_.out_row);
    table_.status = numbers(std::vector<int32_t>(step_.status.size()));
  }

  void launch(const tenon_plan& plan, uint32_t n) {
    tenon_exec exec = {};
    exec.struct_size = sizeof exec, exec.workspace = workspace_, exec.n_workers = 1;
    exec.stream = device_.backend().native(device_.backend().self, TENON_HANDLE_STREAM, device_.stream());
    for (uint32_t i = 0; i < n; ++i) {
      const Copy& copy = copies_[i % copies_.size()];
      const std::vector<tenon_view>& in = copy.in.empty() ? in_ : copy.in;
      tenon_args args = {};
      args.struct_size = sizeof args, args.rows = rows_;
      args.in = in.data(), args.n_in = uint32_t(in.size()), args.out = out_.data(), args.n_out = uint32_t(out_.size());
      args.weight = copy.weight.data(), args.n_weight = uint32_t(copy.weight.size());
      args.store = copy.store.data(), args.n_store = uint32_t(copy.store.size()), args.step = &table_;
      exec.flags = i && (node_.offer.flags & TENON_OFFER_PDL) ? uint32_t(TENON_OFFER_PDL) : 0u;
      check(kernel_.launch(&kernel_, &plan, &args, &exec), "launch");
    }
  }

  void sync() const { check(device_.backend().sync(device_.backend().self, device_.stream(), 0), "sync"); }

  template <typename Body>
  static double seconds_of(const Body& body) {
    const auto begin = std::chrono::steady_clock::now();
    body();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  void time(const tenon_plan& plan) {
    const tenon_backend& backend = device_.backend();
    launch(plan, 1);
    sync();
    const double first = seconds_of([&] { launch(plan, 1), sync(); });
    const uint32_t wanted = std::max(kMinLaunches, result_.copies);
    result_.launches = uint32_t(std::clamp(options_.seconds / std::max(first, 1e-9), 1.0, double(wanted)));
    check(backend.capture_begin(backend.self, device_.stream()), "capture_begin");
    void* graph = nullptr;
    try {
      launch(plan, result_.launches);
    } catch (...) {
      if (backend.capture_end(backend.self, device_.stream(), &graph) == TENON_OK) backend.destroy(backend.self, TENON_HANDLE_GRAPH, graph);
      throw;
    }
    check(backend.capture_end(backend.self, device_.stream(), &graph), "capture_end");
    const auto replay = [&](uint32_t times) {
      for (uint32_t i = 0; i < times; ++i) check(backend.replay(backend.self, graph, device_.stream()), "replay");
      sync();
    };
    // Several replays in a row hide the host's part of a replay.
    const double once = seconds_of([&] { replay(1); });
    const uint32_t times = uint32_t(std::clamp(options_.seconds / 5 / std::max(once, 1e-9), 1.0, 50.0));
    const size_t rounds = once > options_.seconds ? 1 : 5;
    std::vector<double> all;
    for (size_t i = 0; i < rounds; ++i) all.push_back(seconds_of([&] { replay(times); }) / (double(times) * result_.launches));
    std::sort(all.begin(), all.end());
    result_.seconds = all[all.size() / 2];
    backend.destroy(backend.self, TENON_HANDLE_GRAPH, graph);
  }

  struct Copy {
    std::vector<tenon_view> in;  // empty: those of all copies
    std::vector<tenon_weight> weight;
    std::vector<tenon_store> store;
  };
  const Device& device_;
  const tenon_kernel& kernel_;
  const BenchCase& case_;
  const BenchOptions& options_;
  Node node_;
  uint32_t rows_;
  Step step_;
  BenchResult result_;
  uint64_t used_ = 0;
  tenon_addr workspace_ = 0;
  tenon_step table_ = {};
  tenon_bank bank_ = {};
  std::vector<tenon_view> in_, out_;
  std::vector<Copy> copies_;
};

}  // namespace

std::string refusal(const gpu_test::Device& device, const tenon_kernel& kernel, const BenchCase& bench_case) {
  return Node(device, kernel, bench_case).ask();
}

BenchResult measure(const gpu_test::Device& device, const tenon_kernel& kernel, const BenchCase& bench_case,
                    const BenchOptions& options) {
  return Bench(device, kernel, bench_case, options).run();
}

}  // namespace tenon::gpu_bench
