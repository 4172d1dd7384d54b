#include "safetensors_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <tenon/error.hpp>
#include <utility>

#include "interrupt.hpp"

namespace tenon::launcher {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

SafetensorsFile::SafetensorsFile(std::string path) : path_(std::move(path)), written_path_(path_) {
  struct stat found = {}, named = {};
  const bool exists = stat(path_.c_str(), &found) == 0;
  const int stat_error = errno;
  // What a link points to is replaced, not the link, which has to lead somewhere.
  if (lstat(path_.c_str(), &named) == 0 && S_ISLNK(named.st_mode)) {
    if (!exists) {
      errno = stat_error;
      fail("open");
    }
    std::error_code error;
    const std::filesystem::path target = std::filesystem::canonical(path_, error);
    if (!error) written_path_ = path_ = target;
  }
  if (exists && S_ISDIR(found.st_mode)) {
    errno = EISDIR;
    fail("open");
  }
  // Arrays are written in any order. A pipe would moreover keep us waiting for a reader.
  if (exists && (S_ISFIFO(found.st_mode) || S_ISSOCK(found.st_mode))) {
    errno = ESPIPE;
    fail("write to");
  }
  renames_ = !exists || S_ISREG(found.st_mode);
  if (renames_) written_path_ += ".part-" + std::to_string(getpid());
  descriptor_ =
      open(written_path_.c_str(), renames_ ? O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC : O_WRONLY | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail("open");
  if (renames_) remove_when_killed(written_path_);
}

SafetensorsFile::~SafetensorsFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  if (renames_) unlink(written_path_.c_str());
  remove_when_killed({});
}

void SafetensorsFile::define(const std::vector<ArraySpec>& arrays) {
  nlohmann::ordered_json header;
  uint64_t offset = 0;
  for (const ArraySpec& array : arrays) {
    uint64_t bytes = sizeof(float);
    for (int64_t extent : array.shape) bytes *= static_cast<uint64_t>(extent);
    header[array.name] = {{"dtype", "F32"}, {"shape", array.shape}, {"data_offsets", {offset, offset + bytes}}};
    offsets_[array.name] = offset;
    offset += bytes;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t size = text.size();
  for (auto& [name, begin] : offsets_) begin += sizeof(size) + size;
  write_at(0, &size, sizeof(size));
  write_at(sizeof(size), text.data(), text.size());
}

void SafetensorsFile::write(const std::string& array, int64_t first, std::span<const float> values) {
  write_at(offsets_.at(array) + static_cast<uint64_t>(first) * sizeof(float), values.data(), values.size_bytes());
}

void SafetensorsFile::finish() {
  if (close(std::exchange(descriptor_, -1)) != 0) {
    const int error = errno;
    if (renames_) unlink(written_path_.c_str());
    errno = error;
    fail("write");
  }
  if (renames_ && std::rename(written_path_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    unlink(written_path_.c_str());
    errno = error;
    fail("rename");
  }
  remove_when_killed({});
}

void SafetensorsFile::write_at(uint64_t offset, const void* bytes, size_t size) {
  const char* cursor = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t written = pwrite(descriptor_, cursor, size, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write");
    cursor += written;
    offset += static_cast<uint64_t>(written);
    size -= static_cast<size_t>(written);
  }
}

void SafetensorsFile::fail(const char* what) const {
  throw Error(ErrorKind::kRuntime, "--out " + path_ + ": cannot " + what + ": " + std::strerror(errno));
}

}  // namespace tenon::launcher
