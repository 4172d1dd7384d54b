// Vocabularies with all bytes give back any text.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <random>
#include <tenon/tokenizer.hpp>

#include "mini_gguf.hpp"
#include "text/byte_map.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

constexpr EncodeOptions kPlain{.add_bos = false, .parse_special = false};

std::vector<std::shared_ptr<const Tokenizer>> tokenizers() {
  std::vector<std::shared_ptr<const Tokenizer>> out;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(TENON_TEST_DATA) / "models")) {
    if (entry.path().extension() == ".gguf")
      out.push_back(make_tokenizer(*test::MiniGguf::read(entry.path().string())));
  }
  return out;
}

// U+2581 is what SentencePiece vocabularies write for a space: it comes back as one.
char32_t random_code_point(std::mt19937& random) {
  static constexpr char32_t kLimits[] = {0x80, 0x80, 0x80, 0x250, 0x3100, 0xA000, 0x20000, 0x110000};
  for (;;) {
    const char32_t c = random() % kLimits[random() % std::size(kLimits)];
    if ((c < 0xD800 || c > 0xDFFF) && c != 0x2581) return c;
  }
}

TEST(RoundTrip, RandomUnicodeComesBack) {
  std::mt19937 random(3);
  const auto all = tokenizers();
  ASSERT_GE(all.size(), 2u);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    const size_t length = random() % 40;
    for (size_t i = 0; i < length; ++i) text::append_utf8(text, random_code_point(random));
    for (const auto& tokenizer : all)
      ASSERT_EQ(tokenizer->decode(tokenizer->encode(text, kPlain)), text) << tokenizer->kind();
  }
}

TEST(RoundTrip, RandomBytesComeBack) {
  std::mt19937 random(4);
  const auto all = tokenizers();
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    const size_t length = random() % 40;
    for (size_t i = 0; i < length; ++i)
      text += static_cast<char>(random() % 2 == 0 ? 'a' + random() % 3 : random() % 256);
    if (text.find("\xE2\x96\x81") != std::string::npos) continue;
    for (const auto& tokenizer : all)
      ASSERT_EQ(tokenizer->decode(tokenizer->encode(text, kPlain)), text) << tokenizer->kind();
  }
}

TEST(RoundTrip, AMegabyteOfOneLetterIsFast) {
  const std::string text(size_t{1} << 20, 'a');
  for (const auto& tokenizer : tokenizers()) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, kPlain)), text);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    EXPECT_LT(seconds.count(), 10.0) << tokenizer->kind();  // a rescan for every merge: hours
  }
}

}  // namespace
}  // namespace tenon
