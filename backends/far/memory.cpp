#include "memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace tenon::far {
namespace {

using Wide = unsigned long long;

uint64_t page_bytes() {
  static const uint64_t bytes = uint64_t(sysconf(_SC_PAGESIZE));
  return bytes;
}
uint64_t round_up(uint64_t n, uint64_t step) { return (n + step - 1) / step * step; }

// Between the end of a block and the begin of the next one.
constexpr uint64_t kGap = 1 << 16;

}  // namespace

Block::Block(uint64_t bytes) : bytes_(bytes) {
  const uint64_t body = round_up(bytes ? bytes : 1, page_bytes());
  mapped_ = body + page_bytes();
  void* pages = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw sdk::Error(TENON_OUT_OF_MEMORY, sdk::text("no memory for %llu bytes", Wide(bytes)));
  data_ = static_cast<uint8_t*>(pages);
  mprotect(data_ + body, page_bytes(), PROT_NONE);
  std::memset(data_ + bytes, kPoison, body - bytes);
}

Block::~Block() { munmap(data_, mapped_); }

Memory& Memory::instance() {
  static Memory& memory = *new Memory;  // streams may use it until the process ends
  return memory;
}

Memory::Memory() : total_(uint64_t(sysconf(_SC_PHYS_PAGES)) * page_bytes()) {}

tenon_addr Memory::allocate(uint32_t kind, uint64_t bytes, uint64_t align) {
  if (align & (align - 1))
    throw sdk::Error(TENON_INVALID_ARGUMENT, sdk::text("alignment %llu is no power of two", Wide(align)));
  const std::lock_guard lock(mutex_);
  if (bytes > total_ || used_ > total_ - bytes)
    throw sdk::Error(TENON_OUT_OF_MEMORY, sdk::text("%llu bytes, where %llu of %llu are free", Wide(bytes),
                                                    Wide(total_ - used_), Wide(total_)));
  const auto block = std::make_shared<const Block>(bytes);
  tenon_addr address = reinterpret_cast<tenon_addr>(block->data());
  if (kind == TENON_MEMORY_DEVICE) {
    address = round_up(next_, align < 64 ? 64 : align);
    next_ = address + bytes + kGap;
    if (!is_far(address) || !is_far(next_)) throw sdk::Error(TENON_OUT_OF_MEMORY, "all addresses were given out");
  } else if (align > page_bytes()) {
    throw sdk::Error(TENON_UNSUPPORTED, sdk::text("host memory at a multiple of %llu", Wide(align)));
  }
  blocks_.emplace(address, block);
  used_ += bytes;
  return address;
}

void Memory::release(tenon_addr address) {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(address);
  if (found == blocks_.end()) throw sdk::Error(TENON_INVALID_ARGUMENT, "free() of an address that is no block's begin");
  // Nobody else can come to hold it, since that needs the lock.
  if (found->second.use_count() > 1) std::memset(found->second->data(), kPoison, found->second->bytes());
  used_ -= found->second->bytes();
  blocks_.erase(found);
}

std::shared_ptr<const Block> Memory::find(tenon_addr address, uint64_t bytes, uint64_t* offset) const {
  const std::lock_guard lock(mutex_);
  auto after = blocks_.upper_bound(address);
  if (after != blocks_.begin()) {
    const auto& [begin, block] = *--after;
    if (address - begin <= block->bytes() && bytes <= block->bytes() - (address - begin)) {
      *offset = address - begin;
      return block;
    }
  }
  throw sdk::Error(TENON_INVALID_ARGUMENT,
                   sdk::text("%llu bytes at 0x%llx are %s", Wide(bytes), Wide(address),
                             is_far(address) ? "in no block of this device: freed, or beyond an end"
                                             : "an address of the host, not of this device"));
}

uint64_t Memory::free_bytes() const {
  const std::lock_guard lock(mutex_);
  return total_ - used_;
}

uint8_t* Near::find(tenon_addr address, uint64_t bytes, const char* what) {
  if (!address) return nullptr;
  try {
    uint64_t offset = 0;
    held_.push_back(Memory::instance().find(address, bytes, &offset));
    return held_.back()->data() + offset;
  } catch (const sdk::Error& error) {
    throw sdk::Error(error.status(), std::string(what) + ": " + error.what());
  }
}

}  // namespace tenon::far
