#include "text/token_index.hpp"

#include <algorithm>
#include <bit>

namespace tenon::text {
namespace {

constexpr size_t kHeadBytes = 8;
constexpr uint32_t kLong = 0x80000000u;

}  // namespace

TokenIndex::Slot TokenIndex::make_slot(std::string_view text, uint64_t hash) {
  Slot slot;
  slot.head = load_head(text.data(), std::min(text.size(), kHeadBytes));
  slot.tag = text.size() <= kHeadBytes ? static_cast<uint32_t>(text.size()) : kLong | static_cast<uint32_t>(hash >> 32);
  return slot;
}

bool TokenIndex::matches(const Slot& slot, const Slot& wanted, std::string_view text) const {
  if (slot.head != wanted.head || slot.tag != wanted.tag) return false;
  return text.size() <= kHeadBytes || this->text(slot.number) == text;
}

void TokenIndex::reserve(uint64_t bytes, uint64_t count) {
  arena_.reserve(arena_.size() + bytes);
  offsets_.reserve(offsets_.size() + count);
  grow(used_ + count);
}

void TokenIndex::grow(uint64_t count) {
  const uint64_t wanted = std::bit_ceil(std::max<uint64_t>(16, count * 2));
  if (wanted <= slots_.size()) return;
  LargeArray<Slot> bigger(wanted);
  const uint64_t mask = wanted - 1;
  for (const Slot& slot : slots_) {
    if (slot.number < 0) continue;
    uint64_t i = hash_text(text(slot.number)) & mask;
    while (bigger[i].number >= 0) i = (i + 1) & mask;
    bigger[i] = slot;
  }
  slots_ = std::move(bigger);
  mask_ = mask;
}

bool TokenIndex::add(std::string_view text, uint64_t hash) {
  arena_ += text;
  offsets_.push_back(arena_.size());
  longest_ = std::max(longest_, static_cast<uint32_t>(text.size()));
  if (text.empty()) return false;
  if (used_ * 2 >= slots_.size()) grow(used_ * 2);
  Slot added = make_slot(text, hash);
  uint64_t i = hash & mask_;
  for (; slots_[i].number >= 0; i = (i + 1) & mask_) {
    if (matches(slots_[i], added, text)) return false;
  }
  added.number = size() - 1;
  slots_[i] = added;
  ++used_;
  return true;
}

int32_t TokenIndex::find(std::string_view text, uint64_t hash) const {
  if (text.empty()) return -1;
  const Slot wanted = make_slot(text, hash);
  for (uint64_t i = hash & mask_; slots_[i].number >= 0; i = (i + 1) & mask_) {
    if (matches(slots_[i], wanted, text)) return slots_[i].number;
  }
  return -1;
}

}  // namespace tenon::text
