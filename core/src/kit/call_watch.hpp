// call_watch.hpp: sees which functions of the system a plugin calls while it is watched: allocation, locks, waiting,
// threads.
//
// The system's loader has written the addresses of imported functions into tables of each library. These entries are
// changed to functions that count and pass on, for the plugin and for the C++ library that calls on its behalf; the
// program itself is left alone. So nothing has to be built or started in a special way.
#pragma once

#include <cstdint>
#include <string>

#include "harness.hpp"

namespace tenon::kit {

// What was called while this thread or others were watched. Counts of all watched threads together.
struct WatchedCalls {
  uint64_t allocations = 0, frees = 0, locks = 0, waits = 0, threads = 0;
  uint64_t largest_bytes = 0;  // of one allocation
};

// Puts the counting functions in place, for good and once a process; libraries opened later are not watched. "" or why
// it could not be done.
std::string install_call_watch();

// Counts from begin() to end() of the same thread.
class CallWatch final : public LaunchWatch {
 public:
  CallWatch();  // nothing is counted yet
  void begin() override;
  void end() override;
  WatchedCalls calls() const;
  // "" or what a launch must not do (P15).
  std::string launch_fault() const;
};

}  // namespace tenon::kit
