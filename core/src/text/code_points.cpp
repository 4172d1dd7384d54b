#include "text/code_points.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>

namespace tenon::text {
namespace {

uint8_t byte_at(std::string_view text, size_t pos) { return static_cast<uint8_t>(text[pos]); }

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

uint8_t compute_classes(char32_t c) {
  uint8_t bits = 0;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      bits = kLetter;
      break;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      bits = kMark;
      break;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      bits = kNumber;
      break;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      bits = kPunctuation;
      break;
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO:
      bits = kSymbol;
      break;
    default:
      break;
  }
  if (is_white_space(c)) bits |= kSpace;
  if (c == '\r' || c == '\n') bits |= kNewline;
  return bits;
}

}  // namespace

Utf8Prefix scan_utf8(std::string_view text, size_t pos) {
  const uint8_t lead = byte_at(text, pos);
  if (lead < 0x80) return {1, true, false};
  uint32_t size = 0;
  uint8_t low = 0x80, high = 0xBF;  // range of the second byte
  if (lead >= 0xC2 && lead <= 0xDF) {
    size = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    size = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    size = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {1, false, false};
  }
  for (uint32_t i = 1; i < size; ++i) {
    if (pos + i >= text.size()) return {i, false, true};
    const uint8_t next = byte_at(text, pos + i);
    if (next < low || next > high) return {i, false, false};
    low = 0x80;
    high = 0xBF;
  }
  return {size, true, false};
}

CodePoint decode_at(std::string_view text, size_t pos) {
  const uint8_t lead = byte_at(text, pos);
  if (lead < 0x80) return {lead, 1, true};
  const Utf8Prefix prefix = scan_utf8(text, pos);
  if (!prefix.whole) return {kReplacement, 1, false};
  char32_t value = lead & (0xFFu >> (prefix.size + 1));
  for (uint32_t i = 1; i < prefix.size; ++i) value = (value << 6) | (byte_at(text, pos + i) & 0x3Fu);
  return {value, prefix.size, true};
}

bool compose(std::string_view text, std::string& out) {
  // Below U+0300, which begins with the byte CC, nothing combines or changes.
  const auto may_change = [](char c) { return static_cast<uint8_t>(c) >= 0xCC; };
  if (std::none_of(text.begin(), text.end(), may_change)) return false;
  utf8proc_uint8_t* composed = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &composed, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> memory(composed, std::free);
  if (size < 0) return false;
  out.assign(reinterpret_cast<const char*>(composed), static_cast<size_t>(size));
  return true;
}

uint8_t classes_of(char32_t code_point) {
  static const std::array<uint8_t, 256> latin = [] {
    std::array<uint8_t, 256> table{};
    for (char32_t c = 0; c < 256; ++c) table[c] = compute_classes(c);
    return table;
  }();
  return code_point < 256 ? latin[code_point] : compute_classes(code_point);
}

}  // namespace tenon::text
