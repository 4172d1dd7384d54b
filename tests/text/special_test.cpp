// Tokens that are cut out of text.
#include <gtest/gtest.h>

#include "vocabularies.hpp"

namespace tenon {
namespace {

using namespace test;

enum : int32_t { kEnd = 256, kEndLonger, kUserToken, kUnk, kXYZ };

std::shared_ptr<const Tokenizer> tokenizer() {
  FakeMetadata metadata;
  set_bpe(metadata, "gpt-2",
          {{"<e>", kControl}, {"<e>!", kControl}, {"<u>", kUser}, {"<unk>", kUnknown}, {"e>!?", kControl}}, {});
  return make_tokenizer(metadata);
}

TEST(SpecialTokens, LeftmostLongestWins) {
  EXPECT_EQ(tokenizer()->encode("a<e>b"), (Ids{'a', kEnd, 'b'}));
  EXPECT_EQ(tokenizer()->encode("<e>!?"), (Ids{kEndLonger, '?'}));
  EXPECT_EQ(tokenizer()->encode("<e<e>"), (Ids{'<', 'e', kEnd}));
  EXPECT_EQ(tokenizer()->encode("<e"), (Ids{'<', 'e'}));
  EXPECT_EQ(tokenizer()->encode("<e><e>"), (Ids{kEnd, kEnd}));
  EXPECT_EQ(tokenizer()->encode("<unk>"), (Ids{kUnk}));
}

TEST(SpecialTokens, OnlyUserDefinedOnesAreCutFromPlainText) {
  EXPECT_EQ(tokenizer()->encode("<e><u>", {.parse_special = false}), (Ids{'<', 'e', '>', kUserToken}));
}

TEST(SpecialTokens, ShownOnlyOnRequest) {
  EXPECT_EQ(tokenizer()->decode(Ids{'a', kEnd, kUserToken, kUnk, 'b'}), "a<u>b");
  EXPECT_EQ(tokenizer()->decode(Ids{'a', kEnd, kUserToken, kUnk, 'b'}, true), "a<e><u><unk>b");
}

}  // namespace
}  // namespace tenon
