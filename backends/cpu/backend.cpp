#include "backend.hpp"

#include <cstring>
#include <memory>
#include <string>
#include <tenon/sdk/base.hpp>
#include <vector>

#include "isa.hpp"
#include "memory.hpp"
#include "team.hpp"

namespace tenon::cpu {
namespace {

// Work is done when a call returns, so that streams and events carry nothing; they are told apart by address only.
struct Handle {
  uint32_t what;
};

struct DeviceRecord {
  DeviceRecord() : name(cpu_info().name), backend("cpu") {
    for (const std::string& feature : cpu_info().features) features.push_back(sdk::to_str(feature));
    table.struct_size = sizeof table, table.index = 0;
    table.backend = sdk::to_str(backend), table.name = sdk::to_str(name);
    table.features = features.data(), table.n_feature = uint32_t(features.size());
    table.max_workers = cpu_info().cores, table.memory_bytes = memory_state().total_bytes;
    pointer = &table;
    const Isa isa = cpu_info().isa;
    line = isa_name(isa);
    if (isa == Isa::kAvx512) line += " (VNNI, BF16)";
    if (!cpu_info().note.empty()) line += "; " + cpu_info().note;
  }
  std::string name, backend, line;
  std::vector<tenon_str> features;
  tenon_device table = {};
  const tenon_device* pointer;
};
const DeviceRecord& record() {
  static const DeviceRecord& only = *std::make_unique<DeviceRecord>().release();  // borrowed for the library's life
  return only;
}

tenon_status check_device(uint32_t dev, bool host_allowed = false) {
  if (dev == 0 || (host_allowed && dev == UINT32_MAX)) return TENON_OK;
  return sdk::fail(TENON_INVALID_ARGUMENT, sdk::text("backend cpu has device 0 only, not %u", dev));
}

tenon_status devices(void*, uint32_t* n, const tenon_device* const** list) noexcept {
  return sdk::guard([&] { *n = 1, *list = &record().pointer; });
}
tenon_status memory(void*, uint32_t dev, uint64_t* free_bytes, uint64_t* total) noexcept {
  return sdk::guard([&] {
    if (const tenon_status status = check_device(dev)) return status;
    const MemoryState state = memory_state();
    *free_bytes = state.free_bytes, *total = state.total_bytes;
    return tenon_status(TENON_OK);
  });
}
tenon_status alloc(void*, uint32_t dev, uint32_t, uint64_t bytes, uint64_t align, tenon_addr* address) noexcept {
  return sdk::guard([&] {
    if (const tenon_status status = check_device(dev)) return status;
    const tenon_addr got = allocate(bytes, align);
    if (!got) {
      constexpr double kMiB = 1 << 20;
      return sdk::fail(TENON_OUT_OF_MEMORY,
                       sdk::text("cpu: no room for %.1f MiB (%.1f MiB are free)", static_cast<double>(bytes) / kMiB,
                                 static_cast<double>(memory_state().free_bytes) / kMiB));
    }
    *address = got;
    return tenon_status(TENON_OK);
  });
}
void free_memory(void*, uint32_t, uint32_t, tenon_addr address) noexcept { release(address); }

tenon_status make_handle(uint32_t dev, uint32_t what, void** out) {
  return sdk::guard([&] {
    if (const tenon_status status = check_device(dev)) return status;
    *out = std::make_unique<Handle>(Handle{what}).release();
    return tenon_status(TENON_OK);
  });
}
tenon_status stream(void*, uint32_t dev, int32_t, void** out) noexcept {
  return make_handle(dev, TENON_HANDLE_STREAM, out);
}
tenon_status event(void*, uint32_t dev, void** out) noexcept { return make_handle(dev, TENON_HANDLE_EVENT, out); }
tenon_status done(void*, void*, void*) noexcept { return TENON_OK; }
tenon_status sync(void*, void*, uint64_t) noexcept { return TENON_OK; }
void destroy(void*, uint32_t, void* handle) noexcept { std::unique_ptr<Handle>(static_cast<Handle*>(handle)).reset(); }

tenon_status copy(void*, void*, uint32_t dst_dev, tenon_addr dst, uint32_t src_dev, tenon_addr src, uint64_t row_bytes,
                  uint64_t rows, uint64_t dst_step, uint64_t src_step) noexcept {
  return sdk::guard([&] {
    if (const tenon_status status = check_device(dst_dev, true)) return status;
    if (const tenon_status status = check_device(src_dev, true)) return status;
    if (row_bytes != 0 && rows != 0 && (!dst || !src))
      return sdk::fail(TENON_INVALID_ARGUMENT, "cpu: copy from or to address 0");
    copy_rows(dst, src, row_bytes, rows, dst_step, src_step);
    return tenon_status(TENON_OK);
  });
}
tenon_status fill(void*, void*, uint32_t dev, tenon_addr address, uint32_t byte, uint64_t bytes) noexcept {
  return sdk::guard([&] {
    if (const tenon_status status = check_device(dev, true)) return status;
    if (bytes != 0) std::memset(reinterpret_cast<void*>(address), int(byte & 0xff), bytes);
    return tenon_status(TENON_OK);
  });
}
tenon_status peer(void*, uint32_t from, uint32_t to, uint32_t* direct) noexcept {
  return sdk::guard([&] {
    if (const tenon_status status = check_device(from)) return status;
    if (const tenon_status status = check_device(to)) return status;
    *direct = 1;
    return tenon_status(TENON_OK);
  });
}
tenon_status team(void*, uint32_t dev, uint32_t workers, void (*body)(void*, const tenon_exec*), void* arg) noexcept {
  return sdk::guard([&] {
    if (const tenon_status status = check_device(dev)) return status;
    if (workers == 0 || workers > Team::kMaxWorkers)
      return sdk::fail(TENON_INVALID_ARGUMENT,
                       sdk::text("cpu: a team has 1 to %u workers, not %u", Team::kMaxWorkers, workers));
    Team::run_free(workers, body, arg);
    return tenon_status(TENON_OK);
  });
}
void* native(void*, uint32_t, void*) noexcept { return nullptr; }
tenon_status describe(void*, tenon_str* text) noexcept {
  return sdk::guard([&] { *text = sdk::to_str(record().line); });
}

}  // namespace

const tenon_backend* backend_record() {
  static const tenon_backend table = [] {
    tenon_backend t = {};
    t.struct_size = sizeof t, t.flags = TENON_BACKEND_HOST_MEMORY | TENON_BACKEND_SPMD;
    t.name = sdk::to_str("cpu");
    t.devices = devices, t.memory = memory, t.alloc = alloc, t.free = free_memory;
    t.stream = stream, t.event = event, t.record = done, t.wait = done, t.sync = sync;
    t.copy = copy, t.fill = fill, t.peer = peer, t.team = team;
    t.destroy = destroy, t.native = native, t.describe = describe;
    return t;
  }();
  return &table;
}

}  // namespace tenon::cpu
