// cases.hpp: nodes of every op that kernels are tried on.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "harness.hpp"

namespace tenon::kit {

// What the inputs hold.
enum class Values {
  kUsual,  // roughly normal
  kEdges,  // zeros, subnormal, tiny and large numbers, block by block
};

// A node of an op for any number of rows. Row r is the same whatever the number, but where rows read later ones.
struct KernelCase {
  std::string label;
  std::function<OpCase(uint32_t rows, Values values)> make;
  bool reads_later_rows = false;
};

// Cases of a plain op by its name; empty for an op that the kit has none for. Weights come in every dtype that is
// registered, since which of them a kernel takes is its own to say.
std::vector<KernelCase> kernel_cases(std::string_view op);

// The rows `chosen` of a case without stores, in that order. Rows of the token domain only.
OpCase only_rows(const OpCase& whole, const std::vector<uint32_t>& chosen);

// A weight with finite values of moderate size: encoded where the dtype has an encoder, else from random bytes. Throws
// std::runtime_error where neither gives one.
Weight make_weight(const std::string& dtype, int64_t rows, int64_t cols, uint64_t seed, float scale = 1);

// Names of all dtypes, the core's first.
std::vector<std::string> all_dtypes();

// How far a kernel may be from the reference, which reads the same encoded operands and folds in f64: relative RMS.
struct Tolerance {
  std::string_view op;
  double relative_rms;
  std::string_view reason;
};
const Tolerance& tolerance_of(std::string_view op);
// What an output that the kernel emits in this encoding may lose beyond that; 0 for f32.
double encoding_bound(uint32_t encoding);

}  // namespace tenon::kit
