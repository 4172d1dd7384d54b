// The collective "threads": ranks are threads of one process and copy from each other's memory.
#include <tenon/sdk/collective.hpp>
#include <tenon/sdk/plugin.hpp>

#include <atomic>
#include <map>
#include <mutex>

#include "communicator.hpp"

namespace tenon::threads {
namespace {

// Groups that are being joined.
struct Rooms {
  struct Room {
    std::weak_ptr<Mailboxes> boxes;
    uint32_t n = 0;
    std::vector<bool> joined;
  };
  std::mutex mutex;
  std::map<sdk::GroupId, Room> by_id;
};
Rooms& rooms() {
  static Rooms& all = *std::make_unique<Rooms>().release();  // groups may end while the process does
  return all;
}

sdk::GroupId unique() {
  static std::atomic<uint64_t> next = 1;
  sdk::GroupId id = {};
  const uint64_t number = next++;
  std::memcpy(id.data(), &number, sizeof number);
  return id;
}

// How long a rank may keep the others waiting. A pipeline's later stages wait as long as the earlier ones compute.
std::chrono::milliseconds limit() {
  constexpr int64_t kSeconds = 600;
  tenon_value value = {};
  const tenon_status status = sdk::host().config(sdk::host().self, sdk::to_str("collective_timeout_ms"), &value);
  const bool given = status == TENON_OK && value.type == TENON_VALUE_I64 && value.integer > 0;
  return given ? std::chrono::milliseconds(value.integer) : std::chrono::seconds(kSeconds);
}

std::unique_ptr<sdk::Communicator> join(const sdk::GroupId& id, uint32_t n, uint32_t rank, std::string_view, uint32_t) {
  if (!n || rank >= n) throw sdk::Error(TENON_INVALID_ARGUMENT, sdk::text("threads: rank %u of %u", rank, n));
  std::shared_ptr<Mailboxes> boxes;
  {
    const std::lock_guard lock(rooms().mutex);
    Rooms::Room& room = rooms().by_id[id];
    boxes = room.boxes.lock();
    if (!boxes) {
      boxes = std::make_shared<Mailboxes>(n);
      room.boxes = boxes, room.n = n, room.joined.assign(n, false);
    }
    if (room.n != n || room.joined[rank])
      throw sdk::Error(TENON_INVALID_ARGUMENT, sdk::text("threads: rank %u of %u joins a group of %u ranks%s", rank, n, room.n,
                                                         room.n == n ? ", in which it is already" : ""));
    room.joined[rank] = true;
  }
  return std::make_unique<Communicator>(std::move(boxes), rank, limit());
}

}  // namespace
}  // namespace tenon::threads

TENON_PLUGIN("threads", "0.1.0") {
  using namespace tenon;
  static sdk::CollectiveRecord& record =
      *std::make_unique<sdk::CollectiveRecord>("threads", TENON_COLLECTIVE_REPEATABLE, threads::unique, threads::join).release();
  registrar.collective(record.with_all_reduce().table());
}
