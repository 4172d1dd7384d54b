#include "token_ids.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <tenon/error.hpp>

namespace tenon::launcher {
namespace {

constexpr size_t kMostBytes = size_t{1} << 30;  // and an end for devices that have none

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
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

std::string read_file(const std::string& path) {
  std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rb"));
  if (!file) throw Error(ErrorKind::kFile, path + ": " + std::strerror(errno));
  std::string content;
  char block[1 << 16];
  while (size_t count = std::fread(block, 1, sizeof(block), file.get())) {
    content.append(block, count);
    if (content.size() > kMostBytes) throw Error(ErrorKind::kFile, path + ": more than 1 GiB, which no model reads at once");
  }
  if (std::ferror(file.get())) throw Error(ErrorKind::kFile, path + ": " + std::strerror(errno));
  return content;
}

}  // namespace tenon::launcher
