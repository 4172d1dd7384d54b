// The layout as C++ sees it, and what the inline functions of abi.h answer.
#include <gtest/gtest.h>
#include <tenon/abi.h>

#include <cstddef>
#include <type_traits>

#define SIZE(table, bytes)                            \
  static_assert(sizeof(table) == (bytes));            \
  static_assert(std::is_standard_layout_v<table>);    \
  static_assert(std::is_trivially_copyable_v<table>); \
  static_assert(sizeof(table) % 8 == 0 || alignof(table) < 8);
#define AT(table, member, offset) static_assert(offsetof(table, member) == (offset));
#include "layout.inc"

extern "C" int64_t c_row_bytes(uint32_t encoding, int64_t cols);
extern "C" int c_has_last_member(const tenon_host* host);

namespace {

TEST(Abi, RowsAreMultiplesOf64BytesAndTheSameInC) {
  const uint32_t encodings[] = {TENON_ENC_F32,   TENON_ENC_BF16,    TENON_ENC_F16,
                                TENON_ENC_Q8_32, TENON_ENC_FP8_128, TENON_ENC_I32};
  for (const uint32_t encoding : encodings)
    for (int64_t cols = 32; cols <= 4096; cols += 32) {
      const int64_t bytes = tenon_encoding_row_bytes(encoding, cols);
      EXPECT_EQ(bytes % 64, 0);
      EXPECT_EQ(bytes, c_row_bytes(encoding, cols));
    }
  EXPECT_EQ(tenon_encoding_row_bytes(TENON_ENC_NONE, 32), 0);
  EXPECT_EQ(tenon_encoding_row_bytes(99, 32), 0);
}

TEST(Abi, RowsHoldTheirParts) {
  // 64 columns of q8_32: 64 codes, 2 scales, 4 sums, each part at a multiple of 64 bytes.
  EXPECT_EQ(tenon_q8_32_scale_offset(64), 64);
  EXPECT_EQ(tenon_q8_32_sum_offset(64), 128);
  EXPECT_EQ(tenon_encoding_row_bytes(TENON_ENC_Q8_32, 64), 192);
  EXPECT_EQ(tenon_q8_32_scale_offset(640), 640);
  EXPECT_EQ(tenon_q8_32_sum_offset(640), 640 + 128);
  EXPECT_EQ(tenon_encoding_row_bytes(TENON_ENC_Q8_32, 640), 640 + 128 + 128);
  EXPECT_EQ(tenon_encoding_row_bytes(TENON_ENC_F32, 17), 128);
  EXPECT_EQ(tenon_encoding_row_bytes(TENON_ENC_BF16, 33), 128);
  EXPECT_EQ(tenon_encoding_row_bytes(TENON_ENC_FP8_128, 128), 128 + 64);
}

TEST(Abi, AMemberOutsideOfTheDeclaredSizeIsNotThere) {
  tenon_host host{};
  host.struct_size = sizeof host;
  EXPECT_TRUE(TENON_HAS(&host, dtype));
  EXPECT_TRUE(c_has_last_member(&host));
  host.struct_size = sizeof host - 8;
  EXPECT_FALSE(TENON_HAS(&host, dtype));
  EXPECT_FALSE(c_has_last_member(&host));
  EXPECT_TRUE(TENON_HAS(&host, dtype_id));
}

TEST(Abi, SharesCoverAllUnitsOnce) {
  for (int64_t n = 0; n < 40; ++n)
    for (int64_t workers = 1; workers < 9; ++workers) {
      EXPECT_EQ(TENON_SHARE(n, 0, workers), 0);
      EXPECT_EQ(TENON_SHARE(n, workers, workers), n);
      for (int64_t w = 0; w < workers; ++w) EXPECT_LE(TENON_SHARE(n, w, workers), TENON_SHARE(n, w + 1, workers));
    }
}

}  // namespace
