// memory.hpp: the device's memory: host memory behind addresses that the host cannot use.
//
// An address is a place in a space of its own, whose upper bits no machine takes for a pointer: whoever reads it on the
// host faults at once. Places are given out once and lie apart, so an address that was freed, or that runs past its
// block, names nothing and is refused by name.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tenon/sdk/base.hpp>
#include <vector>

namespace tenon::far {

constexpr uint32_t kHostDevice = UINT32_MAX;
constexpr uint8_t kPoison = 0xff;  // NaN in every float that is made of it

// Bits 63 … 48 of every address; bits 47 … 0 count up from 0. Neither x86-64 (4 or 5 levels) nor AArch64 (with ignored
// top bytes) has such pointers.
constexpr tenon_addr kSpace = 0x5afa'0000'0000'0000;
constexpr bool is_far(tenon_addr address) { return address >> 48 == kSpace >> 48; }

// Pages of the host. Poisoned behind its end; a page beyond that faults.
class Block {
 public:
  explicit Block(uint64_t bytes);  // zeroed; throws OUT_OF_MEMORY
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  uint8_t* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  uint8_t* data_ = nullptr;
  uint64_t bytes_, mapped_ = 0;
};

// All of it. Any thread.
class Memory {
 public:
  static Memory& instance();
  // DEVICE memory gets an address of the space; PINNED and MAPPED memory is the host's and has its own.
  tenon_addr allocate(uint32_t kind, uint64_t bytes, uint64_t align);
  // What the block held is poisoned at once, also under work that still runs on it.
  void release(tenon_addr address);
  // The block that holds [address, address + bytes), and where in it the range begins. Throws INVALID_ARGUMENT.
  std::shared_ptr<const Block> find(tenon_addr address, uint64_t bytes, uint64_t* offset) const;
  uint64_t total() const { return total_; }
  uint64_t free_bytes() const;

 private:
  Memory();
  mutable std::mutex mutex_;
  std::map<tenon_addr, std::shared_ptr<const Block>> blocks_;
  tenon_addr next_ = kSpace + (1 << 20);
  uint64_t used_ = 0, total_ = 0;
};

// Host pointers to device memory, good as long as this object: a block that is freed meanwhile is poisoned, but stays.
class Near {
 public:
  // 0 stays null. Throws INVALID_ARGUMENT naming `what` for a range that is not inside of one live block.
  template <typename T = uint8_t>
  T* at(tenon_addr address, uint64_t bytes, const char* what) {
    return reinterpret_cast<T*>(find(address, bytes, what));
  }
  // The same as an address, for tables of operands.
  tenon_addr address(tenon_addr far_one, uint64_t bytes, const char* what) {
    return reinterpret_cast<tenon_addr>(find(far_one, bytes, what));
  }

 private:
  uint8_t* find(tenon_addr address, uint64_t bytes, const char* what);
  std::vector<std::shared_ptr<const Block>> held_;
};

}  // namespace tenon::far
