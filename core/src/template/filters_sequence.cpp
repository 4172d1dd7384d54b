// Filters for sequences and mappings. Those that are generators in Python give an Iterator, filled at once.
#include <algorithm>

#include "template/builtins.hpp"
#include "template/operations.hpp"
#include "template/runtime.hpp"
#include "template/unicode.hpp"

namespace tenon::templating {
namespace {

Value ignore_case(Runtime& runtime, const Value& value, bool case_sensitive) {
  return case_sensitive || !value.is_text() ? value : runtime.text(to_lower(text_of(value)));
}

Value or_none(const Value& value) { return value.is(Kind::kMissing) ? Value::none() : value; }

Value first(Runtime& runtime, const Value& input, Arguments& arguments) {
  expect_no_arguments(arguments, "first");
  Cursor cursor(runtime, input);
  Value item;
  return cursor.next(runtime, item) ? item : runtime.undefined("No first item, sequence was empty.");
}

void check_reversible(const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kText:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kDictView:
    case Kind::kRange:
      return;
    default:
      throw Fault("'" + std::string(type_name(value)) + "' object is not reversible");
  }
}

Value last(Runtime& runtime, const Value& input, Arguments& arguments) {
  expect_no_arguments(arguments, "last");
  check_reversible(input);
  if (input.is(Kind::kList) || input.is(Kind::kTuple) || input.is(Kind::kText) || input.is(Kind::kRange))
    return length(runtime, input) > 0 ? get_item(runtime, input, Value::integer(-1))
                                      : runtime.undefined("No last item, sequence was empty.");
  const Values items = to_values(runtime, input);
  return items.empty() ? runtime.undefined("No last item, sequence was empty.") : items.back();
}

Value list(Runtime& runtime, const Value& input, Arguments& arguments) {
  expect_no_arguments(arguments, "list");
  return runtime.list(to_values(runtime, input));
}

Value reverse(Runtime& runtime, const Value& input, Arguments& arguments) {
  expect_no_arguments(arguments, "reverse");
  if (input.is_text()) return slice(runtime, input, Value::none(), Value::none(), Value::integer(-1));
  Values items = to_values(runtime, input);
  std::reverse(items.begin(), items.end());
  return input.is(Kind::kIterator) || input.is(Kind::kLoop) ? runtime.list(std::move(items))
                                                            : runtime.iterator(std::move(items));
}

Value join(Runtime& runtime, const Value& input, Arguments& arguments) {
  const auto [separator, attribute] = bind(arguments, "join", {"d", "attribute"}, 0);
  const std::string between = separator.is(Kind::kMissing) ? "" : to_text(runtime, separator);
  const bool has_attribute = !attribute.is(Kind::kMissing) && !attribute.is_none();
  std::string result;
  bool is_first = true;
  Cursor cursor(runtime, input);
  for (Value item; cursor.next(runtime, item); is_first = false) {
    if (!is_first) result += between;
    append_text(runtime, result, has_attribute ? get_path(runtime, item, attribute) : item);
    runtime.check_size(result.size());
  }
  runtime.step_text(result.size());
  return runtime.text(std::move(result));
}

Value items(Runtime& runtime, const Value& input, Arguments& arguments) {
  expect_no_arguments(arguments, "items");
  if (input.is_undefined()) return runtime.iterator({});
  if (!input.is(Kind::kDict)) throw Fault("Can only get item pairs from a mapping.");
  Values pairs;
  for (const auto& [key, value] : input.as<Dict>().entries) pairs.push_back(runtime.tuple({key, value}));
  runtime.step(pairs.size());
  return runtime.iterator(std::move(pairs));
}

Value dictsort(Runtime& runtime, const Value& input, Arguments& arguments) {
  const auto [case_sensitive, by, reversed] = bind(arguments, "dictsort", {"case_sensitive", "by", "reverse"}, 0);
  const std::string what = by.is(Kind::kMissing) ? "key" : to_text(runtime, by);
  if (what != "key" && what != "value") throw Fault("You can only sort by either \"key\" or \"value\"");
  if (input.is_undefined()) fail_undefined(input);
  if (!input.is(Kind::kDict)) throw Fault("'" + std::string(type_name(input)) + "' object has no attribute 'items'");
  Values pairs, keys;
  for (const auto& [key, value] : input.as<Dict>().entries) {
    pairs.push_back(runtime.tuple({key, value}));
    keys.push_back(ignore_case(runtime, what == "key" ? key : value, truthy(case_sensitive)));
  }
  return runtime.list(sorted(runtime, std::move(pairs), std::move(keys), truthy(reversed)));
}

// The values that a sort compares: those of each attribute of "a,b.c".
Value sort_key(Runtime& runtime, const Value& item, const Value& attribute, bool case_sensitive) {
  Values key;
  if (attribute.is_text()) {
    const std::string_view paths = text_of(attribute);
    for (size_t begin = 0; begin <= paths.size();) {
      const size_t end = std::min(paths.find(',', begin), paths.size());
      const Value path = runtime.text(std::string(paths.substr(begin, end - begin)));
      key.push_back(ignore_case(runtime, get_path(runtime, item, path), case_sensitive));
      begin = end + 1;
    }
  } else {
    key.push_back(ignore_case(runtime, get_path(runtime, item, or_none(attribute)), case_sensitive));
  }
  return runtime.list(std::move(key));
}

Value sort(Runtime& runtime, const Value& input, Arguments& arguments) {
  const auto [reversed, case_sensitive, attribute] =
      bind(arguments, "sort", {"reverse", "case_sensitive", "attribute"}, 0);
  Values all = to_values(runtime, input), keys;
  for (const Value& item : all) keys.push_back(sort_key(runtime, item, attribute, truthy(case_sensitive)));
  return runtime.list(sorted(runtime, std::move(all), std::move(keys), truthy(reversed)));
}

Value unique(Runtime& runtime, const Value& input, Arguments& arguments) {
  const auto [case_sensitive, attribute] = bind(arguments, "unique", {"case_sensitive", "attribute"}, 0);
  const Value seen = runtime.dict();
  Values kept;
  Cursor cursor(runtime, input);
  for (Value item; cursor.next(runtime, item);) {
    const Value key = ignore_case(runtime, get_path(runtime, item, or_none(attribute)), truthy(case_sensitive));
    if (dict_find(runtime, seen.as<Dict>(), key)) continue;
    dict_set(runtime, seen.as<Dict>(), key, Value::none());
    kept.push_back(std::move(item));
  }
  return runtime.iterator(std::move(kept));
}

// The first of the least or greatest items.
template <bool kMax>
Value extreme(Runtime& runtime, const Value& input, Arguments& arguments) {
  const auto [case_sensitive, attribute] = bind(arguments, kMax ? "max" : "min", {"case_sensitive", "attribute"}, 0);
  Value best, best_key;
  Cursor cursor(runtime, input);
  for (Value item; cursor.next(runtime, item);) {
    Value key = ignore_case(runtime, get_path(runtime, item, or_none(attribute)), truthy(case_sensitive));
    if (!best.is(Kind::kMissing) &&
        compare(runtime, key, best_key, kMax ? ">" : "<") != (kMax ? Order::kGreater : Order::kLess))
      continue;
    best = std::move(item);
    best_key = std::move(key);
  }
  return best.is(Kind::kMissing) ? runtime.undefined("No aggregated item, sequence was empty.") : best;
}

Value sum(Runtime& runtime, const Value& input, Arguments& arguments) {
  const auto [attribute, start] = bind(arguments, "sum", {"attribute", "start"}, 0);
  if (start.is_text()) throw Fault("sum() can't sum strings [use ''.join(seq) instead]");
  Value total = start.is(Kind::kMissing) ? Value::integer(0) : start;
  Cursor cursor(runtime, input);
  for (Value item; cursor.next(runtime, item);)
    total = binary(runtime, Operator::kAdd, total, get_path(runtime, item, or_none(attribute)));
  return total;
}

Value map(Runtime& runtime, const Value& input, Arguments& arguments) {
  if (!truthy(input)) return runtime.iterator({});
  Values results;
  if (arguments.positional.empty() && !arguments.named.empty()) {
    const auto [attribute, fallback] = bind(arguments, "map", {"attribute", "default"}, 1);
    Cursor cursor(runtime, input);
    for (Value item; cursor.next(runtime, item);) results.push_back(get_path(runtime, item, attribute, fallback));
    return runtime.iterator(std::move(results));
  }
  if (arguments.positional.empty()) throw Fault("map requires a filter argument");
  const std::string name(text_argument(arguments.positional.front(), "map"));
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin());
  Cursor cursor(runtime, input);
  for (Value item; cursor.next(runtime, item);) {
    Arguments copy = rest;
    results.push_back(runtime.apply_filter(name, item, copy));
  }
  return runtime.iterator(std::move(results));
}

template <bool kByAttribute, bool kKeep>
Value select(Runtime& runtime, const Value& input, Arguments& arguments) {
  if (!truthy(input)) return runtime.iterator({});
  Arguments rest = arguments;
  const auto take = [&rest] {
    Value value = std::move(rest.positional.front());
    rest.positional.erase(rest.positional.begin());
    return value;
  };
  if (kByAttribute && rest.positional.empty()) throw Fault("Missing parameter for attribute name");
  const Value attribute = kByAttribute ? take() : Value::none();
  const bool has_test = !rest.positional.empty();
  const std::string name = has_test ? std::string(text_argument(take(), "select")) : "";
  Values kept;
  Cursor cursor(runtime, input);
  for (Value item; cursor.next(runtime, item);) {
    const Value subject = get_path(runtime, item, attribute);
    Arguments copy = rest;
    if ((has_test ? runtime.apply_test(name, subject, copy) : truthy(subject)) == kKeep)
      kept.push_back(std::move(item));
  }
  return runtime.iterator(std::move(kept));
}

Value batch(Runtime& runtime, const Value& input, Arguments& arguments) {
  const auto [count, fill] = bind(arguments, "batch", {"linecount", "fill_with"}, 1);
  const int64_t size = whole_argument(count, "batch", 0);
  Values rows, row;
  Cursor cursor(runtime, input);
  for (Value item; cursor.next(runtime, item);) {
    if (static_cast<int64_t>(row.size()) == size) {
      rows.push_back(runtime.list(std::move(row)));
      row.clear();
    }
    row.push_back(std::move(item));
  }
  if (!row.empty()) {
    if (!fill.is(Kind::kMissing) && !fill.is_none()) {
      runtime.check_size(static_cast<uint64_t>(std::max<int64_t>(size, 0)) * sizeof(Value));
      while (static_cast<int64_t>(row.size()) < size) row.push_back(fill);
    }
    rows.push_back(runtime.list(std::move(row)));
  }
  return runtime.iterator(std::move(rows));
}

Value slices(Runtime& runtime, const Value& input, Arguments& arguments) {
  const auto [count, fill] = bind(arguments, "slice", {"slices", "fill_with"}, 1);
  const int64_t n = whole_argument(count, "slice", 0);
  const Values all = to_values(runtime, input);
  if (n == 0) throw Fault("integer division or modulo by zero");
  Values columns;
  const auto size = static_cast<int64_t>(all.size());
  size_t begin = 0;
  for (int64_t i = 0; i < n; ++i) {
    runtime.step();
    const bool longer = i < size % n;
    const size_t end = begin + static_cast<size_t>(size / n + (longer ? 1 : 0));
    Values column(all.begin() + static_cast<std::ptrdiff_t>(begin), all.begin() + static_cast<std::ptrdiff_t>(end));
    if (!longer && !fill.is(Kind::kMissing) && !fill.is_none()) column.push_back(fill);
    columns.push_back(runtime.list(std::move(column)));
    begin = end;
  }
  return runtime.iterator(std::move(columns));
}

Value groupby(Runtime& runtime, const Value& input, Arguments& arguments) {
  const auto [attribute, fallback, case_sensitive] =
      bind(arguments, "groupby", {"attribute", "default", "case_sensitive"}, 1);
  const Values all = to_values(runtime, input);
  Values pairs, keys;
  for (const Value& item : all) {
    const Value key = get_path(runtime, item, attribute, fallback);
    keys.push_back(ignore_case(runtime, key, truthy(case_sensitive)));
    pairs.push_back(runtime.tuple({keys.back(), key, item}));
  }
  Values groups;
  Value group_key, shown;
  Values members;
  const auto close = [&] {
    if (members.empty()) return;
    Value group = runtime.tuple({shown, runtime.list(std::move(members))});
    group.as<Sequence>().is_group = true;
    groups.push_back(std::move(group));
    members.clear();
  };
  for (const Value& pair : sorted(runtime, std::move(pairs), std::move(keys), false)) {
    const Values& parts = pair.as<Sequence>().items;
    if (members.empty() || !equal(runtime, group_key, parts[0])) {
      close();
      group_key = parts[0];
      shown = parts[1];
    }
    members.push_back(parts[2]);
  }
  close();
  return runtime.list(std::move(groups));
}

constexpr FilterSpec kFilters[] = {
    {"first", first},
    {"last", last},
    {"list", list},
    {"reverse", reverse},
    {"join", join},
    {"items", items},
    {"dictsort", dictsort},
    {"sort", sort},
    {"unique", unique},
    {"min", extreme<false>},
    {"max", extreme<true>},
    {"sum", sum},
    {"map", map},
    {"select", select<false, true>},
    {"reject", select<false, false>},
    {"selectattr", select<true, true>},
    {"rejectattr", select<true, false>},
    {"batch", batch},
    {"slice", slices},
    {"groupby", groupby},
};

}  // namespace

std::span<const FilterSpec> sequence_filters() { return kFilters; }

}  // namespace tenon::templating
