// The collective "mpi": ranks are processes that mpirun has started, on one host or on several.
#include <tenon/sdk/collective.hpp>
#include <tenon/sdk/plugin.hpp>

#include <atomic>
#include <cstring>

#include "communicator.hpp"
#include "world.hpp"

namespace tenon::mpi {
namespace {

// Groups are numbered; every process counts alike.
sdk::GroupId unique() {
  static std::atomic<uint64_t> next = 0;
  sdk::GroupId id = {};
  const uint64_t number = next++;
  std::memcpy(id.data(), &number, sizeof number);
  return id;
}

std::unique_ptr<sdk::Communicator> join(const sdk::GroupId& id, uint32_t n, uint32_t rank, std::string_view, uint32_t) {
  World& world = World::get();
  if (n != world.size() || rank != world.rank())
    throw sdk::Error(TENON_INVALID_ARGUMENT, sdk::text("mpi: rank %u of %u, but this is process %u of %u", rank, n, world.rank(), world.size()));
  uint64_t number = 0;
  std::memcpy(&number, id.data(), sizeof number);
  return std::make_unique<Communicator>(world, number, limit());
}

sdk::ProcessPlace place() { return {World::get().size(), World::get().rank()}; }

}  // namespace
}  // namespace tenon::mpi

TENON_PLUGIN("mpi", "0.1.0") {
  using namespace tenon;
  static const sdk::CollectiveRecord& record =
      *std::make_unique<sdk::CollectiveRecord>("mpi", TENON_COLLECTIVE_REPEATABLE, mpi::unique, mpi::join, mpi::place).release();
  registrar.collective(record.table());
}
