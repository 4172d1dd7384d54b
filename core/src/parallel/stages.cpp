#include "stages.hpp"

#include <tenon/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace tenon::parallel {
namespace {

// Stages from some layer on to the last one.
struct Choice {
  uint64_t crossing = 0, largest = 0;
  uint32_t next = 0;  // where its second stage begins
  std::pair<uint64_t, uint64_t> rank() const { return {crossing, largest}; }
};

class Picker {
 public:
  Picker(const LayerCosts& costs, uint32_t n_stages)
      : costs_(costs), n_layers_(uint32_t(costs.weight_bytes.size())), n_stages_(n_stages), may_begin_(n_layers_ + 1, true), before_(n_layers_ + 1) {
    for (uint32_t i = 0; i < n_layers_; ++i) before_[i + 1] = before_[i] + costs.weight_bytes[i];
    for (const LayerCosts::Tie& tie : costs.ties)
      for (uint32_t layer = tie.first + 1; layer <= tie.last; ++layer) may_begin_[layer] = false;
  }

  std::vector<uint32_t> run() {
    check();
    // Once for the smallest largest stage there can be, then with room around it.
    auto best = choose(UINT64_MAX, /*by_size=*/true);
    const uint64_t least = best[n_stages_][0]->largest;
    best = choose(least + least / 8, /*by_size=*/false);
    std::vector<uint32_t> out = {0};
    for (uint32_t stages = n_stages_; stages > 1; --stages) out.push_back(best[stages][out.back()]->next);
    return out;
  }

 private:
  void check() const {
    if (!n_stages_) throw Error(ErrorKind::kUsage, "a pipeline of no stages");
    const auto most = uint32_t(std::count(may_begin_.begin(), may_begin_.begin() + n_layers_, true));
    if (n_stages_ <= most) return;
    std::string why = fmt::format("a pipeline of {} stages: this model has {} layers", n_stages_, n_layers_);
    if (most < n_layers_) why += fmt::format(", which can be in at most {} stages", most);
    for (const LayerCosts::Tie& tie : costs_.ties) why += "; " + tie.why;
    throw Error(ErrorKind::kUsage, why);
  }

  // By number of stages and first layer: the best choice whose stages have at most `limit` bytes.
  std::vector<std::vector<std::optional<Choice>>> choose(uint64_t limit, bool by_size) const {
    std::vector<std::vector<std::optional<Choice>>> best(n_stages_ + 1, std::vector<std::optional<Choice>>(n_layers_ + 1));
    for (uint32_t stages = 1; stages <= n_stages_; ++stages)
      for (uint32_t first = 0; first < n_layers_; ++first) {
        if (!may_begin_[first]) continue;
        std::optional<Choice>& own = best[stages][first];
        if (stages == 1) {
          if (bytes(first, n_layers_) <= limit) own = Choice{0, bytes(first, n_layers_), n_layers_};
          continue;
        }
        for (uint32_t next = first + 1; next < n_layers_; ++next) {
          const std::optional<Choice>& rest = best[stages - 1][next];
          if (!rest || bytes(first, next) > limit) continue;
          const Choice found = {by_size ? 0 : costs_.crossing[next] + rest->crossing, std::max(bytes(first, next), rest->largest), next};
          if (!own || found.rank() < own->rank()) own = found;
        }
      }
    return best;
  }
  uint64_t bytes(uint32_t first, uint32_t end) const { return before_[end] - before_[first]; }

  const LayerCosts& costs_;
  uint32_t n_layers_, n_stages_;
  std::vector<bool> may_begin_;
  std::vector<uint64_t> before_;
};

}  // namespace

LayerCosts layer_costs(const graph::Graph& graph, const std::function<uint64_t(const graph::Weight&)>& bytes_of) {
  const uint32_t n = std::max(graph.n_layers, 1u);
  LayerCosts out = {std::vector<uint64_t>(n), std::vector<uint64_t>(n), {}};
  struct Life {
    uint32_t born, last;
  };
  std::map<int32_t, Life> values, stores;
  std::set<std::pair<uint32_t, int32_t>> weights;
  uint32_t layer = 0;
  for (const graph::Node& node : graph.nodes) {
    if (node.layer != graph::kNoLayer) layer = node.layer;
    for (const int32_t id : node.weight)
      if (weights.insert({layer, id}).second) out.weight_bytes[layer] += bytes_of(graph.weights[size_t(id)]);
    for (const int32_t id : node.in)
      if (const auto it = values.find(graph.base_of(id)); it != values.end()) it->second.last = std::max(it->second.last, layer);
    for (const int32_t id : node.out) values[id] = {layer, layer};
    for (const int32_t id : node.store) {
      Life& life = stores.try_emplace(id, Life{layer, layer}).first->second;
      life.born = std::min(life.born, layer), life.last = std::max(life.last, layer);
    }
  }
  for (const auto& [id, life] : values)
    for (uint32_t border = life.born + 1; border <= life.last; ++border)
      out.crossing[border] += uint64_t(tenon_encoding_row_bytes(graph.values[size_t(id)].encoding, graph.values[size_t(id)].cols));
  for (const auto& [id, life] : stores)
    if (life.born != life.last)
      out.ties.push_back({life.born, life.last, fmt::format("layers {} to {} share the keys and values of layer {}", life.born, life.last, life.born)});
  return out;
}

std::vector<uint32_t> pick_stages(const LayerCosts& costs, uint32_t n_stages) { return Picker(costs, n_stages).run(); }

}  // namespace tenon::parallel
