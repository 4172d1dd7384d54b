// stream.hpp: streams, events and graphs. A stream is a thread that does in order what it is given, and never when it
// is given: work is held back until somebody waits for the device, or for a moment, so that a host which forgets to
// wait meets memory as it was before.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <tenon/sdk/base.hpp>
#include <thread>
#include <vector>

namespace tenon::far {

using Clock = std::chrono::steady_clock;

// What failed first on a stream; OK = nothing.
struct Failure {
  tenon_status status = TENON_OK;
  std::string message;
};

// A piece of work. Throws sdk::Error. It may run several times, when a graph holds it.
using Work = std::function<void()>;

// A place in a stream's order. Any thread.
class Event {
 private:
  friend class Stream;
  friend Failure wait_for(Event&, uint64_t timeout_ns);
  uint64_t recorded_ = 0, reached_ = 0;  // how often record() was called, and the last one that the stream came to
  Failure failure_;                      // of the stream, when it came there
};

// Work that a stream kept instead of doing it.
struct Graph {
  std::vector<Work> work;
};

// Any thread.
class Stream {
 public:
  Stream();
  ~Stream();  // when all work is done
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void submit(Work work);
  void record(std::shared_ptr<Event> event);
  void wait(std::shared_ptr<Event> event);  // for what was last recorded into it; never recorded = not at all
  void begin_capture();
  std::shared_ptr<Graph> end_capture();
  bool is_capturing() const;
  void replay(std::shared_ptr<const Graph> graph);

 private:
  friend Failure wait_for(Stream&, uint64_t timeout_ns);
  struct Item {
    Work work;                             // or, when empty, one of
    std::shared_ptr<Event> reach, expect;  // an event to mark, an event to wait for
    uint64_t count = 0;                    // of the event's records
    Clock::time_point due;                 // done from then on, also when nobody waits
  };
  void push(Item item);
  void run();
  void run_item(Item& item, std::unique_lock<std::mutex>& lock);

  std::deque<Item> queue_;
  bool is_stopping_ = false, is_running_ = false, is_capturing_ = false;
  std::shared_ptr<Graph> captured_;
  Failure failure_;  // since the last wait; what follows it on the stream is left out
  std::thread thread_;
};

// Wait until all work before is done; timeout_ns 0 = for ever. Answer the first failure and forget it (an event keeps
// its own), or CANCELLED when the time is over. INVALID_ARGUMENT for a stream that is capturing.
Failure wait_for(Stream& stream, uint64_t timeout_ns);
Failure wait_for(Event& event, uint64_t timeout_ns);

// Where the calling thread's last failure was put into words, when it is a stream's; null on other threads.
std::string* stream_message();

}  // namespace tenon::far
