// source_meta.hpp: metadata and tensor list of an opened model, for the core and, behind a handle, for plugins.
#pragma once

#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "../plugin/host_files.hpp"
#include "model_source.hpp"

namespace tenon::source {

// Filled while the model is opened, immutable then; any thread.
class SourceMeta final : public Metadata, public tenon_meta {
 public:
  explicit SourceMeta(std::string scheme) : scheme_(std::move(scheme)) {}

  // Takes a key whose value borrows the format's handle. Throws Error(kFile) for a value that makes no sense.
  void add_key(std::string_view key, const tenon_value& value);
  void add_tensor(Tensor tensor);

  const tenon_value* find(std::string_view key) const override;
  size_t size() const override { return values_.size(); }
  std::string_view key_at(size_t i) const override { return keys_[i]; }
  const tenon_value& value_at(size_t i) const override { return values_[i]; }

  bool tensor(std::string_view name, tenon_tensor* out) const override;
  bool tensor_at(uint64_t i, tenon_tensor* out) const override;
  std::string_view scheme() const override { return scheme_; }

  const std::vector<Tensor>& tensors() const { return tensors_; }
  const Tensor* find_tensor(std::string_view name) const;
  // To be called once, after the last add_tensor(): makes the records that plugins get.
  void finish();

 private:
  std::string scheme_;
  std::deque<std::string> keys_;  // a deque keeps its strings where the index sees them
  std::vector<tenon_value> values_;
  std::vector<Tensor> tensors_;
  std::vector<tenon_plane> planes_;
  std::vector<tenon_tensor> records_;
  std::unordered_map<std::string_view, size_t> key_index_, tensor_index_;
};

}  // namespace tenon::source
