#include "arena.hpp"

#include <algorithm>

namespace tenon::program {
namespace {

struct Span {
  size_t begin, end;  // nodes: [begin, end)
  uint64_t bytes;
  uint64_t* offset;
};

// First fit in the order of begin: each span takes the lowest gap that no span alive at the same time covers.
uint64_t place(std::vector<Span>& spans) {
  std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
  uint64_t total = 0;
  std::vector<const Span*> alive;
  for (Span& span : spans) {
    std::erase_if(alive, [&](const Span* other) { return other->end <= span.begin; });
    std::sort(alive.begin(), alive.end(), [](const Span* a, const Span* b) { return *a->offset < *b->offset; });
    uint64_t at = 0;
    for (const Span* other : alive) {
      if (*other->offset >= at + span.bytes) break;
      at = std::max(at, *other->offset + other->bytes);
    }
    *span.offset = at;
    total = std::max(total, at + span.bytes);
    alive.push_back(&span);
  }
  return total;
}

}  // namespace

ArenaPlan plan_arena(const Selection& selection, const std::vector<tenon_plan>& plans, const std::vector<bool>& barriers,
                     const std::vector<int32_t>& pinned, uint32_t max_rows, uint32_t max_outputs, uint32_t n_workers) {
  const graph::Graph& graph = selection.graph;
  const size_t n = selection.nodes.size();
  ArenaPlan out;
  out.values.resize(graph.values.size());
  out.workspaces.assign(n, 0);
  std::vector<size_t> born(graph.values.size(), SIZE_MAX), last(graph.values.size(), 0);
  for (size_t i = 0; i < n; ++i) {
    for (int32_t v : selection.nodes[i]->node.out) born[size_t(v)] = last[size_t(v)] = i;
    for (int32_t v : selection.nodes[i]->node.in) last[size_t(graph.base_of(v))] = i;
  }
  // Values that cross from token rows to output rows stay: the tail may run several times over them.
  for (size_t i = 0; i < n; ++i) {
    const graph::Node& node = selection.nodes[i]->node;
    const bool is_tail = graph::domain_of(graph, node) == TENON_DOMAIN_OUTPUT_ROWS;
    for (int32_t v : node.in)
      if (is_tail && graph.values[size_t(v)].domain == TENON_DOMAIN_TOKENS) last[size_t(graph.base_of(v))] = n;
  }
  for (int32_t v : pinned) last[size_t(graph.base_of(v))] = n;

  // next_barrier[i]: the first node after i that a barrier stands before. A lone worker is never behind itself.
  std::vector<size_t> next_barrier(n + 1, n);
  for (size_t i = n; i-- > 0;)
    next_barrier[i] = i + 1 < n && (barriers[i + 1] || n_workers == 1) ? i + 1 : next_barrier[i + 1];
  std::vector<Span> shared, own;
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const graph::Value& value = graph.values[v];
    if (value.is_view() || born[v] == SIZE_MAX) continue;
    const uint64_t rows = value.domain == TENON_DOMAIN_OUTPUT_ROWS ? max_outputs : max_rows;
    const uint64_t bytes = rows * uint64_t(tenon_encoding_row_bytes(value.encoding, value.cols));
    Place& place = out.values[v];
    place.is_placed = true;
    place.is_private = plans[born[v]].partition == TENON_PART_REPLICATE;
    const size_t end = last[v] >= n ? n + 1 : place.is_private ? last[v] + 1 : next_barrier[last[v]];
    (place.is_private ? own : shared).push_back({born[v], std::max(end, born[v] + 1), bytes, &place.offset});
  }
  for (size_t i = 0; i < n; ++i)
    if (plans[i].workspace)
      shared.push_back({i, std::max(next_barrier[i], i + 1), (plans[i].workspace + 63) & ~uint64_t(63), &out.workspaces[i]});
  out.shared_bytes = place(shared);
  out.private_bytes = place(own);
  for (size_t v = 0; v < graph.values.size(); ++v)
    if (graph.values[v].is_view()) out.values[v] = out.values[size_t(graph.values[v].base)];
  return out;
}

}  // namespace tenon::program
