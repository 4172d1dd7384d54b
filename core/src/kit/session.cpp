#include "session.hpp"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <optional>
#include <tenon/error.hpp>

namespace tenon::kit {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// A message: a letter, three lengths, three texts.
constexpr size_t kHeadBytes = 1 + 3 * sizeof(uint32_t);
constexpr char kBegin = 'B', kEnd = 'E', kDone = 'D';

bool write_all(int fd, const char* data, size_t n) {
  while (n > 0) {
    const ssize_t got = write(fd, data, n);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    data += got, n -= size_t(got);
  }
  return true;
}

struct Message {
  char what = 0;
  std::string text[3];
};

// Cuts a whole message off the front of `buffer`.
std::optional<Message> take(std::string& buffer) {
  if (buffer.size() < kHeadBytes) return std::nullopt;
  uint32_t length[3];
  std::memcpy(length, buffer.data() + 1, sizeof length);
  const size_t whole = kHeadBytes + size_t(length[0]) + length[1] + length[2];
  if (buffer.size() < whole) return std::nullopt;
  Message out;
  out.what = buffer[0];
  size_t at = kHeadBytes;
  for (int i = 0; i < 3; ++i) out.text[i] = buffer.substr(at, length[i]), at += length[i];
  buffer.erase(0, whole);
  return out;
}

std::string signal_text(int number) {
  const char* name = strsignal(number);
  return "signal " + std::to_string(number) + (name ? " (" + std::string(name) + ")" : "");
}

std::string end_text(int status) {
  if (WIFSIGNALED(status)) return "crashed with " + signal_text(WTERMSIG(status));
  return "the plugin ended the process with status " + std::to_string(WEXITSTATUS(status));
}

constexpr size_t kMostHangs = 5;  // of a report: what is left hangs as well, most often, and each costs the whole time

// The parent's side of one child.
struct Child {
  pid_t pid = -1;
  int pipe = -1;
};

Child start(const Group& group, const KitOptions& options, size_t n_done) {
  int ends[2];
  if (pipe(ends) != 0) throw Error(ErrorKind::kRuntime, std::string("no pipe: ") + std::strerror(errno));
  const pid_t pid = fork();
  if (pid < 0) {
    close(ends[0]), close(ends[1]);
    throw Error(ErrorKind::kRuntime, std::string("no process: ") + std::strerror(errno));
  }
  if (pid > 0) {
    close(ends[1]);
    return {pid, ends[0]};
  }
  close(ends[0]);
  prctl(PR_SET_PDEATHSIG, SIGKILL);    // whoever ends the kit wants its checks to end too
  dup2(STDERR_FILENO, STDOUT_FILENO);  // what a plugin prints must not get into the report
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  for (const int number : {SIGINT, SIGTERM, SIGPIPE}) signal(number, SIG_DFL);
  Session session(ends[1], n_done, options);
  try {
    group.body(session);
  } catch (const std::exception& error) {
    const std::string what = error.what();
    session.check(group.name + ": preparation", "", [&] { return fail(what); });
  }
  const char done[kHeadBytes] = {kDone};
  write_all(ends[1], done, sizeof done);
  _exit(0);  // nothing of the parent's is the child's to end
}

// What the child said until it was done, died or was silent for too long.
struct Heard {
  bool done = false, silent = false;
  std::optional<CheckResult> open;  // the check that ran when it ended
};

Heard listen(const Child& child, uint32_t timeout_s, const std::function<void(CheckResult)>& add) {
  Heard out;
  std::string buffer;
  Clock::time_point since = Clock::now();
  for (;;) {
    pollfd wait = {child.pipe, POLLIN, 0};
    const double left = double(timeout_s) - seconds_since(since);
    if (left <= 0) {
      out.silent = true;
      return out;
    }
    const int ready = poll(&wait, 1, int(std::min(left, 60.0) * 1000) + 1);
    if (ready < 0 && errno != EINTR) return out;
    if (ready <= 0) continue;
    char bytes[4096];
    const ssize_t got = read(child.pipe, bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return out;
    buffer.append(bytes, size_t(got));
    while (auto message = take(buffer)) {
      if (message->what == kBegin) {
        out.open.emplace();
        out.open->name = message->text[0], out.open->duties = message->text[1];
        since = Clock::now();
      } else if (message->what == kEnd && out.open) {
        out.open->verdict = Verdict(message->text[0][0] - '0');
        out.open->reason = message->text[1];
        out.open->seconds = seconds_since(since);
        add(std::move(*out.open));
        out.open.reset();
        since = Clock::now();
      } else if (message->what == kDone) {
        out.done = true;
        return out;
      }
    }
  }
}

// How the child ended. One that closed the pipe and stays is ended.
int end_of(const Child& child) {
  int status = 0;
  for (int waited_ms = 0;; ++waited_ms) {
    if (waited_ms == 2000) kill(child.pid, SIGKILL);
    const pid_t ended = waitpid(child.pid, &status, WNOHANG);
    if (ended == child.pid || (ended < 0 && errno != EINTR)) return status;
    usleep(1000);
  }
}

}  // namespace

void Session::tell(char what, std::string_view a, std::string_view b, std::string_view c) {
  const uint32_t length[3] = {uint32_t(a.size()), uint32_t(b.size()), uint32_t(c.size())};
  std::string bytes(1, what);
  bytes.append(reinterpret_cast<const char*>(length), sizeof length).append(a).append(b).append(c);
  if (!write_all(pipe_, bytes.data(), bytes.size())) _exit(1);
}

void Session::check(const std::string& name, std::string_view duties, const std::function<Outcome()>& body) {
  if (!options_.only.empty() && name.find(options_.only) == std::string::npos) return;
  if (n_seen_++ < n_done_) return;
  tell(kBegin, name, duties);
  Outcome out;
  try {
    out = body();
  } catch (const std::exception& error) {
    out = fail(error.what());
  } catch (...) {
    out = fail("an exception of an unknown kind came across the boundary");
  }
  tell(kEnd, std::string(1, char('0' + int(out.verdict))), out.reason);
}

bool run_group(const Group& group, const KitOptions& options, KitReport& report, size_t& n_hang) {
  size_t n_done = 0;
  const auto add = [&](CheckResult result) {
    ++n_done;
    report.checks.push_back(std::move(result));
    if (options.on_check) options.on_check(report);
  };
  for (;;) {
    const Child child = start(group, options, n_done);
    Heard heard = listen(child, options.timeout_s, add);
    if (!heard.done && heard.silent) kill(child.pid, SIGKILL);
    close(child.pipe);
    const int status = end_of(child);
    if (heard.done) return true;
    CheckResult broken;
    if (heard.open) {
      broken = *heard.open;
    } else {
      broken.name = group.name + ": between checks";
    }
    broken.verdict = Verdict::kFail;
    broken.reason = heard.silent ? "was not done after " + std::to_string(options.timeout_s) + " s" : end_text(status);
    const bool can_go_on = heard.open.has_value();
    add(std::move(broken));
    n_hang += heard.silent;
    if (n_hang == kMostHangs) {
      add({"the other checks", "", Verdict::kSkip, std::to_string(n_hang) + " checks were not done in time", 0});
      return false;
    }
    if (!can_go_on) return true;
  }
}

}  // namespace tenon::kit
