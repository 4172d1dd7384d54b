#include "memory.hpp"

#include <sys/mman.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace tenon::cpu {
namespace {

constexpr uint64_t kHugePage = 2ull << 20;

// A decimal number in a file of the control group; the largest number where there is no limit.
uint64_t group_number(const std::string& path) {
  std::ifstream file(path);
  uint64_t value = 0;
  return file >> value ? value : std::numeric_limits<uint64_t>::max();
}

// Blocks that came from mmap, with their sizes.
struct Mappings {
  std::mutex mutex;
  std::unordered_map<tenon_addr, uint64_t> bytes;
};
Mappings& mappings() {
  static Mappings& all = *std::make_unique<Mappings>().release();  // blocks may be given back at the process's end
  return all;
}

}  // namespace

MemoryState memory_state() {
  MemoryState state;
  // Where the file cannot be read, all there is counts as free: the kernel refuses what is too much.
  if (struct sysinfo system = {}; sysinfo(&system) == 0)
    state.total_bytes = state.free_bytes = uint64_t(system.totalram) * system.mem_unit;
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  uint64_t value = 0;
  while (file >> key >> value) {
    if (key == "MemTotal:") state.total_bytes = value * 1024;
    if (key == "MemAvailable:") state.free_bytes = value * 1024;
    std::getline(file, unit);
  }
  // Control groups, version 2 and 1, as seen from inside a container.
  const struct {
    const char *limit, *used;
  } groups[] = {{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
                {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"}};
  for (const auto& group : groups) {
    const uint64_t limit = group_number(group.limit);
    if (limit >= state.total_bytes) continue;
    const uint64_t used = std::min(limit, group_number(group.used));
    state.total_bytes = limit;
    state.free_bytes = std::min(state.free_bytes, limit - used);
  }
  return state;
}

tenon_addr allocate(uint64_t bytes, uint64_t align) {
  align = std::max<uint64_t>(align, 64);
  if ((align & (align - 1)) != 0 || bytes > (1ull << 62) || align > (1ull << 40)) return 0;
  bytes = std::max<uint64_t>(bytes, 1);
  if (bytes < kHugePage) {
    const uint64_t size = (bytes + align - 1) / align * align;
    void* block = std::aligned_alloc(align, size);
    if (block) std::memset(block, 0, size);
    return reinterpret_cast<tenon_addr>(block);
  }
  // The kernel promises more than it has; asking first keeps the answer an answer.
  if (bytes > memory_state().free_bytes) return 0;
  const uint64_t step = std::max(align, kHugePage), size = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  void* block = mmap(nullptr, size + step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (block == MAP_FAILED) return 0;
  const auto begin = reinterpret_cast<tenon_addr>(block);
  const tenon_addr aligned = (begin + step - 1) / step * step;
  if (aligned > begin) munmap(block, aligned - begin);
  if (begin + step > aligned) munmap(reinterpret_cast<void*>(aligned + size), begin + step - aligned);
  madvise(reinterpret_cast<void*>(aligned), size, MADV_HUGEPAGE);
  Mappings& all = mappings();
  const std::lock_guard lock(all.mutex);
  all.bytes[aligned] = size;
  return aligned;
}

void release(tenon_addr address) {
  if (!address) return;
  uint64_t size = 0;
  {
    Mappings& all = mappings();
    const std::lock_guard lock(all.mutex);
    const auto found = all.bytes.find(address);
    if (found != all.bytes.end()) {
      size = found->second;
      all.bytes.erase(found);
    }
  }
  if (size) {
    munmap(reinterpret_cast<void*>(address), size);
  } else {
    std::free(reinterpret_cast<void*>(address));
  }
}

void copy_rows(tenon_addr dst, tenon_addr src, uint64_t row_bytes, uint64_t rows, uint64_t dst_step,
               uint64_t src_step) {
  if (row_bytes == dst_step && row_bytes == src_step) row_bytes *= rows, rows = rows ? 1 : 0;
  if (!row_bytes) return;
  for (uint64_t r = 0; r < rows; ++r)
    std::memmove(reinterpret_cast<void*>(dst + r * dst_step), reinterpret_cast<const void*>(src + r * src_step),
                 row_bytes);
}

}  // namespace tenon::cpu
