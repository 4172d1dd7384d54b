// What a load shows.
#include <gtest/gtest.h>

#include <array>

#include "console.hpp"
#include "processes.hpp"
#include "arguments.hpp"

namespace tenon::launcher {
namespace {

TEST(ProgressBar, ShowsOneRankAsAWhole) {
  const std::array one = {Progress{"pack", 50'000'000, 200'000'000}};
  EXPECT_EQ(ProgressBar::line(one, 0.5), "pack [######..................] 25% of 200.0 MB  100.0 MB/s  2 s left");
}

TEST(ProgressBar, ShowsHowFarEachRankIs) {
  const std::array ranks = {Progress{"pack", 100, 100, 0}, Progress{"pack", 25, 100, 1}, Progress{"pack", 0, 100, 2}};
  const std::string line = ProgressBar::line(ranks, 0);
  EXPECT_TRUE(line.starts_with("pack [##########..............] 42% of ")) << line;
  EXPECT_TRUE(line.ends_with("  ranks 100% 25% 0%")) << line;
}

TEST(Processes, AreThoseOfTheEnvironment) {
  const auto of = [](const Environment& environment) {
    const Processes found = processes_of(environment);
    return std::pair(found.n, found.rank);
  };
  EXPECT_EQ(of({}), std::pair(1u, 0u));
  EXPECT_EQ(of({{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "3"}}), std::pair(4u, 3u));
  EXPECT_EQ(of({{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}}), std::pair(2u, 1u));
  EXPECT_EQ(of({{"OMPI_COMM_WORLD_RANK", "3"}}), std::pair(1u, 0u)) << "a rank without a number of them";
  EXPECT_EQ(of({{"PMI_SIZE", "many"}, {"PMI_RANK", "1"}}), std::pair(1u, 0u));
}

}  // namespace
}  // namespace tenon::launcher
