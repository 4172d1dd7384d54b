// The device of the reference: host memory, one worker, streams that are done when a call returns.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "kernels.hpp"

namespace tenon::reference {
namespace {

const tenon_device* the_device() {
  static const tenon_device device = [] {
    tenon_device d = {};
    d.struct_size = sizeof d, d.backend = sdk::to_str("reference");
    d.name = sdk::to_str("scalar reference on the host"), d.max_workers = 1;
    d.memory_bytes = uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE));
    return d;
  }();
  return &device;
}

tenon_status devices(void*, uint32_t* n, const tenon_device* const** list) noexcept {
  static const tenon_device* const all[] = {the_device()};
  *n = 1, *list = all;
  return TENON_OK;
}

tenon_status memory(void*, uint32_t, uint64_t* free_bytes, uint64_t* total) noexcept {
  *total = the_device()->memory_bytes;
  *free_bytes = uint64_t(sysconf(_SC_AVPHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE));
  return TENON_OK;
}

tenon_status alloc(void*, uint32_t, uint32_t, uint64_t bytes, uint64_t align, tenon_addr* address) noexcept {
  uint64_t step = align < 64 ? 64 : align;
  if (step & (step - 1))
    return sdk::fail(TENON_INVALID_ARGUMENT,
                     sdk::text("alignment %llu is no power of two", static_cast<unsigned long long>(align)));
  const uint64_t size = (bytes ? bytes : 1) + step - 1;
  if (size < bytes || bytes > the_device()->memory_bytes)
    return sdk::fail(TENON_OUT_OF_MEMORY,
                     sdk::text("%llu bytes are more than the machine has", static_cast<unsigned long long>(bytes)));
  void* block = std::aligned_alloc(step, size / step * step);
  if (!block)
    return sdk::fail(TENON_OUT_OF_MEMORY,
                     sdk::text("no memory for %llu bytes", static_cast<unsigned long long>(bytes)));
  std::memset(block, 0, size / step * step);
  *address = reinterpret_cast<tenon_addr>(block);
  return TENON_OK;
}
void release(void*, uint32_t, uint32_t, tenon_addr address) noexcept { std::free(reinterpret_cast<void*>(address)); }

// Every call is done when it returns, so a stream or an event is only an address that is not null.
int& stream_token() {
  static int token = 0;
  return token;
}
tenon_status stream(void*, uint32_t, int32_t, void** out) noexcept { return *out = &stream_token(), TENON_OK; }
tenon_status event(void*, uint32_t, void** out) noexcept { return *out = &stream_token(), TENON_OK; }
tenon_status record(void*, void*, void*) noexcept { return TENON_OK; }
tenon_status wait(void*, void*, void*) noexcept { return TENON_OK; }
tenon_status sync(void*, void*, uint64_t) noexcept { return TENON_OK; }

tenon_status copy(void*, void*, uint32_t, tenon_addr dst, uint32_t, tenon_addr src, uint64_t row_bytes, uint64_t rows,
                  uint64_t dst_step, uint64_t src_step) noexcept {
  for (uint64_t r = 0; r < rows; ++r)
    std::memmove(reinterpret_cast<void*>(dst + r * dst_step), reinterpret_cast<const void*>(src + r * src_step),
                 row_bytes);
  return TENON_OK;
}
tenon_status fill(void*, void*, uint32_t, tenon_addr address, uint32_t byte, uint64_t bytes) noexcept {
  std::memset(reinterpret_cast<void*>(address), int(byte), bytes);
  return TENON_OK;
}
tenon_status peer(void*, uint32_t from, uint32_t to, uint32_t* direct) noexcept {
  return *direct = from == to, TENON_OK;
}
void destroy(void*, uint32_t, void*) noexcept {}
void* native(void*, uint32_t, void*) noexcept { return nullptr; }
tenon_status describe(void*, tenon_str* text) noexcept {
  *text =
      sdk::to_str("scalar kernels, f64 sums, one thread: the definition of every op, not a way to run a model fast");
  return TENON_OK;
}

}  // namespace

const tenon_backend* backend() {
  static const tenon_backend table = [] {
    tenon_backend b = {};
    b.struct_size = sizeof b, b.flags = TENON_BACKEND_HOST_MEMORY, b.name = sdk::to_str("reference");
    b.devices = devices, b.memory = memory, b.alloc = alloc, b.free = release, b.stream = stream, b.event = event;
    b.record = record, b.wait = wait, b.sync = sync, b.copy = copy, b.fill = fill, b.peer = peer;
    b.destroy = destroy, b.native = native, b.describe = describe;
    return b;
  }();
  return &table;
}

}  // namespace tenon::reference
