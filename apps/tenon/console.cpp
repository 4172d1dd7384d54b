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
bool is_hushed = false, is_passed_on = false;

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

void hush(bool silent) { is_hushed = silent; }
void pass_output_on() { is_passed_on = true; }

void print(std::string_view text) {
  if (is_hushed) return;
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

void note(const std::string& line) {
  if (!is_hushed) std::fprintf(stderr, "tenon: %s\n", printable(line).c_str());
}

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
bool output_is_terminal() { return !is_passed_on && isatty(STDOUT_FILENO) == 1; }

std::string ProgressBar::line(std::span<const Progress> ranks, double seconds) {
  const auto share_of = [](uint64_t done, uint64_t total) { return total ? static_cast<double>(done) / static_cast<double>(total) : 1.0; };
  uint64_t done = 0, total = 0;
  for (const Progress& rank : ranks) done += rank.done_bytes, total += std::max(rank.total_bytes, rank.done_bytes);
  const double share = share_of(done, total);
  constexpr int kCells = 24;
  const int filled = static_cast<int>(share * kCells);
  std::string text = std::string(ranks.front().stage) + " [" + std::string(filled, '#') + std::string(kCells - filled, '.') +
                     "] " + fixed(100 * share, 0) + "% of " + size_text(total);
  if (seconds > 0 && done > 0) {
    const double rate = static_cast<double>(done) / seconds;
    text += "  " + size_text(static_cast<uint64_t>(rate)) + "/s  " + fixed(static_cast<double>(total - done) / rate, 0) + " s left";
  }
  if (ranks.size() > 1) text += "  ranks";
  for (size_t i = 0; ranks.size() > 1 && i < ranks.size(); ++i)
    text.append(" ").append(fixed(100 * share_of(ranks[i].done_bytes, ranks[i].total_bytes), 0)).append("%");
  return text;
}

void ProgressBar::update(const Progress& progress) {
  if (!terminal_ && !verbose_) return;
  const auto now = std::chrono::steady_clock::now();
  const size_t rank = progress.rank;
  while (ranks_.size() <= rank) ranks_.push_back({progress.stage, 0, 1, static_cast<uint32_t>(ranks_.size())}), times_.push_back({now});
  if (ranks_[rank].stage != std::string_view(progress.stage)) times_[rank] = {now};
  ranks_[rank] = progress;
  const bool end = progress.done_bytes >= progress.total_bytes;
  if (end && verbose_ && !times_[rank].ended) {
    times_[rank].ended = true;
    clear();
    const std::string whose = ranks_.size() > 1 ? "rank " + std::to_string(rank) + ": " : "";
    note(whose + progress.stage + ": " + size_text(progress.total_bytes) + " in " + fixed(seconds_since(times_[rank].begin), 2) + " s");
  } else if (end) {
    clear();
  } else if (terminal_ && seconds_since(last_drawn_) >= kRedrawSeconds) {
    last_drawn_ = now;
    shown_ = true;
    std::fprintf(stderr, "\r%s\033[K", line(ranks_, seconds_since(times_[rank].begin)).c_str());
  }
}

void ProgressBar::clear() {
  if (shown_) std::fputs("\r\033[K", stderr);
  shown_ = false;
}

}  // namespace tenon::launcher
