#include "token_ids.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <tenon/error.hpp>

#include "interrupt.hpp"

namespace tenon::launcher {
namespace {

constexpr size_t kMostBytes = size_t{1} << 30;  // and an end for devices that have none

// A file open for reading, which may be a pipe that keeps us waiting: Ctrl-C ends that with Error(kInterrupted).
class Input {
 public:
  explicit Input(const std::string& path) : path_(path) {
    const InterruptibleCalls waiting;
    do {
      check();
      descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
    } while (descriptor_ < 0 && errno == EINTR);
    if (descriptor_ < 0) fail();
  }
  ~Input() { close(descriptor_); }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  // 0 at the end.
  size_t read(char* block, size_t size) {
    while (true) {
      check();
      pollfd ready = {descriptor_, POLLIN, 0};
      if (poll(&ready, 1, 100) <= 0) continue;
      const ssize_t count = ::read(descriptor_, block, size);
      if (count >= 0) return static_cast<size_t>(count);
      if (errno != EINTR && errno != EAGAIN) fail();
    }
  }

 private:
  static void check() {
    if (interrupted()) throw Error(ErrorKind::kInterrupted, "interrupted");
  }
  [[noreturn]] void fail() const { throw Error(ErrorKind::kFile, path_ + ": " + std::strerror(errno)); }

  const std::string& path_;
  int descriptor_ = -1;
};

}  // namespace

std::vector<int32_t> parse_ids(const std::string& flag, const std::string& text) {
  const bool in_file = text.starts_with('@');
  if (text == "@") throw Error(ErrorKind::kUsage, flag + ": expected the name of a file after '@'");
  const std::string content = in_file ? read_file(text.substr(1)) : text;
  const std::string origin = in_file ? text.substr(1) : flag;
  std::vector<int32_t> ids;
  const char* cursor = content.data();
  const char* end = cursor + content.size();
  const auto between = [](char c) { return c == ',' || c == ' ' || c == '\n' || c == '\r' || c == '\t'; };
  while (cursor != end) {
    if (between(*cursor)) {
      ++cursor;
      continue;
    }
    int32_t id = 0;
    const char* word_end = std::find_if(cursor, end, between);
    auto [stopped, error] = std::from_chars(cursor, word_end, id);
    if (error != std::errc() || stopped != word_end || id < 0) {
      const std::string found(cursor, std::min<size_t>(static_cast<size_t>(word_end - cursor), 40));
      throw Error(in_file ? ErrorKind::kFile : ErrorKind::kUsage,
                  origin + ": expected token ids such as 1,2,3, found '" + found + "' at byte " +
                      std::to_string(cursor - content.data()));
    }
    ids.push_back(id);
    cursor = word_end;
  }
  return ids;
}

std::vector<int32_t> parse_some_ids(const std::string& flag, const std::string& text) {
  std::vector<int32_t> ids = parse_ids(flag, text);
  if (ids.empty())
    throw Error(text.starts_with('@') ? ErrorKind::kFile : ErrorKind::kUsage,
                flag + " " + text + ": there are no token ids");
  return ids;
}

std::string read_file(const std::string& path) {
  Input input(path);
  std::string content;
  char block[1 << 16];
  while (size_t count = input.read(block, sizeof(block))) {
    content.append(block, count);
    if (content.size() > kMostBytes)
      throw Error(ErrorKind::kFile, path + ": more than 1 GiB, which no model reads at once");
  }
  return content;
}

}  // namespace tenon::launcher
