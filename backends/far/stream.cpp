#include "stream.hpp"

#include <algorithm>
#include <utility>

namespace tenon::far {
namespace {

// How long work is held back while nobody waits.
constexpr auto kHoldBack = std::chrono::milliseconds(250);

// One lock for all streams and events: they wait for each other, and what they do under it is short.
struct Shared {
  std::mutex mutex;
  std::condition_variable changed;
  int n_waiting = 0;  // threads of the host that wait for the device
};
Shared& shared() {
  static Shared& one = *new Shared;  // streams may run until the process ends
  return one;
}

thread_local std::string* message_slot = nullptr;

// Waits on the host's side until `is_done`; false when the time is over.
template <typename IsDone>
bool host_wait(std::unique_lock<std::mutex>& lock, uint64_t timeout_ns, IsDone&& is_done) {
  Shared& all = shared();
  ++all.n_waiting;
  all.changed.notify_all();
  bool done = true;
  if (timeout_ns == 0) {
    all.changed.wait(lock, is_done);
  } else {
    // A time beyond all clocks is for ever as well.
    const auto longest = std::chrono::nanoseconds(std::chrono::hours(24 * 365));
    const auto limit = std::min<uint64_t>(timeout_ns, uint64_t(longest.count()));
    done = all.changed.wait_for(lock, std::chrono::nanoseconds(limit), is_done);
  }
  --all.n_waiting;
  return done;
}

Failure too_late(uint64_t timeout_ns) {
  return {TENON_CANCELLED, sdk::text("not done after %.3f s", double(timeout_ns) * 1e-9)};
}

}  // namespace

std::string* stream_message() { return message_slot; }

Stream::Stream() {
  thread_ = std::thread([this] { run(); });
}

Stream::~Stream() {
  {
    const std::lock_guard lock(shared().mutex);
    is_stopping_ = true;
  }
  shared().changed.notify_all();
  thread_.join();
}

void Stream::push(Item item) {
  item.due = Clock::now() + kHoldBack;
  queue_.push_back(std::move(item));
  shared().changed.notify_all();
}

void Stream::submit(Work work) {
  const std::lock_guard lock(shared().mutex);
  if (is_capturing_) return captured_->work.push_back(std::move(work));
  push({std::move(work), nullptr, nullptr, 0, {}});
}

void Stream::record(std::shared_ptr<Event> event) {
  const std::lock_guard lock(shared().mutex);
  if (is_capturing_) throw sdk::Error(TENON_UNSUPPORTED, "an event in a capture");
  const uint64_t count = ++event->recorded_;
  push({nullptr, std::move(event), nullptr, count, {}});
}

void Stream::wait(std::shared_ptr<Event> event) {
  const std::lock_guard lock(shared().mutex);
  if (is_capturing_) throw sdk::Error(TENON_UNSUPPORTED, "an event in a capture");
  const uint64_t count = event->recorded_;
  push({nullptr, nullptr, std::move(event), count, {}});
}

void Stream::begin_capture() {
  const std::lock_guard lock(shared().mutex);
  if (is_capturing_) throw sdk::Error(TENON_INVALID_ARGUMENT, "the stream is capturing already");
  is_capturing_ = true, captured_ = std::make_shared<Graph>();
}

std::shared_ptr<Graph> Stream::end_capture() {
  const std::lock_guard lock(shared().mutex);
  if (!is_capturing_) throw sdk::Error(TENON_INVALID_ARGUMENT, "the stream is not capturing");
  is_capturing_ = false;
  return std::exchange(captured_, nullptr);
}

bool Stream::is_capturing() const {
  const std::lock_guard lock(shared().mutex);
  return is_capturing_;
}

void Stream::replay(std::shared_ptr<const Graph> graph) {
  submit([graph = std::move(graph)] {
    for (const Work& work : graph->work) work();
  });
}

void Stream::run() {
  std::string message;
  message_slot = &message;
  Shared& all = shared();
  std::unique_lock lock(all.mutex);
  while (!is_stopping_ || !queue_.empty()) {
    if (queue_.empty()) {
      all.changed.wait(lock);
    } else if (all.n_waiting == 0 && !is_stopping_ && Clock::now() < queue_.front().due) {
      all.changed.wait_until(lock, queue_.front().due);
    } else {
      Item item = std::move(queue_.front());
      queue_.pop_front();
      is_running_ = true;
      run_item(item, lock);
      is_running_ = false;
      all.changed.notify_all();
    }
  }
}

void Stream::run_item(Item& item, std::unique_lock<std::mutex>& lock) {
  if (item.reach) {
    item.reach->reached_ = std::max(item.reach->reached_, item.count);
    item.reach->failure_ = failure_;
  } else if (item.expect) {
    shared().changed.wait(lock, [&] { return item.expect->reached_ >= item.count; });
    if (failure_.status == TENON_OK) failure_ = item.expect->failure_;
  } else if (failure_.status == TENON_OK) {
    lock.unlock();
    Failure failure;
    try {
      item.work();
    } catch (const sdk::Error& error) {
      failure = {error.status(), error.what()};
    } catch (const std::exception& error) {
      failure = {TENON_INTERNAL, error.what()};
    }
    item.work = nullptr;  // what it holds is let go of outside of the lock
    lock.lock();
    failure_ = std::move(failure);
  }
}

Failure wait_for(Stream& stream, uint64_t timeout_ns) {
  std::unique_lock lock(shared().mutex);
  if (stream.is_capturing_) return {TENON_INVALID_ARGUMENT, "the stream is capturing: there is nothing to wait for"};
  if (!host_wait(lock, timeout_ns, [&] { return stream.queue_.empty() && !stream.is_running_; }))
    return too_late(timeout_ns);
  return std::exchange(stream.failure_, {});
}

Failure wait_for(Event& event, uint64_t timeout_ns) {
  std::unique_lock lock(shared().mutex);
  const uint64_t count = event.recorded_;
  if (!host_wait(lock, timeout_ns, [&] { return event.reached_ >= count; })) return too_late(timeout_ns);
  return event.failure_;
}

}  // namespace tenon::far
