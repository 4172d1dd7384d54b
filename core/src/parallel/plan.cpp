#include "plan.hpp"

#include <tenon/error.hpp>
#include <tenon/layer_ranks.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <optional>

namespace tenon::parallel {
namespace {

constexpr uint32_t kMostLayersOfRange = 128;
constexpr uint32_t kMostParts = 64;
constexpr std::string_view kTensor = "--tensor-parallel", kExperts = "--expert-parallel", kPipeline = "--pipeline-parallel";

template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorKind::kUsage, fmt::format(format, std::forward<Args>(args)...));
}

std::optional<uint32_t> number(std::string_view text) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> out;
  for (;;) {
    const size_t end = text.find(at);
    out.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

std::vector<uint32_t> parse_ranks(std::string_view option, std::string_view item, std::string_view text) {
  std::vector<uint32_t> ranks;
  for (const std::string_view word : split(text, ',')) {
    const auto rank = number(word);
    if (!rank || *rank >= kMostRanks) refuse("{}: \"{}\": \"{}\" is no rank from 0 to {}", option, item, word, kMostRanks - 1);
    if (std::find(ranks.begin(), ranks.end(), *rank) != ranks.end()) refuse("{}: \"{}\": rank {} is named twice", option, item, *rank);
    ranks.push_back(*rank);
  }
  if (ranks.size() < 2) refuse("{}: \"{}\": at least two ranks share a layer; one that no list names is rank 0's alone", option, item);
  return ranks;
}

// First and last layer.
std::pair<uint32_t, uint32_t> parse_layers(std::string_view option, std::string_view item, std::string_view text) {
  const size_t dash = text.find('-');
  const auto first = number(text.substr(0, dash)), last = dash == std::string_view::npos ? first : number(text.substr(dash + 1));
  if (!first || !last) refuse("{}: \"{}\": \"{}\" is neither a layer nor a range of layers such as 4-7", option, item, text);
  if (*first > *last) refuse("{}: \"{}\": the range {} is reversed", option, item, text);
  if (*last - *first >= kMostLayersOfRange) refuse("{}: \"{}\": a range of {} layers, at most {} are taken", option, item, uint64_t(*last) - *first + 1, kMostLayersOfRange);
  return {*first, *last};
}

struct Numbers {
  uint32_t tensor, experts, stages;
  uint32_t of_stage() const { return std::max(tensor, experts); }
};

Numbers numbers_of(const PlanOptions& options) {
  for (const auto& [option, value] : {std::pair{kTensor, options.tensor}, {kExperts, options.experts}, {kPipeline, options.pipeline}})
    if (value < 1 || value > kMostRanks) refuse("{}: expected 1 to {}, found {}", option, kMostRanks, value);
  const Numbers n = {options.tensor, options.experts, options.pipeline};
  if (n.tensor > n.experts && n.tensor % n.experts)
    refuse("{} {} with {} {}: {} ranks cannot be dealt to {} owners of experts", kTensor, n.tensor, kExperts, n.experts, n.tensor, n.experts);
  if (n.of_stage() * n.stages > kMostRanks)
    refuse("{} stages of {} ranks are {}: at most {} are served", n.stages, n.of_stage(), n.of_stage() * n.stages, kMostRanks);
  return n;
}

bool has_lists(const PlanOptions& options) {
  if (options.tensor_layers.empty() && options.expert_layers.empty()) return false;
  for (const auto& [option, value] : {std::pair{kTensor, options.tensor}, {kExperts, options.experts}, {kPipeline, options.pipeline}})
    if (value > 1) refuse("{} {}: a number cannot stand beside a list of layers", option, value);
  return true;
}

uint32_t highest(std::string_view option, const std::string& text, bool takes_all) {
  uint32_t out = 0;
  for (const LayerRanks& it : parse_layer_ranks(option, text, 1, takes_all)) out = std::max(out, *std::max_element(it.ranks.begin(), it.ranks.end()));
  return out;
}

void place_lists(Plan& plan, const PlanOptions& options) {
  const auto n_layers = uint32_t(plan.layers.size());
  const auto layer_of = [&](std::string_view option, const LayerRanks& it) -> Plan::Layer& {
    if (it.layer >= n_layers) refuse("{}: layer {}, but the model has layers 0 to {}", option, it.layer, n_layers - 1);
    return plan.layers[it.layer];
  };
  for (const LayerRanks& it : parse_layer_ranks(kTensor, options.tensor_layers, n_layers, true)) {
    Plan::Layer& layer = layer_of(kTensor, it);
    layer.tensor = layer.experts = it.ranks;
  }
  for (const LayerRanks& it : parse_layer_ranks(kExperts, options.expert_layers, n_layers, false)) {
    Plan::Layer& layer = layer_of(kExperts, it);
    if (layer.tensor.size() > 1) refuse("{}: layer {} is in the list of {} too", kExperts, it.layer, kTensor);
    if (std::find(it.ranks.begin(), it.ranks.end(), layer.tensor[0]) == it.ranks.end())
      refuse("{}: layer {}: rank {}, which has the layer, is not among {}", kExperts, it.layer, layer.tensor[0], fmt::join(it.ranks, ","));
    layer.experts = it.ranks, layer.owners = uint32_t(it.ranks.size());
  }
}

void place_numbers(Plan& plan, const Numbers& n, const PickStages& pick) {
  std::vector<uint32_t> firsts = {0};
  if (n.stages > 1) {
    if (n.stages > plan.layers.size()) refuse("{} {}: the model has {} layers", kPipeline, n.stages, plan.layers.size());
    firsts = pick(n.stages);
  }
  for (uint32_t layer = 0, stage = 0; layer < plan.layers.size(); ++layer) {
    while (stage + 1 < firsts.size() && firsts[stage + 1] <= layer) ++stage;
    Plan::Layer& it = plan.layers[layer];
    it.tensor.resize(n.tensor), it.experts.resize(n.of_stage());
    std::iota(it.tensor.begin(), it.tensor.end(), stage * n.of_stage());
    std::iota(it.experts.begin(), it.experts.end(), stage * n.of_stage());
    it.owners = n.experts;
  }
}

// The parts asked for. Where none are: as many as the ranks of a group, or 0 where groups have several sizes.
uint32_t parts_of(const char* what, uint32_t asked, const std::vector<uint32_t>& sizes) {
  if (!asked) return std::all_of(sizes.begin(), sizes.end(), [&](uint32_t size) { return size == sizes[0]; }) ? sizes[0] : 0;
  for (const uint32_t size : sizes)
    if (asked % size) refuse("--sum-parts: {} {} cannot be dealt to {} ranks", asked, what, size);
  if (asked > kMostParts) refuse("--sum-parts: {} {}, at most {} are served", asked, what, kMostParts);
  return asked;
}

}  // namespace

std::vector<LayerRanks> parse_layer_ranks(std::string_view option, std::string_view text, uint32_t n_layers, bool takes_all) {
  std::vector<LayerRanks> out;
  if (text.empty() || text == "0") return out;
  std::map<uint32_t, std::string_view> item_of;
  for (const std::string_view item : split(text, ';')) {
    const size_t at = item.find('@');
    if (at == std::string_view::npos) refuse("{}: \"{}\": expected layers@ranks, such as 0-3@0,1", option, item);
    const std::string_view layers = item.substr(0, at);
    if (layers == "all" && !takes_all) refuse("{}: \"{}\": name the layers that have experts instead of all", option, item);
    if (layers == "all" && !n_layers) refuse("{}: \"{}\": the model has no layers", option, item);
    const auto [first, last] = layers == "all" ? std::pair{0u, n_layers - 1} : parse_layers(option, item, layers);
    const std::vector<uint32_t> ranks = parse_ranks(option, item, item.substr(at + 1));
    for (uint64_t layer = first; layer <= last; ++layer) {
      const auto [it, fresh] = item_of.try_emplace(uint32_t(layer), item);
      if (!fresh) refuse("{}: layer {} is in \"{}\" and in \"{}\"", option, layer, it->second, item);
      out.push_back({uint32_t(layer), ranks});
    }
  }
  return out;
}

uint32_t count_ranks(const PlanOptions& options) {
  if (has_lists(options)) return std::max(highest(kTensor, options.tensor_layers, true), highest(kExperts, options.expert_layers, false)) + 1;
  const Numbers n = numbers_of(options);
  return n.of_stage() * n.stages;
}

Plan make_plan(const PlanOptions& options, uint32_t n_layers, const PickStages& pick) {
  Plan plan;
  plan.n_ranks = count_ranks(options);
  plan.layers.assign(std::max(n_layers, 1u), {{0}, {0}, 1});
  if (has_lists(options)) place_lists(plan, options);
  else place_numbers(plan, numbers_of(options), pick);
  std::vector<uint32_t> sizes, expert_sizes;
  std::vector<bool> used(plan.n_ranks);
  used[0] = true;
  for (const Plan::Layer& layer : plan.layers) {
    sizes.push_back(uint32_t(layer.tensor.size())), expert_sizes.push_back(uint32_t(layer.experts.size()) / layer.owners);
    for (const auto* ranks : {&layer.tensor, &layer.experts})
      for (const uint32_t rank : *ranks) used[rank] = true;
  }
  const auto idle = std::find(used.begin(), used.end(), false) - used.begin();
  if (idle < std::ptrdiff_t(used.size())) refuse("the lists of layers leave rank {} of {} without a layer", idle, plan.n_ranks);
  plan.parts = parts_of("parts of a sum", options.sum_parts, sizes);
  const bool owned = std::any_of(plan.layers.begin(), plan.layers.end(), [](const Plan::Layer& layer) { return layer.owners > 1; });
  plan.expert_parts = parts_of("parts of a sum inside an expert", options.expert_parts || owned ? options.expert_parts : options.sum_parts, expert_sizes);
  plan.interleave_experts = options.interleave_experts;
  return plan;
}

}  // namespace tenon::parallel

void tenon::check_layer_ranks(std::string_view option, std::string_view list, bool takes_all) {
  parallel::parse_layer_ranks(option, list, 1, takes_all);
}
