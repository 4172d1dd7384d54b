// cache_plan.hpp: how the prefix cache's memory is divided between pages and checkpoints.
#pragma once

#include <cstdint>

namespace tenon::store {

// What a model's stores weigh.
struct CacheSizes {
  uint64_t page_bytes = 0;      // 64 tokens in all layers without a window
  uint64_t window_bytes = 0;    // the window pages below one position, all windowed layers together
  uint64_t snapshot_bytes = 0;  // the states of one sequence
  int64_t context_pages = 0;    // pages of a full context
};

// Memory beside what live sequences may need, set aside at load.
struct CachePlan {
  uint64_t limit_bytes = 0, bytes = 0;  // asked for; set aside
  int64_t n_pages = 0;                  // of layers without a window
  int64_t n_checkpoints = 0;            // positions that windows and states can resume from
  uint64_t page_bytes = 0, checkpoint_bytes = 0;
  bool is_on() const { return limit_bytes > 0; }
};

inline constexpr int64_t kChosenCache = -1;

// `asked` bytes; 0 = no cache; kChosenCache = 16 checkpoints and the pages of another context, at most 2 GiB. It depends on
// nothing but the model and the context, since what is reused has a part in what an answer looks like.
CachePlan plan_cache(int64_t asked, const CacheSizes& sizes);

}  // namespace tenon::store
