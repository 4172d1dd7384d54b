#include "source.hpp"

#include "cursor.hpp"
#include "split.hpp"
#include "types.hpp"

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

constexpr uint32_t kNvfp4 = 40;  // its number in files
constexpr std::string_view kWeight = ".weight", kFactor = ".scale";

// Companions of NVFP4 tensors, X.scale and X.input_scale beside X.weight: the factor of all its values, and one for
// 4-bit activations, which nobody here uses.
using Places = std::unordered_map<std::string_view, Source::Place>;
bool is_nvfp4(const Source::Place& place) { return place.info->dtype == tensor_type(kNvfp4)->dtype; }

bool is_companion(std::string_view name, const Places& all) {
  for (const std::string_view ending : {std::string_view(".input_scale"), kFactor}) {
    if (!name.ends_with(ending)) continue;
    const auto weight = all.find(std::string(name.substr(0, name.size() - ending.size())) + std::string(kWeight));
    if (weight != all.end() && is_nvfp4(weight->second)) return true;
  }
  return false;
}

std::optional<Source::Place> factor_of(const TensorInfo& info, const Places& all) {
  if (!is_nvfp4({0, &info}) || !info.name.ends_with(kWeight)) return std::nullopt;
  const auto found =
      all.find(std::string(info.name.substr(0, info.name.size() - kWeight.size())) + std::string(kFactor));
  return found == all.end() ? std::nullopt : std::optional(found->second);
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
  std::unordered_map<std::string_view, Place> seen;
  for (uint32_t part = 0; part < files_.size(); ++part) {
    for (const TensorInfo& info : files_[part]->tensors()) {
      const auto [first_place, fresh] = seen.emplace(info.name, Place{part, &info});
      if (!fresh) {
        fail_at(files_[part]->name(), "tensor " + quoted(info.name), info.info_offset,
                "stands in " + quoted(files_[first_place->second.part]->name()) + " as well");
      }
    }
  }
  planes_.reserve(total);  // tensors that were read, and their records must not move
  for (uint32_t part = 0; part < files_.size(); ++part) {
    for (const TensorInfo& info : files_[part]->tensors())
      if (!is_companion(info.name, seen)) list_tensor({part, &info}, seen);
  }
}

void Source::list_tensor(const Place& place, const std::unordered_map<std::string_view, Place>& all) {
  const TensorInfo& info = *place.info;
  const auto add_plane = [this](uint32_t role, const Place& from) {
    tenon_plane plane = {};
    plane.role = role, plane.dtype = from.info->dtype, plane.file = from.part, plane.n_dim = from.info->n_dim;
    plane.offset = from.info->offset, plane.bytes = from.info->bytes;
    std::copy(from.info->dim, from.info->dim + 4, plane.dim);
    planes_.push_back(plane);
  };
  tenon_tensor tensor = {};
  tensor.struct_size = sizeof tensor, tensor.dtype = info.dtype, tensor.name = sdk::to_str(info.name);
  tensor.n_dim = info.n_dim, tensor.n_plane = 1, tensor.plane = planes_.data() + planes_.size();
  std::copy(info.dim, info.dim + 4, tensor.dim);
  add_plane(TENON_PLANE_CODES, place);
  if (const auto factor = factor_of(info, all)) {
    const TensorInfo& scale = *factor->info;
    const int64_t n = scale.dim[0], n_expert = info.n_dim > 2 ? info.dim[2] : 1;
    if (scale.dtype != TENON_DTYPE_F32 || scale.n_dim != 1 || (n != 1 && n != n_expert)) {
      fail_at(
          files_[factor->part]->name(), "tensor " + quoted(scale.name), scale.info_offset,
          sdk::text("expected f32 factors of %s, one or %lld of them", quoted(info.name).c_str(), (long long)n_expert));
    }
    tensor.n_plane = 2;
    add_plane(TENON_PLANE_MACRO, *factor);
  }
  tensors_.push_back(tensor);
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
