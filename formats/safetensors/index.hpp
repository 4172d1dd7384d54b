// index.hpp: a model in several files: PREFIX-00001-of-00003.safetensors, and PREFIX.safetensors.index.json that says
// which tensor lies in which.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "header.hpp"

namespace tenon::safetensors {

bool is_index_name(std::string_view file_name);

// "model.safetensors.index.json" for "model-00002-of-00003.safetensors"; nullopt for a name that is not of that form.
std::optional<std::string> index_of_shard(std::string_view file_name);

class ShardIndex {
 public:
  // Throws CORRUPT.
  ShardIndex(std::string name, std::string_view text);

  const std::string& name() const { return name_; }
  const std::vector<std::string>& shards() const { return shards_; }  // each once, sorted
  size_t count(const std::string& shard) const { return by_shard_.at(shard).size(); }
  // Every tensor must lie in the file that the index names for it, and in no other. `files` are complete.
  void check(const std::vector<const SafetensorsFile*>& files) const;

 private:
  std::string name_;
  std::vector<std::string> shards_;
  std::map<std::string, std::vector<std::string>, std::less<>> by_shard_;
};

}  // namespace tenon::safetensors
