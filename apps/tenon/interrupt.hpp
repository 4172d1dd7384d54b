// interrupt.hpp: signals. Ctrl-C is a question that long work asks.
#pragma once

#include <string>

namespace tenon::launcher {

// Failing writes become errors instead of signals: to a closed pipe, and beyond the limit on a file's size.
void ignore_write_signals();

// The first SIGINT, SIGTERM or SIGHUP from now on is remembered, the second ends the process; one that the caller has
// ignored stays ignored. A mapped file that shrinks under us ends the process with status 3 and a message. Call once,
// before any thread is started.
void watch_interrupts();

bool interrupted();  // any thread

// A file that a signal which ends the process shall remove first; empty = none. One thread.
void remove_when_killed(const std::string& path);

// While it lives, waiting calls end with EINTR when an interrupt comes. One thread.
class InterruptibleCalls {
 public:
  InterruptibleCalls();
  ~InterruptibleCalls();
  InterruptibleCalls(const InterruptibleCalls&) = delete;
  InterruptibleCalls& operator=(const InterruptibleCalls&) = delete;
};

}  // namespace tenon::launcher
