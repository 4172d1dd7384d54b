// A backend on host memory with a team of threads that are started for each call. Without a fault it keeps every duty.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <tenon/sdk/plugin.hpp>
#include <thread>
#include <vector>

#ifndef FAULT
#define FAULT kNone
#endif

namespace {

enum Fault { kNone, kIgnoresSteps, kDirtyMemory, kLooseBarrier, kClaimsTwice, kDiesOfHunger, kFillsTooMuch };
constexpr Fault kFault = FAULT;

namespace sdk = tenon::sdk;

constexpr uint64_t kMemory = uint64_t(1) << 30;
const tenon_device kDevice = {.struct_size = sizeof(tenon_device),
                              .index = 0,
                              .backend = {KIT_NAME, sizeof KIT_NAME - 1},
                              .name = {"threads", 7},
                              .features = nullptr,
                              .n_feature = 0,
                              .max_workers = 8,
                              .memory_bytes = kMemory,
                              .compute_major = 0,
                              .compute_minor = 0};

tenon_status devices(void*, uint32_t* n, const tenon_device* const** list) noexcept {
  static const tenon_device* const all[] = {&kDevice};
  return *n = 1, *list = all, TENON_OK;
}
tenon_status memory(void*, uint32_t, uint64_t* free_bytes, uint64_t* total) noexcept {
  return *free_bytes = kMemory, *total = kMemory, TENON_OK;
}
tenon_status alloc(void*, uint32_t, uint32_t, uint64_t bytes, uint64_t align, tenon_addr* out) noexcept {
  if (bytes > kMemory) {
    if (kFault == kDiesOfHunger) std::abort();
    return sdk::fail(TENON_OUT_OF_MEMORY, "more than the device has");
  }
  const uint64_t step = align < 64 ? 64 : align, size = (bytes + step) / step * step;
  void* block = std::aligned_alloc(step, size);
  if (!block) return sdk::fail(TENON_OUT_OF_MEMORY, "no memory");
  std::memset(block, kFault == kDirtyMemory ? 1 : 0, size);
  return *out = reinterpret_cast<tenon_addr>(block), TENON_OK;
}
void release(void*, uint32_t, uint32_t, tenon_addr address) noexcept { std::free(reinterpret_cast<void*>(address)); }
tenon_status copy(void*, void*, uint32_t, tenon_addr dst, uint32_t, tenon_addr src, uint64_t row_bytes, uint64_t rows,
                  uint64_t dst_step, uint64_t src_step) noexcept {
  if (kFault == kIgnoresSteps) dst_step = src_step = row_bytes;
  for (uint64_t r = 0; r < rows; ++r)
    std::memmove(reinterpret_cast<void*>(dst + r * dst_step), reinterpret_cast<const void*>(src + r * src_step),
                 row_bytes);
  return TENON_OK;
}
tenon_status fill(void*, void*, uint32_t, tenon_addr address, uint32_t byte, uint64_t bytes) noexcept {
  std::memset(reinterpret_cast<void*>(address), int(byte), kFault == kFillsTooMuch ? (bytes + 7) / 8 * 8 : bytes);
  return TENON_OK;
}

struct Team {
  uint32_t workers;
  std::atomic<uint32_t> arrived = 0, round = 0;
  std::atomic<int64_t> counter = 0;
  static void barrier(void* self) noexcept {
    if (kFault == kLooseBarrier) return;
    Team& team = *static_cast<Team*>(self);
    const uint32_t round = team.round.load();
    if (team.arrived.fetch_add(1) + 1 == team.workers) {
      team.arrived = 0;
      team.round.fetch_add(1);
      return;
    }
    while (team.round.load() == round) std::this_thread::yield();
  }
  static int64_t claim(void* counter, int64_t n) noexcept {
    return static_cast<std::atomic<int64_t>*>(counter)->fetch_add(kFault == kClaimsTwice ? 1 : n);
  }
};

tenon_status team(void*, uint32_t, uint32_t workers, void (*body)(void*, const tenon_exec*), void* arg) noexcept {
  return sdk::guard([&] {
    Team team{workers};
    const auto run = [&](uint32_t w) {
      tenon_exec exec = {};
      exec.struct_size = sizeof exec, exec.worker = w, exec.n_workers = workers, exec.team = &team;
      exec.counter = &team.counter, exec.barrier = Team::barrier, exec.claim = Team::claim;
      body(arg, &exec);
    };
    std::vector<std::thread> threads;
    for (uint32_t w = 1; w < workers; ++w) threads.emplace_back(run, w);
    run(0);
    for (std::thread& thread : threads) thread.join();
  });
}

const tenon_backend kBackend = [] {
  tenon_backend b = {};
  b.struct_size = sizeof b, b.flags = TENON_BACKEND_HOST_MEMORY | TENON_BACKEND_SPMD, b.name = sdk::to_str(KIT_NAME);
  b.devices = devices, b.memory = memory, b.alloc = alloc, b.free = release, b.copy = copy, b.fill = fill,
  b.team = team;
  return b;
}();

}  // namespace

TENON_PLUGIN(KIT_NAME, "0.1.0") { registrar.backend(&kBackend); }
