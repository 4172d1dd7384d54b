#include "call_watch.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

namespace tenon::kit {
namespace {

thread_local int depth = 0;  // above 0: this thread is watched
struct Counters {
  std::atomic<uint64_t> allocations{0}, frees{0}, locks{0}, threads{0}, largest{0};
};
Counters counters;

void allocated(size_t bytes) {
  if (depth == 0) return;
  counters.allocations.fetch_add(1, std::memory_order_relaxed);
  uint64_t known = counters.largest.load(std::memory_order_relaxed);
  while (known < bytes && !counters.largest.compare_exchange_weak(known, bytes)) {
  }
}
void freed() {
  if (depth > 0) counters.frees.fetch_add(1, std::memory_order_relaxed);
}

void* watched_malloc(size_t n) { return allocated(n), std::malloc(n); }
void* watched_calloc(size_t n, size_t size) { return allocated(n * size), std::calloc(n, size); }
void* watched_realloc(void* p, size_t n) { return allocated(n), std::realloc(p, n); }
int watched_posix_memalign(void** p, size_t align, size_t n) { return allocated(n), posix_memalign(p, align, n); }
void* watched_aligned_alloc(size_t align, size_t n) { return allocated(n), std::aligned_alloc(align, n); }
void watched_free(void* p) { freed(), std::free(p); }
void* watched_new(size_t n) { return allocated(n), ::operator new(n); }
void* watched_new_array(size_t n) { return allocated(n), ::operator new[](n); }
void* watched_new_nothrow(size_t n, const std::nothrow_t& t) noexcept { return allocated(n), ::operator new(n, t); }
void* watched_new_aligned(size_t n, std::align_val_t a) { return allocated(n), ::operator new(n, a); }
void* watched_new_array_aligned(size_t n, std::align_val_t a) { return allocated(n), ::operator new[](n, a); }
void* watched_mmap(void* at, size_t n, int protection, int flags, int fd, off_t offset) {
  return allocated(n), mmap(at, n, protection, flags, fd, offset);
}
int watched_lock(pthread_mutex_t* mutex) {
  if (depth > 0) counters.locks.fetch_add(1, std::memory_order_relaxed);
  return pthread_mutex_lock(mutex);
}
int watched_create(pthread_t* thread, const pthread_attr_t* attr, void* (*body)(void*), void* arg) {
  if (depth > 0) counters.threads.fetch_add(1, std::memory_order_relaxed);
  return pthread_create(thread, attr, body, arg);
}

struct Replacement {
  const char* symbol;
  void* function;
};
template <typename F>
void* address(F* function) {
  return reinterpret_cast<void*>(function);
}
const Replacement kReplacements[] = {{"malloc", address(watched_malloc)},
                                     {"calloc", address(watched_calloc)},
                                     {"realloc", address(watched_realloc)},
                                     {"posix_memalign", address(watched_posix_memalign)},
                                     {"aligned_alloc", address(watched_aligned_alloc)},
                                     {"free", address(watched_free)},
                                     {"_Znwm", address(watched_new)},
                                     {"_Znam", address(watched_new_array)},
                                     {"_ZnwmRKSt9nothrow_t", address(watched_new_nothrow)},
                                     {"_ZnwmSt11align_val_t", address(watched_new_aligned)},
                                     {"_ZnamSt11align_val_t", address(watched_new_array_aligned)},
                                     {"mmap", address(watched_mmap)},
                                     {"mmap64", address(watched_mmap)},
                                     {"pthread_mutex_lock", address(watched_lock)},
                                     {"pthread_create", address(watched_create)}};

#if defined(__x86_64__)
constexpr uint32_t kSlotTypes[] = {R_X86_64_JUMP_SLOT, R_X86_64_GLOB_DAT, R_X86_64_64};
#elif defined(__aarch64__)
constexpr uint32_t kSlotTypes[] = {R_AARCH64_JUMP_SLOT, R_AARCH64_GLOB_DAT, R_AARCH64_ABS64};
#endif

// Where a library's dynamic section says that its tables are.
struct Tables {
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  const ElfW(Rela) * relocations[2] = {};
  size_t bytes[2] = {};
};

Tables tables_of(const dl_phdr_info& info) {
  Tables out;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    if (info.dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    const auto* entry = reinterpret_cast<const ElfW(Dyn)*>(info.dlpi_addr + info.dlpi_phdr[i].p_vaddr);
    for (; entry->d_tag != DT_NULL; ++entry) {
      switch (entry->d_tag) {
        case DT_SYMTAB:
          out.symbols = reinterpret_cast<const ElfW(Sym)*>(entry->d_un.d_ptr);
          break;
        case DT_STRTAB:
          out.names = reinterpret_cast<const char*>(entry->d_un.d_ptr);
          break;
        case DT_RELA:
          out.relocations[0] = reinterpret_cast<const ElfW(Rela)*>(entry->d_un.d_ptr);
          break;
        case DT_RELASZ:
          out.bytes[0] = entry->d_un.d_val;
          break;
        case DT_JMPREL:
          out.relocations[1] = reinterpret_cast<const ElfW(Rela)*>(entry->d_un.d_ptr);
          break;
        case DT_PLTRELSZ:
          out.bytes[1] = entry->d_un.d_val;
          break;
        default:
          break;
      }
    }
  }
  return out;
}

bool replace(void** slot, void* function) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  void* begin = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(slot) / page * page);
  // The page may hold other data of the library, so it stays writable: whether it was is not known.
  if (mprotect(begin, page, PROT_READ | PROT_WRITE) != 0) return false;
  *slot = function;
  return true;
}

// The program, the C library and the loader stay as they are.
bool is_watched(const dl_phdr_info& info) {
  const char* path = info.dlpi_name;
  if (path == nullptr || *path == '\0') return false;
  const char* slash = std::strrchr(path, '/');
  const char* name = slash ? slash + 1 : path;
  for (const char* left :
       {"libc.so", "libc-", "ld-", "ld.so", "linux-vdso", "libasan", "libtsan", "libubsan", "libpthread"})
    if (std::strncmp(name, left, std::strlen(left)) == 0) return false;
  return true;
}

int patch(dl_phdr_info* info, size_t, void* failed) {
  if (!is_watched(*info)) return 0;
  const Tables tables = tables_of(*info);
  if (!tables.symbols || !tables.names) return 0;
  for (int t = 0; t < 2; ++t) {
    if (!tables.relocations[t]) continue;
    for (size_t i = 0; i < tables.bytes[t] / sizeof(ElfW(Rela)); ++i) {
      const ElfW(Rela)& entry = tables.relocations[t][i];
      const auto type = uint32_t(ELF64_R_TYPE(entry.r_info));
      if (type != kSlotTypes[0] && type != kSlotTypes[1] && type != kSlotTypes[2]) continue;
      const char* name = tables.names + tables.symbols[ELF64_R_SYM(entry.r_info)].st_name;
      for (const Replacement& r : kReplacements)
        if (std::strcmp(name, r.symbol) == 0 &&
            !replace(reinterpret_cast<void**>(info->dlpi_addr + entry.r_offset), r.function))
          *static_cast<bool*>(failed) = true;
    }
  }
  return 0;
}

}  // namespace

std::string install_call_watch() {
  static const std::string fault = [] {
    bool failed = false;
    dl_iterate_phdr(patch, &failed);
    return std::string(failed ? "the system lets no library be watched" : "");
  }();
  return fault;
}

CallWatch::CallWatch() {
  for (std::atomic<uint64_t>* one :
       {&counters.allocations, &counters.frees, &counters.locks, &counters.threads, &counters.largest})
    one->store(0);
}
void CallWatch::begin() { ++depth; }
void CallWatch::end() { --depth; }

WatchedCalls CallWatch::calls() const {
  return {counters.allocations, counters.frees, counters.locks, counters.threads, counters.largest};
}

std::string CallWatch::launch_fault() const {
  const WatchedCalls seen = calls();
  const auto times = [](uint64_t n) { return std::to_string(n) + (n == 1 ? " time" : " times"); };
  if (seen.allocations > 0)
    return "a launch allocated " + times(seen.allocations) + ", " + std::to_string(seen.largest_bytes) +
           " bytes at most";
  if (seen.frees > 0) return "a launch freed memory " + times(seen.frees);
  if (seen.threads > 0) return "a launch started a thread " + times(seen.threads);
  if (seen.locks > 0) return "a launch took a lock " + times(seen.locks);
  return "";
}

}  // namespace tenon::kit
