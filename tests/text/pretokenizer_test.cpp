#include "text/pretokenizer.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <gtest/gtest.h>
#include <pcre2.h>

#include <chrono>
#include <memory>
#include <random>
#include <string>

namespace tenon::text {
namespace {

using Pieces = std::vector<std::string>;

Pieces split(std::string_view name, std::string_view text) {
  const Pretokenizer* pretokenizer = find_pretokenizer(name);
  if (pretokenizer == nullptr) return {"unknown name"};
  std::vector<std::string_view> views;
  pretokenizer->split(text, views);
  return {views.begin(), views.end()};
}

// The published expressions, run by a regular-expression library on one piece after another.
class Expression {
 public:
  explicit Expression(const std::string& pattern) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF | PCRE2_UCP,
                              &error, &offset, nullptr));
    EXPECT_NE(code_, nullptr) << pattern << " at " << offset;
    match_.reset(pcre2_match_data_create_from_pattern(code_.get(), nullptr));
  }

  Pieces split(const Pieces& pieces) const {
    Pieces out;
    for (const std::string& text : pieces) {
      size_t gap = 0;
      while (gap < text.size()) {
        const int count = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), gap, 0,
                                      match_.get(), nullptr);
        if (count < 0) break;
        const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match_.get());
        if (range[0] != gap) out.push_back(text.substr(gap, range[0] - gap));
        out.push_back(text.substr(range[0], range[1] - range[0]));
        gap = range[1];
      }
      if (gap < text.size()) out.push_back(text.substr(gap));
    }
    return out;
  }

 private:
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
    void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
  };
  std::unique_ptr<pcre2_code, Free> code_;
  std::unique_ptr<pcre2_match_data, Free> match_;
};

struct Published {
  std::string name;
  std::vector<std::string> patterns;
};

std::string cl100k(const std::string& word, const std::string& digits) {
  return "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[" + word + "]+|" + digits + "| ?[^\\s" + word +
         "\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
}

std::vector<Published> published() {
  return {
      {"gpt-2", {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))"}},
      {"llama-bpe", {cl100k("\\p{L}", "\\p{N}{1,3}")}},
      {"qwen2", {cl100k("\\p{L}", "\\p{N}")}},
      {"qwen35", {cl100k("\\p{L}\\p{M}", "\\p{N}")}},
      {"deepseek-v3",
       {R"(\p{N}{1,3})", R"([一-龥぀-ゟ゠-ヿ]+)",
        R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*)"
        R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"}}};
}

TEST(Pretokenizer, SplitsLikeThePublishedExpressions) {
  const std::vector<std::string> alphabet = {
      "a",      "b",        "T",      "s",       "l",      "ll", "re", "'",    "'",         "'S", "'Ll",
      " ",      " ",        "  ",     "\t",      "\n",     "\n", "\r", "\r\n", "1",         "22", "7",
      "½",      "٣",        "é",      "e\u0301", "\u0301", "Ж",  "一", "龥",   "か",        "ー", "ヿ",
      "क्",      "👨\u200D👩", "€",      "$",       "+",      "!",  ".",  "_",    "-",         "“",  "\u00A0",
      "\u2003", "\u3000",   "\u0085", "\u200B",  "\u0007", "ǅ",  "ʰ",  "Ⅷ",    "\U000E0100"};
  std::mt19937 random(5);
  for (const Published& model : published()) {
    std::vector<Expression> expressions;
    for (const std::string& pattern : model.patterns) expressions.emplace_back(pattern);
    for (int round = 0; round < 3000; ++round) {
      std::string text;
      const size_t length = random() % 14;
      for (size_t i = 0; i < length; ++i) text += alphabet[random() % alphabet.size()];
      Pieces expected = {text};
      for (const Expression& expression : expressions) expected = expression.split(expected);
      if (text.empty()) expected.clear();
      ASSERT_EQ(split(model.name, text), expected) << model.name << ": " << testing::PrintToString(text);
    }
  }
}

TEST(Pretokenizer, LastSpaceOfARunJoinsTheWord) {
  EXPECT_EQ(split("qwen35", "a   b"), (Pieces{"a", "  ", " b"}));
  EXPECT_EQ(split("qwen35", "a   "), (Pieces{"a", "   "}));
  EXPECT_EQ(split("qwen35", "a \n \n  b"), (Pieces{"a", " \n \n", " ", " b"}));
}

TEST(Pretokenizer, DigitsComeInGroupsOfTheModel) {
  EXPECT_EQ(split("llama-bpe", "1234567"), (Pieces{"123", "456", "7"}));
  EXPECT_EQ(split("deepseek-v3", "x1234"), (Pieces{"x", "123", "4"}));
  EXPECT_EQ(split("qwen2", "123"), (Pieces{"1", "2", "3"}));
  EXPECT_EQ(split("gpt-2", " 1234"), (Pieces{" 1234"}));
}

TEST(Pretokenizer, CombiningMarksJoinLettersOnlyInQwen35) {
  EXPECT_EQ(split("qwen35", "xe\u0301y"), (Pieces{"xe\u0301y"}));
  EXPECT_EQ(split("qwen2", "xe\u0301y"), (Pieces{"xe", "\u0301y"}));
}

TEST(Pretokenizer, BrokenBytesStayInTheText) {
  for (const Published& model : published()) {
    const std::string text = "ab\xFF\xFE c\xE2\x82 d\xF0\x9F";
    std::string joined;
    for (const std::string& piece : split(model.name, text)) joined += piece;
    EXPECT_EQ(joined, text) << model.name;
  }
}

TEST(Pretokenizer, TakesLinearTimeOnAMegabyteOfOneCharacter) {
  for (const Published& model : published()) {
    for (const std::string unit : {"x", " ", "\n", "1", "'", "!", "\u0301", "\u0007", "一", " \n"}) {
      std::string text;
      while (text.size() < (size_t{1} << 20)) text += unit;
      const auto begin = std::chrono::steady_clock::now();
      split(model.name, text + "x");
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
      EXPECT_LT(seconds.count(), 5.0) << model.name << " on " << testing::PrintToString(unit);  // quadratic: hours
    }
  }
}

TEST(Pretokenizer, UnknownNameIsNotFound) { EXPECT_EQ(find_pretokenizer("no-such-model"), nullptr); }

}  // namespace
}  // namespace tenon::text
