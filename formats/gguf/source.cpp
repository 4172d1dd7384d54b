#include "source.hpp"

#include <unordered_map>

#include "cursor.hpp"
#include "split.hpp"

namespace tenon::gguf {
namespace {

constexpr int64_t kMostParts = 65535;  // split.count is a u16

std::unique_ptr<GgufFile> parse(const tenon_file* file) {
  const tenon_host& host = sdk::host();
  tenon_str name = {};
  uint64_t size = 0;
  const void* data = nullptr;
  sdk::check(host.file_name(host.self, file, &name));
  sdk::check(host.file_size(host.self, file, &size));
  if (size == 0) throw sdk::Error(TENON_CORRUPT, quoted(sdk::to_view(name)) + ": the file is empty");
  sdk::check(host.file_map(host.self, file, 0, size, &data));
  return std::make_unique<GgufFile>(std::string(sdk::to_view(name)), static_cast<const uint8_t*>(data), size);
}

[[noreturn]] void fail_key(const GgufFile& file, std::string_view key, const std::string& message) {
  const MetaEntry* entry = file.find(key);
  fail_at(file.name(), "key " + quoted(key), entry ? entry->offset : 0, message);
}

}  // namespace

Source::Source(const std::vector<tenon_file*>& files) {
  for (const tenon_file* file : files) files_.push_back(parse(file));
  if (files_.empty()) throw sdk::Error(TENON_INVALID_ARGUMENT, "no file given");
  read_split();
  if (missing_.empty()) list_tensors();
}

void Source::read_split() {
  const GgufFile& given = *files_.front();
  const int64_t count = given.integer("split.count", 1, 1, kMostParts);
  if (uint64_t(count) < files_.size()) {
    fail_key(given, "split.count",
             sdk::text("%lld files make the set, but %zu were given", (long long)count, files_.size()));
  }
  if (count == 1) return;
  const auto name = parse_split_name(given.name());
  if (!name || name->count != count) {
    fail_key(
        given, "split.count",
        sdk::text(
            "the model lies in %lld files, whose names must be PREFIX-%%05d-of-%05lld.gguf; this file's name is %s",
            (long long)count, (long long)count, quoted(given.name()).c_str()));
  }
  std::vector<bool> have(static_cast<size_t>(count), false);
  for (size_t i = 0; i < files_.size(); ++i) {
    const GgufFile& file = *files_[i];
    const auto own = parse_split_name(file.name());
    if (file.integer("split.count", 1, 1, kMostParts) != count) {
      fail_key(file, "split.count",
               sdk::text("differs from the %lld of %s", (long long)count, quoted(given.name()).c_str()));
    }
    if (!file.find("split.no")) fail_at(file.name(), "key 'split.no'", 0, "missing, although split.count is there");
    const int64_t number = file.integer("split.no", 0, 0, count - 1);
    if (!own || own->prefix != name->prefix || own->count != count || own->index != number) {
      fail_key(file, "split.no",
               sdk::text("part %lld must be named %s; this file's name is %s", (long long)number,
                         quoted(split_name(name->prefix, uint32_t(number), uint32_t(count))).c_str(),
                         quoted(file.name()).c_str()));
    }
    if (have[size_t(number)]) fail_key(file, "split.no", sdk::text("part %lld was given twice", (long long)number));
    have[size_t(number)] = true;
    if (number == 0) first_ = i;
  }
  for (uint32_t i = 0; i < uint32_t(count); ++i) {
    if (!have[i]) missing_.push_back(split_name(name->prefix, i, uint32_t(count)));
  }
}

void Source::list_tensors() {
  size_t total = 0;
  for (const auto& file : files_) total += file->tensors().size();
  const GgufFile& first = *files_[first_];
  const int64_t declared = first.integer("split.tensors.count", int64_t(total), 0, INT64_MAX);
  if (files_.size() > 1 && declared != int64_t(total)) {
    fail_key(first, "split.tensors.count",
             sdk::text("%lld, but the files hold %zu tensors", (long long)declared, total));
  }
  std::unordered_map<std::string_view, size_t> seen;
  planes_.reserve(total);  // tensors that were read, and their records must not move
  for (uint32_t part = 0; part < files_.size(); ++part) {
    for (const TensorInfo& info : files_[part]->tensors()) {
      const auto [first_place, fresh] = seen.emplace(info.name, part);
      if (!fresh) {
        fail_at(files_[part]->name(), "tensor " + quoted(info.name), info.info_offset,
                "stands in " + quoted(files_[first_place->second]->name()) + " as well");
      }
      tenon_plane plane = {};
      plane.role = TENON_PLANE_CODES, plane.dtype = info.dtype, plane.file = part, plane.n_dim = info.n_dim;
      plane.offset = info.offset, plane.bytes = info.bytes;
      std::copy(info.dim, info.dim + 4, plane.dim);
      planes_.push_back(plane);
      tenon_tensor tensor = {};
      tensor.struct_size = sizeof tensor, tensor.dtype = info.dtype, tensor.name = sdk::to_str(info.name);
      tensor.n_dim = info.n_dim, tensor.n_plane = 1, tensor.plane = &planes_.back();
      std::copy(info.dim, info.dim + 4, tensor.dim);
      tensors_.push_back(tensor);
    }
  }
}

const std::string* Source::wanted(uint64_t i) const {
  if (i < files_.size() || i - files_.size() >= missing_.size()) return nullptr;
  return &missing_[i - files_.size()];
}

const MetaEntry* Source::entry(uint64_t i) const {
  const auto& entries = files_[first_]->entries();
  return i < entries.size() ? &entries[i] : nullptr;
}

const tenon_tensor* Source::tensor(uint64_t i) const { return i < tensors_.size() ? &tensors_[i] : nullptr; }

}  // namespace tenon::gguf
