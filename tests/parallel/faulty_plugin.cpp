// The collective "faulty": the threads' own, which fails as tests ask it to. "placed" is the same for ranks that are to be
// processes: a thread that has the configuration value placed.<thread's number> is that rank of placed.n, in the group
// placed.group of a test.
#include "faulty.hpp"

#include <map>
#include <mutex>

#include <unistd.h>

#include "communicator.hpp"

namespace {

using namespace tenon;

// Of a group of ranks.
struct Room {
  explicit Room(uint32_t n) : boxes(std::make_shared<threads::Mailboxes>(n)), sent(std::make_shared<parallel_test::Sent>(n)) {}
  std::shared_ptr<threads::Mailboxes> boxes;
  std::shared_ptr<parallel_test::Sent> sent;
};

sdk::GroupId unique() {
  static uint64_t next = 0;
  sdk::GroupId id = {};
  std::memcpy(id.data(), &++next, sizeof next);
  return id;
}

sdk::ProcessPlace place() {
  const std::string key = sdk::text("placed.%d", static_cast<int>(gettid()));
  return {static_cast<uint32_t>(parallel_test::configured("placed.n", 1)), static_cast<uint32_t>(parallel_test::configured(key.c_str(), 0))};
}

sdk::GroupId placed_unique() {
  thread_local int64_t group = -1, next = 0;
  const int64_t now = parallel_test::configured("placed.group", 0);
  if (group != now) group = now, next = 0;
  sdk::GroupId id = {};
  const int64_t number = -1 - (now * 16 + next++);  // apart from those of "faulty"
  std::memcpy(id.data(), &number, sizeof number);
  return id;
}

std::unique_ptr<sdk::Communicator> join(const sdk::GroupId& id, uint32_t n, uint32_t rank, std::string_view, uint32_t) {
  static std::mutex mutex;
  static std::map<sdk::GroupId, std::shared_ptr<Room>> rooms;
  const std::lock_guard lock(mutex);
  const std::chrono::milliseconds limit(parallel_test::configured("collective_timeout_ms", 20000));
  std::shared_ptr<Room>& room = rooms[id];
  if (!room) room = std::make_shared<Room>(n);
  return std::make_unique<parallel_test::Faulty>(std::make_unique<threads::Communicator>(room->boxes, rank, limit), room->sent);
}

}  // namespace

TENON_PLUGIN("faulty", "0.1.0") {
  static const sdk::CollectiveRecord record("faulty", TENON_COLLECTIVE_REPEATABLE, unique, join);
  registrar.collective(record.table());
  static const sdk::CollectiveRecord placed("placed", TENON_COLLECTIVE_REPEATABLE, placed_unique, join, place);
  registrar.collective(placed.table());
}
