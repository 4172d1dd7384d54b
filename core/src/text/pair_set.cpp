#include "text/pair_set.hpp"

namespace tenon::text {
namespace {

size_t pair_of(char left, char right) { return static_cast<uint8_t>(left) * 256u + static_cast<uint8_t>(right); }

}  // namespace

PairSet::PairSet(const TokenIndex& index) {
  for (int32_t i = 0; i < index.size(); ++i) {
    const std::string_view text = index.text(i);
    for (size_t k = 1; k < text.size(); ++k) meets_.set(pair_of(text[k - 1], text[k]));
  }
}

size_t PairSet::next_border(std::string_view text, size_t begin) const {
  size_t pos = begin + 1;
  for (; pos < text.size(); ++pos) {
    const bool continues = (static_cast<uint8_t>(text[pos]) & 0xC0u) == 0x80u;  // inside a character, if it is valid
    if (!continues && !meets_[pair_of(text[pos - 1], text[pos])]) break;
  }
  return pos < text.size() ? pos : text.size();
}

}  // namespace tenon::text
