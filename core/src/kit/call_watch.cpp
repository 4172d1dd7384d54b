#include "call_watch.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

namespace tenon::kit {
namespace {

thread_local int depth = 0;  // above 0: this thread is watched
struct Counters {
  std::atomic<uint64_t> allocations{0}, frees{0}, locks{0}, waits{0}, threads{0}, largest{0};
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
void* watched_memalign(size_t align, size_t n) { return allocated(n), memalign(align, n); }
void watched_free(void* p) { freed(), std::free(p); }
void* watched_new(size_t n) { return allocated(n), ::operator new(n); }
void* watched_new_array(size_t n) { return allocated(n), ::operator new[](n); }
void* watched_new_nothrow(size_t n, const std::nothrow_t& t) noexcept { return allocated(n), ::operator new(n, t); }
void* watched_new_aligned(size_t n, std::align_val_t a) { return allocated(n), ::operator new(n, a); }
void* watched_new_array_aligned(size_t n, std::align_val_t a) { return allocated(n), ::operator new[](n, a); }
void* watched_mmap(void* at, size_t n, int protection, int flags, int fd, off_t offset) {
  return allocated(n), mmap(at, n, protection, flags, fd, offset);
}

// Counts and passes on. The type is that of the function without noexcept.
template <auto function, std::atomic<uint64_t> Counters::*counter, typename Type>
struct Watched;
template <auto function, std::atomic<uint64_t> Counters::*counter, typename Result, typename... Args>
struct Watched<function, counter, Result (*)(Args...)> {
  static Result call(Args... args) {
    if (depth > 0) (counters.*counter).fetch_add(1, std::memory_order_relaxed);
    return function(args...);
  }
};
template <typename Result, typename... Args>
auto plain(Result (*function)(Args...)) {
  return function;
}

// Waiting on an atomic ends in a call of the system.
long watched_syscall(long number, long a, long b, long c, long d, long e, long f) {
  if (depth > 0 && number == SYS_futex) counters.waits.fetch_add(1, std::memory_order_relaxed);
  return syscall(number, a, b, c, d, e, f);
}

struct Replacement {
  const char* symbol;
  void* function;
};
template <typename F>
void* address(F* function) {
  return reinterpret_cast<void*>(function);
}
template <auto function, std::atomic<uint64_t> Counters::*counter>
void* counted() {
  return address(&Watched<function, counter, decltype(plain(function))>::call);
}
template <auto function>
void* lock() {
  return counted<function, &Counters::locks>();
}
template <auto function>
void* waiting() {
  return counted<function, &Counters::waits>();
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
                                     {"memalign", address(watched_memalign)},
                                     {"_ZnamRKSt9nothrow_t", address(watched_new_nothrow)},
                                     {"pthread_mutex_lock", lock<pthread_mutex_lock>()},
                                     {"pthread_mutex_trylock", lock<pthread_mutex_trylock>()},
                                     {"pthread_mutex_timedlock", lock<pthread_mutex_timedlock>()},
                                     {"pthread_rwlock_rdlock", lock<pthread_rwlock_rdlock>()},
                                     {"pthread_rwlock_wrlock", lock<pthread_rwlock_wrlock>()},
                                     {"pthread_rwlock_tryrdlock", lock<pthread_rwlock_tryrdlock>()},
                                     {"pthread_rwlock_trywrlock", lock<pthread_rwlock_trywrlock>()},
                                     {"pthread_spin_lock", lock<pthread_spin_lock>()},
                                     {"pthread_once", lock<pthread_once>()},
                                     {"__cxa_guard_acquire", lock<abi::__cxa_guard_acquire>()},
                                     {"pthread_cond_wait", waiting<pthread_cond_wait>()},
                                     {"pthread_cond_timedwait", waiting<pthread_cond_timedwait>()},
                                     {"pthread_barrier_wait", waiting<pthread_barrier_wait>()},
                                     {"pthread_join", waiting<pthread_join>()},
                                     {"sem_wait", waiting<sem_wait>()},
                                     {"sem_timedwait", waiting<sem_timedwait>()},
                                     {"nanosleep", waiting<nanosleep>()},
                                     {"clock_nanosleep", waiting<clock_nanosleep>()},
                                     {"usleep", waiting<usleep>()},
                                     {"sched_yield", waiting<sched_yield>()},
                                     {"syscall", address(watched_syscall)},
                                     {"pthread_create", counted<pthread_create, &Counters::threads>()}};

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
       {&counters.allocations, &counters.frees, &counters.locks, &counters.waits, &counters.threads, &counters.largest})
    one->store(0);
}
void CallWatch::begin() { ++depth; }
void CallWatch::end() { --depth; }

WatchedCalls CallWatch::calls() const {
  return {counters.allocations, counters.frees, counters.locks, counters.waits, counters.threads, counters.largest};
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
  if (seen.waits > 0) return "a launch waited outside of a barrier " + times(seen.waits);
  return "";
}

}  // namespace tenon::kit
