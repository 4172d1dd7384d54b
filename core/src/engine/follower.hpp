// follower.hpp: a rank other than 0: its share of the model and its sequences, which do what rank 0 says.
#pragma once

#include "command.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

namespace tenon::engine {

// One thread at a time.
class Follower {
 public:
  // `probe` is what it does where it is told to, beside rank 0: Loaded::probe() of the model's parts.
  Follower(std::unique_ptr<Model> model, uint32_t rank, std::function<void()> probe = {});
  // Throws what the operation throws. `cancelled` as in ForwardOptions; it may be empty.
  Outcome execute(const Command& command, const CancelCallback& cancelled);
  const Model& model() const { return *model_; }

 private:
  int64_t run(const Command& command, const CancelCallback& cancelled, Outcome& outcome);
  std::vector<BestToken> forward(const Command& command, const CancelCallback& cancelled);
  Sequence& sequence(uint64_t number);

  std::unique_ptr<Model> model_;
  uint32_t rank_;
  std::function<void()> probe_;
  std::map<uint64_t, Sequence> sequences_;
};

}  // namespace tenon::engine
