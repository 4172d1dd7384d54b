// A collective for tests: the threads' own, with delays of random length, a failure at a call that the test names, and bytes
// that arrive changed. The configuration values faulty.rank, faulty.fail_at (calls of that rank before the failure, -1 = none),
// faulty.delay_us, faulty.lies_to (a rank, -1 = none) and faulty.lies_from (bytes of the shortest message that is changed) are
// read when a rank joins.
//
// "placed" is the same for ranks that are to be processes: a thread that has the configuration value placed.<thread's number>
// is that rank of placed.n, in the group placed.group of a test.
#include <tenon/sdk/collective.hpp>
#include <tenon/sdk/plugin.hpp>

#include <chrono>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include <unistd.h>

#include "communicator.hpp"

namespace {

using namespace tenon;

int64_t configured(const char* key, int64_t otherwise) {
  tenon_value value = {};
  const tenon_status status = sdk::host().config(sdk::host().self, sdk::to_str(key), &value);
  return status == TENON_OK && value.type == TENON_VALUE_I64 ? value.integer : otherwise;
}

class Faulty final : public sdk::Communicator {
 public:
  Faulty(std::shared_ptr<threads::Mailboxes> boxes, uint32_t rank)
      : inner_(std::move(boxes), rank, std::chrono::milliseconds(configured("collective_timeout_ms", 20000))), delay_us_(configured("faulty.delay_us", 0)), random_(rank + 1) {
    if (configured("faulty.rank", 0) == int64_t(rank)) fail_at_ = configured("faulty.fail_at", -1);
    if (configured("faulty.lies_to", -1) == int64_t(rank)) lies_from_ = uint64_t(configured("faulty.lies_from", 0));
  }
  uint32_t rank() const override { return inner_.rank(); }
  uint32_t size() const override { return inner_.size(); }
  void group(bool begin) override {
    step();
    inner_.group(begin);
    if (!begin) lie();
  }
  void send(tenon_addr data, uint64_t bytes, uint32_t to, void* stream) override {
    step();
    inner_.send(data, bytes, to, stream);
  }
  void recv(tenon_addr data, uint64_t bytes, uint32_t from, void* stream) override {
    step();
    inner_.recv(data, bytes, from, stream);
    if (bytes >= lies_from_) changed_.push_back(reinterpret_cast<uint8_t*>(data) + bytes - 5);
  }
  void poll() override { inner_.poll(); }
  void abort() noexcept override { inner_.abort(); }

  void all_reduce(tenon_addr in, tenon_addr out, uint64_t n, void* stream) override {
    step();
    inner_.all_reduce(in, out, n, stream);
  }

 private:
  void lie() {
    for (uint8_t* byte : changed_) *byte ^= 0x10;
    changed_.clear();
  }
  void step() {
    if (delay_us_) std::this_thread::sleep_for(std::chrono::microseconds(random_() % uint64_t(delay_us_)));
    if (fail_at_ >= 0 && calls_++ == fail_at_) throw sdk::Error(TENON_DEVICE_LOST, "an injected failure");
  }
  threads::Communicator inner_;
  int64_t delay_us_, fail_at_ = -1, calls_ = 0;
  uint64_t lies_from_ = UINT64_MAX;
  std::vector<uint8_t*> changed_;  // when the group of calls has run
  std::mt19937_64 random_;
};

sdk::GroupId unique() {
  static uint64_t next = 0;
  sdk::GroupId id = {};
  std::memcpy(id.data(), &++next, sizeof next);
  return id;
}

sdk::ProcessPlace place() {
  const std::string key = sdk::text("placed.%d", static_cast<int>(gettid()));
  return {static_cast<uint32_t>(configured("placed.n", 1)), static_cast<uint32_t>(configured(key.c_str(), 0))};
}

sdk::GroupId placed_unique() {
  thread_local int64_t group = -1, next = 0;
  const int64_t now = configured("placed.group", 0);
  if (group != now) group = now, next = 0;
  sdk::GroupId id = {};
  const int64_t number = -1 - (now * 16 + next++);  // apart from those of "faulty"
  std::memcpy(id.data(), &number, sizeof number);
  return id;
}

std::unique_ptr<sdk::Communicator> join(const sdk::GroupId& id, uint32_t n, uint32_t rank, std::string_view, uint32_t) {
  static std::mutex mutex;
  static std::map<sdk::GroupId, std::shared_ptr<threads::Mailboxes>> groups;
  const std::lock_guard lock(mutex);
  std::shared_ptr<threads::Mailboxes>& boxes = groups[id];
  if (!boxes) boxes = std::make_shared<threads::Mailboxes>(n);
  return std::make_unique<Faulty>(boxes, rank);
}

}  // namespace

TENON_PLUGIN("faulty", "0.1.0") {
  static const sdk::CollectiveRecord record("faulty", TENON_COLLECTIVE_REPEATABLE, unique, join);
  registrar.collective(record.table());
  static const sdk::CollectiveRecord placed("placed", TENON_COLLECTIVE_REPEATABLE, placed_unique, join, place);
  registrar.collective(placed.table());
}
