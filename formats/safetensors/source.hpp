// source.hpp: a model of safetensors files: one, or a set with its index, and the JSON files beside them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "companions.hpp"
#include "config.hpp"
#include "header.hpp"
#include "index.hpp"

namespace tenon::safetensors {

// How sure the name and the first bytes of a file make us: 0 to 100. Of a model's files the one to begin with is
// surest.
uint32_t probe_score(std::string_view file_name, const uint8_t* head, uint64_t n);

class Source {
 public:
  // The first file is the user's; the others are those that wanted() named, in that order, null where there is none.
  explicit Source(const std::vector<tenon_file*>& files);
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  // Name of file i of the set, i ≥ the number of files given; null when the set is complete.
  const std::string* wanted(uint64_t i) const { return i >= n_given_ && i < plan_.size() ? &plan_[i] : nullptr; }
  const MetaEntry* entry(uint64_t i) const { return i < config_.entries().size() ? &config_.entries()[i] : nullptr; }
  const tenon_tensor* tensor(uint64_t i) const { return i < records_.size() ? &records_[i] : nullptr; }

 private:
  void read_index(const std::vector<tenon_file*>& files);
  void read_file(const tenon_file* file, uint32_t place);
  void check_set(const std::vector<tenon_file*>& files) const;
  void list_tensors();

  uint64_t n_given_;
  std::vector<std::string> plan_;  // names of all files, as far as they are known
  std::optional<ShardIndex> index_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  Config config_;
  std::vector<ModelTensor> tensors_;
  std::vector<tenon_tensor> records_;
};

}  // namespace tenon::safetensors
