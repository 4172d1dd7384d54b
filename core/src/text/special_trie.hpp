// special_trie.hpp: finds the tokens that are cut out of text before anything else looks at it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/vocabulary.hpp"

namespace tenon::text {

// A byte trie of control, unknown and user-defined tokens. Immutable after construction.
class SpecialTrie {
 public:
  // Throws Error(kFile) when the tokens are longer than any that a model has.
  explicit SpecialTrie(const Vocabulary& vocabulary);

  struct Match {
    size_t begin = 0, end = 0;
    int32_t id = -1;  // -1: no more
  };
  // The leftmost token at or after `from`, the longest of those that begin there. Control and unknown tokens count only
  // with `parse_special`.
  Match find(std::string_view text, size_t from, bool parse_special) const;

 private:
  struct Node {
    int32_t child = -1, sibling = -1;
    int32_t id = -1;
    uint8_t byte = 0;
    bool always = false;  // user-defined
  };
  void insert(std::string_view text, int32_t id, bool always);
  int32_t child_of(int32_t node, uint8_t byte) const;

  std::vector<Node> nodes_;
  std::array<int32_t, 256> roots_;
};

}  // namespace tenon::text
