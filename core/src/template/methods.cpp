// Methods of everything but texts.
#include <algorithm>
#include <bit>
#include <cmath>

#include "template/builtins.hpp"
#include "template/operations.hpp"
#include "template/runtime.hpp"

namespace tenon::templating {
namespace {

Value dict_get(Runtime& runtime, const Value& self, Arguments& arguments) {
  const auto [key, fallback] = bind(arguments, "get", {"", ""}, 1);
  if (const Value* value = dict_find(runtime, self.as<Dict>(), key)) return *value;
  return fallback.is(Kind::kMissing) ? Value::none() : fallback;
}

template <DictView::What kWhat>
Value dict_view(Runtime& runtime, const Value& self, Arguments& arguments) {
  expect_no_arguments(arguments, "dict view");
  return runtime.object<DictView>(kWhat, self);
}

Value dict_copy(Runtime& runtime, const Value& self, Arguments& arguments) {
  expect_no_arguments(arguments, "copy");
  Value copy = runtime.dict();
  for (const auto& [key, value] : self.as<Dict>().entries) dict_set(runtime, copy.as<Dict>(), key, value);
  return copy;
}

Value dict_pop(Runtime& runtime, const Value& self, Arguments& arguments) {
  const auto [key, fallback] = bind(arguments, "pop", {"", ""}, 1);
  Value value = dict_take(runtime, self.as<Dict>(), key);
  if (!value.is(Kind::kMissing)) return value;
  if (fallback.is(Kind::kMissing)) throw Fault("pop(): there is no key " + to_repr(runtime, key));
  return fallback;
}

Value dict_fromkeys(Runtime& runtime, const Value&, Arguments& arguments) {
  const auto [keys, value] = bind(arguments, "fromkeys", {"", ""}, 1);
  Value dict = runtime.dict();
  for (const Value& key : to_values(runtime, keys))
    dict_set(runtime, dict.as<Dict>(), key, value.is(Kind::kMissing) ? Value::none() : value);
  return dict;
}

void charge(Runtime& runtime, Sequence& list) {
  runtime.heap().recharge(list, sizeof(Sequence) + list.items.size() * sizeof(Value));
}

Value list_append(Runtime& runtime, const Value& self, Arguments& arguments) {
  const auto [item] = bind(arguments, "append", {""}, 1);
  self.as<Sequence>().items.push_back(item);
  charge(runtime, self.as<Sequence>());
  return Value::none();
}

Value list_pop(Runtime& runtime, const Value& self, Arguments& arguments) {
  const auto [index] = bind(arguments, "pop", {""}, 0);
  Values& items = self.as<Sequence>().items;
  const auto at = normal_index(whole_argument(index, "pop", -1), items.size());
  if (!at) throw Fault(items.empty() ? "pop from empty list" : "pop index out of range");
  runtime.step(items.size() - *at);
  Value item = std::move(items[*at]);
  items.erase(items.begin() + static_cast<std::ptrdiff_t>(*at));
  charge(runtime, self.as<Sequence>());
  return item;
}

Value list_copy(Runtime& runtime, const Value& self, Arguments& arguments) {
  expect_no_arguments(arguments, "copy");
  return runtime.list(self.as<Sequence>().items);
}

Value sequence_index(Runtime& runtime, const Value& self, Arguments& arguments) {
  const auto [item, start, stop] = bind(arguments, "index", {"", "", ""}, 1);
  const Values items = to_values(runtime, self);
  const auto place = [&](int64_t index) {
    const auto size = static_cast<int64_t>(items.size());
    return std::clamp<int64_t>(index < 0 ? index + size : index, 0, size);
  };
  const int64_t begin = place(whole_argument(start, "index", 0));
  const int64_t end = place(whole_argument(stop, "index", static_cast<int64_t>(items.size())));
  for (int64_t i = begin; i < end; ++i)
    if (equal(runtime, items[static_cast<size_t>(i)], item)) return Value::integer(i);
  throw Fault(to_repr(runtime, item) + " is not in " + std::string(type_name(self)));
}

Value sequence_count(Runtime& runtime, const Value& self, Arguments& arguments) {
  const auto [item] = bind(arguments, "count", {""}, 1);
  int64_t n = 0;
  for (const Value& other : to_values(runtime, self)) n += equal(runtime, other, item) ? 1 : 0;
  return Value::integer(n);
}

Value bit_length(Runtime&, const Value& self, Arguments& arguments) {
  expect_no_arguments(arguments, "bit_length");
  const int64_t value = self.as_integer();
  return Value::integer(std::bit_width(value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value)));
}

Value conjugate(Runtime&, const Value& self, Arguments& arguments) {
  expect_no_arguments(arguments, "conjugate");
  return plus(self);
}

Value is_integer(Runtime&, const Value& self, Arguments& arguments) {
  expect_no_arguments(arguments, "is_integer");
  return Value::boolean(std::isfinite(self.as_real()) && std::floor(self.as_real()) == self.as_real());
}

Value loop_cycle(Runtime&, const Value& self, Arguments& arguments) {
  if (!arguments.named.empty()) throw Fault("cycle() takes no keyword arguments");
  const Values& items = arguments.positional;
  if (items.empty()) throw Fault("no items for cycling given");
  return items[static_cast<size_t>(self.as<Loop>().index0) % items.size()];
}

Value loop_changed(Runtime& runtime, const Value& self, Arguments& arguments) {
  if (!arguments.named.empty()) throw Fault("changed() takes no keyword arguments");
  Loop& loop = self.as<Loop>();
  Value now = runtime.tuple(std::move(arguments.positional));
  if (!loop.changed.is(Kind::kMissing) && equal(runtime, loop.changed, now)) return Value::boolean(false);
  loop.changed = std::move(now);
  return Value::boolean(true);
}

Value cycler_next(Runtime&, const Value& self, Arguments& arguments) {
  expect_no_arguments(arguments, "next");
  Cycler& cycler = self.as<Cycler>();
  const size_t position = cycler.position;
  cycler.position = (position + 1) % cycler.items.size();
  return cycler.items[position];
}

Value cycler_reset(Runtime&, const Value& self, Arguments& arguments) {
  expect_no_arguments(arguments, "reset");
  self.as<Cycler>().position = 0;
  return Value::none();
}

constexpr MethodSpec kDictMethods[] = {{"get", dict_get},
                                       {"items", dict_view<DictView::What::kItems>},
                                       {"keys", dict_view<DictView::What::kKeys>},
                                       {"values", dict_view<DictView::What::kValues>},
                                       {"copy", dict_copy},
                                       {"pop", dict_pop},
                                       {"fromkeys", dict_fromkeys}};
constexpr MethodSpec kListMethods[] = {{"append", list_append},
                                       {"pop", list_pop},
                                       {"copy", list_copy},
                                       {"index", sequence_index},
                                       {"count", sequence_count}};
constexpr MethodSpec kTupleMethods[] = {{"index", sequence_index}, {"count", sequence_count}};
constexpr MethodSpec kIntegerMethods[] = {{"bit_length", bit_length}, {"conjugate", conjugate}};
constexpr MethodSpec kFloatMethods[] = {{"is_integer", is_integer}, {"conjugate", conjugate}};
constexpr MethodSpec kLoopMethods[] = {{"cycle", loop_cycle}, {"changed", loop_changed}};
constexpr MethodSpec kCyclerMethods[] = {{"next", cycler_next}, {"reset", cycler_reset}};

std::span<const MethodSpec> methods_of(Kind kind) {
  switch (kind) {
    case Kind::kText:
      return text_methods();
    case Kind::kDict:
      return kDictMethods;
    case Kind::kList:
      return kListMethods;
    case Kind::kTuple:
    case Kind::kRange:
      return kTupleMethods;
    case Kind::kBool:
    case Kind::kInteger:
      return kIntegerMethods;
    case Kind::kFloat:
      return kFloatMethods;
    case Kind::kLoop:
      return kLoopMethods;
    case Kind::kCycler:
      return kCyclerMethods;
    default:
      return {};
  }
}

}  // namespace

const MethodSpec* find_method(Kind kind, std::string_view name) {
  const std::span<const MethodSpec> methods = methods_of(kind);
  const auto found =
      std::find_if(methods.begin(), methods.end(), [&](const MethodSpec& method) { return method.name == name; });
  return found == methods.end() ? nullptr : &*found;
}

}  // namespace tenon::templating
