// Random transactions on a conv or recurrent store (tenon_step in abi.h), played against the same tokens one by one.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness.hpp"

namespace tenon::kit {

// What to play: an op whose store is a state.
struct StateOp {
  uint32_t op = 0;
  std::vector<int64_t> in_cols;    // columns of each input
  std::vector<int64_t> in_groups;  // of the strided view that each input is
  int64_t out_cols = 0;
  // A case without inputs: attributes, weights, output.
  std::function<OpCase(Step)> base;
  std::function<Store(uint32_t seqs)> store;
  float input_scale = 1;
  std::function<void(std::vector<float>&, size_t input)> shape;  // e.g. normalises q and k; may be empty
};

StateOp conv_op(uint32_t channels, uint32_t taps, uint64_t seed = 1);
StateOp delta_op(uint32_t key_heads, uint32_t value_heads, uint32_t key_dim, uint32_t value_dim, uint32_t head_map,
                 uint64_t seed = 1);

// One token: a row of every input.
using Token = std::vector<std::vector<float>>;
Token random_token(const StateOp& op, Random& random);

// Plays a kernel over a store with several sequences, keeping half and tokens as the core does.
class Player {
 public:
  Player(const StateOp& op, const tenon_kernel& kernel, uint32_t seqs, uint32_t workers = 1);
  // One step; tokens[s] are sequence s's new rows. Gives the outputs of each sequence's rows, [rows × out_cols].
  std::vector<std::vector<float>> step(const std::vector<SeqRows>& parts, const std::vector<std::vector<Token>>& tokens,
                                       uint32_t phase = TENON_PHASE_DECODE);
  std::vector<float> state(uint32_t seq);  // conv: the current half
  Store& store() { return store_; }

 private:
  const StateOp& op_;
  const tenon_kernel& kernel_;
  uint32_t workers_;
  Store store_;
  std::vector<int32_t> half_, length_;
};

// Empty if `steps` random steps over three sequences (taped in several pieces, committed in part, rolled back, plain)
// leave the outputs of all committed rows and the states bit-equal to a plain replay one token at a time by `plain`;
// else what differs.
std::string play_transactions(const StateOp& op, const tenon_kernel& kernel, const tenon_kernel& plain, uint64_t seed,
                              int steps, uint32_t workers = 1);

}  // namespace tenon::kit
