#include "tokenizer_keys.hpp"

#include "text/vocabulary.hpp"

#include <tenon/error.hpp>

#include <algorithm>
#include <string>
#include <unordered_map>

namespace tenon::quantize {
namespace {

constexpr std::string_view kModel = "tokenizer.ggml.model", kTokens = "tokenizer.ggml.tokens", kMerges = "tokenizer.ggml.merges";
constexpr std::string_view kTypes = "tokenizer.ggml.token_type", kTemplate = "tokenizer.chat_template";

std::string_view view(tenon_str text) { return {text.data, size_t(text.size)}; }

tenon_value array(uint32_t element, const void* data, uint64_t count) {
  tenon_value value = {};
  value.struct_size = sizeof value, value.type = TENON_VALUE_ARRAY, value.element = element, value.data = data, value.count = count;
  return value;
}

}  // namespace

TokenizerKeys::TokenizerKeys(const Metadata& model, FileKeys& out) {
  if (const tenon_value* text = model.find(kTemplate)) out.copy(kTemplate, *text);
  if (!model.find(text::kTokenizerJsonKey)) {
    out.erase(kModel);
    return;
  }
  json_ = std::make_unique<text::TokenizerJson>(model);
  if (!out.find(kModel)) out.copy(kModel, *json_->find(kModel));
  const tenon_value kind = *out.find(kModel);
  if (view(kind.string) == "characters")
    throw Error(ErrorKind::kFile, "tokenizer.json: BPE over characters has a name in GGUF for Gemma's models only");
  const bool by_score = view(kind.string) == "llama";
  if (const tenon_value* pre = json_->find("tokenizer.ggml.pre")) out.copy("tokenizer.ggml.pre", *pre);
  out.copy(kTokens, *json_->find(kTokens));
  copy_types(view(kind.string) == "gemma4", out);
  if (view(kind.string) != "gpt2") add_scores(out);
  if (!by_score) out.copy(kMerges, *json_->find(kMerges));
  copy_ids(out);
  for (const char* key : {"tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_space_prefix"}) out.copy(key, *json_->find(key));
  if (*json_->boolean(text::kComposesKey)) out.copy(text::kComposesKey, *json_->find(text::kComposesKey));
  if (*json_->boolean(text::kIgnoresMergesKey)) out.copy(text::kIgnoresMergesKey, *json_->find(text::kIgnoresMergesKey));
}

// Readers of GGUF files hide control tokens; Gemma 4's markers of tools and channels are for the caller.
void TokenizerKeys::copy_types(bool has_markers, FileKeys& out) {
  const auto types = *json_->integers(kTypes);
  const auto tokens = *json_->strings(kTokens);
  types_.assign(types.begin(), types.end());
  for (const std::string_view marker : text::gemma4_markers())
    for (size_t i = 0; has_markers && i < types_.size(); ++i)
      if (types_[i] == int32_t(TokenType::kControl) && view(tokens[i]) == marker) types_[i] = int32_t(TokenType::kUserDefined);
  out.copy(kTypes, array(TENON_VALUE_I32, types_.data(), types_.size()));
}

// Where a vocabulary is merged by scores, the order of the merges is said by them: the first to make a token counts.
void TokenizerKeys::add_scores(FileKeys& out) {
  const auto tokens = *json_->strings(kTokens), merges = *json_->strings(kMerges);
  std::unordered_map<std::string, float> rank;
  for (size_t i = 0; i < merges.size(); ++i) {
    const std::string_view pair = view(merges[i]);
    const size_t space = pair.find(' ', 1);  // a merge's parts hold none
    if (space == std::string_view::npos) continue;
    rank.emplace(std::string(pair.substr(0, space)) + std::string(pair.substr(space + 1)), -float(i));
  }
  const float last = -float(merges.size()) - 1;
  for (const tenon_str& token : tokens) {
    const auto found = rank.find(std::string(view(token)));
    scores_.push_back(found == rank.end() ? last : found->second);
  }
  out.copy("tokenizer.ggml.scores", array(TENON_VALUE_F32, scores_.data(), scores_.size()));
}

void TokenizerKeys::set_ids(std::string_view key, const std::vector<int64_t>& ids, FileKeys& out) {
  if (ids.empty()) return;
  const auto& kept = ids_.emplace_back(ids.begin(), ids.end());
  out.copy(key, array(TENON_VALUE_I32, kept.data(), kept.size()));
}

void TokenizerKeys::copy_ids(FileKeys& out) {
  for (const char* name : {"bos", "eos", "unknown", "padding"}) {
    const std::string key = std::string("tokenizer.ggml.") + name + "_token_id";
    if (const auto id = json_->integer(key)) out.set_u32(key, uint32_t(*id));
  }
  set_ids("tokenizer.ggml.suppress_tokens", json_->integers("tokenizer.ggml.suppress_tokens").value_or(std::vector<int64_t>()), out);
  // GGUF knows two ends: the text's and a turn's. More go under a name of our own.
  const auto eos = json_->integer("tokenizer.ggml.eos_token_id");
  std::vector<int64_t> others;
  for (const int64_t id : json_->integers(text::kEndIdsKey).value_or(std::vector<int64_t>()))
    if (id != eos && std::find(others.begin(), others.end(), id) == others.end()) others.push_back(id);
  if (!others.empty()) out.set_u32("tokenizer.ggml.eot_token_id", uint32_t(others[0]));
  if (others.size() > 1) set_ids(text::kEndIdsKey, others, out);
}

}  // namespace tenon::quantize
