#include "token_ids.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <tenon/error.hpp>

namespace tenon::launcher {
namespace {

using Ids = std::vector<int32_t>;

TEST(TokenIds, TakesCommasAndWhiteSpace) {
  EXPECT_EQ(parse_ids("--tokens", "1,2,3"), (Ids{1, 2, 3}));
  EXPECT_EQ(parse_ids("--tokens", " 4, 5\n6\t7 "), (Ids{4, 5, 6, 7}));
  EXPECT_EQ(parse_ids("--tokens", ""), Ids{});
}

TEST(TokenIds, NamesTheFlagAndWhatStandsWhere) {
  for (const char* text : {"1,x", "1,-2", "1,2.5", "1,99999999999"}) {
    try {
      parse_ids("--tokens", text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_NE(std::string(error.what()).find("--tokens"), std::string::npos);
      EXPECT_NE(std::string(error.what()).find("byte 2"), std::string::npos) << error.what();
    }
  }
}

TEST(TokenIds, ReadsAFileAndBlamesItForItsContents) {
  const std::string path = testing::TempDir() + "token_ids_test.txt";
  std::ofstream(path) << "8\n9\n";
  EXPECT_EQ(parse_ids("--tokens", "@" + path), (Ids{8, 9}));
  std::ofstream(path) << "8\nnine\n";
  try {
    parse_ids("--tokens", "@" + path);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kFile);
    EXPECT_NE(std::string(error.what()).find(path), std::string::npos);
  }
  std::remove(path.c_str());
  EXPECT_THROW(parse_ids("--tokens", "@" + path), Error);
}

}  // namespace
}  // namespace tenon::launcher
