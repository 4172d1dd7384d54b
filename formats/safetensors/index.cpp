#include "index.hpp"

#include <unordered_map>
#include <unordered_set>

#include "fault.hpp"

namespace tenon::safetensors {
namespace {

constexpr std::string_view kIndexTail = ".safetensors.index.json", kTail = ".safetensors";
constexpr size_t kMostShards = 4096, kLongestName = 255;

// "-00002-of-00003" with at least four digits each.
bool is_part_mark(std::string_view text) {
  const size_t of = text.find("-of-");
  if (text.empty() || text[0] != '-' || of == text.npos) return false;
  const auto number = [](std::string_view digits) {
    return digits.size() >= 4 && digits.find_first_not_of("0123456789") == digits.npos;
  };
  return number(text.substr(1, of - 1)) && number(text.substr(of + 4));
}

bool is_plain_name(std::string_view name) {
  return name.size() > kTail.size() && name.size() <= kLongestName && name.ends_with(kTail) &&
         name.find('/') == name.npos && name.find('\0') == name.npos && name[0] != '.';
}

}  // namespace

bool is_index_name(std::string_view file_name) { return file_name.ends_with(kIndexTail); }

std::optional<std::string> index_of_shard(std::string_view file_name) {
  if (!file_name.ends_with(kTail)) return std::nullopt;
  const std::string_view stem = file_name.substr(0, file_name.size() - kTail.size());
  const size_t of = stem.rfind("-of-"), dash = of == stem.npos || of == 0 ? stem.npos : stem.rfind('-', of - 1);
  if (dash == stem.npos || dash == 0 || !is_part_mark(stem.substr(dash))) return std::nullopt;
  return std::string(stem.substr(0, dash)) + std::string(kIndexTail);
}

ShardIndex::ShardIndex(std::string name, std::string_view text) : name_(std::move(name)) {
  using Kind = JsonValue::Kind;
  const JsonDocument document(name_, text);
  const JsonValue* map = document.root().is(Kind::kObject) ? document.root().find("weight_map") : nullptr;
  if (!map || !map->is(Kind::kObject)) fail(name_, "weight_map: expected an object that names a file for each tensor");
  for (const JsonValue& item : map->items) {
    const std::string field = "weight_map " + quoted(item.key);
    if (!item.is(Kind::kString)) fail_at(name_, field, item.offset, "expected a file's name");
    if (!is_plain_name(item.text))
      fail_at(name_, field, item.offset,
              quoted(item.text) + " is no plain name of a .safetensors file beside the index");
    by_shard_[std::string(item.text)].emplace_back(item.key);
  }
  if (by_shard_.empty()) fail(name_, "weight_map: names no tensor");
  if (by_shard_.size() > kMostShards)
    fail(name_, sdk::text("weight_map: names %zu files, expected at most %zu", by_shard_.size(), kMostShards));
  for (const auto& [shard, tensors] : by_shard_) shards_.push_back(shard);
}

void ShardIndex::check(const std::vector<const SafetensorsFile*>& files) const {
  std::unordered_map<std::string_view, const SafetensorsFile*> holder;
  for (const SafetensorsFile* file : files) {
    for (const RawTensor& tensor : file->tensors()) {
      const auto [first, fresh] = holder.emplace(tensor.name, file);
      if (!fresh)
        fail_at(file->name(), "tensor " + quoted(tensor.name), tensor.header_offset,
                "stands in " + quoted(first->second->name()) + " as well");
    }
  }
  size_t n_listed = 0;
  for (const SafetensorsFile* file : files) {
    std::vector<std::string> lacking;
    for (const std::string& tensor : by_shard_.at(file->name())) {
      const auto found = holder.find(tensor);
      if (found == holder.end() || found->second != file) lacking.push_back(tensor);
    }
    if (!lacking.empty())
      fail(name_, quoted(file->name()) + " lacks " + listed(lacking, "tensor") + " that the index says it holds");
    n_listed += by_shard_.at(file->name()).size();
  }
  if (n_listed == holder.size()) return;
  std::unordered_set<std::string_view> known;
  for (const auto& [shard, tensors] : by_shard_) known.insert(tensors.begin(), tensors.end());
  std::vector<std::string> unlisted;
  for (const auto& [tensor, file] : holder)
    if (!known.contains(tensor)) unlisted.emplace_back(tensor);
  fail(name_, "does not name " + listed(unlisted, "tensor") + " that its files hold");
}

}  // namespace tenon::safetensors
