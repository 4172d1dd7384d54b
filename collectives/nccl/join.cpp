#include "join.hpp"

#include <cstdlib>
#include <map>
#include <mutex>
#include <tenon/sdk/plugin.hpp>

#include "communicator.hpp"

namespace tenon::nccl {
namespace {

static_assert(sizeof(ncclUniqueId) == sizeof(sdk::GroupId));

// Groups of which this process has ranks; one that has ended stays so for those who join late.
std::shared_ptr<Group> group_of(const sdk::GroupId& id) {
  static std::mutex& mutex = *std::make_unique<std::mutex>().release();  // groups may end while the process does
  static auto& groups = *std::make_unique<std::map<sdk::GroupId, std::shared_ptr<Group>>>().release();
  const std::lock_guard lock(mutex);
  std::erase_if(groups, [](const auto& one) { return one.second.use_count() == 1 && !one.second->has_ended(); });
  std::shared_ptr<Group>& group = groups[id];
  if (!group) group = std::make_shared<Group>();
  return group;
}

// How long a rank may keep the others waiting for a call that needs it on the host: all of them are ready to join.
std::chrono::milliseconds limit() {
  constexpr int64_t kSeconds = 120;
  tenon_value value = {};
  const tenon_status status = sdk::host().config(sdk::host().self, sdk::to_str("collective_timeout_ms"), &value);
  const bool given = status == TENON_OK && value.type == TENON_VALUE_I64 && value.integer > 0;
  return given ? std::chrono::milliseconds(value.integer) : std::chrono::seconds(kSeconds);
}

}  // namespace

void set_up() { setenv("NCCL_NVLS_ENABLE", "0", 1); }

sdk::GroupId unique() {
  int n = 0;
  if (const cudaError_t code = cudaGetDeviceCount(&n); code != cudaSuccess || !n)
    throw sdk::Error(TENON_INVALID_ARGUMENT, sdk::text("nccl: no CUDA device (%s)", cudaGetErrorString(code)));
  ncclUniqueId made;
  if (const ncclResult_t result = ncclGetUniqueId(&made); result != ncclSuccess)
    throw sdk::Error(TENON_INTERNAL, sdk::text("ncclGetUniqueId: %s", ncclGetErrorString(result)));
  sdk::GroupId id;
  std::memcpy(id.data(), &made, sizeof made);
  return id;
}

std::unique_ptr<sdk::Communicator> join(const sdk::GroupId& id, uint32_t n, uint32_t rank, std::string_view backend, uint32_t device) {
  if (!n || rank >= n) throw sdk::Error(TENON_INVALID_ARGUMENT, sdk::text("nccl: rank %u of %u", rank, n));
  if (backend != "cuda")
    throw sdk::Error(TENON_INVALID_ARGUMENT, "nccl moves memory of backend cuda, not of backend " + std::string(backend));
  ncclUniqueId key;
  std::memcpy(&key, id.data(), sizeof key);
  return std::make_unique<Communicator>(group_of(id), key, Communicator::Place{n, rank, int(device), limit()});
}

}  // namespace tenon::nccl
