#include "select.hpp"

#include "graph/composite.hpp"
#include "graph/ops.hpp"
#include "plugin/log.hpp"
#include "plugin/plugin_host.hpp"

#include <tenon/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace tenon::program {
namespace {

constexpr const char* kForbidden = "forbidden by the user";

std::string_view view(tenon_str text) { return {text.data, size_t(text.size)}; }

std::string_view encoding_name(uint32_t encoding) {
  switch (encoding) {
    case TENON_ENC_F32: return "f32";
    case TENON_ENC_BF16: return "bf16";
    case TENON_ENC_F16: return "f16";
    case TENON_ENC_Q8_32: return "q8_32";
    case TENON_ENC_FP8_128: return "fp8_128";
    case TENON_ENC_I32: return "i32";
    default: return "an unknown encoding";
  }
}

// First feature of the list that the device lacks; empty = it has all.
std::string_view missing_feature(std::string_view wanted, const tenon_device& device) {
  while (!wanted.empty()) {
    const size_t end = std::min(wanted.find(' '), wanted.size());
    const std::string_view one = wanted.substr(0, end);
    wanted.remove_prefix(std::min(end + 1, wanted.size()));
    bool found = one.empty();
    for (uint32_t i = 0; i < device.n_feature && !found; ++i) found = view(device.features[i]) == one;
    if (!found) return one;
  }
  return {};
}

bool listed(const std::vector<std::string>& prefixes, std::string_view name) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](const std::string& p) { return !p.empty() && name.starts_with(p); });
}

double cost(const tenon_offer& offer) { return offer.fixed_us + offer.us_per_row + offer.bytes_read * 1e-4; }

class Selector {
 public:
  Selector(const graph::Graph& graph, const plugin::Registry& registry, const Device& device, WeightSet& weights,
           const std::vector<tenon_store_type>& stores, const SelectOptions& options)
      : registry_(registry), kernels_(registry.kernels), device_(device), weights_(weights), stores_(stores), options_(options) {
    kernels_.insert(kernels_.end(), options.exchanges.begin(), options.exchanges.end());
    out_.graph = graph;
  }

  Selection run() {
    std::vector<graph::Node> nodes = out_.graph.nodes;
    append_softcaps(nodes);
    // A table that `linear` packs may be gathered from in that form, so embeds choose last.
    std::vector<std::vector<std::unique_ptr<Selected>>> chosen(nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i)
      if (nodes[i].op != TENON_OP_EMBED) chosen[i] = choose(nodes[i]);
    for (size_t i = 0; i < nodes.size(); ++i)
      if (nodes[i].op == TENON_OP_EMBED) chosen[i] = choose(nodes[i]);
    for (auto& group : chosen)
      for (auto& one : group) add_with_encodes(std::move(one));
    if (options_.composites) fuse();
    for (auto& one : out_.nodes) one->table = table_of(one->node, one->parts);
    for (auto& one : out_.nodes) request_weights(*one);
    return std::move(out_);
  }

 private:
  struct Candidate {
    const tenon_kernel* kernel;
    tenon_offer offer;
  };

  std::unique_ptr<NodeTable> table_of(const graph::Node& node, const std::vector<graph::Node>& parts = {},
                                      bool raw_layout = false) const {
    const Describe describe = {[&](int32_t id) {
                                 tenon_weight weight = weights_.described(id);
                                 if (raw_layout) weight.layout = 0;
                                 const auto it = layouts_.find(id);
                                 if (!raw_layout && it != layouts_.end()) weight.layout = it->second;
                                 return weight;
                               },
                               [&](int32_t id) { return stores_[size_t(id)]; }};
    return std::make_unique<NodeTable>(out_.graph, node, parts, options_.phase, describe);
  }

  void append_softcaps(std::vector<graph::Node>& nodes) {
    if (out_.graph.softcap == 0) return;
    const int32_t own = out_.graph.own_logits;
    const bool are_one = own == out_.graph.logits;
    append_softcap(nodes, "softcap", out_.graph.logits, are_one ? graph::Purpose::kAll : graph::Purpose::kWholeLogits);
    if (are_one) out_.graph.own_logits = out_.graph.logits;
    else append_softcap(nodes, "softcap of own logits", out_.graph.own_logits, graph::Purpose::kOwnLogits);
  }

  void append_softcap(std::vector<graph::Node>& nodes, const char* name, int32_t& logits, graph::Purpose purpose) {
    if (logits < 0) return;
    graph::Node node;
    node.op = TENON_OP_SOFTCAP, node.name = name, node.purpose = purpose;
    const tenon_scale_attr attr = {sizeof attr, out_.graph.softcap};
    node.attr.assign(reinterpret_cast<const uint8_t*>(&attr), reinterpret_cast<const uint8_t*>(&attr) + sizeof attr);
    node.in = {logits};
    graph::Value capped = out_.graph.values[size_t(logits)];
    out_.graph.values.push_back(capped);
    logits = int32_t(out_.graph.values.size()) - 1;
    node.out = {logits};
    nodes.push_back(std::move(node));
  }

  bool is_partial(const graph::Node& node) const {
    return std::any_of(node.weight.begin(), node.weight.end(), [&](int32_t id) { return weights_.is_partial(id); });
  }

  // Why the offer cannot be used; "" if it can.
  std::string fault_of(const tenon_node& node, const tenon_offer& offer, bool partial) const {
    if (partial && !(offer.flags & TENON_OFFER_PARTIAL_BANK)) return "needs all experts, of which this rank owns some";
    for (uint32_t i = 0; i < node.n_in && i < 8; ++i) {
      const uint32_t wanted = offer.in_encoding[i], has = node.in[i].encoding;
      if (wanted == has) continue;
      if (has != TENON_ENC_F32) return fmt::format("reads {} but gets {}", encoding_name(wanted), encoding_name(has));
      if (options_.precision == Precision::kExact) return fmt::format("reads {}, but the precision is exact", encoding_name(wanted));
      if (wanted == TENON_ENC_Q8_32 && node.in[i].cols % 32) return fmt::format("{} columns do not fit q8_32", node.in[i].cols);
      if (!tenon_encoding_row_bytes(wanted, node.in[i].cols)) return fmt::format("reads {}", encoding_name(wanted));
    }
    for (uint32_t i = 0; i < node.n_out && i < 8; ++i)
      if (offer.out_encoding[i] != node.out[i].encoding)
        return fmt::format("emits {} where {} is wanted", encoding_name(offer.out_encoding[i]), encoding_name(node.out[i].encoding));
    for (uint32_t i = 0; i < node.n_store && i < 4; ++i)
      if (offer.store_layout[i]) return "wants a private store layout, which this build does not serve";
    return "";
  }

  std::optional<Candidate> best(const tenon_node& node, std::string_view pattern, std::vector<Refusal>* refusals, bool partial = false) const {
    std::vector<Candidate> able;
    for (const tenon_kernel* kernel : kernels_) {
      if (view(kernel->backend) != view(device_.table().backend) || view(kernel->pattern) != pattern) continue;
      const std::string_view name = view(kernel->name);
      std::string reason;
      Candidate candidate = {kernel, {}};
      if (!(kernel->phases & options_.phase)) {
        reason = options_.phase == TENON_PHASE_DECODE ? "serves prefill only" : "serves decode only";
      } else if (const auto lacking = missing_feature(view(kernel->feature), device_.table()); !lacking.empty()) {
        reason = fmt::format("needs {}", lacking);
      } else if (listed(options_.forbid, name)) {
        reason = kForbidden;
      } else {
        reason = ask(*kernel, node, &candidate.offer, partial);
      }
      if (reason.empty()) {
        able.push_back(candidate);
      } else if (refusals) {
        refusals->push_back({std::string(name), reason});
      }
    }
    if (able.empty()) return std::nullopt;
    std::stable_sort(able.begin(), able.end(), [&](const Candidate& a, const Candidate& b) {
      const bool pa = listed(options_.prefer, view(a.kernel->name)), pb = listed(options_.prefer, view(b.kernel->name));
      if (pa != pb) return pa;
      if (a.kernel->priority != b.kernel->priority) return a.kernel->priority > b.kernel->priority;
      // Classes first, or cost inside them and names across them could contradict each other.
      if (const auto ca = view(a.kernel->numeric_class), cb = view(b.kernel->numeric_class); ca != cb) return ca < cb;
      if (cost(a.offer) != cost(b.offer)) return cost(a.offer) < cost(b.offer);
      return view(a.kernel->name) < view(b.kernel->name);
    });
    if (refusals)
      for (size_t i = 1; i < able.size(); ++i)
        refusals->push_back({std::string(view(able[i].kernel->name)), fmt::format("{} comes first", view(able[0].kernel->name))});
    return able[0];
  }

  std::string ask(const tenon_kernel& kernel, const tenon_node& node, tenon_offer* offer, bool partial) const {
    offer->struct_size = sizeof *offer;
    for (uint32_t i = 0; i < 8; ++i) {
      offer->in_encoding[i] = i < node.n_in ? node.in[i].encoding : uint32_t(TENON_ENC_NONE);
      offer->out_encoding[i] = i < node.n_out ? node.out[i].encoding : uint32_t(TENON_ENC_NONE);
    }
    const tenon_status status = kernel.accept(&kernel, &node, &device_.table(), offer);
    if (status == TENON_UNSUPPORTED) {
      offer->why_not[sizeof offer->why_not - 1] = '\0';
      return offer->why_not[0] ? offer->why_not : "refused without a reason";
    }
    if (status != TENON_OK) return "failed: " + plugin::PluginHost::take_message();
    return fault_of(node, *offer, partial);
  }

  // Kernels for one node of the graph; a linear of several weights may become several nodes.
  std::vector<std::unique_ptr<Selected>> choose(const graph::Node& node) {
    std::vector<std::unique_ptr<Selected>> out;
    if (node.op != TENON_OP_LINEAR || node.weight.size() == 1) {
      out.push_back(choose_one(node));
      return out;
    }
    // Weights that the same kernel serves best stay together, in the order of their first member.
    std::vector<const tenon_kernel*> winner(node.weight.size());
    for (size_t i = 0; i < node.weight.size(); ++i) {
      const graph::Node single = part_of(node, {i});
      const auto table = table_of(single);
      const auto candidate = best(*table->get(), "linear", nullptr);
      winner[i] = candidate ? candidate->kernel : nullptr;
    }
    std::vector<bool> taken(node.weight.size(), false);
    for (size_t i = 0; i < node.weight.size(); ++i) {
      if (taken[i]) continue;
      std::vector<size_t> members;
      for (size_t j = i; j < node.weight.size(); ++j)
        if (!taken[j] && winner[j] == winner[i]) members.push_back(j);
      const graph::Node together = part_of(node, members);
      const auto table = table_of(together);
      const auto candidate = best(*table->get(), "linear", nullptr);
      if (!candidate || candidate->kernel != winner[i]) members = {i};
      for (size_t j : members) taken[j] = true;
      out.push_back(choose_one(part_of(node, members)));
    }
    return out;
  }

  static graph::Node part_of(const graph::Node& node, const std::vector<size_t>& members) {
    graph::Node out = node;
    out.weight.clear(), out.out.clear();
    for (size_t i : members) {
      out.weight.push_back(node.weight[i]);
      out.out.push_back(node.out[i]);
    }
    return out;
  }

  std::unique_ptr<Selected> choose_one(graph::Node node) {
    Choice choice = choice_of(node);
    auto table = table_of(node);
    auto candidate = best(*table->get(), graph::op_name(node.op), &choice.refusals, is_partial(node));
    if (!candidate && node.op == TENON_OP_EMBED && table->weight(0).layout) {
      table = table_of(node, {}, true);
      candidate = best(*table->get(), graph::op_name(node.op), &choice.refusals);
    }
    if (!candidate) throw Error(error_kind(choice), nobody(choice));
    auto out = std::make_unique<Selected>();
    out->node = std::move(node);
    out->kernel = candidate->kernel, out->offer = candidate->offer;
    for (size_t i = 0; i < out->node.weight.size(); ++i) {
      out->layouts.push_back(candidate->offer.pack_layout[std::min<size_t>(i, 7)]);
      if (out->layouts.back()) layouts_[out->node.weight[i]] = out->layouts.back();
    }
    choice.kernel = view(candidate->kernel->name), choice.numeric_class = view(candidate->kernel->numeric_class);
    choice.flags = candidate->offer.flags;
    out_.choices.push_back(std::move(choice));
    return out;
  }

  Choice choice_of(const graph::Node& node) const {
    Choice choice;
    choice.node = node.name, choice.op = graph::op_name(node.op), choice.layer = node.layer;
    for (int32_t id : node.weight) choice.dtypes.push_back(weights_.dtype_name(id));
    return choice;
  }

  // The file asks for too much, or the user took away what would have served it.
  static ErrorKind error_kind(const Choice& choice) {
    const auto forbidden = [](const Refusal& refusal) { return refusal.reason == kForbidden; };
    return std::any_of(choice.refusals.begin(), choice.refusals.end(), forbidden) ? ErrorKind::kUsage : ErrorKind::kFile;
  }

  std::string nobody(const Choice& choice) const {
    std::string text = fmt::format("{} ({}): no kernel of backend {} serves it", choice.node, choice.op, view(device_.table().backend));
    for (const Refusal& refusal : choice.refusals) text += fmt::format("\n  {}: {}", refusal.kernel, refusal.reason);
    return text;
  }

  // Puts the node into the program, behind the encodes that its inputs need. One encode a value and encoding.
  void add_with_encodes(std::unique_ptr<Selected> one) {
    for (size_t i = 0; i < one->node.in.size() && i < 8; ++i) {
      const int32_t value = one->node.in[i];
      const uint32_t wanted = one->offer.in_encoding[i];
      if (wanted == out_.graph.values[size_t(value)].encoding) continue;
      auto [it, fresh] = encoded_.emplace(std::make_pair(value, wanted), -1);
      if (fresh) {
        graph::Node node;
        node.op = TENON_OP_ENCODE, node.layer = one->node.layer;
        node.name = fmt::format("{} {}", one->node.name, encoding_name(wanted));
        const tenon_encode_attr attr = {sizeof attr, wanted};
        node.attr.assign(reinterpret_cast<const uint8_t*>(&attr), reinterpret_cast<const uint8_t*>(&attr) + sizeof attr);
        graph::Value encoded;
        encoded.encoding = wanted, encoded.domain = out_.graph.values[size_t(value)].domain;
        encoded.cols = out_.graph.values[size_t(value)].cols;
        out_.graph.values.push_back(encoded);
        it->second = int32_t(out_.graph.values.size()) - 1;
        node.in = {value}, node.out = {it->second};
        out_.nodes.push_back(choose_one(std::move(node)));
      }
      one->node.in[i] = it->second;
    }
    out_.nodes.push_back(std::move(one));
  }

  static bool is_kept(const void* context, int32_t value) {
    const graph::Graph& graph = *static_cast<const graph::Graph*>(context);
    if (value == graph.base_of(graph.logits)) return true;
    return std::any_of(graph.taps.begin(), graph.taps.end(), [&](const auto& tap) { return graph.base_of(tap.second) == value; });
  }

  // Replaces groups of nodes by composite kernels that are bit-equal to them ("parts") or preferred by the user.
  void fuse() {
    struct Composite {
      graph::Pattern pattern;
      std::string_view text;
    };
    std::vector<Composite> composites;
    std::set<std::string_view> seen;
    for (const tenon_kernel* kernel : registry_.kernels) {
      const std::string_view text = view(kernel->pattern);
      if (view(kernel->backend) != view(device_.table().backend) || text.find("->") == std::string_view::npos) continue;
      if (!seen.insert(text).second) continue;
      try {
        composites.push_back({graph::parse_pattern(text), text});
      } catch (const std::invalid_argument& error) {
        log(TENON_LOG_WARNING, fmt::format("kernel {} is passed over: {}", view(kernel->name), error.what()));
      }
    }
    std::stable_sort(composites.begin(), composites.end(), [](const Composite& a, const Composite& b) {
      return a.pattern.statements.size() > b.pattern.statements.size();
    });
    std::vector<graph::Node> plain;  // those of out_.nodes
    for (const auto& one : out_.nodes) plain.push_back(one->node);
    for (const Composite& composite : composites)
      for (size_t i = 0; i < plain.size(); ++i) fuse_at(composite.pattern, composite.text, i, plain);
  }

  void fuse_at(const graph::Pattern& pattern, std::string_view text, size_t first, std::vector<graph::Node>& plain) {
    if (plain[first].op != pattern.statements[0].op) return;
    const auto match = graph::match_pattern(pattern, plain, first, out_.graph, is_kept, &out_.graph);
    if (!match) return;
    auto fused = std::make_unique<Selected>();
    fused->node = match->group;
    for (size_t i : match->nodes) fused->parts.push_back(plain[i]);
    Choice choice = choice_of(fused->node);
    choice.op = text;
    const auto table = table_of(fused->node, fused->parts);
    const auto candidate = best(*table->get(), text, &choice.refusals, is_partial(fused->node));
    if (!candidate) return;
    // A part stays with its kernel if that comes before the group's, by the order that holds among kernels of one node.
    const bool preferred = listed(options_.prefer, view(candidate->kernel->name));
    for (size_t i : match->nodes) {
      const tenon_kernel& own = *out_.nodes[i]->kernel;
      const bool own_preferred = listed(options_.prefer, view(own.name));
      if (own_preferred != preferred ? own_preferred : own.priority > candidate->kernel->priority) return;
    }
    for (size_t i = 0; i < match->group.in.size() && i < 8; ++i)
      if (candidate->offer.in_encoding[i] != table->get()->in[i].encoding) return;
    fused->kernel = candidate->kernel, fused->offer = candidate->offer;
    for (size_t i = 0; i < fused->node.weight.size(); ++i)
      fused->layouts.push_back(candidate->offer.pack_layout[std::min<size_t>(i, 7)]);
    choice.kernel = view(candidate->kernel->name), choice.numeric_class = view(candidate->kernel->numeric_class);
    choice.flags = candidate->offer.flags;
    out_.choices.push_back(std::move(choice));
    plain[match->nodes.back()] = match->group;
    out_.nodes[match->nodes.back()] = std::move(fused);
    for (size_t k = match->nodes.size() - 1; k-- > 0;) {
      const auto at = ptrdiff_t(match->nodes[k]);
      out_.nodes.erase(out_.nodes.begin() + at), plain.erase(plain.begin() + at);
    }
  }

  void request_weights(Selected& one) {
    for (size_t i = 0; i < one.node.weight.size(); ++i)
      weights_.request(one.node.weight[i], one.layouts[i], {one.kernel, one.table->get(), uint32_t(i)});
  }

  const plugin::Registry& registry_;
  std::vector<const tenon_kernel*> kernels_;
  const Device& device_;
  WeightSet& weights_;
  const std::vector<tenon_store_type>& stores_;
  const SelectOptions& options_;
  std::map<int32_t, uint32_t> layouts_;
  std::map<std::pair<int32_t, uint32_t>, int32_t> encoded_;
  Selection out_;
};

}  // namespace

Selection select_kernels(const graph::Graph& graph, const plugin::Registry& registry, const Device& device,
                         WeightSet& weights, const std::vector<tenon_store_type>& stores, const SelectOptions& options) {
  return Selector(graph, registry, device, weights, stores, options).run();
}

}  // namespace tenon::program
