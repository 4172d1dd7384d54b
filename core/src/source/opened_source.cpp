#include "opened_source.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <tenon/error.hpp>

#include "../plugin/message.hpp"
#include "printable.hpp"

namespace tenon::source {
namespace {

constexpr size_t kMostFiles = 65536;
constexpr size_t kLongestFileName = 255;

std::string to_string(tenon_str text) { return {text.data, size_t(text.size)}; }
std::string directory_of(const std::string& path) { return path.substr(0, path.find_last_of('/') + 1); }
bool exists(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 || errno != ENOENT;  // what cannot be examined is said when it is opened
}

// A failed call of a format, with the message that it left.
[[noreturn]] void fail_status(tenon_status status, const std::string& what) {
  std::string message = plugin::take_message();
  if (message.empty()) message = plugin::status_name(status);
  throw Error(status == TENON_OUT_OF_MEMORY ? ErrorKind::kCapacity : ErrorKind::kFile, what + ": " + message);
}

// Names of further files come from a plugin and in the end from the file: they must stay in the directory.
void check_base_name(const std::string& name) {
  if (!name.empty() && name.size() <= kLongestFileName && name != "." && name != ".." &&
      name.find('/') == std::string::npos && name.find('\0') == std::string::npos) {
    return;
  }
  throw Error(ErrorKind::kFile,
              "a part of the model has the name '" + printable(name) + "', expected a plain file name");
}

}  // namespace

const Plane* Tensor::plane(uint32_t role) const {
  const auto found = std::find_if(planes.begin(), planes.end(), [&](const Plane& plane) { return plane.role == role; });
  return found == planes.end() ? nullptr : &*found;
}

uint64_t Tensor::bytes() const {
  uint64_t total = 0;
  for (const Plane& plane : planes) total += plane.bytes;
  return total;
}

void OpenedSource::Handle::open(const std::vector<std::unique_ptr<MappedFile>>& files) {
  close();
  std::vector<tenon_file*> handles;
  for (const auto& file : files) handles.push_back(file.get());  // null: a part that is not there
  plugin::take_message();
  void* source = nullptr;
  const tenon_status status = format_.open(format_.self, handles.data(), uint32_t(handles.size()), &source);
  if (status != TENON_OK) fail_status(status, "model file '" + files.front()->path() + "' cannot be read");
  source_ = source;
}

void OpenedSource::Handle::close() {
  if (source_) format_.close(source_);
  source_ = nullptr;
}

OpenedSource::OpenedSource(const tenon_format& format, std::unique_ptr<MappedFile> first,
                           const plugin::Registry& registry)
    : format_name_(to_string(format.name)), handle_(format), meta_(to_string(format.scheme)) {
  files_.push_back(std::move(first));
  open_set(format);
  for (const auto& file : files_)
    if (file) paths_.push_back(file->path());
  read_meta(format);
  read_tensors(format, registry);
}

std::unique_ptr<MappedFile> OpenedSource::open_part(const std::string& path) const {
  try {
    return std::make_unique<MappedFile>(path);
  } catch (const Error& error) {
    throw Error(error.kind(), std::string(error.what()) + "; it is a part of the set that '" + files_.front()->path() +
                                  "' belongs to, and all parts must lie in one directory");
  }
}

void OpenedSource::open_set(const tenon_format& format) {
  const std::string directory = directory_of(files_.front()->path());
  const bool takes_absent = format.flags & TENON_FORMAT_TAKES_ABSENT;
  handle_.open(files_);
  for (bool complete = false; !complete;) {
    std::vector<std::string> wanted;
    for (;;) {
      tenon_str name = {};
      const uint64_t index = files_.size() + wanted.size();
      const tenon_status status =
          index < kMostFiles ? format.more(handle_.get(), uint32_t(index), &name) : TENON_CAPACITY;
      if (status == TENON_NOT_FOUND) break;
      if (status != TENON_OK) fail_status(status, "the parts of '" + files_.front()->path() + "'");
      wanted.push_back(to_string(name));
      check_base_name(wanted.back());
    }
    complete = wanted.empty();
    for (const std::string& name : wanted) {
      const bool known = std::any_of(files_.begin(), files_.end(),
                                     [&](const auto& file) { return file && file->base_name() == name; });
      if (known) throw Error(ErrorKind::kFile, "the model names its part '" + name + "' twice");
      files_.push_back(takes_absent && !exists(directory + name) ? nullptr : open_part(directory + name));
    }
    if (!complete) handle_.open(files_);
  }
}

void OpenedSource::read_meta(const tenon_format& format) {
  for (uint64_t i = 0;; ++i) {
    tenon_str key = {};
    tenon_value value = {};
    const tenon_status status = format.meta(handle_.get(), i, &key, &value);
    if (status == TENON_NOT_FOUND) return;
    if (status != TENON_OK) fail_status(status, "metadata of '" + paths_.front() + "'");
    meta_.add_key({key.data, size_t(key.size)}, value);
  }
}

void OpenedSource::read_tensors(const tenon_format& format, const plugin::Registry& registry) {
  std::vector<FileExtent> extents;
  for (const auto& file : files_)
    extents.push_back(file ? FileExtent{std::string(file->base_name()), file->size()}
                           : FileExtent{"an absent file", 0});
  for (uint64_t i = 0;; ++i) {
    tenon_tensor record = {};
    const tenon_status status = format.tensor(handle_.get(), i, &record);
    if (status == TENON_NOT_FOUND) break;
    if (status != TENON_OK) fail_status(status, "tensors of '" + paths_.front() + "'");
    meta_.add_tensor(checked_tensor(record, extents, registry));
  }
  check_tensors_apart(meta_.tensors(), extents);
  meta_.finish();
}

uint64_t OpenedSource::file_bytes() const {
  uint64_t total = 0;
  for (const auto& file : files_)
    if (file) total += file->size();
  return total;
}

const MappedFile& OpenedSource::file_of(const Plane& plane, uint64_t offset, uint64_t bytes) const {
  if (plane.file < files_.size() && files_[plane.file] && offset <= plane.bytes && bytes <= plane.bytes - offset &&
      files_[plane.file]->map(plane.offset, plane.bytes)) {
    return *files_[plane.file];
  }
  throw Error(ErrorKind::kFile, "bytes " + std::to_string(offset) + " and " + std::to_string(bytes) +
                                    " more leave a plane of " + std::to_string(plane.bytes) + " bytes in '" +
                                    paths_.front() + "'");
}

const uint8_t* OpenedSource::data(const Plane& plane) const {
  const MappedFile& file = file_of(plane, 0, plane.bytes);
  file.check_not_shrunk(plane.offset + plane.bytes);
  return static_cast<const uint8_t*>(file.map(plane.offset, plane.bytes));
}

void OpenedSource::drop_pages(const Plane& plane, uint64_t offset, uint64_t bytes) const {
  file_of(plane, offset, bytes).drop_pages(plane.offset + offset, bytes);
}

}  // namespace tenon::source
