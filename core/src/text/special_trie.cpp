#include "text/special_trie.hpp"

#include <string>
#include <tenon/error.hpp>

namespace tenon::text {
namespace {

// Every byte of a special token takes a node of 16 bytes, and text is compared with them at each of its places.
constexpr size_t kLongest = 1024, kMostNodes = size_t{1} << 24;

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorKind::kFile, "tokenizer.ggml.tokens: " + what); }

}  // namespace

SpecialTrie::SpecialTrie(const Vocabulary& vocabulary) {
  roots_.fill(-1);
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const TokenType type = vocabulary.type(id);
    const bool always = type == TokenType::kUserDefined;
    if (!always && type != TokenType::kControl && type != TokenType::kUnknown) continue;
    const std::string_view text = vocabulary.text(id);
    if (text.size() > kLongest) {
      fail("token " + std::to_string(id) + " is special and has " + std::to_string(text.size()) +
           " bytes, expected at most " + std::to_string(kLongest));
    }
    insert(text, id, always);
    if (nodes_.size() > kMostNodes) {
      fail("special tokens up to " + std::to_string(id) + " make a tree of " + std::to_string(nodes_.size()) +
           " bytes, expected at most " + std::to_string(kMostNodes));
    }
  }
}

int32_t SpecialTrie::child_of(int32_t node, uint8_t byte) const {
  int32_t child = nodes_[node].child;
  while (child >= 0 && nodes_[child].byte != byte) child = nodes_[child].sibling;
  return child;
}

void SpecialTrie::insert(std::string_view text, int32_t id, bool always) {
  if (text.empty()) return;
  const auto add_node = [this](uint8_t byte) {
    nodes_.push_back({.byte = byte});
    return static_cast<int32_t>(nodes_.size()) - 1;
  };
  int32_t& root = roots_[static_cast<uint8_t>(text[0])];
  if (root < 0) root = add_node(static_cast<uint8_t>(text[0]));
  int32_t node = root;
  for (char c : text.substr(1)) {
    const auto byte = static_cast<uint8_t>(c);
    int32_t child = child_of(node, byte);
    if (child < 0) {
      child = add_node(byte);
      nodes_[child].sibling = nodes_[node].child;
      nodes_[node].child = child;
    }
    node = child;
  }
  if (nodes_[node].id >= 0) return;  // of equal spellings the first id stays
  nodes_[node].id = id;
  nodes_[node].always = always;
}

SpecialTrie::Match SpecialTrie::find(std::string_view text, size_t from, bool parse_special) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    int32_t node = roots_[static_cast<uint8_t>(text[begin])];
    Match best;
    for (size_t end = begin + 1; node >= 0; ++end) {
      const Node& here = nodes_[node];
      if (here.id >= 0 && (parse_special || here.always)) best = {begin, end, here.id};
      if (end >= text.size()) break;
      node = child_of(node, static_cast<uint8_t>(text[end]));
    }
    if (best.id >= 0) return best;
  }
  return {text.size(), text.size(), -1};
}

}  // namespace tenon::text
