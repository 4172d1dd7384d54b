#include "text/pretokenizer.hpp"

#include <cstdint>

#include "text/code_points.hpp"

namespace tenon::text {
namespace {

using Pieces = std::vector<std::string_view>;

struct Char {
  char32_t value = 0;
  uint8_t classes = 0;
  size_t end = 0;      // position behind it
  bool there = false;  // false: behind the end of the text; then it belongs to no class

  bool in(unsigned mask) const { return (classes & mask) != 0; }
  // In [^…]: there, and in none of the classes.
  bool outside(unsigned mask) const { return there && !in(mask); }
  bool is(char c) const { return there && value == static_cast<char32_t>(c); }
};

// One alternative after another at one position; each gives the end of its match or, for none, the position itself.
class Matcher {
 public:
  explicit Matcher(std::string_view text) : text_(text) {}

  Char at(size_t pos) const {
    if (pos >= text_.size()) return {.end = text_.size()};
    const CodePoint c = decode_at(text_, pos);
    return {c.value, classes_of(c.value), pos + c.size, true};
  }

  // [mask]{0,limit}
  size_t run_in(size_t pos, unsigned mask, size_t limit = SIZE_MAX) const {
    for (Char c = at(pos); limit != 0 && c.in(mask); c = at(pos), --limit) pos = c.end;
    return pos;
  }
  // [^mask]*
  size_t run_outside(size_t pos, unsigned mask) const {
    for (Char c = at(pos); c.outside(mask); c = at(pos)) pos = c.end;
    return pos;
  }

  // 's|'t|'re|'ve|'m|'ll|'d
  size_t contraction(size_t pos, bool any_case) const {
    if (text_[pos] != '\'') return pos;
    const char first = letter(pos + 1, any_case), second = letter(pos + 2, any_case);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return pos + 2;
    if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l'))
      return pos + 3;
    return pos;
  }

  // [^\r\n{barred}]?[word]+
  size_t word(size_t pos, unsigned word, unsigned barred) const {
    const Char first = at(pos);
    if (first.in(word)) return run_in(first.end, word);
    if (!first.outside(barred | kNewline)) return pos;
    const size_t end = run_in(first.end, word);
    return end == first.end ? pos : end;
  }

  // " ?[^barred]+[\r\n]*", the newlines only `with_newlines`
  size_t others(size_t pos, unsigned barred, bool with_newlines) const {
    const size_t begin = text_[pos] == ' ' ? pos + 1 : pos;
    const size_t end = run_outside(begin, barred);
    if (end == begin) return pos;
    return with_newlines ? run_in(end, kNewline) : end;
  }

  // \s*[\r\n]+|\s+(?!\S)|\s+, or without the first alternative
  size_t spaces(size_t pos, bool with_newlines) const {
    size_t end = pos, last = pos, behind_newline = pos;
    for (Char c = at(end); c.in(kSpace); c = at(end)) {
      last = end;
      end = c.end;
      if (c.in(kNewline)) behind_newline = end;
    }
    if (with_newlines && behind_newline != pos) return behind_newline;
    if (end == text_.size() || last == pos) return end;  // the look-ahead holds, or leaves nothing: the whole run
    return last;
  }

 private:
  char letter(size_t pos, bool any_case) const {
    if (pos >= text_.size()) return 0;
    const char c = text_[pos];
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  }

  std::string_view text_;
};

// Calls match(matcher, pos) from the left; what matches nowhere becomes a piece of its own between the matches.
template <class Match>
void split_with(std::string_view text, Pieces& pieces, const Match& match) {
  const Matcher matcher(text);
  size_t gap = 0, pos = 0;
  while (pos < text.size()) {
    const size_t end = match(matcher, pos);
    if (end == pos) {
      pos = matcher.at(pos).end;
      continue;
    }
    if (gap != pos) pieces.push_back(text.substr(gap, pos - gap));
    pieces.push_back(text.substr(pos, end - pos));
    gap = pos = end;
  }
  if (gap != pos) pieces.push_back(text.substr(gap));
}

// '(s|t|re|ve|m|ll|d)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)
void split_gpt2(std::string_view text, Pieces& pieces) {
  split_with(text, pieces, [text](const Matcher& m, size_t pos) {
    if (const size_t end = m.contraction(pos, false); end != pos) return end;
    const size_t begin = text[pos] == ' ' ? pos + 1 : pos;
    if (const size_t end = m.run_in(begin, kLetter); end != begin) return end;
    if (const size_t end = m.run_in(begin, kNumber); end != begin) return end;
    if (const size_t end = m.others(pos, kSpace | kLetter | kNumber, false); end != pos) return end;
    return m.spaces(pos, false);
  });
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[word]+|\p{N}{1,digits}|
// ?[^\s{word}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
template <unsigned kWord, size_t kDigits>
void split_cl100k(std::string_view text, Pieces& pieces) {
  split_with(text, pieces, [](const Matcher& m, size_t pos) {
    if (const size_t end = m.contraction(pos, true); end != pos) return end;
    if (const size_t end = m.word(pos, kWord, kLetter | kNumber); end != pos) return end;
    if (const size_t end = m.run_in(pos, kNumber, kDigits); end != pos) return end;
    if (const size_t end = m.others(pos, kSpace | kWord | kNumber, true); end != pos) return end;
    return m.spaces(pos, true);
  });
}

bool is_ascii_letter(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

// The third expression of split_deepseek_v3:
// [ASCII punctuation][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
void split_deepseek_words(std::string_view text, Pieces& pieces) {
  split_with(text, pieces, [text](const Matcher& m, size_t pos) {
    constexpr unsigned kSigns = kPunctuation | kSymbol;
    const auto first = static_cast<uint8_t>(text[pos]);
    if (first < 0x80 && (classes_of(first) & kSigns) != 0) {
      size_t end = pos + 1;
      while (end < text.size() && is_ascii_letter(text[end])) ++end;
      if (end != pos + 1) return end;
    }
    if (const size_t end = m.word(pos, kLetter | kMark, kLetter | kSigns); end != pos) return end;
    const size_t begin = text[pos] == ' ' ? pos + 1 : pos;
    if (const size_t end = m.run_in(begin, kSigns); end != begin) return m.run_in(end, kNewline);
    return m.spaces(pos, true);
  });
}

bool is_cjk_or_kana(char32_t c) { return (c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x30FF); }

// Three expressions, each on the pieces of the one before: \p{N}{1,3}, then [一-龥぀-ゟ゠-ヿ]+, then the words
// above.
void split_deepseek_v3(std::string_view text, Pieces& pieces) {
  Pieces numbers, scripts;
  split_with(text, numbers, [](const Matcher& m, size_t pos) { return m.run_in(pos, kNumber, 3); });
  for (std::string_view piece : numbers) {
    split_with(piece, scripts, [](const Matcher& m, size_t pos) {
      for (Char c = m.at(pos); c.there && is_cjk_or_kana(c.value); c = m.at(pos)) pos = c.end;
      return pos;
    });
  }
  for (std::string_view piece : scripts) split_deepseek_words(piece, pieces);
}

struct Entry {
  std::string_view name;
  Pretokenizer pretokenizer;
};

constexpr Pretokenizer kGpt2{"gpt-2", split_gpt2, false, false};
constexpr Pretokenizer kLlama3{"llama3", split_cl100k<kLetter, 3>, true, true};
constexpr Pretokenizer kQwen2{"qwen2", split_cl100k<kLetter, 1>, false, false};
constexpr Pretokenizer kQwen35{"qwen35", split_cl100k<kLetter | kMark, 1>, false, false};
constexpr Pretokenizer kDeepseekV3{"deepseek-v3", split_deepseek_v3, false, false};

constexpr Entry kEntries[] = {
    {"gpt-2", kGpt2},
    {"default", kGpt2},
    {"llama3", kLlama3},
    {"llama-v3", kLlama3},
    {"llama-bpe", kLlama3},
    {"qwen2", kQwen2},
    {"deepseek-r1-qwen", kQwen2},
    {"qwen35", kQwen35},
    {"deepseek-v3", kDeepseekV3},
};

}  // namespace

const Pretokenizer* find_pretokenizer(std::string_view name) {
  for (const Entry& entry : kEntries) {
    if (entry.name == name) return &entry.pretokenizer;
  }
  return nullptr;
}

std::string_view known_pretokenizers() {
  return "gpt-2, default, llama3, llama-v3, llama-bpe, qwen2, deepseek-r1-qwen, qwen35, deepseek-v3";
}

}  // namespace tenon::text
