// exchange_kernel.hpp: the core's own kernels for nodes that move values between ranks.
#pragma once

#include "communicator.hpp"
#include "cut.hpp"

#include <tenon/abi.h>

#include <array>
#include <string_view>
#include <vector>

namespace tenon::parallel {

// Kernels like those of plugins, which one rank's Programs choose for their exchanges. Borrows the communicator; lives as
// long as the Programs do. One worker moves the bytes while the others wait at the barrier behind it.
class ExchangeKernel {
 public:
  ExchangeKernel(std::vector<Exchange> exchanges, const Communicator& communicator, const program::Device& device);
  ExchangeKernel(const ExchangeKernel&) = delete;
  ExchangeKernel& operator=(const ExchangeKernel&) = delete;
  std::vector<const tenon_kernel*> tables() const;  // an op's each

 private:
  tenon_kernel table_of(std::string_view name, std::string_view op) const;
  const Exchange* exchange_of(const tenon_node& node) const;
  tenon_status launch(const Exchange& exchange, const tenon_args& args, const tenon_exec& exec) const;
  tenon_status move_parts(const Exchange& exchange, const tenon_args& args, void* stream) const;
  tenon_status move_columns(const Exchange& exchange, const tenon_args& args, const tenon_exec& exec) const;
  tenon_status move_slots(const Exchange& exchange, const tenon_args& args, const tenon_exec& exec) const;
  tenon_status add_up(const tenon_args& args, void* stream) const;
  tenon_status move_whole(const Exchange& exchange, const tenon_args& args, void* stream) const;
  tenon_status copy(tenon_addr to, int64_t to_step, tenon_addr from, int64_t from_step, int64_t bytes, uint32_t rows, void* stream) const;

  std::vector<Exchange> exchanges_;
  const Communicator& communicator_;
  program::Device device_;
  std::array<tenon_kernel, 5> tables_;
};

}  // namespace tenon::parallel
