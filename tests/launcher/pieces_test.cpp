#include "pieces.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tenon::launcher {
namespace {

TEST(Pieces, CoverTheInputOnTheGridAndNeverEndInAShortOne) {
  for (int64_t size : {128, 256, 512})
    for (int64_t n = 1; n <= 1200; ++n) {
      const std::vector<Piece> pieces = plan_pieces(n, size, true);
      int64_t at = 0;
      for (const Piece& piece : pieces) {
        ASSERT_EQ(piece.begin, at);
        ASSERT_EQ(piece.begin % kGrid, 0);
        ASSERT_LE(piece.end - piece.begin, size);
        ASSERT_GE(piece.end - piece.begin, pieces.size() == 1 ? 1 : kMinPrefill) << n;
        at = piece.end;
      }
      ASSERT_EQ(at, n);
    }
}

TEST(Pieces, AShortTailTakesAGridStepFromThePieceBefore) {
  EXPECT_EQ(plan_pieces(520, 512, true), (std::vector<Piece>{{0, 448}, {448, 520}}));
  EXPECT_EQ(plan_pieces(528, 512, true), (std::vector<Piece>{{0, 512}, {512, 528}}));
  EXPECT_EQ(plan_pieces(15, 512, true), (std::vector<Piece>{{0, 15}}));
  EXPECT_EQ(plan_pieces(25, 12, false), (std::vector<Piece>{{0, 12}, {12, 24}, {24, 25}}));
}

TEST(Pieces, AreSmallerForLargeVocabularies) {
  EXPECT_EQ(piece_size(1024, 1), 512);
  EXPECT_EQ(piece_size(262144, 1), 256);
  EXPECT_EQ(piece_size(262144, 64), 128);
  EXPECT_EQ(piece_size(262144, 0), 512);
}

TEST(NegativeLogLikelihood, IsThatOfTheSoftmax) {
  const std::vector<float> even = {3, 3, 3, 3};
  EXPECT_DOUBLE_EQ(negative_log_likelihood(even, 2), std::log(4.0));
  const std::vector<float> large = {10000, 9999};
  EXPECT_NEAR(negative_log_likelihood(large, 1), 1 + std::log1p(std::exp(-1.0)), 1e-12);
  const std::vector<float> broken = {1, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_FALSE(std::isfinite(negative_log_likelihood(broken, 0)));
}

TEST(Argmax, TakesTheFirstOfEquals) {
  const std::vector<float> values = {1, 5, 2, 5};
  EXPECT_EQ(argmax(values), 1);
}

}  // namespace
}  // namespace tenon::launcher
