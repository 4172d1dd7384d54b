#include "safetensors_file.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <tenon/error.hpp>

namespace tenon::launcher {
namespace {

namespace fs = std::filesystem;

class SafetensorsFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path() const { return folder_ / "out.safetensors"; }
  size_t n_files() const { return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {})); }

  fs::path folder_;
};

TEST_F(SafetensorsFileTest, WritesArraysInAnyOrder) {
  SafetensorsFile file(path());
  file.define({{"logits", {2, 3}}, {"hidden", {1, 2, 1}}});
  const std::vector<float> low = {1, 2, 3}, high = {4, 5, 6}, hidden = {7, 8};
  file.write("hidden", 0, hidden);
  file.write("logits", 3, high);
  file.write("logits", 0, low);
  EXPECT_FALSE(fs::exists(path()));  // appears when complete
  file.finish();
  EXPECT_EQ(n_files(), 1u);

  std::ifstream stream(path(), std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(stream), {});
  uint64_t size = 0;
  ASSERT_GE(bytes.size(), sizeof(size));
  std::memcpy(&size, bytes.data(), sizeof(size));
  EXPECT_EQ(size % 8, 0u);
  const nlohmann::json header = nlohmann::json::parse(bytes.substr(8, size));
  EXPECT_EQ(header["logits"]["dtype"], "F32");
  EXPECT_EQ(header["logits"]["shape"], (std::vector<int>{2, 3}));
  EXPECT_EQ(header["logits"]["data_offsets"], (std::vector<int>{0, 24}));
  EXPECT_EQ(header["hidden"]["data_offsets"], (std::vector<int>{24, 32}));
  std::vector<float> values(8);
  ASSERT_EQ(bytes.size(), 8 + size + 32);
  std::memcpy(values.data(), bytes.data() + 8 + size, 32);
  EXPECT_EQ(values, (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST_F(SafetensorsFileTest, LeavesNothingBehindWhenItIsNotFinished) {
  {
    std::ofstream(path()) << "old";
    SafetensorsFile file(path());
    file.define({{"logits", {1, 1}}});
  }
  EXPECT_EQ(n_files(), 1u);
  std::string old;
  std::ifstream(path()) >> old;
  EXPECT_EQ(old, "old");
}

TEST_F(SafetensorsFileTest, RefusesPlacesThatCannotBeWritten) {
  EXPECT_THROW(SafetensorsFile(folder_ / "missing" / "out.safetensors"), Error);
  EXPECT_THROW(SafetensorsFile(folder_.string()), Error);
}

TEST_F(SafetensorsFileTest, TellsWhenTheDeviceIsFull) {
  SafetensorsFile file("/dev/full");
  EXPECT_THROW(file.define({{"logits", {1, 1}}}), Error);
  EXPECT_FALSE(fs::is_regular_file("/dev/full"));
}

}  // namespace
}  // namespace tenon::launcher
