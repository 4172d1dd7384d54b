// Methods of texts. What they make out of a marked text is marked.
#include <algorithm>

#include "template/builtins.hpp"
#include "template/operations.hpp"
#include "template/runtime.hpp"
#include "template/unicode.hpp"
#include "text/code_points.hpp"

namespace tenon::templating {
namespace {

Value like(Runtime& runtime, const Value& self, std::string text) {
  return runtime.text(std::move(text), self.as<Text>().markup);
}

template <std::string (*kMap)(std::string_view)>
Value mapped(Runtime& runtime, const Value& self, Arguments& arguments) {
  expect_no_arguments(arguments, "this method");
  runtime.check_size(text_of(self).size() * 3);
  runtime.step_text(text_of(self).size());
  return like(runtime, self, kMap(text_of(self)));
}

template <Sides kSides>
Value stripped(Runtime& runtime, const Value& self, Arguments& arguments) {
  const auto [characters] = bind(arguments, "strip", {""}, 0);
  return strip_text(runtime, self, characters, kSides);
}

// Where the words between white space begin and end; at most `limit` splits from the front.
std::vector<std::string_view> split_words(std::string_view text, int64_t limit) {
  std::vector<std::string_view> words;
  text = strip_begin(text);
  while (!text.empty()) {
    if (limit-- == 0) {
      words.push_back(text);
      break;
    }
    size_t end = 0;
    while (end < text.size()) {
      const text::CodePoint point = text::decode_at(text, end);
      if (is_space(point.value)) break;
      end += point.size;
    }
    words.push_back(text.substr(0, end));
    text = strip_begin(text.substr(end));
  }
  return words;
}

// The same from the back.
std::vector<std::string_view> split_words_back(std::string_view text, int64_t limit) {
  std::vector<std::string_view> words;
  text = strip_end(text);
  while (!text.empty()) {
    if (limit-- == 0) {
      words.push_back(text);
      break;
    }
    size_t begin = text.size();
    while (begin > 0) {
      size_t at = begin - 1;
      while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
      if (is_space(text::decode_at(text, at).value)) break;
      begin = at;
    }
    words.push_back(text.substr(begin));
    text = strip_end(text.substr(0, begin));
  }
  std::reverse(words.begin(), words.end());
  return words;
}

std::vector<std::string_view> split_at(std::string_view text, std::string_view separator, int64_t limit, bool back) {
  std::vector<std::string_view> parts;
  while (limit-- != 0) {
    const size_t found = back ? text.rfind(separator) : text.find(separator);
    if (found == std::string_view::npos) break;
    parts.push_back(back ? text.substr(found + separator.size()) : text.substr(0, found));
    text = back ? text.substr(0, found) : text.substr(found + separator.size());
  }
  parts.push_back(text);
  if (back) std::reverse(parts.begin(), parts.end());
  return parts;
}

Value list_of(Runtime& runtime, const Value& self, const std::vector<std::string_view>& parts) {
  Values items;
  items.reserve(parts.size());
  runtime.step(parts.size());
  for (std::string_view part : parts) items.push_back(like(runtime, self, std::string(part)));
  return runtime.list(std::move(items));
}

template <bool kBack>
Value split(Runtime& runtime, const Value& self, Arguments& arguments) {
  const auto [separator, max_split] = bind(arguments, "split", {"sep", "maxsplit"}, 0);
  const int64_t limit = std::max<int64_t>(-1, whole_argument(max_split, "split", -1));
  runtime.step_text(text_of(self).size());
  if (separator.is(Kind::kMissing) || separator.is_none())
    return list_of(runtime, self, kBack ? split_words_back(text_of(self), limit) : split_words(text_of(self), limit));
  const std::string_view at = text_argument(separator, "split");
  if (at.empty()) throw Fault("empty separator");
  return list_of(runtime, self, split_at(text_of(self), at, limit, kBack));
}

Value splitlines(Runtime& runtime, const Value& self, Arguments& arguments) {
  const auto [keep_ends] = bind(arguments, "splitlines", {"keepends"}, 0);
  runtime.step_text(text_of(self).size());
  return list_of(runtime, self, split_lines(text_of(self), truthy(keep_ends)));
}

template <bool kBack>
Value partition(Runtime& runtime, const Value& self, Arguments& arguments) {
  const auto [separator] = bind(arguments, "partition", {""}, 1);
  const std::string_view text = text_of(self), at = text_argument(separator, "partition");
  if (at.empty()) throw Fault("empty separator");
  const size_t found = kBack ? text.rfind(at) : text.find(at);
  std::string_view before = text, middle, after;
  if (found != std::string_view::npos) {
    before = text.substr(0, found);
    middle = at;
    after = text.substr(found + at.size());
  } else if (kBack) {
    std::swap(before, after);
  }
  return runtime.tuple({like(runtime, self, std::string(before)), like(runtime, self, std::string(middle)),
                        like(runtime, self, std::string(after))});
}

Value replace(Runtime& runtime, const Value& self, Arguments& arguments) {
  const auto [from, to, count] = bind(arguments, "replace", {"", "", ""}, 2);
  std::string_view with = text_argument(to, "replace");
  std::string safe;
  if (self.as<Text>().markup && !to.as<Text>().markup) with = safe = escaped(with);
  return like(
      runtime, self,
      replaced(runtime, text_of(self), text_argument(from, "replace"), with, whole_argument(count, "replace", -1)));
}

// The bytes of self[start:end], and the index of its first character.
struct Part {
  std::string_view text;
  size_t first = 0;
  bool valid = true;  // start is not behind the end
};
Part part_of(Runtime& runtime, const Value& self, const Value& start, const Value& end) {
  const std::string_view text = text_of(self);
  const int64_t size = length(runtime, self);
  const auto place = [&](const Value& value, int64_t fallback) {
    if (value.is_none()) return fallback;
    const int64_t index = whole_argument(value, "index", fallback);
    return index < 0 ? std::max<int64_t>(0, index + size) : index;
  };
  const int64_t first = place(start, 0), last = std::min(place(end, size), size);
  if (first > size || first > last) return {{}, static_cast<size_t>(first), false};
  const size_t begin = offset_of(text, static_cast<size_t>(first));
  return {text.substr(begin, offset_of(text, static_cast<size_t>(last - first), begin) - begin),
          static_cast<size_t>(first), true};
}

template <bool kBack, bool kRaises>
Value find(Runtime& runtime, const Value& self, Arguments& arguments) {
  const auto [what, start, end] = bind(arguments, "find", {"", "", ""}, 1);
  const std::string_view wanted = text_argument(what, "find");
  const Part part = part_of(runtime, self, start, end);
  const size_t found = !part.valid ? std::string_view::npos : kBack ? part.text.rfind(wanted) : part.text.find(wanted);
  if (found != std::string_view::npos)
    return Value::integer(static_cast<int64_t>(part.first + count_points(part.text.substr(0, found))));
  if (kRaises) throw Fault("substring not found");
  return Value::integer(-1);
}

Value count(Runtime& runtime, const Value& self, Arguments& arguments) {
  const auto [what, start, end] = bind(arguments, "count", {"", "", ""}, 1);
  const std::string_view wanted = text_argument(what, "count");
  const Part part = part_of(runtime, self, start, end);
  if (!part.valid) return Value::integer(0);
  if (wanted.empty()) return Value::integer(static_cast<int64_t>(count_points(part.text)) + 1);
  int64_t n = 0;
  for (size_t at = part.text.find(wanted); at != std::string_view::npos;
       at = part.text.find(wanted, at + wanted.size()))
    ++n;
  return Value::integer(n);
}

template <bool kAtEnd>
Value starts_or_ends(Runtime& runtime, const Value& self, Arguments& arguments) {
  const auto [what, start, end] = bind(arguments, kAtEnd ? "endswith" : "startswith", {"", "", ""}, 1);
  const Part part = part_of(runtime, self, start, end);
  const auto matches = [&](const Value& affix) {
    if (!affix.is_text())
      throw Fault(std::string(kAtEnd ? "endswith" : "startswith") + " first arg must be str or a tuple of str, not " +
                  std::string(type_name(affix)));
    return part.valid && (kAtEnd ? part.text.ends_with(text_of(affix)) : part.text.starts_with(text_of(affix)));
  };
  if (!what.is(Kind::kTuple)) return Value::boolean(matches(what));
  const Values& affixes = what.as<Sequence>().items;
  return Value::boolean(std::any_of(affixes.begin(), affixes.end(), matches));
}

template <bool kSuffix>
Value remove_affix(Runtime& runtime, const Value& self, Arguments& arguments) {
  const auto [what] = bind(arguments, "removeprefix", {""}, 1);
  const std::string_view text = text_of(self), affix = text_argument(what, "removeprefix");
  if (!affix.empty() && (kSuffix ? text.ends_with(affix) : text.starts_with(affix)))
    return like(runtime, self, std::string(text.substr(kSuffix ? 0 : affix.size(), text.size() - affix.size())));
  return self;
}

Value join(Runtime& runtime, const Value& self, Arguments& arguments) {
  const auto [items] = bind(arguments, "join", {""}, 1);
  const Text& separator = self.as<Text>();
  std::string result;
  int64_t index = 0;
  Cursor cursor(runtime, items);
  for (Value item; cursor.next(runtime, item); ++index) {
    if (index > 0) result += separator.text;
    if (separator.markup) {
      const std::string text = to_text(runtime, item);
      result += item.is_text() && item.as<Text>().markup ? text : escaped(text);
    } else {
      if (!item.is_text())
        throw Fault("sequence item " + std::to_string(index) + ": expected str instance, " +
                    std::string(type_name(item)) + " found");
      result += text_of(item);
    }
    runtime.check_size(result.size());
  }
  runtime.step_text(result.size());
  return like(runtime, self, std::move(result));
}

enum class Justify { kLeft, kRight, kCenter };

template <Justify kJustify>
Value justified(Runtime& runtime, const Value& self, Arguments& arguments) {
  const auto [width, fill] = bind(arguments, "center", {"", ""}, 1);
  const std::string_view filler = fill.is(Kind::kMissing) ? " " : text_argument(fill, "center");
  if (count_points(filler) != 1) throw Fault("The fill character must be exactly one character long");
  const int64_t wanted = whole_argument(width, "center", 0);
  if (kJustify == Justify::kCenter) return like(runtime, self, centered(runtime, text_of(self), wanted, filler));
  std::string padding;
  const int64_t missing = wanted - length(runtime, self);
  if (missing > 0) {
    runtime.check_size(static_cast<uint64_t>(missing) * filler.size());
    for (int64_t i = 0; i < missing; ++i) padding += filler;
  }
  const std::string text(text_of(self));
  return like(runtime, self, kJustify == Justify::kLeft ? text + padding : padding + text);
}

Value zfill(Runtime& runtime, const Value& self, Arguments& arguments) {
  const auto [width] = bind(arguments, "zfill", {""}, 1);
  const int64_t missing = whole_argument(width, "zfill", 0) - length(runtime, self);
  std::string text(text_of(self));
  if (missing > 0) {
    runtime.check_size(static_cast<uint64_t>(missing));
    text.insert(text.starts_with('-') || text.starts_with('+') ? 1 : 0, static_cast<size_t>(missing), '0');
  }
  return like(runtime, self, std::move(text));
}

Value expandtabs(Runtime& runtime, const Value& self, Arguments& arguments) {
  const auto [size] = bind(arguments, "expandtabs", {"tabsize"}, 0);
  const int64_t width = whole_argument(size, "expandtabs", 8);
  std::string result;
  int64_t column = 0;
  for (char c : text_of(self)) {
    if (c == '\t') {
      const int64_t blanks = width > 0 ? width - column % width : 0;
      runtime.check_size(result.size() + static_cast<uint64_t>(blanks));
      result.append(static_cast<size_t>(blanks), ' ');
      column += blanks;
      continue;
    }
    result += c;
    if (c == '\n' || c == '\r')
      column = 0;
    else if ((static_cast<unsigned char>(c) & 0xC0) != 0x80)
      ++column;
  }
  return like(runtime, self, std::move(result));
}

Value format(Runtime& runtime, const Value& self, Arguments& arguments) {
  return like(runtime, self, brace_format(runtime, self, arguments));
}

// Whether every character is in the class, and there are some.
template <bool (*kIs)(char32_t)>
Value all_are(Runtime& runtime, const Value& self, Arguments& arguments) {
  expect_no_arguments(arguments, "this method");
  const std::string_view text = text_of(self);
  runtime.step_text(text.size());
  for (size_t i = 0; i < text.size();) {
    const text::CodePoint point = text::decode_at(text, i);
    if (!kIs(point.value)) return Value::boolean(false);
    i += point.size;
  }
  return Value::boolean(!text.empty());
}

bool is_alphanumeric(char32_t c) { return is_alpha(c) || is_numeric(c); }
bool is_ascii_character(char32_t c) { return c < 0x80; }

template <bool (*kIs)(char32_t)>
Value all_or_none(Runtime& runtime, const Value& self, Arguments& arguments) {
  return text_of(self).empty() ? Value::boolean(true) : all_are<kIs>(runtime, self, arguments);
}

// Some character has a case, and all that have one have this.
template <bool kUpper>
Value has_case(Runtime& runtime, const Value& self, Arguments& arguments) {
  expect_no_arguments(arguments, "this method");
  const TestSpec* test = find_test(kUpper ? "upper" : "lower");
  Arguments none;
  return Value::boolean(test->apply(runtime, self, none));
}

Value istitle(Runtime&, const Value& self, Arguments& arguments) {
  expect_no_arguments(arguments, "istitle");
  const std::string_view text = text_of(self);
  bool in_word = false, found = false;
  for (size_t i = 0; i < text.size();) {
    const text::CodePoint point = text::decode_at(text, i);
    i += point.size;
    if (is_upper(point.value) || is_title(point.value)) {
      if (in_word) return Value::boolean(false);
      in_word = found = true;
    } else if (is_lower(point.value)) {
      if (!in_word) return Value::boolean(false);
      found = true;
    } else {
      in_word = false;
    }
  }
  return Value::boolean(found);
}

constexpr MethodSpec kMethods[] = {
    {"upper", mapped<to_upper>},
    {"lower", mapped<to_lower>},
    {"title", mapped<to_title>},
    {"capitalize", mapped<to_capitalized>},
    {"swapcase", mapped<swap_case>},
    {"casefold", mapped<fold_case>},
    {"strip", stripped<Sides::kBoth>},
    {"lstrip", stripped<Sides::kBegin>},
    {"rstrip", stripped<Sides::kEnd>},
    {"split", split<false>},
    {"rsplit", split<true>},
    {"splitlines", splitlines},
    {"partition", partition<false>},
    {"rpartition", partition<true>},
    {"replace", replace},
    {"find", find<false, false>},
    {"rfind", find<true, false>},
    {"index", find<false, true>},
    {"rindex", find<true, true>},
    {"count", count},
    {"startswith", starts_or_ends<false>},
    {"endswith", starts_or_ends<true>},
    {"removeprefix", remove_affix<false>},
    {"removesuffix", remove_affix<true>},
    {"join", join},
    {"ljust", justified<Justify::kLeft>},
    {"rjust", justified<Justify::kRight>},
    {"center", justified<Justify::kCenter>},
    {"zfill", zfill},
    {"expandtabs", expandtabs},
    {"format", format},
    {"isalpha", all_are<is_alpha>},
    {"isalnum", all_are<is_alphanumeric>},
    {"isdecimal", all_are<is_decimal>},
    {"isdigit", all_are<is_digit>},
    {"isnumeric", all_are<is_numeric>},
    {"isspace", all_are<is_space>},
    {"isascii", all_or_none<is_ascii_character>},
    {"isprintable", all_or_none<is_printable>},
    {"isupper", has_case<true>},
    {"islower", has_case<false>},
    {"istitle", istitle},
};

}  // namespace

std::span<const MethodSpec> text_methods() { return kMethods; }

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t i = 0; i < text.size();) {
    const text::CodePoint point = text::decode_at(text, i);
    const char32_t c = point.value;
    size_t end = i + point.size;
    if ((c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029) {
      if (c == '\r' && end < text.size() && text[end] == '\n') ++end;
      lines.push_back(text.substr(begin, (keep_ends ? end : i) - begin));
      begin = end;
    }
    i = end;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

Value strip_text(Runtime& runtime, const Value& value, const Value& characters, Sides sides) {
  std::string_view text = text_of(value);
  runtime.step_text(text.size());
  const bool white = characters.is(Kind::kMissing) || characters.is_none();
  if (!white && !characters.is_text()) throw Fault("strip arg must be None or str");
  if (sides != Sides::kEnd) text = white ? strip_begin(text) : strip_begin(text, text_of(characters));
  if (sides != Sides::kBegin) text = white ? strip_end(text) : strip_end(text, text_of(characters));
  return text.size() == text_of(value).size() ? value : like(runtime, value, std::string(text));
}

std::string replaced(Runtime& runtime, std::string_view text, std::string_view from, std::string_view to,
                     int64_t count) {
  std::string result;
  int64_t left = count < 0 ? INT64_MAX : count;
  runtime.step_text(text.size());
  size_t at = 0;
  if (from.empty()) {  // before every character, and at the end
    for (; left > 0; --left) {
      result += to;
      runtime.check_size(result.size());
      if (at >= text.size()) return result;
      const size_t size = text::decode_at(text, at).size;
      result += text.substr(at, size);
      at += size;
    }
    result += text.substr(at);
    return result;
  }
  for (; left > 0; --left) {
    const size_t found = text.find(from, at);
    if (found == std::string_view::npos) break;
    result += text.substr(at, found - at);
    result += to;
    runtime.check_size(result.size());
    at = found + from.size();
  }
  result += text.substr(at);
  runtime.step_text(result.size());
  return result;
}

std::string escaped(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&#34;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

// Python puts the odd blank to the left when the width is odd.
std::string centered(Runtime& runtime, std::string_view text, int64_t width, std::string_view fill) {
  const int64_t missing = width - static_cast<int64_t>(count_points(text));
  if (missing <= 0) return std::string(text);
  runtime.check_size(static_cast<uint64_t>(missing) * fill.size());
  const int64_t left = missing / 2 + (missing & width & 1);
  std::string result;
  for (int64_t i = 0; i < left; ++i) result += fill;
  result += text;
  for (int64_t i = left; i < missing; ++i) result += fill;
  return result;
}

}  // namespace tenon::templating
