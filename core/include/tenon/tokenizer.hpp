// tokenizer.hpp: text to token ids and back, for every vocabulary kind the engine knows.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

class Metadata;  // source/metadata.hpp

enum class TokenType : uint8_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

struct EncodeOptions {
  bool add_bos = true;         // only where the model adds one
  bool parse_special = true;   // text of control tokens becomes the token; user-defined tokens always do
};

// Immutable after construction; every member may be called from any thread.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Never fails: what no token covers becomes byte tokens, or the unknown token where the vocabulary has no bytes.
  virtual std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const = 0;

  // Bytes of one token as generated text shows them: control tokens are empty unless `show_control`. The bytes need not
  // be whole UTF-8 characters: use TextStream to print. An id out of range gives "".
  virtual std::string piece(int32_t id, bool show_control = false) const = 0;

  // All pieces, with the rule for the first leading space of SentencePiece vocabularies.
  virtual std::string decode(std::span<const int32_t> ids, bool show_control = false) const = 0;

  virtual int32_t size() const = 0;
  virtual TokenType type(int32_t id) const = 0;
  virtual std::string_view token(int32_t id) const = 0;  // as the file spells it; "" out of range
  virtual std::optional<int32_t> find(std::string_view token) const = 0;
  virtual std::optional<int32_t> bos() const = 0;
  virtual std::optional<int32_t> eos() const = 0;
  virtual bool adds_bos() const = 0;
  virtual bool drops_leading_space() const = 0;
  virtual bool ends_generation(int32_t id) const = 0;
  virtual std::span<const int32_t> suppressed() const = 0;  // never to be sampled
  virtual std::string_view kind() const = 0;                // "spm", "bpe/qwen35", "gemma4"
  // What the user should know about the vocabulary (no pre-tokenizer named, tokens spelled alike); "" = nothing.
  virtual std::string_view warning() const = 0;
};

// From `tokenizer.ggml.*`. Throws Error(kFile) naming the key for a vocabulary that is malformed or of an unknown kind.
std::shared_ptr<const Tokenizer> make_tokenizer(const Metadata& metadata);

// Joins pieces into text and never hands out a part of a UTF-8 character. One thread.
class TextStream {
 public:
  // Appends bytes and returns what is complete; a byte that can begin no character becomes U+FFFD.
  std::string push(std::string_view bytes);
  // What is left, an incomplete tail as U+FFFD. Call once at the end.
  std::string finish();

 private:
  std::string pending_;
};

}  // namespace tenon
