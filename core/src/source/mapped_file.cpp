#include "mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <tenon/error.hpp>

namespace tenon::source {
namespace {

[[noreturn]] void fail(const std::string& path, const std::string& message, ErrorKind kind = ErrorKind::kFile) {
  throw Error(kind, "model file '" + path + "': " + message);
}

[[noreturn]] void fail_errno(const std::string& path, const char* what) {
  // Address space that runs out, or descriptors: no fault of the file.
  const bool is_capacity = errno == ENOMEM || errno == EMFILE || errno == ENFILE;
  fail(path, std::string(what) + ": " + std::system_category().message(errno),
       is_capacity ? ErrorKind::kCapacity : ErrorKind::kFile);
}

uint64_t page_bytes() {
  static const uint64_t bytes = uint64_t(::sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path), base_name_(path.substr(path.find_last_of('/') + 1)) {
  // O_NONBLOCK: a pipe must not make us wait before it can be refused.
  descriptor_.number = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor_.number < 0) fail_errno(path, "cannot be opened");
  struct stat status = {};
  if (::fstat(descriptor_.number, &status) != 0) fail_errno(path, "cannot be examined");
  if (S_ISDIR(status.st_mode)) fail(path, "is a directory, expected a file");
  if (!S_ISREG(status.st_mode)) fail(path, "is no regular file");
  if (status.st_size <= 0) fail(path, "is empty");
  size_ = uint64_t(status.st_size);
  void* data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor_.number, 0);
  if (data == MAP_FAILED) fail_errno(path, "cannot be mapped");
  data_ = static_cast<uint8_t*>(data);
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(data_, size_);
}

MappedFile::Descriptor::~Descriptor() {
  if (number >= 0) ::close(number);
}

bool MappedFile::read(uint64_t offset, void* dst, uint64_t n) const {
  if (!contains(offset, n)) return false;
  auto* out = static_cast<uint8_t*>(dst);
  while (n > 0) {
    const ssize_t got = ::pread(descriptor_.number, out, n, off_t(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    out += got, offset += uint64_t(got), n -= uint64_t(got);
  }
  return true;
}

const void* MappedFile::map(uint64_t offset, uint64_t n) const {
  return contains(offset, n) ? data_ + offset : nullptr;
}

void MappedFile::advise(uint64_t offset, uint64_t n, uint32_t advice) const {
  if (!contains(offset, n) || n == 0) return;
  if (advice == TENON_ADVISE_DONE) return drop_pages(offset, n);
  // Advice may cover more than was asked for: whole pages around the range.
  const uint64_t begin = offset / page_bytes() * page_bytes();
  ::madvise(data_ + begin, offset + n - begin, advice == TENON_ADVISE_WILL_NEED ? MADV_WILLNEED : MADV_SEQUENTIAL);
}

void MappedFile::drop_pages(uint64_t offset, uint64_t n) const {
  if (!contains(offset, n)) return;
  // Touching a page may map all of the huge page that it is a part of, with what was given back of that before: whole ones are
  // given back, else what lies around many short ranges would add up. Who still reads a page there gets it again.
  constexpr uint64_t kWindow = 2 << 20;
  if (!n) return;
  const auto base = reinterpret_cast<uintptr_t>(data_);
  const uintptr_t begin = std::max(base, (base + offset) / kWindow * kWindow);
  const uintptr_t end = std::min(base + size_, (base + offset + n + kWindow - 1) / kWindow * kWindow);
  ::madvise(data_ + (begin - base), end - begin, MADV_DONTNEED);
}

void MappedFile::check_not_shrunk(uint64_t end) const {
  struct stat status = {};
  if (::fstat(descriptor_.number, &status) != 0) fail_errno(path_, "cannot be examined");
  if (uint64_t(status.st_size) >= end) return;
  fail(path_, "has shrunk since it was opened: " + std::to_string(status.st_size) + " bytes now, " +
                  std::to_string(size_) + " then; do not change a model file while it is in use");
}

}  // namespace tenon::source
