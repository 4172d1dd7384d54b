#include "device_run.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <stdexcept>

namespace tenon::gpu_test {
namespace {

constexpr int64_t kPaddingRows = 3;

std::string to_string(tenon_str text) { return {text.data, size_t(text.size)}; }

uint32_t live_rows(const OpCase& c, uint32_t domain) {
  if (domain == TENON_DOMAIN_TOKENS) return c.step.n_rows;
  return domain == TENON_DOMAIN_OUTPUT_ROWS ? c.step.n_outputs : c.step.n_seqs;
}

struct PartOperands {
  std::vector<tenon_type> in, out;
  std::vector<tenon_weight> weight;
  std::vector<tenon_store_type> store;
};

// Sums of a q8_32 row that are not those of its codes; -1: none.
int64_t wrong_sum(const uint8_t* row, int64_t cols) {
  const auto* codes = reinterpret_cast<const int8_t*>(row);
  const auto* sums = reinterpret_cast<const int16_t*>(row + tenon_q8_32_sum_offset(cols));
  for (int64_t i = 0; i < cols / 16; ++i) {
    int sum = 0;
    for (int k = 0; k < 16; ++k) sum += codes[16 * i + k];
    if (sum != sums[i]) return i;
  }
  return -1;
}

class Run {
 public:
  Run(const Device& device, const tenon_kernel& kernel, const OpCase& c, const DeviceOptions& options)
      : device_(device), kernel_(kernel), case_(c), options_(options), step_(c.step), image_(device) {
    result_.stores = c.stores;
    describe();
  }

  RunResult run() {
    if (!accept()) return std::move(result_);
    const uint32_t domain = case_.out.empty() ? uint32_t(TENON_DOMAIN_TOKENS) : case_.out[0].domain;
    const uint32_t live = live_rows(case_, domain);
    launch_rows_ = std::max(options_.launch_rows, live);
    tenon_plan plan = {};
    plan.struct_size = sizeof plan;
    check(kernel_.plan(&kernel_, &node_, std::max(step_.max_rows, launch_rows_), options_.max_context, 1, &plan),
          "plan");
    bind(plan);
    try {
      launch(plan);
    } catch (...) {
      if (kernel_.drop) kernel_.drop(&kernel_, &plan);
      throw;
    }
    result_.plan = plan;
    if (kernel_.drop) kernel_.drop(&kernel_, &plan);
    collect();
    return std::move(result_);
  }

 private:
  void check(tenon_status status, const char* what) const {
    if (status != TENON_OK)
      throw std::runtime_error(to_string(kernel_.name) + ": " + what + " answered " + std::to_string(status) + ": " +
                               Kit::instance().error());
  }

  void describe() {
    node_ = {};
    node_.struct_size = sizeof node_, node_.op = case_.op, node_.phase = case_.phases, node_.layer = case_.layer;
    node_.name = {"test", 4};
    node_.attr = case_.attr.empty() ? nullptr : case_.attr.data();
    for (const Input& x : case_.in)
      types_in_.push_back({x.ids ? uint32_t(TENON_ENC_I32) : uint32_t(TENON_ENC_F32), x.domain, x.cols, x.groups});
    for (const Output& y : case_.out) types_out_.push_back({y.encoding, y.domain, y.cols, 1});
    if (case_.op == TENON_OP_ROUTE) types_out_[0].encoding = TENON_ENC_I32;  // ids
    for (const Weight& w : case_.weights) {
      tenon_weight table = {};
      table.struct_size = sizeof table, table.dtype = Kit::instance().dtype_id(w.dtype);
      table.rows = w.rows, table.cols = w.cols, table.row_bytes = w.row_bytes, table.flags = w.flags;
      table.n_expert = w.n_expert, table.expert_stride = w.expert_stride;
      weights_.push_back(table);
    }
    for (const Store& s : case_.stores) store_types_.push_back(s.type);
    node_.in = types_in_.data(), node_.n_in = uint32_t(types_in_.size());
    node_.out = types_out_.data(), node_.n_out = uint32_t(types_out_.size());
    node_.weight = weights_.data(), node_.n_weight = uint32_t(weights_.size());
    node_.store = store_types_.data(), node_.n_store = uint32_t(store_types_.size());
    describe_parts();
  }

  // Types of inner values follow from those before them.
  void describe_parts() {
    std::map<size_t, tenon_type> types;
    for (size_t i = 0; i < types_in_.size(); ++i) types[i] = types_in_[i];
    for (const Part& part : case_.parts) {
      PartOperands& operands = part_operands_.emplace_back();
      for (const size_t id : part.in) operands.in.push_back(types.at(id));
      for (const size_t id : part.weight) operands.weight.push_back(weights_[id]);
      for (const size_t id : part.store) operands.store.push_back(store_types_[id]);
      for (const size_t id : part.out) operands.out.push_back(types[id] = output_of_part(part, operands.in));
      tenon_node node = node_;
      node.op = part.op, node.attr = part.attr.empty() ? nullptr : part.attr.data();
      node.in = operands.in.data(), node.n_in = uint32_t(operands.in.size());
      node.out = operands.out.data(), node.n_out = uint32_t(operands.out.size());
      node.weight = operands.weight.data(), node.n_weight = uint32_t(operands.weight.size());
      node.store = operands.store.data(), node.n_store = uint32_t(operands.store.size());
      part_nodes_.push_back(node);
    }
    node_.part = part_nodes_.data(), node_.n_part = uint32_t(part_nodes_.size());
  }

  bool accept() {
    tenon_offer& offer = result_.offer;
    offer.struct_size = sizeof offer;
    for (size_t i = 0; i < 8; ++i) {
      offer.in_encoding[i] = i < types_in_.size() ? types_in_[i].encoding : uint32_t(TENON_ENC_NONE);
      offer.out_encoding[i] = i < types_out_.size() ? types_out_[i].encoding : uint32_t(TENON_ENC_NONE);
    }
    const tenon_status status = kernel_.accept(&kernel_, &node_, &device_.table(), &offer);
    if (status == TENON_UNSUPPORTED) return result_.why_not = offer.why_not, false;
    check(status, "accept");
    if (!case_.absent.empty() && !(offer.flags & TENON_OFFER_PARTIAL_BANK))
      return result_.why_not = "it does not offer to skip experts that are elsewhere", false;
    result_.accepted = true;
    for (size_t i = 0; i < types_in_.size(); ++i)
      result_.in_encoding.push_back(types_in_[i].encoding = offer.in_encoding[i]);
    for (size_t i = 0; i < types_out_.size(); ++i)
      result_.out_encoding.push_back(types_out_[i].encoding = offer.out_encoding[i]);
    return true;
  }

  tenon_addr numbers(const std::vector<int32_t>& values, const char* what) {
    return image_.add(values.data(), values.size() * 4, what);
  }

  void bind(const tenon_plan& plan) {
    for (size_t i = 0; i < case_.in.size(); ++i) bind_input(i);
    for (size_t i = 0; i < case_.out.size(); ++i) {
      tenon_view view = {};
      view.rows = std::max<int64_t>(launch_rows_, live_rows(case_, case_.out[i].domain)) + kPaddingRows;
      view.cols = case_.out[i].cols, view.groups = 1, view.encoding = types_out_[i].encoding;
      view.row_bytes = view.group_bytes = tenon_encoding_row_bytes(view.encoding, view.cols);
      view.data = image_.add(nullptr, size_t(view.rows * view.row_bytes), "an output");
      views_out_.push_back(view);
    }
    for (size_t i = 0; i < weights_.size(); ++i) bind_weight(i);
    bind_bank();
    for (const Store& s : case_.stores) {
      tenon_store table = {};
      table.base = image_.add(s.base.data(), s.base.size(), "a store");
      table.aux = s.aux.empty() ? 0 : image_.add(s.aux.data(), s.aux.size(), "a tape");
      table.table = numbers(s.table, "a page table");
      table.page_bytes = s.page_bytes, table.value_offset = s.value_offset, table.aux_bytes = s.aux_bytes;
      table.page_tokens = s.page_tokens, table.table_stride = s.table_stride;
      stores_.push_back(table);
    }
    workspace_ = image_.add(nullptr, size_t(plan.workspace), "the workspace");
    bind_step();
  }

  void bind_weight(size_t i) {
    const uint32_t layout = result_.offer.pack_layout[i];
    tenon_weight& table = weights_[i];
    for (int p = 0; p < 4; ++p) {
      const BorderBytes& plane = case_.weights[i].plane[p];
      if (!layout) table.plane[p] = plane.empty() ? 0 : image_.add(plane.data(), plane.size(), "a weight");
    }
    if (!layout) return;
    const int64_t bytes = int64_t(packing(i, 0).bytes + 255) / 256 * 256;
    const uint32_t experts = table.n_expert;
    table.layout = layout;
    if (experts) table.expert_stride = bytes;
    table.plane[0] = image_.add(nullptr, size_t(bytes * std::max(1u, experts)), "a packed weight");
  }

  void bind_bank() {
    if (case_.op != TENON_OP_EXPERT_FFN) return;
    std::vector<uint64_t> experts;
    for (const tenon_weight& w : weights_)
      for (uint32_t e = 0; e < w.n_expert; ++e) experts.push_back(w.plane[0] + e * uint64_t(w.expert_stride));
    const uint32_t n = weights_[0].n_expert;
    for (const uint32_t e : case_.absent)
      for (size_t which = 0; which < weights_.size(); ++which) experts[which * n + e] = 0;
    bank_ = {};
    bank_.struct_size = sizeof bank_, bank_.n_expert = n;
    bank_.address = image_.add(experts.data(), experts.size() * 8, "the table of experts");
    if (!case_.macro.empty())
      bank_.macro = image_.add(case_.macro.data(), case_.macro.size() * 4, "factors of experts");
    for (tenon_weight& w : weights_) {
      w.bank = &bank_;
      if (!case_.absent.empty()) w.expert_stride = 0;
    }
  }

  // The request for the packed size of a weight or of one of its experts; the source lies in host memory.
  tenon_pack packing(size_t i, uint32_t expert) {
    tenon_weight& source = sources_[i];
    source = weights_[i];
    source.layout = 0, source.n_expert = 0, source.expert_stride = 0, source.bank = nullptr;
    std::ranges::copy(case_.weights[i].planes(expert), source.plane);
    tenon_pack pack = {};
    pack.struct_size = sizeof pack, pack.weight = uint32_t(i), pack.layout = result_.offer.pack_layout[i];
    pack.rows = source.rows, pack.src = &source;
    check(kernel_.pack(&kernel_, &node_, &pack), "pack");
    return pack;
  }

  void pack_weights() {
    for (size_t i = 0; i < weights_.size(); ++i) {
      if (!weights_[i].layout) continue;
      const uint32_t experts = weights_[i].n_expert;
      const int64_t rows = weights_[i].rows, slice = 64, step = int64_t(packing(i, 0).bytes + 255) / 256 * 256;
      for (uint32_t e = 0; e < std::max(1u, experts); ++e)
        for (int64_t row = 0; row < rows; row += slice) {
          tenon_pack pack = packing(i, e);
          pack.row0 = row, pack.rows = std::min(slice, rows - row);
          pack.dst = weights_[i].plane[0] + uint64_t(int64_t(e) * step);
          check(kernel_.pack(&kernel_, &node_, &pack), "pack");
        }
    }
  }

  void bind_input(size_t i) {
    const Input& x = case_.in[i];
    const uint32_t encoding = types_in_[i].encoding;
    const int64_t width = x.cols / x.groups, full = x.lead + x.groups * (width + x.gap);
    const int64_t item = encoding == TENON_ENC_F32 || encoding == TENON_ENC_I32 ? 4 : 2;
    const int64_t row_bytes = tenon_encoding_row_bytes(encoding, full);
    const int64_t rows = std::max<int64_t>(x.rows, launch_rows_) + kPaddingRows;
    Bytes bytes(size_t(rows * row_bytes), uint8_t(0xff));
    for (int64_t r = 0; r < x.rows; ++r)
      for (int64_t g = 0; g < x.groups; ++g)
        encode_row(encoding, x.data.data() + r * x.cols + g * width, width,
                   bytes.data() + r * row_bytes + (x.lead + g * (width + x.gap)) * item);
    tenon_view view = {};
    view.data = image_.add(bytes.data(), bytes.size(), "an input") + uint64_t(x.lead * item);
    view.rows = rows, view.cols = x.cols, view.row_bytes = row_bytes, view.groups = x.groups, view.encoding = encoding;
    view.group_bytes = x.groups > 1 ? (width + x.gap) * item : row_bytes;
    views_in_.push_back(view);
  }

  void bind_step() {
    table_ = {};
    table_.struct_size = sizeof table_, table_.max_rows = step_.max_rows, table_.max_seqs = step_.max_seqs;
    table_.max_pages = step_.max_pages;
    const uint32_t counts[3] = {options_.no_rows ? 0 : step_.n_rows, options_.no_rows ? 0 : step_.n_seqs,
                                options_.no_rows ? 0 : step_.n_outputs};
    table_.n_rows = image_.add(&counts[0], 4, "n_rows"), table_.n_seqs = image_.add(&counts[1], 4, "n_seqs");
    table_.n_outputs = image_.add(&counts[2], 4, "n_outputs");
    table_.token = numbers(step_.token, "token"), table_.position = numbers(step_.position, "position");
    table_.index = numbers(step_.index, "index"), table_.seq = numbers(step_.seq, "seq");
    table_.row_start = numbers(step_.row_start, "row_start"), table_.kv_len = numbers(step_.kv_len, "kv_len");
    table_.seq_end = numbers(step_.seq_end, "seq_end"), table_.accepted = numbers(step_.accepted, "accepted");
    table_.replay = numbers(step_.replay, "replay"), table_.tape = numbers(step_.tape, "tape");
    table_.tape_start = numbers(step_.tape_start, "tape_start"), table_.half = numbers(step_.half, "half");
    table_.span = numbers(step_.span, "span"), table_.overlay = numbers(step_.overlay, "overlay");
    table_.out_row = numbers(step_.out_row, "out_row");
    table_.status = image_.add(step_.status.data(), step_.status.size() * 4, "status");
  }

  void launch(const tenon_plan& plan) {
    const tenon_backend& backend = device_.backend();
    tenon_args args = {};
    args.struct_size = sizeof args, args.rows = launch_rows_;
    args.in = views_in_.data(), args.n_in = uint32_t(views_in_.size());
    args.out = views_out_.data(), args.n_out = uint32_t(views_out_.size());
    args.weight = weights_.data(), args.n_weight = uint32_t(weights_.size());
    args.store = stores_.data(), args.n_store = uint32_t(stores_.size()), args.step = &table_;
    tenon_exec exec = {};
    exec.struct_size = sizeof exec, exec.workspace = workspace_, exec.n_workers = 1;
    exec.stream = backend.native(backend.self, TENON_HANDLE_STREAM, device_.stream());
    if (options_.captured) {
      void* graph = nullptr;
      check(backend.fill(backend.self, nullptr, device_.table().index, device_.memory(), 0, device_.bytes() / 64),
            "fill");
      check(backend.capture_begin(backend.self, device_.stream()), "capture_begin");
      const tenon_status status = kernel_.launch(&kernel_, &plan, &args, &exec);
      check(backend.capture_end(backend.self, device_.stream(), &graph), "capture_end");
      check(status, "launch");
      image_.upload();
      pack_weights();
      check(backend.replay(backend.self, graph, device_.stream()), "replay");
      check(backend.sync(backend.self, device_.stream(), 0), "sync");
      backend.destroy(backend.self, TENON_HANDLE_GRAPH, graph);
    } else {
      image_.upload();
      pack_weights();
      check(kernel_.launch(&kernel_, &plan, &args, &exec), "launch");
      check(backend.sync(backend.self, device_.stream(), 0), "sync");
    }
  }

  void collect() {
    image_.download();
    for (size_t i = 0; i < views_out_.size(); ++i) {
      const tenon_view& view = views_out_[i];
      const uint32_t rows = options_.no_rows ? 0 : live_rows(case_, case_.out[i].domain);
      const uint8_t* bytes = image_.at(view.data);
      for (size_t b = size_t(rows) * size_t(view.row_bytes); b < size_t(view.rows * view.row_bytes); ++b)
        if (bytes[b] != 0xff)
          throw std::runtime_error(to_string(kernel_.name) + ": row " + std::to_string(b / size_t(view.row_bytes)) +
                                   " of output " + std::to_string(i) + " was written; " + std::to_string(rows) +
                                   " are live");
      std::vector<float> values(size_t(rows) * size_t(view.cols));
      for (uint32_t r = 0; r < rows; ++r)
        if (view.encoding == TENON_ENC_Q8_32 && wrong_sum(bytes + r * view.row_bytes, view.cols) >= 0)
          throw std::runtime_error(to_string(kernel_.name) + ": a sum of codes of row " + std::to_string(r) + " is wrong");
      for (uint32_t r = 0; r < rows; ++r)
        decode_row(view.encoding, bytes + r * view.row_bytes, view.cols, values.data() + int64_t(r) * view.cols);
      result_.out.push_back(std::move(values));
    }
    for (size_t i = 0; i < stores_.size(); ++i) {
      Store& s = result_.stores[i];
      std::memcpy(s.base.data(), image_.at(stores_[i].base), s.base.size());
      if (stores_[i].aux) std::memcpy(s.aux.data(), image_.at(stores_[i].aux), s.aux.size());
    }
    result_.status.resize(step_.status.size());
    std::memcpy(result_.status.data(), image_.at(table_.status), step_.status.size() * 4);
  }

  const Device& device_;
  const tenon_kernel& kernel_;
  const OpCase& case_;
  const DeviceOptions& options_;
  Step step_;
  Image image_;
  RunResult result_;
  tenon_node node_;
  tenon_step table_;
  tenon_addr workspace_ = 0;
  tenon_bank bank_ = {};
  uint32_t launch_rows_ = 0;
  std::vector<tenon_type> types_in_, types_out_;
  std::vector<tenon_weight> weights_;
  std::array<tenon_weight, 8> sources_ = {};
  std::vector<tenon_store_type> store_types_;
  std::vector<tenon_view> views_in_, views_out_;
  std::vector<tenon_store> stores_;
  std::deque<PartOperands> part_operands_;
  std::vector<tenon_node> part_nodes_;
};

}  // namespace

tenon_type output_of_part(const Part& part, const std::vector<tenon_type>& in) {
  tenon_type out = in[part.op == TENON_OP_GATED_DELTA_RULE ? 2 : 0];
  out.groups = 1;
  if (part.op == TENON_OP_ENCODE) out.encoding = reinterpret_cast<const tenon_encode_attr*>(part.attr.data())->encoding;
  return out;
}

RunResult run_on_device(const Device& device, const tenon_kernel& kernel, const OpCase& op_case,
                        const DeviceOptions& options) {
  return Run(device, kernel, op_case, options).run();
}

}  // namespace tenon::gpu_test
