// handles.hpp: the pointers that cross for streams, events and graphs, and what they stand for. A wrong or an old one
// is refused by name.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <tenon/sdk/base.hpp>

#include "stream.hpp"

namespace tenon::far {

// Any thread.
template <typename T>
class Handles {
 public:
  explicit Handles(const char* what) : what_(what) {}
  void* add(void* handle, std::shared_ptr<T> object) {
    const std::lock_guard lock(mutex_);
    objects_[handle] = std::move(object);
    return handle;
  }
  std::shared_ptr<T> find(void* handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }
  // Throws INVALID_ARGUMENT.
  std::shared_ptr<T> get(void* handle) const {
    if (auto object = find(handle)) return object;
    throw sdk::Error(TENON_INVALID_ARGUMENT, sdk::text("%p is %s", handle, what_));
  }
  // The object ends when nobody else holds it.
  std::shared_ptr<T> remove(void* handle) {
    auto object = get(handle);
    const std::lock_guard lock(mutex_);
    objects_.erase(handle);
    return object;
  }

 private:
  const char* what_;
  mutable std::mutex mutex_;
  std::map<void*, std::shared_ptr<T>> objects_;
};

Handles<Stream>& streams();
Handles<Event>& events();
Handles<const Graph>& graphs();
// Streams once more, by the pointer that kernels get: another one, so that a host which mixes up the two is found.
Handles<Stream>& native_streams();

}  // namespace tenon::far
