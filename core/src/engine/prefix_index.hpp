// prefix_index.hpp: beginnings of texts whose pages and states are kept, as a tree over token ids.
#pragma once

#include "store/stores.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

namespace tenon::engine {

// What a checkpoint is for; a later one is worth more.
enum class Mark { kSpaced, kMessageEnd, kStaticPrefix };

// 64 tokens behind those of the parent, with the pages that hold them.
struct PrefixNode {
  using Key = std::array<int32_t, TENON_PAGE_TOKENS>;
  PrefixNode* parent = nullptr;
  Key tokens = {};
  int64_t depth = 0;              // pages from the root to here
  std::vector<int32_t> pages;     // by page group; of a window only where a checkpoint needs it, else -1
  std::vector<uint32_t> pins;     // by page group: checkpoints that need the window page
  bool exact = false;             // the pages hold what a cold prefill leaves
  bool is_checkpoint = false, is_exact_checkpoint = false;
  Mark mark = Mark::kSpaced;
  int32_t snapshot = -1;
  uint64_t used = 0;              // clock
  uint32_t n_live = 0;            // live texts that end here
  std::map<Key, std::unique_ptr<PrefixNode>> children;
  int64_t length() const { return depth * TENON_PAGE_TOKENS; }
};

// The tokens of a live sequence and its place in the tree. Must not move while it is in an index.
struct LiveText {
  bool is_known = false;           // tokens are what the sequence holds
  std::vector<int32_t> tokens;
  std::map<int64_t, Mark> wanted;  // positions on the grid where the next prompt is to leave checkpoints
  PrefixNode* node = nullptr;      // the deepest one that the tokens pass; null: not in the index
};

// One scheduler thread. Holds pages and snapshots of the stores: as much as their plan sets aside, and what live sequences
// hold anyway. Out of room it gives up the least useful: never what a live sequence holds.
class PrefixIndex {
 public:
  explicit PrefixIndex(store::Stores& stores);
  ~PrefixIndex();
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  bool is_on() const { return stores_.cache().is_on(); }
  // Windows and states can be resumed only where a checkpoint is.
  bool takes_checkpoints() const { return is_on() && needs_checkpoints_ && stores_.cache().n_checkpoints > 0; }

  struct Match {
    store::StoredPrefix prefix;   // length 0: nothing
    PrefixNode* node = nullptr;
    int64_t matched = 0;          // tokens that some text of the index begins with as well
    bool is_equal = false;
  };
  // The longest prefix up to `most` tokens that every store can resume from; with `only_equal` of those that equal a cold run.
  Match find(std::span<const int32_t> tokens, int64_t most, bool only_equal);

  // A live text takes its place at a node, null = the root; it may have had another.
  void enter(LiveText& text, PrefixNode* node);
  void leave(LiveText& text);
  // The sequence holds the text's tokens now: its full pages are kept. A text that was cut goes back in the tree.
  void follow(LiveText& text, const store::SequenceState& state);
  // Keeps what resuming at the sequence's length takes; it is settled and stands on the grid, behind follow(). Keeps nothing
  // where other checkpoints are worth more.
  void checkpoint(LiveText& text, const store::SequenceState& state, Mark mark);

  // Gives up checkpoints until n more can be taken; false if so many can never be.
  bool make_room(int64_t n);

  void count_tokens(uint64_t n) { clock_ += n; }
  void clear();  // forgets everything

  int64_t n_checkpoints() const { return int64_t(checkpoints_.size()); }
  int64_t n_nodes() const { return n_nodes_; }
  uint64_t bytes() const;  // held, also what live sequences share
  uint64_t n_evicted() const { return n_evicted_; }

 private:
  bool can_resume(const PrefixNode& node) const;
  store::StoredPrefix stored(PrefixNode& node, bool is_equal) const;
  PrefixNode* child(PrefixNode& node, const PrefixNode::Key& key, const store::SequenceState& state);
  void make_exact(PrefixNode& node, const store::SequenceState& state);
  void move(LiveText& text, PrefixNode* node);
  void pin_windows(PrefixNode& node, const store::SequenceState& state);
  void drop_checkpoint(PrefixNode& node);
  void prune(PrefixNode* node);
  void remove(PrefixNode& node);
  double worth(const PrefixNode& node) const;
  PrefixNode* least_worth() const;
  bool reclaim(size_t group);
  bool reclaim_window();
  bool reclaim_leaf();

  store::Stores& stores_;
  bool needs_checkpoints_ = false;
  PrefixNode root_;
  std::vector<PrefixNode*> checkpoints_;  // in the order they were made
  std::set<LiveText*> live_;
  std::vector<int64_t> n_held_;  // pages, by group
  uint64_t clock_ = 0;           // tokens that were computed
  int64_t n_nodes_ = 0;
  uint64_t n_evicted_ = 0;
};

}  // namespace tenon::engine
