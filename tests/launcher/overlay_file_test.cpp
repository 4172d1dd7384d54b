#include "overlay_file.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <tenon/error.hpp>

namespace tenon::launcher {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// A file of which every part can be put wrong.
struct Written {
  Json header = Json::object();
  std::string data;

  template <typename T>
  Written& add(const std::string& name, const std::string& dtype, std::vector<int64_t> shape,
               const std::vector<T>& values) {
    const size_t begin = data.size(), bytes = values.size() * sizeof(T);
    data.append(reinterpret_cast<const char*>(values.data()), bytes);
    header[name] = {{"dtype", dtype}, {"shape", shape}, {"data_offsets", {begin, begin + bytes}}};
    return *this;
  }
};

Written good() {
  Written w;
  w.header["__metadata__"] = {{"made_by", "a test"}};
  w.add<float>("rows", "F32", {3, 2}, {1, 2, 3, 4, 5, 6}).add<int64_t>("positions", "I64", {3}, {1, 4, 5});
  return w.add<int32_t>("spans", "I32", {3}, {-1, 2, 2});
}

class OverlayFileTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = (fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name()).string();
    fs::remove_all(path_);
  }
  void TearDown() override { fs::remove_all(path_); }

  void write(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }
  void write(const Written& w) const {
    const std::string text = w.header.dump();
    const uint64_t size = text.size();
    std::string bytes(reinterpret_cast<const char*>(&size), sizeof(size));
    write(bytes + text + w.data);
  }
  // What a file is told; "" if it is taken.
  std::string fault(int64_t n_tokens = 10, int64_t width = 2) const {
    try {
      OverlayFile file(path_, n_tokens);
      file.read_rows(width);
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kFile);
      EXPECT_NE(std::string(error.what()).find(path_), std::string::npos) << error.what();
      return error.what();
    }
  }
  void expect_fault(const Written& w, const std::string& part, int64_t n_tokens = 10, int64_t width = 2) const {
    write(w);
    const std::string found = fault(n_tokens, width);
    EXPECT_NE(found.find(part), std::string::npos) << "found: " << found << "\nexpected: " << part;
  }

  std::string path_;
};

TEST_F(OverlayFileTest, ReadsRowsPositionsAndSpans) {
  write(good());
  OverlayFile file(path_, 6);
  EXPECT_EQ(file.longest_span(), 2);
  file.read_rows(2);
  const Overlay overlay = file.overlay();
  EXPECT_EQ(std::vector(overlay.rows.begin(), overlay.rows.end()), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(std::vector(overlay.positions.begin(), overlay.positions.end()), (std::vector<int32_t>{1, 4, 5}));
  EXPECT_EQ(std::vector(overlay.spans.begin(), overlay.spans.end()), (std::vector<int32_t>{-1, 2, 2}));
}

TEST_F(OverlayFileTest, ReadsHalvesAndFilesWithoutSpans) {
  Written w;
  w.add<uint16_t>("rows", "F16", {1, 4}, {0x3c00, 0xc100, 0x0001, 0x7bff}).add<int32_t>("positions", "I32", {1}, {0});
  write(w);
  OverlayFile file(path_, 1);
  EXPECT_EQ(file.longest_span(), 0);
  file.read_rows(4);
  EXPECT_EQ(std::vector(file.overlay().rows.begin(), file.overlay().rows.end()),
            (std::vector<float>{1, -2.5f, 0x1p-24f, 65504}));
  EXPECT_TRUE(file.overlay().spans.empty());
  Written brain;
  brain.add<uint16_t>("rows", "BF16", {1, 2}, {0x3f80, 0xc020}).add<int32_t>("positions", "I32", {1}, {0});
  write(brain);
  OverlayFile other(path_, 1);
  other.read_rows(2);
  EXPECT_EQ(std::vector(other.overlay().rows.begin(), other.overlay().rows.end()), (std::vector<float>{1, -2.5f}));
}

TEST_F(OverlayFileTest, SaysWhatDoesNotFitTheTextOrTheModel) {
  expect_fault(good(), "tensor positions: entry 2 is 5, expected a position of the 5 tokens", 5);
  expect_fault(good(), "tensor rows: 3 rows for 2 tokens", 2);
  expect_fault(good(), "tensor rows: 2 columns, but the model's embeddings have 640", 10, 640);
}

TEST_F(OverlayFileTest, SaysWhatIsWrongWithATensor) {
  const auto with = [](const std::string& name, const char* member, const Json& value) {
    Written w = good();
    w.header[name][member] = value;
    return w;
  };
  const auto without = [](const std::string& name) {
    Written w = good();
    w.header.erase(name);
    return w;
  };
  expect_fault(without("rows"), "tensor rows is missing");
  expect_fault(without("positions"), "tensor positions is missing");
  Written more = good();
  expect_fault(more.add<float>("span", "F32", {1}, {1}), "tensor \"span\" is none of rows, positions and spans");
  expect_fault(with("rows", "dtype", "F64"), "tensor \"rows\": dtype \"F64\", expected F32, F16, BF16, I32 or I64");
  expect_fault(with("rows", "dtype", 7), "tensor \"rows\": dtype \"\", expected");
  expect_fault(with("rows", "dtype", "I32"), "tensor rows: 2 dimensions of I32");
  expect_fault(with("rows", "shape", {6}), "tensor rows: 1 dimensions of F32");
  expect_fault(with("rows", "shape", {3, 3}), "24 bytes, but shape [3,3] of F32 means 36");
  expect_fault(with("rows", "shape", {-3, -2}), "shape has -3, expected a whole number");
  expect_fault(with("rows", "shape", {1.5, 4}), "shape has 1.5, expected a whole number");
  expect_fault(with("rows", "shape", {uint64_t{1} << 62, uint64_t{1} << 62}), "means more than 2^64");
  expect_fault(with("rows", "shape", 6), "expected a list shape");
  expect_fault(with("rows", "data_offsets", {0}), "data_offsets [0]");
  expect_fault(with("rows", "data_offsets", {24, 0}), "data_offsets [24,0], but the file has 60 bytes of data");
  expect_fault(with("rows", "data_offsets", {1000000, 1000024}), "data_offsets [1000000,1000024]");
  expect_fault(with("positions", "shape", {3, 1}), "tensor positions: expected [3] of I32 or I64");
  expect_fault(with("spans", "dtype", "F32"), "tensor spans: expected [3] of I32 or I64");
  Written odd = good();
  odd.header["rows"] = 3;
  expect_fault(odd, "tensor \"rows\": dtype");
}

TEST_F(OverlayFileTest, SaysWhatIsWrongWithValues) {
  const auto with = [](const std::vector<int64_t>& positions, const std::vector<int32_t>& spans, float last = 6) {
    Written w;
    w.add<float>("rows", "F32", {3, 2}, {1, 2, 3, 4, 5, last}).add<int64_t>("positions", "I64", {3}, positions);
    return w.add<int32_t>("spans", "I32", {3}, spans);
  };
  expect_fault(with({1, 1, 2}, {-1, -1, -1}), "position 1 behind 1 (entry 1): positions must ascend");
  expect_fault(with({2, 1, 3}, {-1, -1, -1}), "position 1 behind 2");
  expect_fault(with({-1, 1, 3}, {-1, -1, -1}), "entry 0 is -1");
  expect_fault(with({1, 2, int64_t{1} << 33}, {-1, -1, -1}), "tensor positions: entry 2 is 8589934592");
  expect_fault(with({1, 2, 3}, {4, -1, 4}), "span 4 begins again at position 3");
  expect_fault(with({1, 3, 4}, {4, 4, -1}), "span 4 begins again at position 3");
  expect_fault(with({1, 2, 3}, {-1, -1, -1}, std::numeric_limits<float>::infinity()), "row 2 has inf in column 1");
  expect_fault(with({1, 2, 3}, {-1, -1, -1}, std::numeric_limits<float>::quiet_NaN()), "row 2 has nan in column 1");
}

TEST_F(OverlayFileTest, SaysThatItIsNoSafetensorsFile) {
  EXPECT_NE(fault().find("No such file"), std::string::npos);
  fs::create_directory(path_);
  EXPECT_NE(fault().find("is no file"), std::string::npos);
  fs::remove_all(path_);
  for (const auto& [bytes, part] : {std::pair<std::string, std::string>{"", "has 0 bytes"},
                                    {"short", "has 5 bytes"},
                                    {"this is a text, no model", "a header of "},
                                    {std::string("\x04\0\0\0\0\0\0\0oops", 12), "the header is no JSON object"},
                                    {std::string("\x02\0\0\0\0\0\0\0[]", 10), "the header is no JSON object"}}) {
    write(bytes);
    EXPECT_NE(fault().find(part), std::string::npos) << fault();
  }
  // Cut anywhere it is refused.
  write(good());
  std::ifstream stream(path_, std::ios::binary);
  const std::string whole(std::istreambuf_iterator<char>(stream), {});
  EXPECT_EQ(fault(), "");
  for (size_t n = 0; n < whole.size(); ++n) {
    write(whole.substr(0, n));
    EXPECT_NE(fault(), "") << n << " of " << whole.size() << " bytes";
  }
  // With any byte changed it is read or refused, with an error of the kind that fault() expects.
  for (size_t i = 0; i < whole.size(); ++i)
    for (const char byte : {'\0', '9', '"', '\xff'}) {
      std::string changed = whole;
      changed[i] = byte;
      write(changed);
      fault();
    }
}

}  // namespace
}  // namespace tenon::launcher
