// blocks.hpp: weights of every served dtype from random and from hostile bytes, and the kernels under test.
#pragma once

#include <string>
#include <vector>

#include "op_harness.hpp"

namespace tenon::block_test {

using testing::Random;
using testing::Weight;

// Loads the plugins once; all tests call it first.
testing::Kit& kit();

// Names of the served dtypes; columns and bytes of a dtype's block come from its record.
const std::vector<std::string>& dtypes();
// Kernels of `linear` that this machine can run.
std::vector<std::string> linear_kernels();

enum class Scales {
  kUsual,    // around 0.01, as in models
  kHostile,  // zero, denormal, negative, large, mixed block by block
};
// Random codes in every bit; f16 fields from the given family, so that all values are finite.
Weight random_weight(const std::string& dtype, int64_t rows, int64_t cols, Random& random,
                     Scales scales = Scales::kUsual);
// Overwrites the first f16 of a block.
void set_scale(Weight& weight, int64_t row, int64_t block, uint16_t half);
// Gives every block of `to` the f16 scales (the exponent, of mxfp4) of `from`, a weight of the same dtype and shape.
void copy_scales(const Weight& from, Weight& to);

}  // namespace tenon::block_test
