// The JSON files beside the weights of a safetensors model. Fields: config.json, then, where they are there,
// generation_config.json, tokenizer_config.json, hf_quant_config.json, tokenizer.json. The weights are those of llama,
// qwen3 and gemma3 with the sizes of the corpus; for other architectures they are missing, which is said last.
#include "fields.hpp"
#include "memory_folder.hpp"
#include "target.hpp"
#include "whole_model.hpp"
#include "writer.hpp"

namespace {

constexpr const char* kNames[] = {"config.json", "generation_config.json", "tokenizer_config.json",
                                  "hf_quant_config.json", "tokenizer.json"};

std::string weights() {
  constexpr int64_t kWidth = 32, kHeads = 2, kHeadWidth = 16, kFfn = 32, kVocab = 8, kLayers = 2;
  tenon::test::Writer writer;
  const auto add = [&](const std::string& name, const std::vector<int64_t>& shape) {
    size_t bytes = 2;
    for (const int64_t n : shape) bytes *= size_t(n);
    writer.tensor(name + ".weight", "BF16", shape, std::string(bytes, '\x3c'));
  };
  add("model.embed_tokens", {kVocab, kWidth}), add("lm_head", {kVocab, kWidth}), add("model.norm", {kWidth});
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    const std::string at = "model.layers." + std::to_string(layer) + ".";
    for (const char* norm : {"input", "post_attention", "pre_feedforward", "post_feedforward"})
      add(at + norm + "_layernorm", {kWidth});
    for (const char* norm : {"q_norm", "k_norm"}) add(at + "self_attn." + norm, {kHeadWidth});
    add(at + "self_attn.q_proj", {kHeads * kHeadWidth, kWidth}),
        add(at + "self_attn.o_proj", {kWidth, kHeads * kHeadWidth});
    for (const char* name : {"k_proj", "v_proj"}) add(at + "self_attn." + name, {kHeadWidth, kWidth});
    for (const char* name : {"gate_proj", "up_proj"}) add(at + "mlp." + name, {kFfn, kWidth});
    add(at + "mlp.down_proj", {kWidth, kFfn});
  }
  return writer.build();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static tenon::fuzz::MemoryFolder folder;
  static tenon::fuzz::WholeModel model;
  static const size_t weight_bytes = [] {
    const std::string bytes = weights();
    folder.set("model.safetensors", bytes);
    return bytes.size();
  }();
  const auto fields = tenon::fuzz::fields_of(data, size);
  for (size_t i = 0; i < std::size(kNames); ++i) {
    folder.erase(kNames[i]);
    if (i < fields.size()) folder.set(kNames[i], fields[i]);
  }
  model.check(folder.path("model.safetensors"), size + weight_bytes);
  return 0;
}
