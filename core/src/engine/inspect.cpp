#include "inspect.hpp"

#include "loaded.hpp"
#include "program/bandwidth.hpp"
#include "plan_options.hpp"
#include "ranks.hpp"

#include <tenon/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

namespace tenon::engine {
namespace {

using Json = nlohmann::ordered_json;

std::string_view view(tenon_str text) { return {text.data, size_t(text.size)}; }

std::string dtype_name(const plugin::PluginHost& plugins, uint32_t id) {
  const tenon_dtype* dtype = plugins.registry().dtype(id);
  return dtype ? std::string(view(dtype->name)) : fmt::format("dtype {}", id);
}

// Longer texts are files by themselves, such as a tokenizer.json.
constexpr uint64_t kLongestText = 64 << 10;

Json value_of(const tenon_value& value) {
  switch (value.type) {
    case TENON_VALUE_STRING:
      if (value.string.size > kLongestText) return fmt::format("text of {} bytes", value.string.size);
      return std::string(view(value.string));
    case TENON_VALUE_BOOL: return value.integer != 0;
    case TENON_VALUE_F32:
    case TENON_VALUE_F64: return value.real;
    case TENON_VALUE_U64: return uint64_t(value.integer);
    case TENON_VALUE_ARRAY: return fmt::format("array of {}", value.count);
    default: return value.integer;
  }
}

Json file_report(const source::ModelSource& source, const plugin::PluginHost& plugins) {
  Json out;
  out["files"] = source.file_paths();
  out["format"] = source.format();
  out["bytes"] = source.file_bytes();
  Json types = Json::object();
  uint64_t elements = 0;
  for (const source::Tensor& tensor : source.tensors()) {
    Json& entry = types[dtype_name(plugins, tensor.dtype)];
    if (entry.is_null()) entry = {{"tensors", 0}, {"bytes", 0}};
    entry["tensors"] = entry["tensors"].get<uint64_t>() + 1;
    entry["bytes"] = entry["bytes"].get<uint64_t>() + tensor.bytes();
    elements += std::accumulate(tensor.dim.begin(), tensor.dim.end(), uint64_t(1), std::multiplies<uint64_t>());
  }
  out["parameters"] = elements, out["n_tensors"] = source.tensors().size(), out["types"] = types;
  // Pushed, since an ordered object looks for a key by walking all of them; the source has each key once.
  Json::object_t metadata;
  for (size_t i = 0; i < source.metadata().size(); ++i)
    metadata.push_back({std::string(source.metadata().key_at(i)), value_of(source.metadata().value_at(i))});
  out["metadata"] = std::move(metadata);
  return out;
}

Json tensor_report(const source::ModelSource& source, const plugin::PluginHost& plugins) {
  Json out = Json::array();
  for (const source::Tensor& tensor : source.tensors())
    out.push_back({{"name", tensor.name}, {"dtype", dtype_name(plugins, tensor.dtype)}, {"shape", tensor.dim}, {"bytes", tensor.bytes()},
                   {"file", tensor.planes.at(0).file}, {"offset", tensor.planes.at(0).offset}});
  return out;
}

std::string flag_names(uint32_t flags) {
  std::vector<std::string> names;
  if (flags & TENON_OFFER_ROW_EXACT) names.push_back("row-exact");
  if (flags & TENON_OFFER_CAPTURABLE) names.push_back("capturable");
  if (flags & TENON_OFFER_DEQUANTIZES) names.push_back("decodes weights at each use");
  return fmt::format("{}", fmt::join(names, ", "));
}

Json kernel_report(Loaded& loaded) {
  Json out;
  for (const uint32_t phase : {TENON_PHASE_DECODE, TENON_PHASE_PREFILL}) {
    Json nodes = Json::array();
    for (const program::Choice& choice : loaded.select(phase).choices) {
      Json refusals = Json::array();
      for (const program::Refusal& refusal : choice.refusals) refusals.push_back({{"kernel", refusal.kernel}, {"reason", refusal.reason}});
      nodes.push_back({{"node", choice.node}, {"op", choice.op}, {"dtypes", choice.dtypes}, {"kernel", choice.kernel},
                       {"class", choice.numeric_class}, {"flags", flag_names(choice.flags)}, {"refused", refusals}});
    }
    out[phase == TENON_PHASE_DECODE ? "decode" : "prefill"] = nodes;
  }
  return out;
}

std::string layers_text(const parallel::Ranges& layers) {
  std::string out;
  for (const parallel::Range& range : layers)
    out += fmt::format("{}{}", out.empty() ? "" : ",", range.end - range.begin == 1 ? std::to_string(range.begin) : fmt::format("{}-{}", range.begin, range.end - 1));
  return out;
}

const char* kind_name(parallel::Exchange::Kind kind) {
  using Kind = parallel::Exchange::Kind;
  switch (kind) {
    case Kind::kParts: return "parts";
    case Kind::kColumns: return "columns";
    case Kind::kSum: return "sum";
    case Kind::kMove: return "move";
    case Kind::kSlots: return "slots";
  }
  return "?";
}

// What moves, and for which of a step's rows.
Json crossings(const parallel::RankShare& share) {
  Json out = Json::array();
  for (const parallel::ExchangeBytes& it : share.exchanges) {
    Json one = {{"node", it.node}, {"kind", kind_name(it.kind)},
                {"rows", it.is_tail ? "wanted" : "all"}, {"sent_bytes_a_row", it.sent}, {"received_bytes_a_row", it.received}};
    if (it.layer != graph::kNoLayer) one["layer"] = it.layer;
    out.push_back(std::move(one));
  }
  return out;
}

// What a rank has of a draft, beside its share of the model.
Json draft_report(const std::string& entry, const parallel::RankShare& share) {
  return {{"entry", entry}, {"layers", layers_text(share.layers)}, {"weight_bytes", share.weight_bytes},
          {"cache_bytes_a_token", share.cache_bytes}, {"sent_bytes_a_row", share.sent_bytes()},
          {"received_bytes_a_row", share.received_bytes()}, {"crossings", crossings(share)}};
}

// One row alone cannot be faster than this: its layers one after another, each as long as its slowest rank reads weights.
double least_seconds_a_row(const std::vector<parallel::RankShare>& shares, double bytes_a_second) {
  std::map<uint32_t, uint64_t> most;
  for (const parallel::RankShare& share : shares)
    for (const auto& [layer, bytes] : share.decode_bytes) most[layer] = std::max(most[layer], bytes);
  double total = 0;
  for (const auto& [layer, bytes] : most) total += double(bytes) / bytes_a_second;
  return total;
}

Json ranks_report(const Loaded& loaded) {
  const std::vector<parallel::RankShare> shares = loaded.rank_shares();
  const parallel::Plan& plan = loaded.plan();
  size_t largest = 1;  // ranks at work at the same time
  for (const parallel::Plan::Layer& layer : plan.layers) largest = std::max({largest, layer.tensor.size(), layer.experts.size()});
  const bool is_shared = loaded.device().is_host_memory();
  const double together = program::read_bandwidth(loaded.device(), uint32_t(loaded.n_workers() * (is_shared ? largest : 1)));
  const double of_rank = is_shared ? together / double(largest) : together;
  Json each = Json::array();
  for (uint32_t rank = 0; rank < shares.size(); ++rank) {
    const parallel::RankShare& share = shares[rank];
    uint64_t decode_bytes = 0;
    for (const auto& [layer, bytes] : share.decode_bytes) decode_bytes += bytes;
    each.push_back({{"rank", rank}, {"device", loaded.rank_devices().empty() ? 0 : loaded.rank_devices().at(rank)},
                    {"layers", layers_text(share.layers)}, {"weight_bytes", share.weight_bytes},
                    {"decode_bytes_a_row", decode_bytes}, {"decode_seconds_a_row", double(decode_bytes) / of_rank},
                    {"cache_bytes_a_token", share.cache_bytes}, {"state_bytes_a_sequence", share.state_bytes},
                    {"sent_bytes_a_row", share.sent_bytes()}, {"received_bytes_a_row", share.received_bytes()},
                    {"crossings", crossings(share)}});
    for (size_t i = 0; i < share.drafts.size(); ++i) each.back()["drafts"].push_back(draft_report(loaded.entries()[i + 1]->name, share.drafts[i]));
  }
  return {{"number", plan.n_ranks}, {"shown", loaded.place().rank}, {"sum_parts", plan.parts ? Json(plan.parts) : Json("ranks of the layer")},
          {"expert_parts", plan.expert_parts ? Json(plan.expert_parts) : Json("ranks of the owner")},
          {"sent_bytes_a_row", each.at(loaded.place().rank)["sent_bytes_a_row"]},
          {"read_bytes_a_second", of_rank},
          {"most_decode_rows_a_second", 1 / std::max(least_seconds_a_row(shares, of_rank), 1e-9)},
          {"each", each}};
}

Json plan_report(Loaded& loaded) {
  const auto& decode = loaded.program(TENON_PHASE_DECODE);
  const auto& prefill = loaded.program(TENON_PHASE_PREFILL);
  Json out;
  out["architecture"] = loaded.configured().name(), out["plugin"] = loaded.configured().plugin();
  out["backend"] = loaded.backend_description();
  out["threads"] = loaded.n_workers(), out["context"] = loaded.context();
  if (loaded.place().n_ranks > 1) out["ranks"] = ranks_report(loaded);
  out["weight_bytes"] = loaded.weights().source_bytes();
  out["store_bytes"] = loaded.stores().bytes();
  const store::CachePlan& cache = loaded.stores().cache();
  out["prefix_cache"] = {{"limit_bytes", cache.limit_bytes}, {"bytes", cache.bytes},
                         {"pages", cache.n_pages}, {"page_bytes", cache.page_bytes},
                         {"checkpoints", cache.n_checkpoints}, {"checkpoint_bytes", cache.checkpoint_bytes},
                         {"snapshot_bytes", loaded.stores().snapshot_bytes()}};
  out["arena_bytes"] = {{"decode", decode.arena_bytes()}, {"prefill", prefill.arena_bytes()}};
  out["launches"] = {{"decode", decode.n_launches()}, {"prefill", prefill.n_launches()}};
  out["barriers"] = {{"decode", decode.n_barriers()}, {"prefill", prefill.n_barriers()}};
  Json layers = Json::array();
  for (const auto& layer : decode.layer_counts()) layers.push_back({{"launches", layer.launches}, {"barriers", layer.barriers}});
  out["decode_layers"] = layers;
  out["entries"] = loaded.known_entries();
  out["unused_tensors"] = loaded.unused_tensors();
  return out;
}

std::string mebibytes(uint64_t bytes) { return fmt::format("{:.1f} MiB", double(bytes) / (1 << 20)); }

std::string as_text(const Json& report) {
  std::string out;
  const Json& file = report["file"];
  out += fmt::format("{}: {}, {}, {} tensors, {:.1f} M parameters\n", file["files"][0].get<std::string>(), file["format"].get<std::string>(),
                     mebibytes(file["bytes"]), file["n_tensors"].get<uint64_t>(), double(file["parameters"].get<uint64_t>()) / 1e6);
  for (const auto& [name, entry] : file["types"].items())
    out += fmt::format("  {:<10} {:>5} tensors {:>14}\n", name, entry["tensors"].get<uint64_t>(), mebibytes(entry["bytes"]));
  if (!report.contains("tensors") && !report.contains("kernels") && !report.contains("plan") && !report.contains("graph"))
    for (const auto& [key, value] : file["metadata"].items()) {
      std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
      if (text.size() > 90) {
        size_t end = 87;  // not inside a character
        while (end > 80 && (uint8_t(text[end]) & 0xc0) == 0x80) --end;
        text = text.substr(0, end) + "…";
      }
      out += fmt::format("  {} = {}\n", key, text);
    }
  if (report.contains("tensors"))
    for (const Json& t : report["tensors"])
      out += fmt::format("{:<40} {:<8} {:<24} {:>14}  offset {}\n", t["name"].get<std::string>(), t["dtype"].get<std::string>(), t["shape"].dump(),
                         mebibytes(t["bytes"]), t["offset"].get<uint64_t>());
  if (report.contains("kernels"))
    for (const auto& [phase, nodes] : report["kernels"].items()) {
      out += fmt::format("{}:\n", phase);
      for (const Json& n : nodes) {
        out += fmt::format("  {} ({}{}{}) -> {} [{}] {}\n", n["node"].get<std::string>(), n["op"].get<std::string>(), n["dtypes"].empty() ? "" : " ",
                           n["dtypes"].empty() ? "" : fmt::format("{}", fmt::join(n["dtypes"].get<std::vector<std::string>>(), ",")),
                           n["kernel"].get<std::string>(), n["class"].get<std::string>(), n["flags"].get<std::string>());
        for (const Json& r : n["refused"]) out += fmt::format("      {}: {}\n", r["kernel"].get<std::string>(), r["reason"].get<std::string>());
      }
    }
  if (report.contains("plan")) out += report["plan"].dump(2) + "\n";
  if (report.contains("graph"))
    for (const auto& [phase, text] : report["graph"].items()) out += fmt::format("{} (| = barrier before):\n{}", phase, text.get<std::string>());
  return out;
}

}  // namespace

std::string inspect(plugin::PluginHost& plugins, const std::string& path, const InspectOptions& options) {
  Json report;
  const auto source = source::ModelSource::open(path, plugins);
  report["file"] = file_report(*source, plugins);
  if (options.tensors) report["tensors"] = tensor_report(*source, plugins);
  if (options.kernels || options.plan || options.graph) {
    ModelOptions model = options.model;
    model.path = path;
    // Which processes there are plays no part in what one rank has.
    if (parallel::count_ranks(plan_options(model)) > 1 && has_processes(find_collective(plugins, model.collective))) model.collective = ModelOptions().collective;
    Loaded loaded(plugins, model, first_place(plugins, model));
    if (options.kernels) report["kernels"] = kernel_report(loaded);
    if (options.plan || options.graph) {
      loaded.prepare_unpacked();
      if (options.plan) report["plan"] = plan_report(loaded);
      if (options.graph)
        report["graph"] = {{"decode", loaded.program(TENON_PHASE_DECODE).describe()},
                           {"prefill", loaded.program(TENON_PHASE_PREFILL).describe()}};
    }
  }
  return options.json ? report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n" : as_text(report);
}

}  // namespace tenon::engine
