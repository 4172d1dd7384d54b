// What the family does not serve, it refuses in words.
#include <gtest/gtest.h>

#include "blocks.hpp"
#include "driver.hpp"

namespace tenon::block_test {
namespace {

using testing::OpCase;
using testing::Step;
using ::testing::Test;

OpCase case_of(const Weight& w, int64_t cols, uint32_t flags = 0) {
  tenon_linear_attr attr = {sizeof(tenon_linear_attr), flags};
  OpCase c(TENON_OP_LINEAR, attr, Step::plain(1));
  c.input(1, cols, std::vector<float>(static_cast<size_t>(cols))).weight(w).output(w.rows);
  return c;
}

std::string why(const OpCase& c, const char* kernel = "block.linear.portable") {
  const auto result = testing::offer_of(kit().kernel(kernel), c);
  EXPECT_FALSE(result.accepted);
  return result.why_not;
}

TEST(Refusals, NameTheDtypeThatIsNotServed) {
  kit();
  EXPECT_NE(why(case_of(Weight::encoded("f32", 4, 64, std::vector<float>(256)), 64)).find("f32"), std::string::npos);
}

TEST(Refusals, NameColumnsThatDoNotFit) {
  kit();
  Random random(1);
  EXPECT_NE(why(case_of(random_weight("q8_0", 4, 64, random), 96)).find("96"), std::string::npos);
  Weight cut = random_weight("q4_k", 4, 512, random);
  cut.cols = 320;
  EXPECT_NE(why(case_of(cut, 320)).find("320"), std::string::npos);
}

TEST(Refusals, LeaveRoutersBanksAndPinnedFoldsToOthers) {
  kit();
  Random random(1);
  Weight w = random_weight("q8_0", 4, 64, random);
  EXPECT_NE(why(case_of(w, 64, TENON_WEIGHT_ROUTER)).find("router"), std::string::npos);
  w.parts = 2;
  EXPECT_NE(why(case_of(w, 64)).find("pinned"), std::string::npos);
  w.parts = 0, w.n_expert = 4;
  EXPECT_NE(why(case_of(w, 64)).find("expert"), std::string::npos);
}

TEST(Refusals, EmbedLeavesATableInTheFilesLayout) {
  kit();
  Random random(1);
  tenon_embed_attr attr = {sizeof(tenon_embed_attr), 1.0f};
  OpCase c(TENON_OP_EMBED, attr, Step::plain(1));
  c.ids(1, 1, {0}).weight(random_weight("q8_0", 4, 64, random)).output(64);
  EXPECT_NE(why(c, "block.embed").find("in the file"), std::string::npos);
}

TEST(Refusals, PackingNamesASliceThatDoesNotFit) {
  kit();
  Random random(1);
  const Weight w = random_weight("q8_0", 40, 64, random);
  const uint32_t layout = testing::offer_of(kit().kernel("block.linear.portable"), case_of(w, 64)).offer.pack_layout[0];
  EXPECT_THROW(pack(kit().kernel("block.linear.portable"), w, layout, 24), std::runtime_error);
  EXPECT_NE(kit().error().find("slices"), std::string::npos);
  EXPECT_THROW(pack(kit().kernel("block.linear.portable"), w, 5), std::runtime_error);
}

}  // namespace
}  // namespace tenon::block_test
