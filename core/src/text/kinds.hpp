// kinds.hpp: one factory for each kind of vocabulary; see make_tokenizer() for errors.
#pragma once

#include <memory>
#include <tenon/tokenizer.hpp>

namespace tenon::text {

std::shared_ptr<const Tokenizer> make_spm_tokenizer(const Metadata& metadata);
std::shared_ptr<const Tokenizer> make_bpe_tokenizer(const Metadata& metadata);
std::shared_ptr<const Tokenizer> make_gemma4_tokenizer(const Metadata& metadata);
std::shared_ptr<const Tokenizer> make_character_tokenizer(const Metadata& metadata);  // of a tokenizer.json

}  // namespace tenon::text
