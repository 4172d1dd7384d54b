#include <gtest/gtest.h>

#include <tenon/tokenizer.hpp>

namespace tenon {
namespace {

std::string streamed(std::string_view bytes, size_t first, size_t second) {
  TextStream stream;
  std::string out = stream.push(bytes.substr(0, first));
  out += stream.push(bytes.substr(first, second - first));
  out += stream.push(bytes.substr(second));
  return out + stream.finish();
}

TEST(TextStream, EverySplitGivesTheSameText) {
  const std::string text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x81z\xED\x9F\xBF\xF4\x8F\xBF\xBF";
  for (size_t i = 0; i <= text.size(); ++i) {
    for (size_t j = i; j <= text.size(); ++j) EXPECT_EQ(streamed(text, i, j), text) << i << " " << j;
  }
}

TEST(TextStream, EverySplitOfBrokenTextGivesTheSameText) {
  const std::string text =
      "\xFF"
      "a\xE2\x82"
      "b\xC0\xAF\xF0\x9F\x98\xED\xA0\x80\x80\xE2\x82\xAC\xF4\x90";
  const std::string expected = streamed(text, 0, 0);
  EXPECT_EQ(expected,
            "\xEF\xBF\xBD"
            "a\xEF\xBF\xBD"
            "b"                                                 // FF; E2 82 without its end
            "\xEF\xBF\xBD\xEF\xBF\xBD"                          // C0 AF: no character begins with C0
            "\xEF\xBF\xBD"                                      // F0 9F 98
            "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"  // ED A0 80: a surrogate; a lone 80
            "\xE2\x82\xAC"
            "\xEF\xBF\xBD\xEF\xBF\xBD");  // F4 90: above U+10FFFF
  for (size_t i = 0; i <= text.size(); ++i) {
    for (size_t j = i; j <= text.size(); ++j) EXPECT_EQ(streamed(text, i, j), expected) << i << " " << j;
  }
}

TEST(TextStream, HoldsBackAnIncompleteCharacter) {
  TextStream stream;
  EXPECT_EQ(stream.push("x\xF0\x9F"), "x");
  EXPECT_EQ(stream.push("\x98"), "");
  EXPECT_EQ(stream.push("\x81y"), "\xF0\x9F\x98\x81y");
  EXPECT_EQ(stream.finish(), "");
}

TEST(TextStream, FinishShowsAnIncompleteTailOnce) {
  TextStream stream;
  EXPECT_EQ(stream.push("\xE2\x82"), "");
  EXPECT_EQ(stream.finish(), "\xEF\xBF\xBD");
  EXPECT_EQ(stream.finish(), "");
}

}  // namespace
}  // namespace tenon
