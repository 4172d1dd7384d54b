// pair_set.hpp: places in text that no token can span, found from the bytes on either side.
#pragma once

#include <bitset>
#include <cstddef>
#include <string_view>

#include "text/token_index.hpp"

namespace tenon::text {

// Which two bytes stand next to each other in any text of an index. A merge joins neighbours into such a text, so
// between bytes that never meet there is a border: cutting text at borders changes no result, and long text becomes
// many short pieces that stay in the first-level cache. Immutable.
class PairSet {
 public:
  explicit PairSet(const TokenIndex& index);

  // End of the piece that begins at `begin`: the next character start behind a border, or the end of the text.
  size_t next_border(std::string_view text, size_t begin) const;

 private:
  std::bitset<65536> meets_;
};

}  // namespace tenon::text
