#include <tenon/error.hpp>
#include <tenon/tokenizer.hpp>

#include "source/metadata.hpp"
#include "text/kinds.hpp"
#include "text/tokenizer_json.hpp"

namespace tenon {

std::shared_ptr<const Tokenizer> make_tokenizer(const Metadata& metadata) {
  constexpr std::string_view kKey = "tokenizer.ggml.model";
  const auto model = metadata.string(kKey);
  if (!model && metadata.find(text::kTokenizerJsonKey)) return make_tokenizer(text::TokenizerJson(metadata));
  if (!model)
    throw Error(ErrorKind::kFile, std::string(kKey) + ": missing, and no tokenizer.json is beside the weights; the model has no tokenizer");
  if (*model == "llama") return text::make_spm_tokenizer(metadata);
  if (*model == "gpt2") return text::make_bpe_tokenizer(metadata);
  if (*model == "gemma4") return text::make_gemma4_tokenizer(metadata);
  if (*model == "characters") return text::make_character_tokenizer(metadata);
  throw Error(ErrorKind::kFile, std::string(kKey) + ": '" + std::string(model->substr(0, 80)) +
                                    "' is not supported; expected llama, gpt2 or gemma4");
}

}  // namespace tenon
