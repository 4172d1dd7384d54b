// Safetensors files as a model, with the configuration of a llama beside them. Fields: a file; or the index and a file
// for each of its parts, of which there are two. A file is written as the number of bytes of its data in decimal and
// the text of its header; behind '#' as its very bytes.
#include <charconv>

#include "fields.hpp"
#include "memory_folder.hpp"
#include "target.hpp"
#include "whole_model.hpp"
#include "writer.hpp"

namespace {

constexpr std::string_view kConfig =
    R"({"model_type":"llama","vocab_size":8,"hidden_size":32,"num_hidden_layers":1,"num_attention_heads":2,
"num_key_value_heads":1,"head_dim":16,"intermediate_size":32,"max_position_embeddings":128,"rms_norm_eps":1e-5,
"rope_theta":10000.0,"tie_word_embeddings":true})";
constexpr const char *kOne = "model.safetensors", *kIndex = "model.safetensors.index.json",
                     *kParts[] = {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"};
constexpr size_t kMostData = 64 << 10;

std::string file_of(std::string_view field) {
  if (field.starts_with('#')) return std::string(field.substr(1));
  size_t n_data = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), n_data);
  if (error != std::errc()) n_data = 0;
  field.remove_prefix(size_t(end - field.data()));
  return tenon::test::with_header(std::string(field), std::string(std::min(n_data, kMostData), '\x3c'));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static tenon::fuzz::MemoryFolder folder;
  static tenon::fuzz::WholeModel model;
  const auto fields = tenon::fuzz::fields_of(data, size);
  folder.set("config.json", kConfig);
  for (const char* name : {kOne, kIndex, kParts[0], kParts[1]}) folder.erase(name);
  const bool is_set = fields.size() > 1;
  uint64_t bytes = kConfig.size();
  const auto add = [&](const char* name, const std::string& contents) {
    folder.set(name, contents);
    bytes += contents.size();
  };
  if (is_set) add(kIndex, std::string(fields[0]));
  for (size_t i = 1; i < fields.size() && i < 3; ++i) add(kParts[i - 1], file_of(fields[i]));
  if (!is_set) add(kOne, file_of(fields[0]));
  model.check(folder.path(is_set ? kIndex : kOne), bytes);
  return 0;
}
