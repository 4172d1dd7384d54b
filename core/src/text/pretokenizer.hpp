// pretokenizer.hpp: splits text into the pieces that byte-level BPE merges within.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace tenon::text {

// Each name stands for a regular expression of a released model; here they are matchers by hand, which take time linear
// in the text and no stack. Bytes that are no valid UTF-8 count as U+FFFD, one each.
struct Pretokenizer {
  std::string_view name;                                                        // as kind() shows it
  void (*split)(std::string_view text, std::vector<std::string_view>& pieces);  // appends; together they are the text
  bool ignores_merges = false;  // a piece that is a token is not merged from its bytes
  bool adds_bos = false;        // where the file does not say
};

// Null for a name that is not known.
const Pretokenizer* find_pretokenizer(std::string_view name);

// Every name that find_pretokenizer() knows, for messages.
std::string_view known_pretokenizers();

}  // namespace tenon::text
