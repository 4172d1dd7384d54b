#include "console.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace tenon::launcher {
namespace {

constexpr double kRedrawSeconds = 0.1;

}  // namespace

void open_console() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    // Read-only for output too: writes then fail, as they did before. The lowest free number is the one that is
    // missing.
    if (open("/dev/null", O_RDONLY) < 0) return;
  }
}

void set_verbosity(size_t verbosity) {
  if (verbosity > 0) set_log_level(verbosity == 1 ? "info" : "debug");
}

void print(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      // Whoever gave us a non-blocking descriptor reads slower than we write.
      pollfd ready = {STDOUT_FILENO, POLLOUT, 0};
      poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      throw OutputError(std::string("standard output: ") + std::strerror(errno), errno == EPIPE);
    }
  }
}

std::string printable(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // U+0080 to U+009F, which some terminals obey like ESC sequences.
    const bool high_control =
        byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) >= 0x80 && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (high_control) ++i;
    out += high_control || (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f ? '?' : text[i];
  }
  return out;
}

void note(const std::string& line) { std::fprintf(stderr, "tenon: %s\n", printable(line).c_str()); }

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::string fixed(double value, int digits) {
  char buffer[64];
  std::snprintf(buffer, sizeof(buffer), "%.*f", digits, value);
  return buffer;
}

std::string size_text(uint64_t bytes) {
  const double size = static_cast<double>(bytes);
  return size >= 1e9   ? fixed(size / 1e9, 2) + " GB"
         : size >= 1e6 ? fixed(size / 1e6, 1) + " MB"
                       : fixed(size / 1e3, 1) + " kB";
}

bool stderr_is_terminal() { return isatty(STDERR_FILENO) == 1; }
bool output_is_terminal() { return isatty(STDOUT_FILENO) == 1; }

std::string ProgressBar::line(const Progress& progress, double seconds) {
  const uint64_t total = std::max(progress.total_bytes, progress.done_bytes);
  const double share = total ? static_cast<double>(progress.done_bytes) / static_cast<double>(total) : 1.0;
  constexpr int kCells = 24;
  const int filled = static_cast<int>(share * kCells);
  std::string text = std::string(progress.stage) + " [" + std::string(filled, '#') + std::string(kCells - filled, '.') +
                     "] " + fixed(100 * share, 0) + "% of " + size_text(total);
  if (seconds > 0 && progress.done_bytes > 0) {
    const double rate = static_cast<double>(progress.done_bytes) / seconds;
    text += "  " + size_text(static_cast<uint64_t>(rate)) + "/s  " +
            fixed(static_cast<double>(total - progress.done_bytes) / rate, 0) + " s left";
  }
  return text;
}

void ProgressBar::update(const Progress& progress) {
  if (!terminal_ && !verbose_) return;
  const auto now = std::chrono::steady_clock::now();
  if (stage_ != progress.stage) {
    stage_ = progress.stage;
    stage_begin_ = last_drawn_ = now;
    ended_ = false;
  }
  const bool end = progress.done_bytes >= progress.total_bytes;
  if (end && verbose_ && !ended_) {
    ended_ = true;
    clear();
    note(stage_ + ": " + size_text(progress.total_bytes) + " in " + fixed(seconds_since(stage_begin_), 2) + " s");
  } else if (end) {
    clear();
  } else if (terminal_ && seconds_since(last_drawn_) >= kRedrawSeconds) {
    last_drawn_ = now;
    shown_ = true;
    std::fprintf(stderr, "\r%s\033[K", line(progress, seconds_since(stage_begin_)).c_str());
  }
}

void ProgressBar::clear() {
  if (shown_) std::fputs("\r\033[K", stderr);
  shown_ = false;
}

}  // namespace tenon::launcher
