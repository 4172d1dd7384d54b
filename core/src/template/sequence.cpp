// Containers: going through them, sizes, slices, dictionaries, sorting.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "template/operations.hpp"
#include "template/runtime.hpp"
#include "template/unicode.hpp"
#include "text/code_points.hpp"

namespace tenon::templating {
namespace {

constexpr size_t kIndexFrom = 16;  // a dict with more entries than this gets an index

bool same_key(Runtime& runtime, const Value& left, const Value& right) {
  if (left.is_text() && right.is_text()) return text_of(left) == text_of(right);
  return equal(runtime, left, right);
}

std::optional<uint32_t> find_entry(Runtime& runtime, const Dict& dict, const Value& key) {
  if (!is_hashable(key)) throw Fault("unhashable type: '" + std::string(type_name(key)) + "'");
  if (dict.index.empty()) {
    for (size_t i = 0; i < dict.entries.size(); ++i)
      if (same_key(runtime, dict.entries[i].first, key)) return static_cast<uint32_t>(i);
    return std::nullopt;
  }
  const auto [begin, end] = dict.index.equal_range(hash_of(key));
  for (auto it = begin; it != end; ++it) {
    runtime.step();
    if (same_key(runtime, dict.entries[it->second].first, key)) return it->second;
  }
  return std::nullopt;
}

void rebuild_index(Dict& dict) {
  dict.index.clear();
  if (dict.entries.size() <= kIndexFrom) return;
  for (size_t i = 0; i < dict.entries.size(); ++i)
    dict.index.emplace(hash_of(dict.entries[i].first), static_cast<uint32_t>(i));
}

void charge(Runtime& runtime, Dict& dict) {
  runtime.heap().recharge(dict, sizeof(Dict) + dict.entries.size() * (2 * sizeof(Value) + 40));
}

}  // namespace

int64_t Range::size() const {
  const bool up = step > 0;
  if (up ? start >= stop : start <= stop) return 0;
  const uint64_t distance = up ? static_cast<uint64_t>(stop) - static_cast<uint64_t>(start)
                               : static_cast<uint64_t>(start) - static_cast<uint64_t>(stop);
  const uint64_t width = up ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
  return static_cast<int64_t>(std::min<uint64_t>((distance - 1) / width + 1, INT64_MAX));
}

Cursor::Cursor(Runtime& runtime, Value container) : container_(std::move(container)) {
  switch (container_.kind()) {
    case Kind::kDictView:
      size_ = length(runtime, container_);
      if (container_.as<DictView>().what == DictView::What::kKeys)
        container_ = Value(container_.as<DictView>().dict);
      else
        container_ = runtime.list(view_values(runtime, container_.as<DictView>()));
      return;
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kText:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kRange:
      size_ = length(runtime, container_);
      return;
    case Kind::kIterator:
      return;
    case Kind::kLoop:  // the items that the loop has not come to yet
      return;
    default:
      throw Fault("'" + std::string(type_name(container_)) + "' object is not iterable");
  }
}

bool Cursor::next(Runtime& runtime, Value& item) {
  runtime.step();
  switch (container_.kind()) {
    case Kind::kText: {
      const std::string& text = container_.as<Text>().text;
      if (position_ >= text.size()) return false;
      const size_t size = text::decode_at(text, position_).size;
      item = runtime.text(text.substr(position_, size));
      position_ += size;
      return true;
    }
    case Kind::kList:
    case Kind::kTuple: {
      const Values& items = container_.as<Sequence>().items;
      if (position_ >= items.size()) return false;
      item = items[position_++];
      return true;
    }
    case Kind::kDict: {
      const auto& entries = container_.as<Dict>().entries;
      if (position_ >= entries.size()) return false;
      item = entries[position_++].first;
      return true;
    }
    case Kind::kRange: {
      const Range& range = container_.as<Range>();
      if (static_cast<int64_t>(position_) >= range.size()) return false;
      item = Value::integer(range.start + static_cast<int64_t>(position_++) * range.step);
      return true;
    }
    case Kind::kIterator: {
      Iterator& iterator = container_.as<Iterator>();
      if (iterator.next_item >= iterator.items.size()) return false;
      item = std::move(iterator.items[iterator.next_item++]);
      return true;
    }
    case Kind::kLoop:
      return runtime.fetch(container_.as<Loop>(), item);
    default:
      return false;
  }
}

int64_t length(Runtime& runtime, const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
      return 0;
    case Kind::kText:
      runtime.step_text(text_of(value).size());
      return static_cast<int64_t>(count_points(text_of(value)));
    case Kind::kList:
    case Kind::kTuple:
      return static_cast<int64_t>(value.as<Sequence>().items.size());
    case Kind::kDict:
      return static_cast<int64_t>(value.as<Dict>().entries.size());
    case Kind::kDictView:
      return length(runtime, value.as<DictView>().dict);
    case Kind::kRange:
      return value.as<Range>().size();
    case Kind::kLoop:
      return runtime.loop_length(value.as<Loop>());
    default:
      throw Fault("object of type '" + std::string(type_name(value)) + "' has no len()");
  }
}

Values to_values(Runtime& runtime, const Value& value) {
  Values items;
  Cursor cursor(runtime, value);
  if (cursor.size() > 0) {
    runtime.heap().check(static_cast<uint64_t>(cursor.size()) * sizeof(Value));
    items.reserve(static_cast<size_t>(cursor.size()));
  }
  for (Value item; cursor.next(runtime, item);) items.push_back(std::move(item));
  return items;
}

std::optional<size_t> normal_index(int64_t index, size_t size) {
  if (index < 0) index += static_cast<int64_t>(size);
  if (index < 0 || index >= static_cast<int64_t>(size)) return std::nullopt;
  return static_cast<size_t>(index);
}

Value character(Runtime& runtime, const Value& value, size_t index) {
  const Text& text = value.as<Text>();
  const size_t begin = is_ascii(text.text) ? index : offset_of(text.text, index);
  return runtime.text(text.text.substr(begin, text::decode_at(text.text, begin).size), text.markup);
}

namespace {

// The indexes that start:stop:step picks out of `size` items: `count` of them from `first` on.
struct Picked {
  int64_t first = 0, count = 0, step = 1;
};

int64_t bound_argument(const Value& value) {
  if (!value.is_whole()) throw Fault("slice indices must be integers or None");
  return value.as_integer();
}

Picked pick(int64_t size, const Value& start, const Value& stop, const Value& step) {
  Picked picked;
  if (!step.is_none()) picked.step = bound_argument(step);
  if (picked.step == 0) throw Fault("slice step cannot be zero");
  picked.step = std::max(picked.step, -std::numeric_limits<int64_t>::max());
  const bool back = picked.step < 0;
  const int64_t low = back ? -1 : 0, high = back ? size - 1 : size;
  const auto place = [&](const Value& value, int64_t left_out) {
    if (value.is_none()) return left_out;
    int64_t index = bound_argument(value);
    if (index < 0) index = index < -size ? low : index + size;
    return std::clamp(index, low, high);
  };
  picked.first = place(start, back ? high : low);
  const int64_t last = place(stop, back ? low : high);
  if (back ? last < picked.first : picked.first < last)
    picked.count = back ? (picked.first - last - 1) / -picked.step + 1 : (last - picked.first - 1) / picked.step + 1;
  return picked;
}

std::string slice_text(const std::string& text, const Picked& picked) {
  if (is_ascii(text)) {
    if (picked.step == 1) return text.substr(static_cast<size_t>(picked.first), static_cast<size_t>(picked.count));
    std::string result;
    for (int64_t i = 0; i < picked.count; ++i) result += text[static_cast<size_t>(picked.first + i * picked.step)];
    return result;
  }
  if (picked.count == 0) return "";
  if (picked.step == 1) {
    const size_t begin = offset_of(text, static_cast<size_t>(picked.first));
    return text.substr(begin, offset_of(text, static_cast<size_t>(picked.count), begin) - begin);
  }
  std::vector<uint32_t> begins;
  for (size_t i = 0; i < text.size(); i += text::decode_at(text, i).size) begins.push_back(static_cast<uint32_t>(i));
  begins.push_back(static_cast<uint32_t>(text.size()));
  std::string result;
  for (int64_t i = 0; i < picked.count; ++i) {
    const auto at = static_cast<size_t>(picked.first + i * picked.step);
    result.append(text, begins[at], begins[at + 1] - begins[at]);
  }
  return result;
}

}  // namespace

Value slice(Runtime& runtime, const Value& value, const Value& start, const Value& stop, const Value& step) {
  switch (value.kind()) {
    case Kind::kText: {
      const Text& text = value.as<Text>();
      const Picked picked = pick(length(runtime, value), start, stop, step);
      runtime.step_text(text.text.size());
      if (picked.count != static_cast<int64_t>(count_points(text.text)) || picked.step != 1)
        return runtime.text(slice_text(text.text, picked), text.markup);
      return value;
    }
    case Kind::kList:
    case Kind::kTuple: {
      const Values& items = value.as<Sequence>().items;
      const Picked picked = pick(static_cast<int64_t>(items.size()), start, stop, step);
      runtime.step(static_cast<uint64_t>(picked.count));
      Values result;
      result.reserve(static_cast<size_t>(picked.count));
      for (int64_t i = 0; i < picked.count; ++i)
        result.push_back(items[static_cast<size_t>(picked.first + i * picked.step)]);
      return value.is(Kind::kList) ? runtime.list(std::move(result)) : runtime.tuple(std::move(result));
    }
    case Kind::kRange: {
      const Range& range = value.as<Range>();
      const Picked picked = pick(range.size(), start, stop, step);
      if (picked.count == 0) return runtime.object<Range>(0, 0, 1);
      const int64_t first = range.start + picked.first * range.step, width = range.step * picked.step;
      return runtime.object<Range>(first, first + picked.count * width, width);
    }
    case Kind::kMissing:
    case Kind::kUndefined:
      fail_undefined(value);
    case Kind::kDict:
      throw Fault("unhashable type: 'slice'");
    default:
      throw Fault("'" + std::string(type_name(value)) + "' object is not subscriptable");
  }
}

bool is_hashable(const Value& value) {
  switch (value.kind()) {
    case Kind::kList:
    case Kind::kDict:
    case Kind::kDictView:
      return false;
    case Kind::kTuple: {
      const Values& items = value.as<Sequence>().items;
      return std::all_of(items.begin(), items.end(), is_hashable);
    }
    default:
      return true;
  }
}

// Equal keys have equal hashes: 1, 1.0 and true are one key.
uint64_t hash_of(const Value& value) {
  switch (value.kind()) {
    case Kind::kText:
      return std::hash<std::string_view>()(text_of(value));
    case Kind::kBool:
    case Kind::kInteger:
    case Kind::kFloat:
      return std::hash<double>()(value.as_real());
    case Kind::kTuple: {
      uint64_t hash = 0x9E3779B97F4A7C15u;
      for (const Value& item : value.as<Sequence>().items) hash = (hash ^ hash_of(item)) * 0x100000001B3u;
      return hash;
    }
    default:
      return static_cast<uint64_t>(value.kind());
  }
}

const Value* dict_find(Runtime& runtime, const Dict& dict, const Value& key) {
  const std::optional<uint32_t> entry = find_entry(runtime, dict, key);
  return entry ? &dict.entries[*entry].second : nullptr;
}

const Value* dict_find(const Dict& dict, std::string_view key) {
  const auto matches = [&](const Value& other) { return other.is_text() && text_of(other) == key; };
  if (dict.index.empty()) {
    for (const auto& [other, value] : dict.entries)
      if (matches(other)) return &value;
    return nullptr;
  }
  const auto [begin, end] = dict.index.equal_range(std::hash<std::string_view>()(key));
  for (auto it = begin; it != end; ++it)
    if (matches(dict.entries[it->second].first)) return &dict.entries[it->second].second;
  return nullptr;
}

void dict_set(Runtime& runtime, Dict& dict, Value key, Value value) {
  if (const std::optional<uint32_t> entry = find_entry(runtime, dict, key)) {
    dict.entries[*entry].second = std::move(value);
    return;
  }
  dict.entries.emplace_back(std::move(key), std::move(value));
  charge(runtime, dict);
  if (!dict.index.empty())
    dict.index.emplace(hash_of(dict.entries.back().first), static_cast<uint32_t>(dict.entries.size() - 1));
  else
    rebuild_index(dict);
}

void dict_set(Runtime& runtime, Dict& dict, std::string_view key, Value value) {
  dict_set(runtime, dict, runtime.text(std::string(key)), std::move(value));
}

Value dict_take(Runtime& runtime, Dict& dict, const Value& key) {
  const std::optional<uint32_t> entry = find_entry(runtime, dict, key);
  if (!entry) return Value();
  runtime.step(dict.entries.size());
  Value value = std::move(dict.entries[*entry].second);
  dict.entries.erase(dict.entries.begin() + *entry);
  rebuild_index(dict);
  charge(runtime, dict);
  return value;
}

Values view_values(Runtime& runtime, const DictView& view) {
  Values values;
  for (const auto& [key, value] : view.dict.as<Dict>().entries) {
    switch (view.what) {
      case DictView::What::kKeys:
        values.push_back(key);
        break;
      case DictView::What::kValues:
        values.push_back(value);
        break;
      case DictView::What::kItems:
        values.push_back(runtime.tuple({key, value}));
        break;
    }
  }
  runtime.step(values.size());
  return values;
}

Values sorted(Runtime& runtime, Values items, Values keys, bool reverse) {
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t left, size_t right) {
    runtime.step();
    return compare(runtime, keys[reverse ? right : left], keys[reverse ? left : right]) == Order::kLess;
  });
  Values result;
  result.reserve(items.size());
  for (size_t i : order) result.push_back(std::move(items[i]));
  return result;
}

}  // namespace tenon::templating
