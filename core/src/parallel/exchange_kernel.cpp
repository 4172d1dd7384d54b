#include "exchange_kernel.hpp"

#include <algorithm>
#include <string_view>

namespace tenon::parallel {
namespace {

int64_t pitch(int64_t cols) { return tenon_encoding_row_bytes(TENON_ENC_F32, cols); }

// Slots are gathered for others some rows at a time: they are the largest values of all.
constexpr int64_t kGatheredBytes = 4 << 20;
uint32_t rows_together(int64_t row_bytes) { return uint32_t(std::max<int64_t>(1, kGatheredBytes / row_bytes)); }

const ExchangeKernel& of(const tenon_kernel* kernel) { return *static_cast<const ExchangeKernel*>(kernel->self); }

}  // namespace

ExchangeKernel::ExchangeKernel(std::vector<Exchange> exchanges, const Communicator& communicator, const program::Device& device)
    : exchanges_(std::move(exchanges)), communicator_(communicator), device_(device),
      tables_{table_of("core.all_gather", "all_gather"), table_of("core.all_reduce", "all_reduce"), table_of("core.all_to_all", "all_to_all"),
              table_of("core.send", "send"), table_of("core.recv", "recv")} {}

std::vector<const tenon_kernel*> ExchangeKernel::tables() const {
  std::vector<const tenon_kernel*> out;
  for (const tenon_kernel& table : tables_) out.push_back(&table);
  return out;
}

tenon_kernel ExchangeKernel::table_of(std::string_view name, std::string_view op) const {
  const auto text = [](std::string_view view) { return tenon_str{view.data(), view.size()}; };
  tenon_kernel out = {};
  out.struct_size = sizeof out, out.phases = TENON_PHASE_DECODE | TENON_PHASE_PREFILL;
  out.name = text(name), out.pattern = text(op), out.numeric_class = text("copy");
  out.backend = device_.table().backend;
  out.self = const_cast<ExchangeKernel*>(this);
  out.accept = [](const tenon_kernel* kernel, const tenon_node*, const tenon_device*, tenon_offer* offer) noexcept -> tenon_status {
    offer->flags = TENON_OFFER_ROW_EXACT | (of(kernel).communicator_.is_capturable() ? TENON_OFFER_CAPTURABLE : 0);
    return TENON_OK;
  };
  out.plan = [](const tenon_kernel* kernel, const tenon_node* node, uint32_t max_rows, int64_t, uint32_t, tenon_plan* plan) noexcept -> tenon_status {
    const Exchange* exchange = of(kernel).exchange_of(*node);
    plan->partition = TENON_PART_ONE;
    if (exchange->kind == Exchange::Kind::kSlots) {
      const auto rows = std::min<uint64_t>(max_rows, rows_together(pitch(node->in[0].cols) * node->n_in));
      for (const Ranges& columns : exchange->columns) plan->workspace += uint64_t(pitch(length(columns) * exchange->slots)) * node->n_in * rows;
    } else {
      for (const Ranges& columns : exchange->columns) plan->workspace += uint64_t(pitch(length(columns))) * max_rows;
    }
    plan->impl = const_cast<Exchange*>(exchange);
    return TENON_OK;
  };
  out.launch = [](const tenon_kernel* kernel, const tenon_plan* plan, const tenon_args* args, const tenon_exec* exec) noexcept {
    return of(kernel).launch(*static_cast<const Exchange*>(plan->impl), *args, *exec);
  };
  return out;
}

const Exchange* ExchangeKernel::exchange_of(const tenon_node& node) const {
  return &exchanges_[static_cast<const ExchangeAttr*>(node.attr)->index];
}

tenon_status ExchangeKernel::launch(const Exchange& exchange, const tenon_args& args, const tenon_exec& exec) const {
  if (!args.rows) return TENON_OK;
  tenon_status status = TENON_OK;
  switch (exchange.kind) {
    case Exchange::Kind::kParts: status = move_parts(exchange, args, exec.stream); break;
    case Exchange::Kind::kColumns: status = move_columns(exchange, args, exec); break;
    case Exchange::Kind::kSlots: status = move_slots(exchange, args, exec); break;
    case Exchange::Kind::kSum: status = add_up(args, exec.stream); break;
    case Exchange::Kind::kMove: status = move_whole(exchange, args, exec.stream); break;
  }
  if (status != TENON_OK) communicator_.abort();  // at once: the others wait, and this rank's next exchange would be taken for this one
  return status;
}

tenon_status ExchangeKernel::copy(tenon_addr to, int64_t to_step, tenon_addr from, int64_t from_step, int64_t bytes, uint32_t rows,
                                  void* stream) const {
  const tenon_backend& backend = device_.backend();
  const uint32_t device = device_.table().index;
  return backend.copy(backend.self, stream, device, to, device, from, uint64_t(bytes), rows, uint64_t(to_step), uint64_t(from_step));
}

// Each part goes to every other rank of the group, and lies among all parts at the end.
tenon_status ExchangeKernel::move_parts(const Exchange& exchange, const tenon_args& args, void* stream) const {
  const uint32_t share = args.n_in;
  const uint64_t bytes = uint64_t(args.rows) * uint64_t(args.in[0].row_bytes);
  tenon_status status = communicator_.group(true);
  for (uint32_t at = 0; at < exchange.ranks.size(); ++at)
    for (uint32_t i = 0; i < share && status == TENON_OK; ++i) {
      const uint32_t rank = exchange.ranks[at];
      const tenon_addr all = args.out[at * share + i].data;
      if (rank == communicator_.rank()) {
        status = copy(all, args.in[i].row_bytes, args.in[i].data, args.in[i].row_bytes, args.in[i].row_bytes, args.rows, stream);
      } else {
        status = communicator_.send(args.in[i].data, bytes, rank, stream);
        if (status == TENON_OK) status = communicator_.recv(all, bytes, rank, stream);
      }
    }
  return status == TENON_OK ? communicator_.group(false) : status;
}

// Each rank's columns go to those who want all. There they come side by side and are put where they belong in the rows.
tenon_status ExchangeKernel::move_columns(const Exchange& exchange, const tenon_args& args, const tenon_exec& exec) const {
  const uint32_t own = communicator_.rank();
  std::vector<tenon_addr> theirs(exchange.ranks.size());
  tenon_addr at = exec.workspace;
  tenon_status status = communicator_.group(true);
  for (size_t i = 0; i < exchange.to.size() && args.n_in && status == TENON_OK; ++i)
    if (exchange.to[i] != own) status = communicator_.send(args.in[0].data, uint64_t(args.in[0].row_bytes) * args.rows, exchange.to[i], exec.stream);
  for (size_t i = 0; i < exchange.ranks.size() && args.n_out && status == TENON_OK; ++i) {
    const uint64_t bytes = uint64_t(pitch(length(exchange.columns[i]))) * args.rows;
    theirs[i] = exchange.ranks[i] == own ? args.in[0].data : at;
    if (exchange.ranks[i] != own) status = communicator_.recv(at, bytes, exchange.ranks[i], exec.stream);
    at += bytes;
  }
  if (status == TENON_OK) status = communicator_.group(false);
  for (size_t i = 0; i < exchange.ranks.size() && args.n_out; ++i) {
    const int64_t step = pitch(length(exchange.columns[i]));
    tenon_addr from = theirs[i];
    for (const Range& range : exchange.columns[i]) {
      const int64_t bytes = (range.end - range.begin) * 4;
      if (status == TENON_OK)
        status = copy(args.out[0].data + uint64_t(range.begin) * 4, args.out[0].row_bytes, from, step, bytes, args.rows, exec.stream);
      from += uint64_t(bytes);
    }
  }
  return status;
}

// To each rank go its columns of every slot; they come as its outputs have them.
tenon_status ExchangeKernel::move_slots(const Exchange& exchange, const tenon_args& args, const tenon_exec& exec) const {
  const uint32_t n = uint32_t(exchange.ranks.size()), cuts = n / exchange.owners, share = args.n_in;
  const int64_t slot_bytes = args.in[0].cols / exchange.slots * 4;
  const uint32_t most = rows_together(args.in[0].row_bytes * share);
  tenon_status status = TENON_OK;
  // Of part `k` of those that rank `from` has, in the rows from `row` on.
  const auto place = [&](uint32_t from, uint32_t k, uint32_t row) {
    const tenon_view& out = args.out[(from % cuts * share + k) * exchange.owners + from / cuts];
    return out.data + uint64_t(row) * uint64_t(out.row_bytes);
  };
  const auto gather = [&](uint32_t to, uint32_t k, uint32_t row, uint32_t rows, tenon_addr out) {
    const Range& columns = exchange.columns[to][0];
    const int64_t bytes = (columns.end - columns.begin) * 4;
    const tenon_addr from = args.in[k].data + uint64_t(row) * uint64_t(args.in[k].row_bytes) + uint64_t(columns.begin) * 4;
    for (uint32_t s = 0; s < exchange.slots && status == TENON_OK; ++s)
      status = copy(out + uint64_t(s * bytes), pitch(exchange.slots * bytes / 4), from + uint64_t(s * slot_bytes), args.in[k].row_bytes, bytes, rows,
                    exec.stream);
  };
  for (uint32_t row = 0; row < args.rows && status == TENON_OK; row += most) {
    const uint32_t rows = std::min(most, args.rows - row);
    std::vector<tenon_addr> sent(size_t(n) * share);
    tenon_addr at = exec.workspace;
    for (uint32_t i = 0; i < n; ++i)
      for (uint32_t k = 0; k < share; ++k) {
        const bool is_own = exchange.ranks[i] == communicator_.rank();
        sent[size_t(i) * share + k] = is_own ? place(i, k, row) : at;
        gather(i, k, row, rows, sent[size_t(i) * share + k]);
        if (!is_own) at += uint64_t(pitch(length(exchange.columns[i]) * exchange.slots)) * rows;
      }
    if (status == TENON_OK) status = communicator_.group(true);
    for (uint32_t i = 0; i < n; ++i)
      for (uint32_t k = 0; k < share && exchange.ranks[i] != communicator_.rank() && status == TENON_OK; ++k) {
        const uint64_t bytes = uint64_t(pitch(length(exchange.columns[i]) * exchange.slots)) * rows;
        status = communicator_.send(sent[size_t(i) * share + k], bytes, exchange.ranks[i], exec.stream);
        if (status == TENON_OK) status = communicator_.recv(place(i, k, row), uint64_t(args.out[0].row_bytes) * rows, exchange.ranks[i], exec.stream);
      }
    if (status == TENON_OK) status = communicator_.group(false);
  }
  return status;
}

// What lies behind the columns of a row is added as well, and nobody reads it.
tenon_status ExchangeKernel::add_up(const tenon_args& args, void* stream) const {
  return communicator_.all_reduce(args.in[0].data, args.out[0].data, args.rows * uint64_t(args.in[0].row_bytes) / sizeof(float), stream);
}

tenon_status ExchangeKernel::move_whole(const Exchange& exchange, const tenon_args& args, void* stream) const {
  const auto bytes = [&](const tenon_view& view) { return uint64_t(view.row_bytes) * args.rows; };
  for (const Move& move : exchange.moves) {
    tenon_status status = TENON_OK;
    if (move.from == communicator_.rank()) status = communicator_.send(args.in[0].data, bytes(args.in[0]), move.to, stream);
    if (move.to == communicator_.rank()) status = communicator_.recv(args.out[0].data, bytes(args.out[0]), move.from, stream);
    if (status != TENON_OK) return status;
  }
  return TENON_OK;
}

}  // namespace tenon::parallel
