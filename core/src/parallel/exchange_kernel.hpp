// exchange_kernel.hpp: the core's own kernel for nodes that move values between ranks.
#pragma once

#include "communicator.hpp"
#include "cut.hpp"

#include <tenon/abi.h>

#include <string>
#include <vector>

namespace tenon::parallel {

// A kernel like those of plugins, which one rank's Programs choose for their exchanges. Borrows the communicator; lives as
// long as the Programs do. One worker moves the bytes while the others wait at the barrier behind it.
class ExchangeKernel {
 public:
  ExchangeKernel(std::vector<Exchange> exchanges, const Communicator& communicator, const program::Device& device);
  ExchangeKernel(const ExchangeKernel&) = delete;
  ExchangeKernel& operator=(const ExchangeKernel&) = delete;
  const tenon_kernel* table() const { return &table_; }

 private:
  const Exchange* exchange_of(const tenon_node& node) const;
  tenon_status launch(const Exchange& exchange, const tenon_args& args, const tenon_exec& exec) const;
  tenon_status move_parts(const tenon_args& args, void* stream) const;
  tenon_status move_columns(const Exchange& exchange, const tenon_args& args, const tenon_exec& exec) const;
  tenon_status copy(tenon_addr to, int64_t to_step, tenon_addr from, int64_t from_step, int64_t bytes, uint32_t rows, void* stream) const;

  std::vector<Exchange> exchanges_;
  const Communicator& communicator_;
  program::Device device_;
  std::string name_;
  tenon_kernel table_ = {};
};

}  // namespace tenon::parallel
