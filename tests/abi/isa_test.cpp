// The joined objects of an instruction set keep their inline functions to themselves and share their variables. This
// program links the AVX-512 object before its own, so without that the linker would take its copies for all.
#include <gtest/gtest.h>

#include "isa_sample.hpp"

namespace {

void expect(const Answers& got, int built_for) {
  EXPECT_EQ(got.from_function, built_for);
  EXPECT_EQ(got.from_template, built_for);
  EXPECT_EQ(got.from_class, built_for);
  EXPECT_EQ(got.variable, &shared_variable());
}

TEST(IsaObjects, EachCallsItsOwnCopies) {
  expect(answers(), kBaseline);
  expect(portable::ask(), 1);
  if (__builtin_cpu_supports("avx2")) expect(avx2::ask(), 2);
  if (__builtin_cpu_supports("avx512vl")) expect(avx512::ask(), 3);
}

// 1 + 2^-12 squared is 1 + 2^-11 + 2^-24; a fused sum keeps the last part, a rounded product drops it.
TEST(IsaObjects, AProductIsRoundedBeforeTheSum) {
  volatile float x = 1.0f + 0x1p-12f, minus = -(1.0f + 0x1p-11f);
  EXPECT_EQ(portable::multiply_add(x, x, minus), 0.0f);
  if (__builtin_cpu_supports("avx2")) {
    EXPECT_EQ(avx2::multiply_add(x, x, minus), 0.0f);
  }
  if (__builtin_cpu_supports("avx512vl")) {
    EXPECT_EQ(avx512::multiply_add(x, x, minus), 0.0f);
  }
}

}  // namespace
