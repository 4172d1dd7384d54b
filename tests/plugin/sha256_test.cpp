#include "plugin/sha256.hpp"

#include <gtest/gtest.h>

#include <string>

namespace tenon::test {
namespace {

std::string hash(const std::string& text, size_t step = SIZE_MAX) {
  plugin::Sha256 sha;
  for (size_t i = 0; i < text.size(); i += std::min(step, text.size() - i))
    sha.update(text.data() + i, std::min(step, text.size() - i));
  return sha.hex();
}

// The examples of FIPS 180-2, appendix B, and the empty message.
TEST(Sha256, KnownAnswers) {
  EXPECT_EQ(hash(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hash(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesGiveTheSameHash) {
  const std::string text(321, 'x');
  for (size_t step = 1; step < 130; ++step) EXPECT_EQ(hash(text, step), hash(text)) << step;
}

}  // namespace
}  // namespace tenon::test
