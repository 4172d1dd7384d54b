// pack_levels.hpp: the types whose codes the family does not read itself, but takes as levels from their record.
#pragma once

#include <tenon/sdk/kernel.hpp>

#include "lane.hpp"

namespace tenon::block {

// One block of a weight by the definition of its dtype.
class BlockDecoder {
 public:
  explicit BlockDecoder(const tenon_weight& weight);
  // values: the block's columns. Throws sdk::Error if the record fails.
  void operator()(const uint8_t* block, float* values) const;

 private:
  tenon_weight one_;
  const tenon_dtype* record_;
};

// A block of 256 columns of a type with is_levels().
void pack_levels(Type type, const Lane& lane, const uint8_t* block, const BlockDecoder& decode);

}  // namespace tenon::block
