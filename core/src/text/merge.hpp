// merge.hpp: joins neighbouring symbols, best pair first, in O(n log n).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace tenon::text {

// A run of bytes of the piece, and the number of the piece of the vocabulary that it spells (-1: none).
struct Symbol {
  uint32_t begin = 0, size = 0;
  int32_t id = -1;
  int32_t previous = -1, next = -1;
};

// What joining two neighbours gives. The smallest order is joined first, ties from the left.
struct Join {
  uint32_t order = 0;
  int32_t id = -1;  // -1: they do not join
};

// Working memory of one encode() call.
struct MergeScratch {
  struct Candidate {
    uint64_t key;   // order, then index of the left symbol
    uint32_t size;  // bytes of both symbols when this was queued
    int32_t id;
    bool operator>(const Candidate& other) const { return key > other.key; }
  };
  std::vector<Symbol> symbols;
  std::vector<Join> joins;
  std::vector<Candidate> queue;
};

namespace detail {

// Few symbols: looking at all pairs again is faster than a queue.
template <class FindJoin>
void merge_few(MergeScratch& scratch, const FindJoin& find_join) {
  auto& symbols = scratch.symbols;
  auto& joins = scratch.joins;
  joins.clear();
  for (size_t i = 0; i + 1 < symbols.size(); ++i) joins.push_back(find_join(symbols[i], symbols[i + 1]));
  while (!joins.empty()) {
    size_t best = joins.size();
    for (size_t i = 0; i < joins.size(); ++i) {
      if (joins[i].id >= 0 && (best == joins.size() || joins[i].order < joins[best].order)) best = i;
    }
    if (best == joins.size()) break;
    symbols[best].size += symbols[best + 1].size;
    symbols[best].id = joins[best].id;
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
    joins.erase(joins.begin() + static_cast<ptrdiff_t>(best));
    if (best < joins.size()) joins[best] = find_join(symbols[best], symbols[best + 1]);
    if (best > 0) joins[best - 1] = find_join(symbols[best - 1], symbols[best]);
  }
}

template <class FindJoin>
void merge_many(MergeScratch& scratch, const FindJoin& find_join) {
  auto& symbols = scratch.symbols;
  auto& queue = scratch.queue;
  queue.clear();
  const auto candidate_at = [&](int32_t left, MergeScratch::Candidate& out) {
    if (left < 0 || symbols[left].next < 0) return false;
    const Symbol& a = symbols[left];
    const Symbol& b = symbols[a.next];
    const Join join = find_join(a, b);
    out = {static_cast<uint64_t>(join.order) << 32 | static_cast<uint32_t>(left), a.size + b.size, join.id};
    return join.id >= 0;
  };
  MergeScratch::Candidate candidate;
  const auto n = static_cast<int32_t>(symbols.size());
  for (int32_t i = 0; i < n; ++i) {
    symbols[i].previous = i - 1;
    symbols[i].next = i + 1 < n ? i + 1 : -1;
  }
  for (int32_t i = 0; i + 1 < n; ++i) {
    if (candidate_at(i, candidate)) queue.push_back(candidate);
  }
  std::make_heap(queue.begin(), queue.end(), std::greater<>());
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    const MergeScratch::Candidate best = queue.back();
    queue.pop_back();
    const auto left = static_cast<int32_t>(best.key & 0xFFFFFFFFu);
    Symbol& a = symbols[left];
    // Symbols only grow, and a swallowed one has size 0: equal sizes mean that neither changed since.
    if (a.size == 0 || a.next < 0 || a.size + symbols[a.next].size != best.size) continue;
    Symbol& b = symbols[a.next];
    a.size = best.size;
    a.id = best.id;
    a.next = b.next;
    if (b.next >= 0) symbols[b.next].previous = left;
    b.size = 0;
    for (int32_t changed : {a.previous, left}) {
      if (!candidate_at(changed, candidate)) continue;
      queue.push_back(candidate);
      std::push_heap(queue.begin(), queue.end(), std::greater<>());
    }
  }
  std::erase_if(symbols, [](const Symbol& symbol) { return symbol.size == 0; });
}

}  // namespace detail

// Joins scratch.symbols (in text order, none empty) until no pair joins. `find_join(left, right)` gives a Join.
template <class FindJoin>
void merge(MergeScratch& scratch, const FindJoin& find_join) {
  constexpr size_t kFew = 32;
  if (scratch.symbols.size() <= kFew) {
    detail::merge_few(scratch, find_join);
  } else {
    detail::merge_many(scratch, find_join);
  }
}

}  // namespace tenon::text
