#include "backend.hpp"

#include <cstring>

#include "handles.hpp"
#include "memory.hpp"

namespace tenon::far {

Handles<Stream>& streams() {
  static auto& all = *new Handles<Stream>("no stream of this backend");
  return all;
}
Handles<Event>& events() {
  static auto& all = *new Handles<Event>("no event of this backend");
  return all;
}
Handles<const Graph>& graphs() {
  static auto& all = *new Handles<const Graph>("no graph of this backend");
  return all;
}
Handles<Stream>& native_streams() {
  static auto& all = *new Handles<Stream>("no stream that native() gave");
  return all;
}

namespace {

// Distinct from the handle, and as little to be read.
void* native_of(void* handle) { return static_cast<char*>(handle) + 1; }

const tenon_device* the_device() {
  static const tenon_device device = [] {
    tenon_device d = {};
    d.struct_size = sizeof d, d.backend = sdk::to_str("far"),
    d.name = sdk::to_str("host memory out of the host's reach");
    d.max_workers = 1, d.memory_bytes = Memory::instance().total();
    return d;
  }();
  return &device;
}

void check_device(uint32_t dev) {
  if (dev != 0) throw sdk::Error(TENON_INVALID_ARGUMENT, sdk::text("device %u of one", dev));
}

tenon_status answer(const Failure& failure) {
  return failure.status == TENON_OK ? int32_t(TENON_OK) : sdk::fail(failure.status, failure.message);
}

tenon_status devices(void*, uint32_t* n, const tenon_device* const** list) noexcept {
  static const tenon_device* const all[] = {the_device()};
  *n = 1, *list = all;
  return TENON_OK;
}

tenon_status memory(void*, uint32_t dev, uint64_t* free_bytes, uint64_t* total) noexcept {
  return sdk::guard([&] {
    check_device(dev);
    *free_bytes = Memory::instance().free_bytes(), *total = Memory::instance().total();
  });
}

tenon_status alloc(void*, uint32_t dev, uint32_t kind, uint64_t bytes, uint64_t align, tenon_addr* address) noexcept {
  return sdk::guard([&] {
    check_device(dev);
    *address = Memory::instance().allocate(kind, bytes, align);
  });
}

void release(void*, uint32_t, uint32_t, tenon_addr address) noexcept {
  if (sdk::guard([&] { Memory::instance().release(address); }) != TENON_OK)
    sdk::log(TENON_LOG_ERROR, "far: free() of an address that is no block's begin");
}

tenon_status stream(void*, uint32_t dev, int32_t, void** out) noexcept {
  return sdk::guard([&] {
    check_device(dev);
    auto made = std::make_shared<Stream>();
    void* handle = made.get();
    native_streams().add(native_of(handle), made);
    *out = streams().add(handle, std::move(made));
  });
}

tenon_status event(void*, uint32_t dev, void** out) noexcept {
  return sdk::guard([&] {
    check_device(dev);
    auto made = std::make_shared<Event>();
    void* handle = made.get();
    *out = events().add(handle, std::move(made));
  });
}

tenon_status record(void*, void* event, void* stream) noexcept {
  return sdk::guard([&] { streams().get(stream)->record(events().get(event)); });
}

tenon_status wait(void*, void* stream, void* event) noexcept {
  return sdk::guard([&] { streams().get(stream)->wait(events().get(event)); });
}

tenon_status sync(void*, void* handle, uint64_t timeout_ns) noexcept {
  return sdk::guard([&] {
    if (const auto event = events().find(handle)) return answer(wait_for(*event, timeout_ns));
    return answer(wait_for(*streams().get(handle), timeout_ns));
  });
}

// One side of a copy: rows at an address of the host or of the device.
struct Side {
  uint32_t dev;
  tenon_addr address;
  uint64_t step;
  uint8_t* rows(Near& near, uint64_t row_bytes, uint64_t n, const char* what) const {
    if (dev == 0) return near.at(address, (n - 1) * step + row_bytes, what);
    if (dev != kHostDevice) throw sdk::Error(TENON_INVALID_ARGUMENT, sdk::text("%s: device %u of one", what, dev));
    if (is_far(address))
      throw sdk::Error(TENON_INVALID_ARGUMENT, sdk::text("%s: an address of the device, not the host's", what));
    return reinterpret_cast<uint8_t*>(address);
  }
};

tenon_status copy(void*, void* stream, uint32_t dst_dev, tenon_addr dst, uint32_t src_dev, tenon_addr src,
                  uint64_t row_bytes, uint64_t rows, uint64_t dst_step, uint64_t src_step) noexcept {
  return sdk::guard([&] {
    if (!row_bytes || !rows) return;
    const Side to = {dst_dev, dst, dst_step}, from = {src_dev, src, src_step};
    const auto work = [=] {
      Near near;
      uint8_t* out = to.rows(near, row_bytes, rows, "what is copied to");
      const uint8_t* in = from.rows(near, row_bytes, rows, "what is copied from");
      for (uint64_t r = 0; r < rows; ++r) std::memmove(out + r * dst_step, in + r * src_step, row_bytes);
    };
    if (!stream) return work();
    const std::shared_ptr<Stream> on = streams().get(stream);
    // Until the copy is done the host shall find nothing there that it could take for the result.
    if (dst_dev == kHostDevice && !on->is_capturing()) {
      Near near;
      uint8_t* out = to.rows(near, row_bytes, rows, "what is copied to");
      for (uint64_t r = 0; r < rows; ++r) std::memset(out + r * dst_step, kPoison, row_bytes);
    }
    on->submit(work);
  });
}

tenon_status fill(void*, void* stream, uint32_t dev, tenon_addr address, uint32_t byte, uint64_t bytes) noexcept {
  return sdk::guard([&] {
    check_device(dev);
    if (!bytes) return;
    const auto work = [=] {
      Near near;
      std::memset(near.at(address, bytes, "what is filled"), int(byte), bytes);
    };
    if (!stream) return work();
    streams().get(stream)->submit(work);
  });
}

tenon_status peer(void*, uint32_t from, uint32_t to, uint32_t* direct) noexcept {
  return *direct = from == to, TENON_OK;
}

tenon_status capture_begin(void*, void* stream) noexcept {
  return sdk::guard([&] { streams().get(stream)->begin_capture(); });
}

tenon_status capture_end(void*, void* stream, void** graph) noexcept {
  return sdk::guard([&] {
    std::shared_ptr<const Graph> made = streams().get(stream)->end_capture();
    void* handle = const_cast<Graph*>(made.get());
    *graph = graphs().add(handle, std::move(made));
  });
}

tenon_status replay(void*, void* graph, void* stream) noexcept {
  return sdk::guard([&] { streams().get(stream)->replay(graphs().get(graph)); });
}

void destroy(void*, uint32_t what, void* handle) noexcept {
  if (!handle) return;
  sdk::guard([&] {
    if (what == TENON_HANDLE_EVENT) events().remove(handle);
    if (what == TENON_HANDLE_GRAPH) graphs().remove(handle);
    if (what != TENON_HANDLE_STREAM) return;
    native_streams().remove(native_of(handle));
    streams().remove(handle);  // the last one ends the thread
  });
}

void* native(void*, uint32_t what, void* handle) noexcept {
  return what == TENON_HANDLE_STREAM ? native_of(handle) : handle;
}

tenon_status describe(void*, tenon_str* text) noexcept {
  *text = sdk::to_str(
      "the reference's kernels on memory that the host cannot reach, on streams that keep it waiting: for tests");
  return TENON_OK;
}

}  // namespace

const tenon_backend* backend_record() {
  static const tenon_backend table = [] {
    tenon_backend b = {};
    b.struct_size = sizeof b, b.flags = TENON_BACKEND_CAPTURE, b.name = sdk::to_str("far");
    b.devices = devices, b.memory = memory, b.alloc = alloc, b.free = release, b.stream = stream, b.event = event;
    b.record = record, b.wait = wait, b.sync = sync, b.copy = copy, b.fill = fill, b.peer = peer;
    b.capture_begin = capture_begin, b.capture_end = capture_end, b.replay = replay;
    b.destroy = destroy, b.native = native, b.describe = describe;
    return b;
  }();
  return &table;
}

}  // namespace tenon::far
