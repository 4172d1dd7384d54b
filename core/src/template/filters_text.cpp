// Filters that make texts.
#include <algorithm>

#include "template/builtins.hpp"
#include "template/operations.hpp"
#include "template/runtime.hpp"
#include "template/unicode.hpp"
#include "text/code_points.hpp"

namespace tenon::templating {
namespace {

template <std::string (*kMap)(std::string_view)>
Value mapped(Runtime& runtime, const Value& input, Arguments& arguments) {
  expect_no_arguments(arguments, "this filter");
  const Value text = soft_text(runtime, input);
  runtime.check_size(text_of(text).size() * 3);
  runtime.step_text(text_of(text).size());
  return runtime.text(kMap(text_of(text)), text.as<Text>().markup);
}

bool begins_word(char32_t c) {
  return is_space(c) || std::u32string_view(U"-({[<").find(c) != std::u32string_view::npos;
}

// Words are what stands between white space, hyphens and opening brackets: unlike the method's.
std::string title_words(std::string_view text) {
  std::string result;
  for (size_t begin = 0; begin < text.size();) {
    const bool between = begins_word(text::decode_at(text, begin).value);
    size_t end = begin;
    while (end < text.size()) {
      const text::CodePoint point = text::decode_at(text, end);
      if (begins_word(point.value) != between) break;
      end += point.size;
    }
    const std::string_view word = text.substr(begin, end - begin);
    const size_t first = text::decode_at(word, 0).size;
    result += to_upper(word.substr(0, first));
    result += to_lower(word.substr(first));
    begin = end;
  }
  return result;
}

Value title(Runtime& runtime, const Value& input, Arguments& arguments) {
  expect_no_arguments(arguments, "title");
  const Value text = soft_text(runtime, input);
  runtime.step_text(text_of(text).size());
  return runtime.text(title_words(text_of(text)));
}

Value trim(Runtime& runtime, const Value& input, Arguments& arguments) {
  const auto [characters] = bind(arguments, "trim", {"chars"}, 0);
  return strip_text(runtime, soft_text(runtime, input), characters, Sides::kBoth);
}

Value replace(Runtime& runtime, const Value& input, Arguments& arguments) {
  const auto [from, to, count] = bind(arguments, "replace", {"old", "new", "count"}, 2);
  const int64_t limit = count.is_none() ? -1 : whole_argument(count, "replace", -1);
  return runtime.text(replaced(runtime, to_text(runtime, input), to_text(runtime, from), to_text(runtime, to), limit));
}

Value center(Runtime& runtime, const Value& input, Arguments& arguments) {
  const auto [width] = bind(arguments, "center", {"width"}, 0);
  const Value text = soft_text(runtime, input);
  return runtime.text(centered(runtime, text_of(text), whole_argument(width, "center", 80), " "),
                      text.as<Text>().markup);
}

Value indent(Runtime& runtime, const Value& input, Arguments& arguments) {
  const auto [width, first, blank] = bind(arguments, "indent", {"width", "first", "blank"}, 0);
  if (input.is_undefined()) fail_undefined(input);
  if (!input.is_text()) throw Fault("indent() takes a str, not " + std::string(type_name(input)));
  std::string indention = "    ";
  if (width.is_text()) {
    indention = text_of(width);
  } else if (!width.is(Kind::kMissing)) {
    const int64_t n = std::max<int64_t>(0, whole_argument(width, "indent", 4));
    runtime.check_size(static_cast<uint64_t>(n));
    indention.assign(static_cast<size_t>(n), ' ');
  }
  const std::string text = std::string(text_of(input)) + "\n";
  std::string result;
  bool is_first = true;
  for (std::string_view line : split_lines(text, false)) {
    if (!is_first) result += "\n";
    if (is_first ? truthy(first) : truthy(blank) || !line.empty()) result += indention;
    result += line;
    is_first = false;
    runtime.check_size(result.size());
  }
  runtime.step_text(result.size());
  return runtime.text(std::move(result), input.as<Text>().markup);
}

Value truncate(Runtime& runtime, const Value& input, Arguments& arguments) {
  const auto [length_value, kill_words, end_value, leeway_value] =
      bind(arguments, "truncate", {"length", "killwords", "end", "leeway"}, 0);
  if (input.is_undefined()) return input;
  const std::string end = end_value.is(Kind::kMissing) ? "..." : std::string(text_argument(end_value, "truncate"));
  const int64_t limit = whole_argument(length_value, "truncate", 255);
  const int64_t leeway = leeway_value.is_none() ? 5 : whole_argument(leeway_value, "truncate", 5);
  const auto end_size = static_cast<int64_t>(count_points(end));
  if (limit < end_size)
    throw Fault("expected length >= " + std::to_string(end_size) + ", got " + std::to_string(limit));
  if (leeway < 0) throw Fault("expected leeway >= 0, got " + std::to_string(leeway));
  if (length(runtime, input) - leeway <= limit) return input;
  if (!input.is_text()) throw Fault("truncate() takes a str, not " + std::string(type_name(input)));
  const std::string_view text = text_of(input);
  std::string_view kept = text.substr(0, offset_of(text, static_cast<size_t>(limit - end_size)));
  if (!truthy(kill_words)) kept = kept.substr(0, kept.rfind(' '));
  return runtime.text(std::string(kept) + end);
}

Value word_count(Runtime& runtime, const Value& input, Arguments& arguments) {
  expect_no_arguments(arguments, "wordcount");
  const std::string text = to_text(runtime, input);
  int64_t n = 0;
  bool in_word = false;
  for (size_t i = 0; i < text.size();) {
    const text::CodePoint point = text::decode_at(text, i);
    i += point.size;
    const bool belongs = point.value == '_' || is_alpha(point.value) || is_numeric(point.value);
    n += belongs && !in_word ? 1 : 0;
    in_word = belongs;
  }
  return Value::integer(n);
}

Value string(Runtime& runtime, const Value& input, Arguments& arguments) {
  expect_no_arguments(arguments, "string");
  return soft_text(runtime, input);
}

Value safe(Runtime& runtime, const Value& input, Arguments& arguments) {
  expect_no_arguments(arguments, "safe");
  return runtime.text(to_text(runtime, input), true);
}

Value escape(Runtime& runtime, const Value& input, Arguments& arguments) {
  expect_no_arguments(arguments, "escape");
  if (input.is_text() && input.as<Text>().markup) return input;
  return runtime.text(escaped(to_text(runtime, input)), true);
}

Value force_escape(Runtime& runtime, const Value& input, Arguments& arguments) {
  expect_no_arguments(arguments, "forceescape");
  return runtime.text(escaped(to_text(runtime, input)), true);
}

Value format(Runtime& runtime, const Value& input, Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty())
    throw Fault("can't handle positional and keyword arguments at the same time");
  Value values;
  if (arguments.named.empty()) {
    values = runtime.tuple(std::move(arguments.positional));
  } else {
    values = runtime.dict();
    for (auto& [name, value] : arguments.named) dict_set(runtime, values.as<Dict>(), name, value);
  }
  const Value text = soft_text(runtime, input);
  return runtime.text(percent_format(runtime, text, values), text.as<Text>().markup);
}

std::string quoted(std::string_view text, bool in_query) {
  std::string result;
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) || (c != '\0' && std::string_view("_.-~").find(c) != std::string_view::npos) ||
        (c == '/' && !in_query)) {
      result += c;
    } else if (c == ' ' && in_query) {
      result += '+';
    } else {
      static constexpr char kDigits[] = "0123456789ABCDEF";
      result += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return result;
}

Value url_encode(Runtime& runtime, const Value& input, Arguments& arguments) {
  expect_no_arguments(arguments, "urlencode");
  const bool is_pairs = input.is(Kind::kDict) || input.is(Kind::kList) || input.is(Kind::kTuple) ||
                        input.is(Kind::kDictView) || input.is(Kind::kIterator);
  if (!is_pairs) return runtime.text(quoted(to_text(runtime, input), false));
  const Value pairs = input.is(Kind::kDict) ? runtime.object<DictView>(DictView::What::kItems, input) : input;
  std::string result;
  for (const Value& pair : to_values(runtime, pairs)) {
    const Values two = to_values(runtime, pair);
    if (two.size() != 2) throw Fault("urlencode(): expected pairs");
    if (!result.empty()) result += '&';
    result += quoted(to_text(runtime, two[0]), true) + "=" + quoted(to_text(runtime, two[1]), true);
  }
  return runtime.text(std::move(result));
}

constexpr FilterSpec kFilters[] = {
    {"upper", mapped<to_upper>},
    {"lower", mapped<to_lower>},
    {"capitalize", mapped<to_capitalized>},
    {"title", title},
    {"trim", trim},
    {"replace", replace},
    {"center", center},
    {"indent", indent},
    {"truncate", truncate},
    {"wordcount", word_count},
    {"string", string},
    {"safe", safe},
    {"escape", escape},
    {"e", escape},
    {"forceescape", force_escape},
    {"format", format},
    {"urlencode", url_encode},
};

}  // namespace

std::span<const FilterSpec> text_filters() { return kFilters; }

}  // namespace tenon::templating
