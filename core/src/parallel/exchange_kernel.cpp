#include "exchange_kernel.hpp"

#include <array>
#include <string_view>

namespace tenon::parallel {
namespace {

int64_t pitch(int64_t cols) { return tenon_encoding_row_bytes(TENON_ENC_F32, cols); }

const ExchangeKernel& of(const tenon_kernel* kernel) { return *static_cast<const ExchangeKernel*>(kernel->self); }

}  // namespace

ExchangeKernel::ExchangeKernel(std::vector<Exchange> exchanges, const Communicator& communicator, const program::Device& device)
    : exchanges_(std::move(exchanges)), communicator_(communicator), device_(device) {
  const auto text = [](std::string_view view) { return tenon_str{view.data(), view.size()}; };
  table_.struct_size = sizeof table_, table_.phases = TENON_PHASE_DECODE | TENON_PHASE_PREFILL;
  table_.name = text("core.all_gather"), table_.pattern = text("all_gather"), table_.numeric_class = text("copy");
  table_.backend = device.table().backend;
  table_.self = this;
  table_.accept = [](const tenon_kernel* kernel, const tenon_node*, const tenon_device*, tenon_offer* offer) noexcept -> tenon_status {
    offer->flags = TENON_OFFER_ROW_EXACT | (of(kernel).communicator_.is_capturable() ? TENON_OFFER_CAPTURABLE : 0);
    return TENON_OK;
  };
  table_.plan = [](const tenon_kernel* kernel, const tenon_node* node, uint32_t max_rows, int64_t, uint32_t, tenon_plan* plan) noexcept -> tenon_status {
    const Exchange* exchange = of(kernel).exchange_of(*node);
    plan->partition = TENON_PART_ONE;
    for (const Ranges& columns : exchange->columns) plan->workspace += uint64_t(pitch(length(columns))) * max_rows;
    plan->impl = const_cast<Exchange*>(exchange);
    return TENON_OK;
  };
  table_.launch = [](const tenon_kernel* kernel, const tenon_plan* plan, const tenon_args* args, const tenon_exec* exec) noexcept {
    return of(kernel).launch(*static_cast<const Exchange*>(plan->impl), *args, *exec);
  };
}

const Exchange* ExchangeKernel::exchange_of(const tenon_node& node) const {
  return &exchanges_[static_cast<const ExchangeAttr*>(node.attr)->index];
}

tenon_status ExchangeKernel::launch(const Exchange& exchange, const tenon_args& args, const tenon_exec& exec) const {
  if (!args.rows) return TENON_OK;
  const tenon_status status = exchange.kind == Exchange::Kind::kParts ? move_parts(args, exec.stream) : move_columns(exchange, args, exec);
  if (status != TENON_OK) communicator_.abort();  // at once: the others wait, and this rank's next exchange would be taken for this one
  return status;
}

tenon_status ExchangeKernel::copy(tenon_addr to, int64_t to_step, tenon_addr from, int64_t from_step, int64_t bytes, uint32_t rows,
                                  void* stream) const {
  const tenon_backend& backend = device_.backend();
  const uint32_t device = device_.table().index;
  return backend.copy(backend.self, stream, device, to, device, from, uint64_t(bytes), rows, uint64_t(to_step), uint64_t(from_step));
}

// Each part goes to every other rank, and lies among all parts at the end.
tenon_status ExchangeKernel::move_parts(const tenon_args& args, void* stream) const {
  const uint32_t own = communicator_.rank(), share = args.n_in;
  const uint64_t bytes = uint64_t(args.rows) * uint64_t(args.in[0].row_bytes);
  tenon_status status = communicator_.group(true);
  for (uint32_t rank = 0; rank < communicator_.size(); ++rank)
    for (uint32_t i = 0; i < share && status == TENON_OK; ++i) {
      const tenon_addr all = args.out[rank * share + i].data;
      if (rank == own) {
        status = copy(all, args.in[i].row_bytes, args.in[i].data, args.in[i].row_bytes, args.in[i].row_bytes, args.rows, stream);
      } else {
        status = communicator_.send(args.in[i].data, bytes, rank, stream);
        if (status == TENON_OK) status = communicator_.recv(all, bytes, rank, stream);
      }
    }
  return status == TENON_OK ? communicator_.group(false) : status;
}

// Each rank's columns come side by side and are put where they belong in the rows.
tenon_status ExchangeKernel::move_columns(const Exchange& exchange, const tenon_args& args, const tenon_exec& exec) const {
  const uint32_t own = communicator_.rank(), n = communicator_.size();
  const tenon_view &in = args.in[0], &out = args.out[0];
  std::array<tenon_addr, kMostRanks> theirs = {};
  tenon_addr at = exec.workspace;
  tenon_status status = communicator_.group(true);
  for (uint32_t rank = 0; rank < n; ++rank) {
    const uint64_t bytes = uint64_t(pitch(length(exchange.columns[rank]))) * args.rows;
    theirs[rank] = rank == own ? in.data : at;
    if (rank != own && status == TENON_OK) {
      status = communicator_.send(in.data, uint64_t(in.row_bytes) * args.rows, rank, exec.stream);
      if (status == TENON_OK) status = communicator_.recv(at, bytes, rank, exec.stream);
    }
    at += bytes;
  }
  if (status == TENON_OK) status = communicator_.group(false);
  for (uint32_t rank = 0; rank < n; ++rank) {
    const int64_t step = pitch(length(exchange.columns[rank]));
    tenon_addr from = theirs[rank];
    for (const Range& range : exchange.columns[rank]) {
      const int64_t bytes = (range.end - range.begin) * 4;
      if (status == TENON_OK) status = copy(out.data + uint64_t(range.begin) * 4, out.row_bytes, from, step, bytes, args.rows, exec.stream);
      from += uint64_t(bytes);
    }
  }
  return status;
}

}  // namespace tenon::parallel
