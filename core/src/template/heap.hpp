// heap.hpp: the memory of one rendering: counted references, a limit, and everything freed at the end, cycles too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace tenon::templating {

class Heap;

enum class Kind : uint8_t {
  kMissing,    // a variable without a value
  kUndefined,  // what looking up something that is not there gives
  kNone,
  kBool,
  kInteger,
  kFloat,
  // Objects:
  kBigInteger,
  kText,
  kList,
  kTuple,
  kDict,
  kDictView,
  kRange,
  kIterator,
  kNamespace,
  kMacro,
  kLoop,
  kFunction,
  kMethod,
  kCycler,
  kJoiner,
  kScopeFrame
};

// Lives on a Heap and knows it. One thread.
struct Object {
  explicit Object(Kind kind) : kind(kind) {}
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual void clear() {}  // lets go of all other objects

  const Kind kind;
  uint32_t references = 0;
  size_t charged = 0;  // bytes
  Heap* heap = nullptr;
  Object *previous = nullptr, *next = nullptr;
};

class Heap {
 public:
  explicit Heap(uint64_t max_bytes) : max_bytes_(max_bytes) {}
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // `bytes`: about what the object takes. Throws Fault(kLimit).
  template <typename T, typename... Arguments>
  T* make(size_t bytes, Arguments&&... arguments) {
    check(bytes);
    T* object = new T(std::forward<Arguments>(arguments)...);  // owned by its references
    adopt(object, bytes);
    return object;
  }
  // Throws Fault(kLimit) when `bytes` more would be too much: before building something large.
  void check(uint64_t bytes) const;
  // An object has grown or shrunk to `bytes`.
  void recharge(Object& object, size_t bytes);
  void retire(Object* object);  // nobody refers to it any more

 private:
  void adopt(Object* object, size_t bytes);
  void drain();

  uint64_t max_bytes_, bytes_ = 0;
  Object *live_ = nullptr, *dead_ = nullptr;
  bool draining_ = false;
};

}  // namespace tenon::templating
