#include "entry.hpp"

namespace tenon::engine {

std::vector<tenon_store> Entry::store_tables() const {
  std::vector<tenon_addr> own, theirs;
  for (uint32_t g = 0; g < n_groups(); ++g) (g < stores->n_groups() ? own : theirs).push_back(step->page_table(g));
  const std::vector<tenon_store> mine = stores->tables(own, step->slot_table());
  const std::vector<tenon_store> read = theirs.empty() ? mine : main->stores->tables(theirs, step->slot_table());
  std::vector<tenon_store> out;
  size_t next = 0;
  for (const graph::Store& store : graph.stores) out.push_back(store.target < 0 ? mine[next++] : read[size_t(store.target)]);
  return out;
}

}  // namespace tenon::engine
