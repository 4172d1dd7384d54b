#include "prefix_index.hpp"

#include <algorithm>
#include <functional>

namespace tenon::engine {
namespace {

constexpr int64_t kPage = TENON_PAGE_TOKENS;

PrefixNode::Key key_at(std::span<const int32_t> tokens, int64_t page) {
  PrefixNode::Key key;
  std::copy_n(tokens.begin() + page * kPage, kPage, key.begin());
  return key;
}

// Tokens that `rest` shares with the begin of some child of the node. The closest keys in order share the most.
int64_t shared_with_children(const PrefixNode& node, std::span<const int32_t> rest) {
  PrefixNode::Key key;
  key.fill(INT32_MIN);
  rest = rest.first(std::min(rest.size(), key.size()));
  std::copy(rest.begin(), rest.end(), key.begin());
  const auto shared = [&](const PrefixNode::Key& other) {
    return std::mismatch(rest.begin(), rest.end(), other.begin()).first - rest.begin();
  };
  const auto after = node.children.lower_bound(key);
  int64_t most = 0;
  if (after != node.children.end()) most = shared(after->first);
  if (after != node.children.begin()) most = std::max<int64_t>(most, shared(std::prev(after)->first));
  return most;
}

// How much more a mark counts than an arbitrary position: where messages end, texts part.
double weight(Mark mark) {
  switch (mark) {
    case Mark::kSpaced: return 1;
    case Mark::kMessageEnd: return 16;
    case Mark::kStaticPrefix: return 64;
  }
  return 1;
}

}  // namespace

PrefixIndex::PrefixIndex(store::Stores& stores) : stores_(stores), needs_checkpoints_(stores.has_recurrent()) {
  n_held_.assign(stores.n_groups(), 0);
  for (size_t g = 0; g < stores.n_groups(); ++g) needs_checkpoints_ = needs_checkpoints_ || stores.window(g);
  if (is_on()) stores_.set_reclaim([this](size_t group) { return reclaim(group); });
}

PrefixIndex::~PrefixIndex() {
  clear();
  stores_.set_reclaim({});
}

bool PrefixIndex::can_resume(const PrefixNode& node) const {
  if (!node.depth || (stores_.has_recurrent() && node.snapshot < 0)) return false;
  for (size_t g = 0; g < stores_.n_groups(); ++g) {
    if (!stores_.window(g)) continue;
    const int64_t first = stores_.first_page_in_reach(g, node.length());
    for (const PrefixNode* at = &node; at->depth > first; at = at->parent)
      if (at->pages[g] < 0) return false;
  }
  return true;
}

PrefixIndex::Match PrefixIndex::find(std::span<const int32_t> tokens, int64_t most, bool only_equal) {
  Match match;
  PrefixNode* node = &root_;
  bool is_exact = true;
  while (true) {
    const auto rest = tokens.subspan(size_t(node->length()));
    const auto next = int64_t(rest.size()) < kPage ? node->children.end() : node->children.find(key_at(rest, 0));
    if (next == node->children.end()) {
      match.matched = node->length() + shared_with_children(*node, rest);
      break;
    }
    node = next->second.get();
    is_exact = is_exact && node->exact;
    const bool is_equal = is_exact && (!needs_checkpoints_ || node->is_exact_checkpoint);
    if (node->length() > most || (only_equal && !is_equal) || !can_resume(*node)) continue;
    match.node = node, match.is_equal = is_equal;
  }
  if (match.node) match.prefix = stored(*match.node, match.is_equal);
  return match;
}

store::StoredPrefix PrefixIndex::stored(PrefixNode& node, bool is_equal) const {
  store::StoredPrefix out;
  out.length = node.length(), out.snapshot = node.snapshot;
  out.pages.assign(stores_.n_groups(), std::vector<int32_t>(size_t(node.depth), -1));
  out.exact = node.length();
  for (const PrefixNode* at = &node; at->depth > 0; at = at->parent) {
    for (size_t g = 0; g < stores_.n_groups(); ++g)
      if (at->depth > stores_.first_page_in_reach(g, node.length())) out.pages[g][size_t(at->depth - 1)] = at->pages[g];
    if (!at->exact) out.exact = at->length() - kPage;
  }
  // States that decode steps made: what follows is not what a cold run computes.
  if (!is_equal) out.exact = std::min(out.exact, node.length() - kPage);
  return out;
}

void PrefixIndex::enter(LiveText& text, PrefixNode* node) {
  if (!is_on()) return;
  PrefixNode* before = text.node;
  text.node = node ? node : &root_;
  ++text.node->n_live;
  text.node->used = clock_;
  live_.insert(&text);
  if (!before) return;
  --before->n_live;
  prune(before);
}

void PrefixIndex::leave(LiveText& text) {
  if (!text.node) return;
  PrefixNode* node = text.node;
  --node->n_live;
  text.node = nullptr;
  live_.erase(&text);
  prune(node);
}

void PrefixIndex::move(LiveText& text, PrefixNode* node) {
  ++node->n_live;
  --text.node->n_live;
  text.node = node;
}

void PrefixIndex::follow(LiveText& text, const store::SequenceState& state) {
  if (!text.node) return;
  const int64_t length = int64_t(text.tokens.size());
  PrefixNode* deepest = text.node;
  while (text.node->length() > length) move(text, text.node->parent);
  while (text.node->length() + kPage <= length) move(text, child(*text.node, key_at(text.tokens, text.node->depth), state));
  if (deepest != text.node) prune(deepest);
}

// The child with these tokens, made of the sequence's page or held by what is there.
PrefixNode* PrefixIndex::child(PrefixNode& node, const PrefixNode::Key& key, const store::SequenceState& state) {
  const bool is_exact = state.exact >= node.length() + kPage;
  const auto known = node.children.find(key);
  if (known != node.children.end()) {
    PrefixNode& below = *known->second;
    if (is_exact && !below.exact) make_exact(below, state);
    below.used = clock_;
    return &below;
  }
  auto made = std::make_unique<PrefixNode>();
  made->parent = &node, made->tokens = key, made->depth = node.depth + 1, made->exact = is_exact, made->used = clock_;
  made->pages.assign(stores_.n_groups(), -1), made->pins.assign(stores_.n_groups(), 0);
  PrefixNode* below = node.children.emplace(key, std::move(made)).first->second.get();
  ++n_nodes_;
  for (size_t g = 0; g < stores_.n_groups(); ++g) {
    if (stores_.window(g)) continue;
    below->pages[g] = state.pages[g][size_t(node.depth)];
    stores_.page_pool(g).share(below->pages[g]);
    ++n_held_[g];
  }
  return below;
}

// What decode steps had made gives way to what prefill made of the same tokens.
void PrefixIndex::make_exact(PrefixNode& node, const store::SequenceState& state) {
  const auto page_of = [&](size_t g) { return state.pages[g][size_t(node.depth - 1)]; };
  for (size_t g = 0; g < stores_.n_groups(); ++g)
    if (node.pages[g] >= 0 && page_of(g) < 0) return;  // the window has passed
  for (size_t g = 0; g < stores_.n_groups(); ++g) {
    if (node.pages[g] < 0) continue;
    stores_.page_pool(g).share(page_of(g));
    stores_.page_pool(g).release(node.pages[g]);
    node.pages[g] = page_of(g);
  }
  node.exact = true;
}

void PrefixIndex::checkpoint(LiveText& text, const store::SequenceState& state, Mark mark) {
  if (!text.node || !takes_checkpoints() || state.is_open || state.accepted || !state.length || text.node->length() != state.length) return;
  PrefixNode& node = *text.node;
  const bool is_exact = state.exact >= state.length;
  node.used = clock_;
  if (node.is_checkpoint) {
    node.mark = std::max(node.mark, mark);
    if (node.is_exact_checkpoint || !is_exact) return;
    mark = node.mark;
    drop_checkpoint(node);
  }
  node.mark = mark;
  if (n_checkpoints() >= stores_.cache().n_checkpoints && worth(*least_worth()) > worth(node)) return;
  make_room(1);
  pin_windows(node, state);
  if (stores_.has_recurrent()) node.snapshot = stores_.take_snapshot(state);
  node.is_checkpoint = true, node.is_exact_checkpoint = is_exact;
  checkpoints_.push_back(&node);
}

bool PrefixIndex::make_room(int64_t n) {
  if (n > stores_.cache().n_checkpoints) return false;
  while (n_checkpoints() + n > stores_.cache().n_checkpoints) {
    PrefixNode* victim = least_worth();
    ++n_evicted_;
    drop_checkpoint(*victim);
    prune(victim);
  }
  return true;
}

void PrefixIndex::pin_windows(PrefixNode& node, const store::SequenceState& state) {
  for (size_t g = 0; g < stores_.n_groups(); ++g) {
    if (!stores_.window(g)) continue;
    const int64_t first = stores_.first_page_in_reach(g, node.length());
    for (PrefixNode* at = &node; at->depth > first; at = at->parent) {
      if (at->pages[g] < 0) {
        at->pages[g] = state.pages[g][size_t(at->depth - 1)];
        stores_.page_pool(g).share(at->pages[g]);
        ++n_held_[g];
      }
      ++at->pins[g];
    }
  }
}

void PrefixIndex::drop_checkpoint(PrefixNode& node) {
  for (size_t g = 0; g < stores_.n_groups(); ++g) {
    if (!stores_.window(g)) continue;
    const int64_t first = stores_.first_page_in_reach(g, node.length());
    for (PrefixNode* at = &node; at->depth > first; at = at->parent) {
      if (--at->pins[g]) continue;
      stores_.page_pool(g).release(at->pages[g]);
      at->pages[g] = -1;
      --n_held_[g];
    }
  }
  if (node.snapshot >= 0) stores_.drop_snapshot(node.snapshot);
  node.snapshot = -1, node.is_checkpoint = node.is_exact_checkpoint = false;
  checkpoints_.erase(std::find(checkpoints_.begin(), checkpoints_.end(), &node));
}

// Removes nodes that nothing can resume from any more.
void PrefixIndex::prune(PrefixNode* node) {
  while (node->depth > 0 && node->children.empty() && !node->n_live && needs_checkpoints_ && !node->is_checkpoint) {
    PrefixNode* parent = node->parent;
    remove(*node);
    node = parent;
  }
}

// Of a leaf.
void PrefixIndex::remove(PrefixNode& node) {
  if (node.is_checkpoint) drop_checkpoint(node);
  for (LiveText* text : live_)
    if (text->node == &node) move(*text, node.parent);
  for (size_t g = 0; g < stores_.n_groups(); ++g) {
    if (node.pages[g] < 0) continue;
    stores_.page_pool(g).release(node.pages[g]);
    --n_held_[g];
  }
  --n_nodes_;
  const PrefixNode::Key key = node.tokens;
  node.parent->children.erase(key);
}

void PrefixIndex::clear() {
  for (LiveText* text : live_) text->node = nullptr;
  live_.clear();
  root_.n_live = 0;
  std::vector<PrefixNode*> nodes = {&root_};
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const auto& [key, below] : nodes[i]->children) nodes.push_back(below.get());
  for (size_t i = nodes.size(); i-- > 1;) remove(*nodes[i]);
}

// Tokens that would have to be computed again without the checkpoint, over the tokens that were computed since it was of
// use: so of one text more are kept towards its end, and of several those in use.
double PrefixIndex::worth(const PrefixNode& node) const {
  const PrefixNode* before = node.parent;
  while (before->depth > 0 && !before->is_checkpoint) before = before->parent;
  return double(node.length() - before->length()) * weight(node.mark) / double(clock_ - node.used + kPage);
}

PrefixNode* PrefixIndex::least_worth() const {
  return *std::min_element(checkpoints_.begin(), checkpoints_.end(),
                           [&](const PrefixNode* a, const PrefixNode* b) { return worth(*a) < worth(*b); });
}

bool PrefixIndex::reclaim(size_t group) {
  if (stores_.window(group) ? !reclaim_window() : !reclaim_leaf()) return false;
  ++n_evicted_;
  return true;
}

bool PrefixIndex::reclaim_window() {
  if (checkpoints_.empty()) return false;
  PrefixNode* victim = least_worth();
  drop_checkpoint(*victim);
  prune(victim);
  return true;
}

// The leaf that was of use longest ago; one that a live text passes only if there is no other.
bool PrefixIndex::reclaim_leaf() {
  PrefixNode* oldest = nullptr;
  std::vector<PrefixNode*> nodes = {&root_};
  while (!nodes.empty()) {
    PrefixNode* node = nodes.back();
    nodes.pop_back();
    for (const auto& [key, below] : node->children) nodes.push_back(below.get());
    if (!node->depth || !node->children.empty()) continue;
    const auto rank = [](const PrefixNode* n) { return std::pair(n->n_live > 0, n->used); };
    if (!oldest || rank(node) < rank(oldest)) oldest = node;
  }
  if (!oldest) return false;
  remove(*oldest);
  return true;
}

uint64_t PrefixIndex::bytes() const {
  uint64_t total = stores_.has_recurrent() ? uint64_t(checkpoints_.size()) * stores_.snapshot_bytes() : 0;
  for (size_t g = 0; g < stores_.n_groups(); ++g) total += uint64_t(n_held_[g]) * stores_.page_bytes(g);
  return total;
}

}  // namespace tenon::engine
