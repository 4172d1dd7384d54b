#include "interrupt.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <climits>
#include <csignal>
#include <cstring>

namespace tenon::launcher {
namespace {

constexpr std::array kInterrupts = {SIGINT, SIGTERM, SIGHUP};
constexpr int kFileStatus = 3;

// A signal handler reaches nothing but globals; lock-free atomics are safe in it.
std::atomic<int> seen{0};
static_assert(std::atomic<int>::is_always_lock_free);
char leftover[PATH_MAX];
std::atomic<bool> has_leftover{false};

void remove_leftover() {
  if (has_leftover.load(std::memory_order_acquire)) unlink(leftover);
}

void remember(int number) {
  if (seen.fetch_add(1, std::memory_order_relaxed) == 0) return;
  remove_leftover();
  std::signal(number, SIG_DFL);
  raise(number);
}

void lost_page(int) {
  constexpr char kMessage[] =
      "tenon: a file in use cannot be read any more: it has shrunk, or its disk failed; do not change a model file "
      "while it is in use\n";
  // Nothing is left to do where even this fails.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
  remove_leftover();
  _exit(kFileStatus);
}

void handle(int number, void (*handler)(int), int flags) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigaction(number, &action, nullptr);
}

bool is_watched(int number) {
  struct sigaction now = {};
  return sigaction(number, nullptr, &now) == 0 && now.sa_handler == remember;
}

}  // namespace

void ignore_write_signals() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

void watch_interrupts() {
  for (const int number : kInterrupts) {
    struct sigaction now = {};
    if (sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN) continue;
    handle(number, remember, SA_RESTART);  // RESTART: no read of a model file fails because of it
  }
  handle(SIGBUS, lost_page, 0);
}

bool interrupted() { return seen.load(std::memory_order_relaxed) > 0; }

void remove_when_killed(const std::string& path) {
  has_leftover.store(false, std::memory_order_release);
  if (path.empty() || path.size() >= sizeof(leftover)) return;
  std::memcpy(leftover, path.c_str(), path.size() + 1);
  has_leftover.store(true, std::memory_order_release);
}

InterruptibleCalls::InterruptibleCalls() {
  for (const int number : kInterrupts)
    if (is_watched(number)) handle(number, remember, 0);
}

InterruptibleCalls::~InterruptibleCalls() {
  for (const int number : kInterrupts)
    if (is_watched(number)) handle(number, remember, SA_RESTART);
}

}  // namespace tenon::launcher
