// The collective "nccl": ranks on GPUs of the cuda backend, of one process or several.
#include <tenon/sdk/plugin.hpp>

#include "join.hpp"

TENON_PLUGIN("nccl", "0.1.0") {
  using namespace tenon;
  nccl::set_up();
  static sdk::CollectiveRecord& record = *std::make_unique<sdk::CollectiveRecord>("nccl", nccl::kFlags, nccl::unique, nccl::join).release();
  registrar.collective(record.with_all_reduce().table());
}
