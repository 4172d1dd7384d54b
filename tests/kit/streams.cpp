// A backend on host memory with streams: a thread each, which does its work a little late. Without a fault it keeps
// every duty.
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <tenon/sdk/plugin.hpp>
#include <thread>

#ifndef FAULT
#define FAULT kNone
#endif

namespace {

enum Fault { kNone, kForgetsWait, kWaitsForFirst, kForgetsStreams, kLiesOnTime };
constexpr Fault kFault = FAULT;

namespace sdk = tenon::sdk;

constexpr uint64_t kMemory = uint64_t(1) << 30;
const tenon_device kDevice = {.struct_size = sizeof(tenon_device),
                              .index = 0,
                              .backend = {KIT_NAME, sizeof KIT_NAME - 1},
                              .name = {"streams", 7},
                              .features = nullptr,
                              .n_feature = 0,
                              .max_workers = 1,
                              .memory_bytes = kMemory,
                              .compute_major = 0,
                              .compute_minor = 0};

// Something that can be waited for: how often it was promised, and how often it came.
struct Event {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t promised = 0, came = 0;

  uint64_t promise() {
    const std::lock_guard lock(mutex);
    return ++promised;
  }
  void come(uint64_t n) {
    const std::lock_guard lock(mutex);
    came = n > came ? n : came;
    changed.notify_all();
  }
  uint64_t latest() {
    const std::lock_guard lock(mutex);
    return promised;
  }
  // False when the time was over; 0 is for ever.
  bool wait(uint64_t n, uint64_t timeout_ns = 0) {
    std::unique_lock lock(mutex);
    const auto done = [&] { return came >= n; };
    if (timeout_ns) return changed.wait_for(lock, std::chrono::nanoseconds(timeout_ns), done);
    changed.wait(lock, done);
    return true;
  }
};

class Stream {
 public:
  Stream() : thread_([this] { run(); }) {}
  ~Stream() {
    push([this] { is_over_ = true; });
    thread_.join();
  }
  void push(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
    changed_.notify_all();
  }

 private:
  void run() {
    while (!is_over_) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !work_.empty(); });
      const std::function<void()> work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      work();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool is_over_ = false;
  std::thread thread_;
};

struct Handle {
  std::unique_ptr<Stream> stream;  // null: an event
  std::shared_ptr<Event> event = std::make_shared<Event>();
};
Handle& of(void* handle) { return *static_cast<Handle*>(handle); }

tenon_status devices(void*, uint32_t* n, const tenon_device* const** list) noexcept {
  static const tenon_device* const all[] = {&kDevice};
  return *n = 1, *list = all, TENON_OK;
}
tenon_status memory(void*, uint32_t, uint64_t* free_bytes, uint64_t* total) noexcept {
  return *free_bytes = kMemory, *total = kMemory, TENON_OK;
}
tenon_status alloc(void*, uint32_t, uint32_t, uint64_t bytes, uint64_t align, tenon_addr* out) noexcept {
  if (bytes > kMemory) return sdk::fail(TENON_OUT_OF_MEMORY, "more than the device has");
  const uint64_t step = align < 64 ? 64 : align, size = (bytes + step) / step * step;
  void* block = std::aligned_alloc(step, size);
  if (!block) return sdk::fail(TENON_OUT_OF_MEMORY, "no memory");
  std::memset(block, 0, size);
  return *out = reinterpret_cast<tenon_addr>(block), TENON_OK;
}
void release(void*, uint32_t, uint32_t, tenon_addr address) noexcept { std::free(reinterpret_cast<void*>(address)); }

tenon_status do_on(void* stream, std::function<void()> work) noexcept {
  return sdk::guard([&] {
    if (!stream) return work();
    of(stream).stream->push([work = std::move(work)] {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      work();
    });
  });
}
tenon_status copy(void*, void* stream, uint32_t, tenon_addr dst, uint32_t, tenon_addr src, uint64_t row_bytes,
                  uint64_t rows, uint64_t dst_step, uint64_t src_step) noexcept {
  return do_on(stream, [=] {
    for (uint64_t r = 0; r < rows; ++r)
      std::memmove(reinterpret_cast<void*>(dst + r * dst_step), reinterpret_cast<const void*>(src + r * src_step),
                   row_bytes);
  });
}
tenon_status fill(void*, void* stream, uint32_t, tenon_addr address, uint32_t byte, uint64_t bytes) noexcept {
  return do_on(stream, [=] { std::memset(reinterpret_cast<void*>(address), int(byte), bytes); });
}
tenon_status stream(void*, uint32_t, int32_t, void** out) noexcept {
  return sdk::guard([&] { *out = std::make_unique<Handle>(Handle{std::make_unique<Stream>()}).release(); });
}
tenon_status event(void*, uint32_t, void** out) noexcept {
  return sdk::guard([&] { *out = std::make_unique<Handle>().release(); });
}
tenon_status record(void*, void* event, void* stream) noexcept {
  return sdk::guard([&] {
    const std::shared_ptr<Event> mine = of(event).event;
    of(stream).stream->push([mine, n = mine->promise()] { mine->come(n); });
  });
}
tenon_status wait(void*, void* stream, void* event) noexcept {
  if (kFault == kForgetsWait) return TENON_OK;
  return sdk::guard([&] {
    const std::shared_ptr<Event> other = of(event).event;
    const uint64_t n = kFault == kWaitsForFirst ? 1 : other->latest();
    of(stream).stream->push([other, n] { other->wait(n); });
  });
}
tenon_status sync(void*, void* handle, uint64_t timeout_ns) noexcept {
  Handle& mine = of(handle);
  if (mine.stream) {
    if (kFault == kForgetsStreams) return TENON_OK;
    record(nullptr, handle, handle);
  }
  if (mine.event->wait(mine.event->latest(), timeout_ns) || kFault == kLiesOnTime) return TENON_OK;
  return sdk::fail(TENON_CANCELLED, "the time is over");
}
void destroy(void*, uint32_t, void* handle) noexcept { std::unique_ptr<Handle>(static_cast<Handle*>(handle)).reset(); }

const tenon_backend kBackend = [] {
  tenon_backend b = {};
  b.struct_size = sizeof b, b.flags = TENON_BACKEND_HOST_MEMORY, b.name = sdk::to_str(KIT_NAME);
  b.devices = devices, b.memory = memory, b.alloc = alloc, b.free = release, b.copy = copy, b.fill = fill;
  b.stream = stream, b.event = event, b.record = record, b.wait = wait, b.sync = sync, b.destroy = destroy;
  return b;
}();

}  // namespace

TENON_PLUGIN(KIT_NAME, "0.1.0") { registrar.backend(&kBackend); }
