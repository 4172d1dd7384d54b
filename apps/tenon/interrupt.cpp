#include "interrupt.hpp"

#include <atomic>
#include <csignal>

namespace tenon::launcher {
namespace {

// A signal handler reaches nothing but globals; lock-free atomics are safe in it.
std::atomic<bool> seen{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void remember(int) { seen.store(true, std::memory_order_relaxed); }

}  // namespace

void watch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = remember;
  // RESETHAND: the second Ctrl-C has the default effect. RESTART: no read of a model file fails because of the first.
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

bool interrupted() { return seen.load(std::memory_order_relaxed); }

}  // namespace tenon::launcher
