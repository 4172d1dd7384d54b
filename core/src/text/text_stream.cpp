#include <tenon/tokenizer.hpp>

#include "text/code_points.hpp"

namespace tenon {
namespace {

constexpr std::string_view kReplacementText = "\xEF\xBF\xBD";

}  // namespace

// A broken character becomes one U+FFFD for its longest well-formed beginning (Unicode Standard, section 3.9, "maximal
// subpart"), so the text depends on the bytes alone and not on where they were cut.
std::string TextStream::push(std::string_view bytes) {
  pending_ += bytes;
  std::string out;
  out.reserve(pending_.size());
  size_t pos = 0;
  while (pos < pending_.size()) {
    const text::Utf8Prefix prefix = text::scan_utf8(pending_, pos);
    if (prefix.open) break;
    if (prefix.whole) {
      out.append(pending_, pos, prefix.size);
    } else {
      out += kReplacementText;
    }
    pos += prefix.size;
  }
  pending_.erase(0, pos);
  return out;
}

std::string TextStream::finish() {
  std::string out(pending_.empty() ? std::string_view() : kReplacementText);
  pending_.clear();
  return out;
}

}  // namespace tenon
