#include "cache_plan.hpp"

#include <algorithm>

namespace tenon::store {
namespace {

constexpr uint64_t kMostChosenBytes = uint64_t(2) << 30;
constexpr int64_t kChosenCheckpoints = 16;

// What kChosenCache stands for if it is no more than it may be; else 0.
uint64_t chosen_bytes(const CacheSizes& sizes, uint64_t checkpoint_bytes) {
  uint64_t checkpoints = 0, pages = 0, all = 0;
  if (__builtin_mul_overflow(checkpoint_bytes, uint64_t(kChosenCheckpoints), &checkpoints) ||
      __builtin_mul_overflow(sizes.page_bytes, uint64_t(sizes.context_pages), &pages) ||
      __builtin_add_overflow(checkpoints, pages, &all) || all > kMostChosenBytes)
    return 0;
  return all;
}

}  // namespace

CachePlan plan_cache(int64_t asked, const CacheSizes& sizes) {
  CachePlan plan;
  plan.page_bytes = sizes.page_bytes;
  plan.checkpoint_bytes = sizes.window_bytes + sizes.snapshot_bytes;
  const uint64_t chosen = asked < 0 ? chosen_bytes(sizes, plan.checkpoint_bytes) : 0;
  plan.limit_bytes = chosen ? chosen : asked < 0 ? kMostChosenBytes : uint64_t(asked);
  if (plan.checkpoint_bytes) {
    // Three quarters: one conversation's pages are its sequence's own, its checkpoints never are.
    const uint64_t share = sizes.page_bytes ? plan.limit_bytes / 4 * 3 : plan.limit_bytes;
    plan.n_checkpoints = chosen ? kChosenCheckpoints : int64_t(share / plan.checkpoint_bytes);
    if (!plan.n_checkpoints && plan.limit_bytes >= plan.checkpoint_bytes) plan.n_checkpoints = 1;
  }
  const uint64_t left = plan.limit_bytes - uint64_t(plan.n_checkpoints) * plan.checkpoint_bytes;
  if (sizes.page_bytes) plan.n_pages = int64_t(left / sizes.page_bytes);
  plan.bytes = uint64_t(plan.n_checkpoints) * plan.checkpoint_bytes + uint64_t(plan.n_pages) * plan.page_bytes;
  return plan;
}

}  // namespace tenon::store
