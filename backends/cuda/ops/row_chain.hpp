// row_chain.hpp: a composite of row-wise ops as steps of one kernel that keeps the row in registers.
#pragma once

#include <string>

#include "ops.hpp"

namespace tenon::cuda {

constexpr int kMaxChainSteps = 8, kMaxChainOperands = 8, kSavedValues = 2;
constexpr int64_t kMaxChainWidth = 8192;  // columns of a row or group whose norm is one sum: eight a thread

enum class ChainOp : int32_t { kNorm, kAdd, kMul, kScale, kGlu, kGate, kEncode };
// Where a step's operand is: an input ≥ 0, or
constexpr int32_t kCurrent = -1, kSaved = -2, kNothing = -100;  // kSaved - i: saved value i

struct ChainStep {
  ChainOp op;
  int32_t a, b;         // operands
  int32_t weight, out;  // kNothing: none. What the step gives is written to output `out`
  int32_t save;         // and kept as this saved value
  union {
    struct {
      uint32_t is_mean;
      float eps;
    } norm;
    float factor;
    struct {
      uint32_t activation;
      float limit, alpha;
    } glu;
    struct {
      uint32_t activation;
      int32_t group;
    } gate;
    uint32_t encoding;
  };
};

struct ChainPlan {
  OpPlan op;  // its domain
  ChainStep step[kMaxChainSteps];
  int32_t n_step, n_in, n_out;
  int32_t width;  // columns of a block: of a norm's group, or a part of a row
  unsigned threads;
  bool has_activation;
};

void launch_row_chain(const ChainPlan& plan, const Launch& launch);
void register_row_chains(sdk::Registrar& registrar);

}  // namespace tenon::cuda
