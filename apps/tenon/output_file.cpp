#include "output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <tenon/error.hpp>
#include <utility>

#include "interrupt.hpp"

namespace tenon::launcher {

OutputFile::OutputFile(std::string what, std::string path)
    : what_(std::move(what)), path_(std::move(path)), written_path_(path_) {
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
  // Bytes are written in any order. A pipe would moreover keep us waiting for a reader.
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

OutputFile::~OutputFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  if (renames_) unlink(written_path_.c_str());
  remove_when_killed({});
}

void OutputFile::sync() {
  if (renames_ && fsync(descriptor_) != 0) fail("write");
}

void OutputFile::finish() {
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

void OutputFile::write(uint64_t offset, const void* bytes, size_t size) {
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

void OutputFile::fail(const char* what) const {
  throw Error(ErrorKind::kRuntime, what_ + " " + path_ + ": cannot " + what + ": " + std::strerror(errno));
}

}  // namespace tenon::launcher
