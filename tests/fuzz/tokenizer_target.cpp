// A vocabulary and a text. Bytes, in order: kind, pre-tokenizer, flags, the ids of BOS, EOS and the unknown token, the
// number of tokens; for each its type, score, length and text; the number of merges, each two tokens by number; what is
// left is the text.
#include <algorithm>
#include <array>
#include <tenon/error.hpp>
#include <tenon/tokenizer.hpp>

#include "fake_metadata.hpp"
#include "target.hpp"
#include "text/byte_map.hpp"
#include "vocabularies.hpp"

namespace {

using tenon::fuzz::require;
namespace test = tenon::test;

class Reader {
 public:
  Reader(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}
  uint8_t byte() { return rest_.empty() ? 0 : static_cast<uint8_t>(take(1)[0]); }
  std::string_view text() { return take(byte()); }
  std::string_view rest() { return take(rest_.size()); }

 private:
  std::string_view take(size_t n) {
    const std::string_view taken = rest_.substr(0, n);
    rest_.remove_prefix(taken.size());
    return taken;
  }
  std::string_view rest_;
};

struct Flags {
  bool all_bytes, add_bos, space_prefix, has_types, has_scores, parse_special, as_spelled, says_prefix;
  explicit Flags(uint8_t bits)
      : all_bytes(bits & 1),
        add_bos(bits & 2),
        space_prefix(bits & 4),
        has_types(bits & 8),
        has_scores(bits & 16),
        parse_special(bits & 32),
        as_spelled(bits & 64),
        says_prefix(bits & 128) {}
};

constexpr std::array kModels = {"llama", "gpt2", "gemma4", "t5"};
constexpr std::array kPretokenizers = {"gpt-2", "llama3", "qwen2", "qwen35", "deepseek-v3", "default", "unknown"};

struct Input {
  test::FakeMetadata metadata;
  Flags flags;
  std::string model;
  std::vector<test::TokenSpec> tokens;
  std::vector<std::string> joined;  // what the merges make
  std::string text;
  explicit Input(Reader& in);

 private:
  void read_tokens(Reader& in);
  void read_merges(Reader& in);
};

Input::Input(Reader& in) : flags(0) {
  model = kModels[in.byte() % kModels.size()];
  const uint8_t pre = in.byte() % (kPretokenizers.size() + 1);
  flags = Flags(in.byte());
  metadata.set_string("tokenizer.ggml.model", model);
  if (pre < kPretokenizers.size()) metadata.set_string("tokenizer.ggml.pre", kPretokenizers[pre]);
  for (const char* key : {"bos", "eos", "unknown"})
    metadata.set_integer("tokenizer.ggml." + std::string(key) + "_token_id", in.byte());
  metadata.set_bool("tokenizer.ggml.add_bos_token", flags.add_bos);
  if (flags.says_prefix) metadata.set_bool("tokenizer.ggml.add_space_prefix", flags.space_prefix);
  read_tokens(in);
  read_merges(in);
  text = in.rest();
}

void Input::read_tokens(Reader& in) {
  if (flags.all_bytes && model == "gpt2") tokens = test::stand_in_tokens();
  // Without a token for the mark, the bytes of a space are the mark's.
  if (flags.all_bytes && model != "gpt2") tokens = test::byte_tokens() + std::vector<test::TokenSpec>{{"\xE2\x96\x81"}};
  const uint8_t count = in.byte();
  for (int i = 0; i < count; ++i) {
    test::TokenSpec token;
    token.type = in.byte() % 8;
    token.score = static_cast<float>(static_cast<int8_t>(in.byte()));
    token.text = in.text();
    const bool is_bytes = model == "gpt2" && !flags.as_spelled && token.type == test::kNormal;
    if (is_bytes) token.text = tenon::text::to_stand_ins(token.text);
    tokens.push_back(token);
  }
  test::set_tokens(metadata, tokens);
  if (!flags.has_types) metadata.erase("tokenizer.ggml.token_type");
  if (!flags.has_scores) metadata.erase("tokenizer.ggml.scores");
}

void Input::read_merges(Reader& in) {
  std::vector<std::string> merges;
  const uint8_t count = in.byte();
  for (int i = 0; i < count && !tokens.empty(); ++i) {
    const size_t left = in.byte() | in.byte() << 8, right = in.byte() | in.byte() << 8;
    const std::string &a = tokens[left % tokens.size()].text, &b = tokens[right % tokens.size()].text;
    merges.push_back(a + " " + b);
    joined.push_back(a + b);
  }
  metadata.set_strings("tokenizer.ggml.merges", merges);
}

// Whether the vocabulary can write every text and has nothing that is written otherwise than it is read: tokens that
// decoding leaves out, U+2581, which comes back as a space, the space that SentencePiece puts before fragments, and
// merges into what is no token, whose marks for spaces end as bytes.
bool gives_texts_back(const Input& input, const tenon::Tokenizer& tokenizer) {
  if (!input.flags.all_bytes || input.text.find("\xE2\x96\x81") != std::string::npos) return false;
  if (input.model == "gemma4")
    for (const std::string& piece : input.joined)
      if (!tokenizer.find(piece)) return false;
  for (int32_t id = 0; id < tokenizer.size(); ++id) {
    const tenon::TokenType type = tokenizer.type(id);
    if (type == tenon::TokenType::kUnused) return false;
    if (type == tenon::TokenType::kUserDefined && tokenizer.drops_leading_space()) return false;
  }
  return true;
}

// Where a vocabulary lacks the token that a merge makes, a space stays the mark U+2581 that stood for it.
std::string with_spaces(const std::string& text) {
  static const std::string mark = "\u2581";
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const bool is_mark = text.compare(i, mark.size(), mark) == 0;
    out += is_mark ? ' ' : text[i];
    i += is_mark ? mark.size() : 1;
  }
  return out;
}

void check(const Input& input, const tenon::Tokenizer& tokenizer) {
  const tenon::EncodeOptions how = {.add_bos = true, .parse_special = input.flags.parse_special};
  const std::vector<int32_t> ids = tokenizer.encode(input.text, how);
  require(std::all_of(ids.begin(), ids.end(), [&](int32_t id) { return id >= 0 && id < tokenizer.size(); }),
          "ids are in the vocabulary");
  require(tokenizer.encode(input.text, how) == ids, "encoding repeats");
  std::string joined;
  for (int32_t id : ids) joined += tokenizer.piece(id, true);
  const std::string decoded = tokenizer.decode(ids, true);
  require(joined.size() - decoded.size() <= 1, "decoding joins the pieces");
  tenon::TextStream stream;
  stream.push(decoded);
  stream.finish();
  if (!gives_texts_back(input, tokenizer)) return;
  const std::vector<int32_t> plain = tokenizer.encode(input.text, {.add_bos = false, .parse_special = false});
  const std::string back = tokenizer.decode(plain);
  require(with_spaces(back) == with_spaces(input.text), "a text comes back: '" + input.text + "', not '" + back + "'");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Reader reader(data, size);
  const Input input(reader);
  try {
    check(input, *tenon::make_tokenizer(input.metadata));
  } catch (const tenon::Error& error) {
    require(error.kind() == tenon::ErrorKind::kFile, std::string("kind of: ") + error.what());
    require(std::string_view(error.what()).starts_with("tokenizer.ggml."), std::string("key of: ") + error.what());
  }
  return 0;
}
