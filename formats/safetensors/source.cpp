#include "source.hpp"

#include <algorithm>
#include <cstring>

#include "fault.hpp"

namespace tenon::safetensors {
namespace {

constexpr uint64_t kLongestIndex = uint64_t{64} << 20;
constexpr std::string_view kMainName = "model.safetensors", kMainIndex = "model.safetensors.index.json";

std::string name_of(const tenon_file* file) {
  tenon_str name = {};
  sdk::check(sdk::host().file_name(sdk::host().self, file, &name));
  return std::string(sdk::to_view(name));
}

std::string_view bytes_of(const tenon_file* file) {
  uint64_t size = 0;
  const void* data = nullptr;
  sdk::check(sdk::host().file_size(sdk::host().self, file, &size));
  sdk::check(sdk::host().file_map(sdk::host().self, file, 0, size, &data));
  return {static_cast<const char*>(data), size_t(size)};
}

// A length that the format allows and behind it, perhaps after spaces, an object.
bool looks_like_header(const uint8_t* head, uint64_t n) {
  uint64_t length = 0;
  if (n < 10) return false;
  std::memcpy(&length, head, sizeof length);
  const auto* end = head + n;
  const auto* first = std::find_if(head + 8, end, [](uint8_t c) { return c != ' '; });
  return length >= 2 && length <= 100'000'000 && first != end && *first == '{';
}

}  // namespace

uint32_t probe_score(std::string_view file_name, const uint8_t* head, uint64_t n) {
  if (is_index_name(file_name)) return file_name == kMainIndex ? 99 : 95;
  const bool has_ending = file_name.ends_with(".safetensors");
  if (!looks_like_header(head, n)) return has_ending ? 10 : 0;  // still ours to say what is wrong with it
  if (!has_ending) return 30;
  return file_name == kMainName ? 90 : index_of_shard(file_name) ? 60 : 70;
}

Source::Source(const std::vector<tenon_file*>& files) : n_given_(files.size()) {
  if (files.empty() || !files[0]) throw sdk::Error(TENON_INVALID_ARGUMENT, "open: no file");
  plan_.push_back(name_of(files[0]));
  read_index(files);
  const bool is_set_known = index_ || !index_of_shard(plan_[0]);
  if (is_set_known) plan_.insert(plan_.end(), companion_files().begin(), companion_files().end());
  for (uint32_t i = 0; i < files.size(); ++i) {
    if (i >= plan_.size() || (files[i] && name_of(files[i]) != plan_[i]))
      throw sdk::Error(TENON_INVALID_ARGUMENT,
                       "open: file " + std::to_string(i) + " is not the one that was asked for");
    if (files[i] && !is_index_name(plan_[i])) read_file(files[i], i);
  }
  if (index_ && files.size() == plan_.size()) check_set(files);
  list_tensors();
}

void Source::read_index(const std::vector<tenon_file*>& files) {
  const tenon_file* file = is_index_name(plan_[0]) ? files[0] : nullptr;
  if (const auto name = index_of_shard(plan_[0])) {
    plan_.push_back(*name);
    if (files.size() < 2) return;
    file = files[1];
    if (!file)
      fail(plan_[0],
           "is a part of a model, but " + quoted(*name) + ", which says what the other parts are, is missing");
  }
  if (!file) return;
  const std::string_view text = bytes_of(file);
  if (text.size() > kLongestIndex)
    fail(name_of(file),
         sdk::text("has %zu bytes, expected at most %llu", text.size(), (unsigned long long)kLongestIndex));
  index_.emplace(name_of(file), text);
  if (!is_index_name(plan_[0]) &&
      std::find(index_->shards().begin(), index_->shards().end(), plan_[0]) == index_->shards().end())
    fail(index_->name(), "does not name " + quoted(plan_[0]));
  for (const std::string& shard : index_->shards())
    if (shard != plan_[0]) plan_.push_back(shard);
}

void Source::read_file(const tenon_file* file, uint32_t place) {
  const std::string& name = plan_[place];
  const std::string_view bytes = bytes_of(file);
  if (!name.ends_with(".safetensors") && place > 0) return config_.add_file(name, bytes);
  files_.push_back(
      std::make_unique<SafetensorsFile>(name, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), place));
  if (files_.size() == 1 && files_[0]->metadata()) config_.add_header(*files_[0]->metadata());
}

void Source::check_set(const std::vector<tenon_file*>& files) const {
  std::vector<std::string> missing;
  size_t n_tensors = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    if (files[i] || !plan_[i].ends_with(".safetensors")) continue;
    missing.push_back(plan_[i]);
    n_tensors += index_->count(plan_[i]);
  }
  if (!missing.empty())
    fail(index_->name(), listed(missing, "file") + " missing, with " + std::to_string(n_tensors) +
                             " tensors; all parts must lie in one directory");
  std::vector<const SafetensorsFile*> all;
  for (const auto& file : files_) all.push_back(file.get());
  index_->check(all);
}

void Source::list_tensors() {
  std::vector<const RawTensor*> raw;
  for (const auto& file : files_)
    for (const RawTensor& tensor : file->tensors()) raw.push_back(&tensor);
  // Scales may lie in a part that is not yet here.
  if (index_ && n_given_ < plan_.size()) return;
  tensors_ = join_companions(raw, plan_);
  for (const ModelTensor& tensor : tensors_) {
    tenon_tensor record = {};
    record.struct_size = sizeof record, record.dtype = tensor.dtype, record.name = sdk::to_str(tensor.name);
    record.n_dim = uint32_t(tensor.dim.size()), record.n_plane = uint32_t(tensor.planes.size());
    std::fill(record.dim, record.dim + 4, 1);
    std::copy(tensor.dim.begin(), tensor.dim.end(), record.dim);
    record.plane = tensor.planes.data();
    records_.push_back(record);
  }
}

}  // namespace tenon::safetensors
