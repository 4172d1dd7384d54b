// The collective "faulty_nccl": that of collectives/nccl, which fails as tests ask it to. The sources are the plugin's own, so
// that it can be joined from here.
#include "parallel/faulty.hpp"

#include "join.hpp"

TENON_PLUGIN("faulty_nccl", "0.1.0") {
  using namespace tenon;
  static const auto join = [](const sdk::GroupId& id, uint32_t n, uint32_t rank, std::string_view backend, uint32_t device) {
    return std::unique_ptr<sdk::Communicator>(std::make_unique<parallel_test::Faulty>(nccl::join(id, n, rank, backend, device)));
  };
  static sdk::CollectiveRecord& record = *std::make_unique<sdk::CollectiveRecord>("faulty_nccl", nccl::kFlags, nccl::unique, join).release();
  nccl::set_up();
  registrar.collective(record.with_all_reduce().table());
}
