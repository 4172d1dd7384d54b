#include "tables.hpp"

namespace tenon::far {
namespace {

// From a view's begin to the end of its last row.
uint64_t bytes_of(const tenon_view& view) {
  if (view.rows < 1 || view.cols < 1) return 0;
  int64_t row = tenon_encoding_row_bytes(view.encoding, view.cols);
  const int64_t element = view.encoding == TENON_ENC_F32 || view.encoding == TENON_ENC_I32    ? 4
                          : view.encoding == TENON_ENC_BF16 || view.encoding == TENON_ENC_F16 ? 2
                                                                                              : 0;
  if (element) {
    const int64_t groups = view.groups > 1 ? view.groups : 1;
    row = (groups - 1) * view.group_bytes + view.cols / groups * element;
  }
  return uint64_t((view.rows - 1) * view.row_bytes + row);
}

}  // namespace

Tables::Tables(const tenon_args& args, const tenon_exec& exec, uint64_t workspace_bytes, Near* near)
    : near_(near), args_(args), exec_(exec), step_(*args.step) {
  for (uint32_t i = 0; i < args.n_in; ++i) in_.push_back(map(args.in[i], "an input"));
  for (uint32_t i = 0; i < args.n_out; ++i) out_.push_back(map(args.out[i], "an output"));
  for (uint32_t i = 0; i < args.n_weight; ++i) weights_.push_back(map(args.weight[i]));
  for (uint32_t i = 0; i < args.n_store; ++i) stores_.push_back(map(args.store[i]));
  if (near) map_step();
  exec_.workspace = map(exec.workspace, workspace_bytes, "the workspace");
  exec_.scratch = reinterpret_cast<void*>(map(reinterpret_cast<tenon_addr>(exec.scratch), 0, "the scratch memory"));
  args_.in = in_.data(), args_.out = out_.data(), args_.weight = weights_.data(), args_.store = stores_.data();
  args_.step = &step_;
}

tenon_view Tables::map(tenon_view view, const char* what) const {
  view.data = map(view.data, bytes_of(view), what);
  return view;
}

tenon_weight Tables::map(const tenon_weight& weight) {
  tenon_weight out = weight;
  const int64_t experts = weight.n_expert > 1 ? weight.n_expert : 1;
  const int64_t rows = weight.rows * weight.row_bytes;
  const uint64_t bytes = uint64_t(experts > 1 ? (experts - 1) * weight.expert_stride + rows : rows);
  for (int p = 0; p < 4; ++p) out.plane[p] = map(weight.plane[p], p ? 1 : bytes, "a weight");
  if (weight.bank) out.bank = map(*weight.bank);
  if (near_ && out.layout == kPackedRows) out.layout = 0;
  return out;
}

const tenon_bank* Tables::map(const tenon_bank& bank) {
  tenon_bank& out = banks_.emplace_back(bank);
  const uint64_t n = bank.n_expert;
  std::vector<tenon_weight> kinds;
  for (uint32_t k = 0; k < bank.n_kind; ++k) kinds.push_back(map(bank.kinds[k]));
  out.kinds = kinds_.emplace_back(std::move(kinds)).data();
  out.address = map(bank.address, 3 * n * sizeof(uint64_t), "a bank's addresses");
  out.kind = map(bank.kind, 3 * n, "a bank's kinds");
  out.macro = map(bank.macro, 3 * n * sizeof(float), "a bank's factors");
  out.scale = map(bank.scale, n * sizeof(float), "a bank's scales");
  out.local = map(bank.local, n * sizeof(int32_t), "a bank's local ids");
  out.active = map(bank.active, n, "a bank's active experts");
  if (near_ && out.address) {  // a table of the device that holds addresses of the device
    const auto* begin = reinterpret_cast<const uint64_t*>(out.address);
    std::vector<uint64_t>& pointers = addresses_.emplace_back(begin, begin + 3 * n);
    for (uint64_t& one : pointers) one = map(one, 1, "an expert");
    out.address = reinterpret_cast<tenon_addr>(pointers.data());
  }
  return &out;
}

tenon_store Tables::map(tenon_store store) const {
  store.base = map(store.base, 1, "a store");
  store.aux = map(store.aux, 1, "a tape");
  store.table = map(store.table, uint64_t(step_.max_seqs) * store.table_stride * 4, "a store's table");
  return store;
}

void Tables::map_step() {
  const uint64_t rows = step_.max_rows, seqs = step_.max_seqs;
  for (tenon_addr* count : {&step_.n_rows, &step_.n_seqs, &step_.n_outputs})
    *count = map(*count, 4, "the step's counts");
  for (tenon_addr* one : {&step_.token, &step_.index, &step_.seq, &step_.span, &step_.overlay})
    *one = map(*one, rows * 4, "the step's rows");
  step_.position = map(step_.position, rows * 16, "the step's positions");
  step_.row_start = map(step_.row_start, (seqs + 1) * 4, "the step's sequences");
  for (tenon_addr* one :
       {&step_.kv_len, &step_.seq_end, &step_.accepted, &step_.replay, &step_.tape, &step_.tape_start, &step_.half})
    *one = map(*one, seqs * 4, "the step's sequences");
  for (tenon_addr* one : {&step_.out_row, &step_.status, &step_.sampling, &step_.mask})
    *one = map(*one, 1, "the step's outputs");
}

void Tables::keep_live_rows(uint32_t domain) {
  const tenon_addr count = domain == TENON_DOMAIN_TOKENS        ? step_.n_rows
                           : domain == TENON_DOMAIN_OUTPUT_ROWS ? step_.n_outputs
                                                                : step_.n_seqs;
  const uint32_t live = *reinterpret_cast<const uint32_t*>(count);
  if (live > args_.rows)
    throw sdk::Error(TENON_INVALID_ARGUMENT, sdk::text("%u rows are live, the launch is for %u", live, args_.rows));
  args_.rows = live;
}

}  // namespace tenon::far
