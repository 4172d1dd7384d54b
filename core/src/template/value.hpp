// value.hpp: the values of templates: Python's, as far as templates see them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "template/ast.hpp"
#include "template/heap.hpp"

namespace tenon::templating {

class Runtime;

// A small value, or a counted reference to an object. Must not outlive the Heap of its object.
class Value {
 public:
  Value() : kind_(Kind::kMissing) { payload_.integer = 0; }
  Value(const Value& other) : kind_(other.kind_), has_object_(other.has_object_), payload_(other.payload_) { retain(); }
  Value(Value&& other) noexcept : kind_(other.kind_), has_object_(other.has_object_), payload_(other.payload_) {
    other.has_object_ = false;
    other.kind_ = Kind::kMissing;
  }
  Value& operator=(const Value& other) {
    Value copy(other);
    swap(copy);
    return *this;
  }
  Value& operator=(Value&& other) noexcept {
    Value moved(std::move(other));
    swap(moved);
    return *this;
  }
  ~Value() { release(); }

  static Value none() { return Value(Kind::kNone); }
  static Value undefined() { return Value(Kind::kUndefined); }
  static Value boolean(bool value) {
    Value result(Kind::kBool);
    result.payload_.boolean = value;
    return result;
  }
  static Value integer(int64_t value) {
    Value result(Kind::kInteger);
    result.payload_.integer = value;
    return result;
  }
  static Value real(double value) {
    Value result(Kind::kFloat);
    result.payload_.real = value;
    return result;
  }
  // Undefined, with an object that knows why; other kinds are those of the object.
  static Value of(Object* object, Kind kind) {
    Value result(kind);
    result.payload_.object = object;
    result.has_object_ = true;
    result.retain();
    return result;
  }
  static Value of(Object* object) { return of(object, object->kind); }

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_undefined() const { return kind_ == Kind::kUndefined || kind_ == Kind::kMissing; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_text() const { return kind_ == Kind::kText; }
  bool is_whole() const { return kind_ == Kind::kInteger || kind_ == Kind::kBool; }  // int in Python; bool is one
  bool is_number() const { return is_whole() || kind_ == Kind::kFloat; }

  bool as_bool() const { return payload_.boolean; }
  int64_t as_integer() const { return kind_ == Kind::kBool ? payload_.boolean : payload_.integer; }
  double as_real() const { return kind_ == Kind::kFloat ? payload_.real : static_cast<double>(as_integer()); }
  Object* object() const { return has_object_ ? payload_.object : nullptr; }
  template <typename T>
  T& as() const {
    return static_cast<T&>(*payload_.object);
  }

  void swap(Value& other) noexcept {
    std::swap(kind_, other.kind_);
    std::swap(payload_, other.payload_);
    std::swap(has_object_, other.has_object_);
  }

 private:
  explicit Value(Kind kind) : kind_(kind) { payload_.integer = 0; }
  void retain() const {
    if (has_object_) ++payload_.object->references;
  }
  void release() {
    if (has_object_ && --payload_.object->references == 0) payload_.object->heap->retire(payload_.object);
  }

  Kind kind_;
  bool has_object_ = false;
  union {
    bool boolean;
    int64_t integer;
    double real;
    Object* object;
  } payload_;
};

using Values = std::vector<Value>;

inline std::string_view text_of(const Value& value);  // of a Text

struct Text : Object {
  Text(std::string text, bool markup) : Object(Kind::kText), text(std::move(text)), markup(markup) {}
  std::string text;
  bool markup;  // marked as safe: joined with other text, that text is escaped
};

std::string_view text_of(const Value& value) { return value.as<Text>().text; }

// Why something is undefined.
struct Reason : Object {
  explicit Reason(std::string message) : Object(Kind::kUndefined), message(std::move(message)) {}
  std::string message;
};

struct BigNumber : Object {
  explicit BigNumber(std::string digits) : Object(Kind::kBigInteger), digits(std::move(digits)) {}
  std::string digits;  // with a sign if negative
};

struct Sequence : Object {  // kList, kTuple
  Sequence(Kind kind, Values items) : Object(kind), items(std::move(items)) {}
  void clear() override { items.clear(); }
  Values items;
  bool is_group = false;  // a tuple of the filter groupby: its items have the names grouper and list
};

// In order of insertion. Keys are those that Python can hash.
struct Dict : Object {
  Dict() : Object(Kind::kDict) {}
  void clear() override {
    entries.clear();
    index.clear();
  }
  std::vector<std::pair<Value, Value>> entries;
  std::unordered_multimap<uint64_t, uint32_t> index;  // hash to entry, only once there are many entries
};

struct DictView : Object {
  enum class What : uint8_t { kKeys, kValues, kItems };
  DictView(What what, Value dict) : Object(Kind::kDictView), what(what), dict(std::move(dict)) {}
  void clear() override { dict = Value(); }
  What what;
  Value dict;
};

struct Range : Object {
  Range(int64_t start, int64_t stop, int64_t step) : Object(Kind::kRange), start(start), stop(stop), step(step) {}
  int64_t size() const;
  int64_t start, stop, step;
};

// What Python's generators are: gone through once.
struct Iterator : Object {
  explicit Iterator(Values items) : Object(Kind::kIterator), items(std::move(items)) {}
  void clear() override { items.clear(); }
  Values items;
  size_t next_item = 0;
};

struct Namespace : Object {
  Namespace() : Object(Kind::kNamespace) {}
  void clear() override { attributes.clear(); }
  std::vector<std::pair<std::string, Value>> attributes;
};

// The variables of a scope that has been entered.
struct ScopeFrame : Object {
  ScopeFrame(const Scope& scope, Value outer) : Object(Kind::kScopeFrame), scope(scope), outer(std::move(outer)) {}
  void clear() override {
    slots.clear();
    outer = Value();
  }
  const Scope& scope;
  Value outer;  // a ScopeFrame, or missing
  Values slots;
};

struct Macro : Object {
  Macro(const Callable& callable, Value frame) : Object(Kind::kMacro), callable(callable), frame(std::move(frame)) {}
  void clear() override { frame = Value(); }
  const Callable& callable;
  Value frame;  // in which it was defined
};

// Arguments of a call.
struct Arguments {
  Values positional;
  std::vector<std::pair<std::string, Value>> named;
};

struct Function : Object {
  using Body = Value (*)(Runtime&, Arguments&);
  Function(std::string_view name, Body body) : Object(Kind::kFunction), name(name), body(body) {}
  std::string_view name;
  Body body;
};

struct MethodSpec;
struct Method : Object {
  Method(const MethodSpec& spec, Value self) : Object(Kind::kMethod), spec(spec), self(std::move(self)) {}
  void clear() override { self = Value(); }
  const MethodSpec& spec;
  Value self;
};

struct Cycler : Object {
  explicit Cycler(Values items) : Object(Kind::kCycler), items(std::move(items)) {}
  void clear() override { items.clear(); }
  Values items;
  size_t position = 0;
};

struct Joiner : Object {
  explicit Joiner(Value separator) : Object(Kind::kJoiner), separator(std::move(separator)) {}
  void clear() override { separator = Value(); }
  Value separator;
  bool used = false;
};

// Goes through the items of a value one by one. A list may grow meanwhile; an Iterator is used up.
class Cursor {
 public:
  Cursor() = default;
  // Throws Fault for what cannot be gone through.
  Cursor(Runtime& runtime, Value container);
  bool next(Runtime& runtime, Value& item);
  int64_t size() const { return size_; }  // items in all, where that is known without going through them; else -1

 private:
  Value container_;
  size_t position_ = 0;
  int64_t size_ = -1;
};

// The variable `loop`. The statement that runs the loop fetches items through it.
struct Loop : Object {
  Loop() : Object(Kind::kLoop) {}
  void clear() override {
    source = Cursor();
    pending.clear();
    current = before = changed = frame = Value();
  }
  Cursor source;
  Values pending;  // fetched and tested ahead, from next_pending on
  size_t next_pending = 0;
  Value current, before;
  Value changed;  // the last arguments of changed(), a tuple; missing = never called
  int64_t index0 = -1;
  int64_t length = -1;  // -1: not known yet
  int64_t depth0 = 0;
  const ForStmt* statement = nullptr;
  Value frame;  // around the loop
};

}  // namespace tenon::templating
