#include "model_file.hpp"

#include <algorithm>

namespace tenon::quantize {
namespace {

std::string_view view(tenon_str text) { return {text.data, size_t(text.size)}; }

template <typename Entries>
auto find_entry(Entries& entries, std::string_view key) {
  return std::find_if(entries.begin(), entries.end(), [key](const tenon_entry& entry) { return view(entry.key) == key; });
}

}  // namespace

void FileKeys::copy(std::string_view key, const tenon_value& value) {
  if (const auto found = find_entry(entries_, key); found != entries_.end()) {
    found->value = value;
    return;
  }
  const std::string_view name = kept(key);
  entries_.push_back({{name.data(), name.size()}, value});
}

void FileKeys::set_u32(std::string_view key, uint32_t number) {
  tenon_value value = {};
  value.struct_size = sizeof value, value.type = TENON_VALUE_U32, value.integer = number;
  copy(key, value);
}

void FileKeys::set_string(std::string_view key, std::string_view text) {
  const std::string_view own = kept(text);
  tenon_value value = {};
  value.struct_size = sizeof value, value.type = TENON_VALUE_STRING, value.string = {own.data(), own.size()};
  copy(key, value);
}

void FileKeys::erase(std::string_view key) {
  if (const auto found = find_entry(entries_, key); found != entries_.end()) entries_.erase(found);
}

const tenon_value* FileKeys::find(std::string_view key) const {
  const auto found = find_entry(entries_, key);
  return found == entries_.end() ? nullptr : &found->value;
}

void copy_contents(const source::ModelSource& source, const plugin::Registry& registry, FileContents& out) {
  const Metadata& metadata = source.metadata();
  for (size_t i = 0; i < metadata.size(); ++i) out.keys.copy(metadata.key_at(i), metadata.value_at(i));
  for (const source::Tensor& tensor : source.tensors()) {
    FileTensor& added = out.tensors.emplace_back();
    added.name = tensor.name, added.dim = tensor.dim, added.whole = &tensor;
    added.rows = std::make_unique<TensorRows>(source, tensor, registry);
  }
}

}  // namespace tenon::quantize
