#include "template/heap.hpp"

#include <string>

#include "template/fault.hpp"

namespace tenon::templating {

// Objects that refer to each other in a circle let go of each other first.
Heap::~Heap() {
  for (Object* object = live_; object;) {
    ++object->references;
    object->clear();
    Object* next = object->next;
    if (--object->references == 0) retire(object);
    object = next;
  }
}

void Heap::check(uint64_t bytes) const {
  if (bytes > max_bytes_ || bytes_ > max_bytes_ - bytes)
    throw Fault("rendering takes more than " + std::to_string(max_bytes_ >> 20) + " MiB of memory", FaultKind::kLimit);
}

void Heap::adopt(Object* object, size_t bytes) {
  object->heap = this;
  object->charged = bytes;
  bytes_ += bytes;
  object->next = live_;
  if (live_) live_->previous = object;
  live_ = object;
}

void Heap::recharge(Object& object, size_t bytes) {
  if (bytes > object.charged) check(bytes - object.charged);
  bytes_ += bytes;
  bytes_ -= object.charged;
  object.charged = bytes;
}

// Freed one after the other, not from inside each other: chains of objects may be long.
void Heap::retire(Object* object) {
  if (object->previous)
    object->previous->next = object->next;
  else
    live_ = object->next;
  if (object->next) object->next->previous = object->previous;
  bytes_ -= object->charged;
  object->next = dead_;
  dead_ = object;
  if (!draining_) drain();
}

void Heap::drain() {
  draining_ = true;
  while (dead_) {
    Object* object = dead_;
    dead_ = object->next;
    delete object;
  }
  draining_ = false;
}

}  // namespace tenon::templating
