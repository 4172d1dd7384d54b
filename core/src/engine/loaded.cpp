#include "loaded.hpp"

#include "graph/builder.hpp"
#include "parallel/cut_experts.hpp"
#include "parallel/probe.hpp"
#include "parallel/stages.hpp"
#include "places.hpp"
#include "plan_options.hpp"
#include "plugin/log.hpp"
#include "store/cache_types.hpp"

#include <tenon/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <thread>

namespace tenon::engine {
namespace {

std::string_view view(tenon_str text) { return {text.data, size_t(text.size)}; }

// Default context where neither the user nor the model says less.
constexpr int64_t kDefaultContext = 8192;
// Logits of one tail run: enough rows to amortise the head's weights, few enough to keep the arena small.
constexpr uint64_t kMaxLogitBytes = 64 << 20;

std::vector<std::string> architecture_ids(const source::ModelSource& source) {
  std::vector<std::string> ids;
  for (const char* key : {"general.architecture", "model_type"})
    if (const auto id = source.metadata().string(key)) ids.emplace_back(*id);
  if (const auto list = source.metadata().strings("architectures"))
    for (const tenon_str& id : *list) ids.emplace_back(view(id));
  return ids;
}

uint32_t cache_dtype(const std::string& asked, Precision precision, const plugin::Registry& registry, const char* flag) {
  if (asked.empty()) return precision == Precision::kExact ? TENON_DTYPE_F32 : TENON_DTYPE_F16;
  const uint32_t id = registry.dtype_id(asked);
  if (id == TENON_DTYPE_NONE) throw Error(ErrorKind::kUsage, fmt::format("{}: \"{}\" is no known type (f32, f16, bf16 …)", flag, asked));
  if (!registry.dtype(id)->encode)
    throw Error(ErrorKind::kUsage, fmt::format("{}: rows cannot be written as {}, which has no encoder (f32, f16, bf16, q8_0 … have)", flag, asked));
  if (const uint32_t cols = registry.dtype(id)->block_cols; cols > store::kMostBlockCols)
    throw Error(ErrorKind::kUsage, fmt::format("{}: {} has blocks of {} values; a cache takes types with at most {} (f32, f16, bf16, q8_0, q4_0 …)", flag, asked, cols, store::kMostBlockCols));
  return id;
}

// What is refused of a draft names it: its weights may be called like the model's.
template <typename Cut>
void naming_entry(const Entry& entry, Cut&& cut) {
  try {
    cut();
  } catch (const Error& error) {
    if (!entry.main) throw;
    throw Error(error.kind(), fmt::format("entry {}: {}", entry.name, error.what()));
  }
}

// A vocabulary may have fewer tokens than the model has rows (they are padding), but not more.
void check_vocabulary(const Metadata& metadata, int64_t rows) {
  constexpr const char* kTokens = "tokenizer.ggml.tokens";
  const tenon_value* tokens = metadata.find(kTokens);
  if (tokens && tokens->type == TENON_VALUE_ARRAY && tokens->count > uint64_t(rows))
    throw Error(ErrorKind::kFile, fmt::format("{}: {} tokens, but the model's output has {} rows", kTokens, tokens->count, rows));
}

}  // namespace

Configured::Configured(const source::ModelSource& source, plugin::PluginHost& plugins) {
  const std::vector<std::string> ids = architecture_ids(source);
  if (ids.empty())
    throw Error(ErrorKind::kFile, fmt::format("{}: the metadata name no architecture ({})", source.file_paths().at(0),
                                              source.scheme() == "hf" ? "model_type or architectures in a config.json beside it"
                                                                      : "general.architecture"));
  plugins.open_architectures(ids);
  uint32_t best = 0;
  for (const plugin::PluginHost::Architecture& candidate : plugins.architectures()) {
    uint32_t score = 0;
    if (candidate.record->score(candidate.record->self, source.meta_handle(), &score) == TENON_OK && score > best)
      best = score, architecture_ = candidate.record, plugin_ = candidate.plugin;
  }
  if (!architecture_) {
    const std::vector<std::string> installed = plugins.installed(&plugin::PluginRecord::architectures);
    const std::string refusals = plugins.refusals();
    throw Error(ErrorKind::kFile, fmt::format("{}: no plugin serves architecture \"{}\"; installed: {}{}{}", source.file_paths().at(0),
                                              fmt::join(ids, "\", \""), installed.empty() ? "none" : fmt::format("{}", fmt::join(installed, ", ")),
                                              refusals.empty() ? "" : "; refused: ", refusals));
  }
  plugin::check_status(architecture_->configure(architecture_->self, source.meta_handle(), &model_), source.file_paths().at(0));
  limits_.struct_size = sizeof limits_;
  const tenon_status status = architecture_->limits(model_, &limits_);
  if (status != TENON_OK) {
    architecture_->drop(model_);
    plugin::check_status(status, name());
  }
}

Configured::~Configured() {
  if (model_) architecture_->drop(model_);
}

std::string Configured::name() const { return std::string(view(architecture_->name)); }

Files::Files(const std::string& path, plugin::PluginHost& plugins)
    : source(source::ModelSource::open(path, plugins)), configured(std::make_unique<Configured>(*source, plugins)) {
  const tenon_name_rule* rules = nullptr;
  uint32_t n_rules = 0;
  const std::string scheme(source->scheme());
  const tenon_status status = configured->architecture().names(configured->model(), {scheme.data(), scheme.size()}, &rules, &n_rules);
  if (status != TENON_NOT_FOUND || scheme != "gguf") plugin::check_status(status, fmt::format("{}: names of scheme {}", configured->name(), scheme));
  names = std::make_unique<graph::NameMap>(*source, std::span(rules, status == TENON_OK ? n_rules : 0));
}

std::vector<std::string> Files::entries() const {
  std::vector<std::string> out;
  for (uint32_t i = 0; i < configured->limits().n_entry; ++i) out.emplace_back(view(configured->limits().entries[i]));
  return out;
}

Loaded::Loaded(plugin::PluginHost& plugins, const ModelOptions& options, const RankPlace& place)
    : plugins_(plugins), options_(options), place_(place), files_(options.path, plugins) {
  if (options_.prefill_chunk % TENON_PAGE_TOKENS || !options_.prefill_chunk)
    throw Error(ErrorKind::kUsage, fmt::format("the prefill chunk {} is no multiple of {}", options_.prefill_chunk, TENON_PAGE_TOKENS));
  if (options_.max_sequences < 1 || options_.max_decode_rows < TENON_DECODE_MAX_TOKENS)
    throw Error(ErrorKind::kUsage, "at least one sequence and 15 decode rows are needed");
  build_entries();
  check_vocabulary(source().metadata(), vocab());
  for (const std::string& type : {options_.cache_type_k, options_.cache_type_v})
    if (!type.empty()) plugins.open_dtype(type);  // the model's own format need not have it
  pick_backend(plugins);
  pick_context();
  cut_for_rank();
  std::vector<const graph::Graph*> graphs;
  for (const auto& entry : entries_) {
    graphs.push_back(&entry->graph);
    entry->store_types = store::store_types(entry->graph, store_options());
  }
  const graph::NameMap* names[] = {files_.names.get(), draft_files_ ? draft_files_->names.get() : nullptr};
  weights_ = std::make_unique<program::WeightSet>(graphs, names, plugins_.registry(), *device_);
}

void Loaded::cut_for_rank() {
  std::vector<const graph::Graph*> graphs;
  for (const auto& entry : entries_) graphs.push_back(&entry->graph);
  plan_ = parallel::make_plan(plan_options(options_), main().graph.n_layers, [&](uint32_t n_stages) {
    const auto bytes = [this](const graph::Weight& weight) { return bytes_of(weight); };
    parallel::LayerCosts costs = parallel::layer_costs(main().graph, bytes);
    const std::vector<uint64_t> of_drafts = parallel::draft_weight_bytes(graphs, bytes);
    for (size_t layer = 0; layer < of_drafts.size(); ++layer) costs.weight_bytes[layer] += of_drafts[layer];
    return parallel::pick_stages(costs, n_stages);
  });
  parallel::check_experts(main().graph, plan_options(options_));
  if (plan_.n_ranks == 1 && plan_.parts == 1 && plan_.expert_parts == 1) return;
  for (const auto& entry : entries_) entry->uncut = std::move(entry->graph);
  const std::vector<const graph::Graph*> uncut = uncut_graphs();
  std::vector<parallel::CutGraph> cuts;
  for (const auto& entry : entries_)
    naming_entry(*entry, [&] { cuts.push_back(parallel::cut_entry(uncut, cuts, cut_options(), [this](const graph::Weight& weight) { return alignment_of(weight); })); });
  for (size_t i = 0; i < cuts.size(); ++i) entries_[i]->graph = std::move(cuts[i].graph);
  if (place_.n_ranks == 1) return;
  if (!device_->is_host_memory() && !(place_.collective->flags & TENON_COLLECTIVE_DEVICE_MEMORY))
    throw Error(ErrorKind::kUsage, fmt::format("collective {} moves memory of the host, but that of backend {} is its own", view(place_.collective->name),
                                               view(device_->table().backend)));
  if (!device_->is_host_memory()) refuse_shared_devices(rank_devices_, n_devices_, view(device_->table().backend));
  communicator_ = std::make_unique<parallel::Communicator>(*place_.collective, place_.group, place_.n_ranks, place_.rank, *device_);
  for (size_t i = 0; i < cuts.size(); ++i)
    entries_[i]->exchange = std::make_unique<parallel::ExchangeKernel>(std::move(cuts[i].exchanges), *communicator_, *device_);
}

std::vector<const graph::Graph*> Loaded::uncut_graphs() const {
  std::vector<const graph::Graph*> out;
  for (const auto& entry : entries_) out.push_back(&entry->uncut);
  return out;
}

parallel::Alignment Loaded::alignment_of(const graph::Weight& weight) const {
  const graph::Binding* binding = weight.is_constant ? nullptr : names_of(weight).find(weight.name);
  const tenon_dtype* dtype = binding ? plugins_.registry().dtype(binding->tensor->dtype) : nullptr;
  if (!dtype) return {};
  const int64_t cols = std::lcm<int64_t>(dtype->block_cols, std::max(1u, dtype->tile_cols));
  return {std::max<int64_t>(1, dtype->tile_rows), cols, fmt::format("a block of {}", view(dtype->name))};
}

// Without scales that lie in planes of their own.
uint64_t Loaded::bytes_of(const graph::Weight& weight) const {
  if (weight.is_constant) return weight.constant.size() * sizeof(float);
  const graph::Binding* binding = names_of(weight).find(weight.name);
  const tenon_dtype* dtype = binding ? plugins_.registry().dtype(binding->tensor->dtype) : nullptr;
  if (!dtype) return 0;
  return uint64_t(weight.rows * weight.cols) / dtype->block_cols * dtype->block_bytes *
         uint64_t(weight.kept_experts.empty() ? std::max<int64_t>(weight.n_expert, 1) : parallel::length(weight.kept_experts));
}

// Of a token, or of a sequence's state.
uint64_t Loaded::bytes_of(const graph::Store& store) const {
  if (!graph::is_paged(store.kind)) return uint64_t(store.cols_k) * uint64_t(store.cols_v) * sizeof(float);
  const store::StoreOptions how = store_options();
  const auto bytes = [&](uint32_t id, int64_t cols) {
    const tenon_dtype& dtype = *plugins_.registry().dtype(id);
    return uint64_t(cols + dtype.block_cols - 1) / dtype.block_cols * dtype.block_bytes;
  };
  return bytes(how.dtype_k, store.cols_k) + bytes(how.dtype_v, store.cols_v);
}

std::vector<parallel::RankShare> Loaded::rank_shares() const {
  if (place_.n_ranks == 1) return {};
  return parallel::shares_of_ranks(uncut_graphs(), cut_options(), [this](const graph::Weight& weight) { return alignment_of(weight); },
                                   {[this](const graph::Weight& weight) { return bytes_of(weight); },
                                    [this](const graph::Store& store) { return bytes_of(store); }});
}

void Loaded::pick_context() {
  const int64_t trained = configured().limits().context;
  context_ = options_.context ? options_.context : trained > 0 ? std::min(trained, kDefaultContext) : kDefaultContext;
  if (context_ < 1) throw Error(ErrorKind::kUsage, fmt::format("a context of {} tokens", context_));
  if (trained > 0 && context_ > trained && options_.clip_context) context_ = trained;
  if (trained > 0 && context_ > trained)
    log(TENON_LOG_WARNING,
        fmt::format("a context of {} tokens is longer than the {} that the model was trained for", context_, trained));
}

void Loaded::pick_backend(plugin::PluginHost& plugins) {
  const std::string name = options_.backend == "auto" ? "cpu" : options_.backend;
  plugins.open_backend(name);
  const tenon_backend* backend = nullptr;
  for (const tenon_backend* candidate : plugins.registry().backends)
    if (view(candidate->name) == name) backend = candidate;
  if (!backend) {
    const std::vector<std::string> installed = plugins.installed(&plugin::PluginRecord::backends);
    const std::string refusals = plugins.refusals();
    throw Error(options_.backend == "auto" ? ErrorKind::kRuntime : ErrorKind::kUsage, fmt::format("no backend \"{}\"; installed: {}{}{}", name, fmt::join(installed, ", "),
                                               refusals.empty() ? "" : "; refused: ", refusals));
  }
  uint32_t n = 0;
  const tenon_device* const* devices = nullptr;
  try {
    plugin::check_status(backend->devices(backend->self, &n, &devices), "backend " + name);
  } catch (const Error& error) {
    // Whatever the plugin says it is, such as a driver that is not supported: it is no fault of the model's file.
    throw Error(error.kind() == ErrorKind::kFile ? ErrorKind::kRuntime : error.kind(), error.what());
  }
  if (!n) throw Error(ErrorKind::kRuntime, fmt::format("backend {} has no device", name));
  rank_devices_ = devices_of_ranks(options_.devices, place_.n_ranks, n, name), n_devices_ = n;
  device_ = std::make_unique<program::Device>(backend, devices[rank_devices_[place_.rank]]);
  plugins.open_kernels(name);
  warn_about_names("--prefer", options_.prefer);
  warn_about_names("--forbid", options_.forbid);
  const uint32_t most = std::max(1u, device_->table().max_workers);
  n_workers_ = device_->is_spmd() ? std::max(1u, options_.threads ? options_.threads / place_.n_ranks : most / place_.ranks_here) : 1;
  constexpr uint32_t kMostWorkers = 1024;
  if (n_workers_ > kMostWorkers)
    throw Error(ErrorKind::kUsage, fmt::format("threads: expected 1 to {}, found {}", kMostWorkers, n_workers_));
}

// A misspelt name would otherwise look like one that changes nothing.
void Loaded::warn_about_names(const char* option, const std::vector<std::string>& names) const {
  const auto& kernels = plugins_.registry().kernels;
  for (const std::string& name : names)
    if (std::none_of(kernels.begin(), kernels.end(), [&](const tenon_kernel* kernel) { return view(kernel->name).starts_with(name); }))
      log(TENON_LOG_WARNING, fmt::format("{}: no kernel's name begins with \"{}\"", option, name));
}

store::StoreOptions Loaded::store_options() const {
  store::StoreOptions out;
  out.dtype_k = cache_dtype(options_.cache_type_k, options_.precision, plugins_.registry(), "--cache-type-k");
  out.dtype_v = cache_dtype(options_.cache_type_v, options_.precision, plugins_.registry(), "--cache-type-v");
  out.context = context_, out.max_sequences = options_.max_sequences, out.max_step_tokens = max_prefill_rows();
  out.poison = options_.poison, out.prefix_cache_bytes = options_.prefix_cache_bytes;
  return out;
}

uint32_t Loaded::max_outputs(const Entry& entry) const {
  return uint32_t(std::clamp<uint64_t>(kMaxLogitBytes / uint64_t(entry.vocab * 4), 1, options_.max_decode_rows));
}

program::Selection Loaded::select(const Entry& entry, uint32_t phase) {
  program::SelectOptions how;
  how.phase = phase, how.precision = options_.precision, how.prefer = options_.prefer, how.forbid = options_.forbid;
  how.composites = options_.composites;
  if (entry.exchange) how.exchanges = entry.exchange->tables();
  return program::select_kernels(entry.graph, plugins_.registry(), *device_, *weights_, entry.store_types, how);
}

std::unique_ptr<program::Program> Loaded::compile(Entry& entry, uint32_t phase, Twin twin) {
  program::ProgramOptions how;
  how.max_rows = phase == TENON_PHASE_DECODE ? options_.max_decode_rows : max_prefill_rows();
  how.max_outputs = max_outputs(entry), how.n_workers = n_workers_, how.max_context = context_, how.keep_taps = twin == Twin::kTaps;
  how.capture = options_.capture && phase == TENON_PHASE_DECODE;
  how.hidden = entry.hidden.address(), how.overlay = entry.overlay.address();
  if (communicator_) how.wait = [this](void* stream) { communicator_->wait(stream, patience()); };
  program::Selection selection = select(entry, phase);
  // Chosen alike for all twins, so that what is packed serves each of them.
  std::erase_if(selection.nodes, [twin](const auto& one) {
    switch (one->node.purpose) {
      case graph::Purpose::kAll: return false;
      case graph::Purpose::kTaps: return twin != Twin::kTaps;
      case graph::Purpose::kWholeLogits: return twin == Twin::kOwnLogits;
      case graph::Purpose::kOwnLogits: return twin != Twin::kOwnLogits;
    }
    return false;
  });
  if (twin == Twin::kOwnLogits) selection.graph.logits = selection.graph.own_logits;
  return std::make_unique<program::Program>(std::move(selection), *device_, *weights_, entry.store_tables(), entry.step->table(), how);
}

void Loaded::prepare() {
  if (communicator_) {
    communicator_->join();
    // Processes may fail one by one while they load, and nobody would wake those that are probed: they are when all have loaded.
    const tenon_collective& collective = *place_.collective;
    if (!TENON_HAS(&collective, place) || !collective.place) probe();
  }
  // Selections ask for packed layouts; all must exist before anything is packed, and alive while it is.
  std::vector<program::Selection> selections;
  for (const auto& entry : entries_)
    for (const uint32_t phase : {TENON_PHASE_DECODE, TENON_PHASE_PREFILL}) selections.push_back(select(*entry, phase));
  weights_->pack(n_workers_, options_.progress, options_.cancelled);
  prepare_unpacked();
}

void Loaded::probe() {
  parallel::probe(*communicator_, patience());
  communicator_->forget_sent_bytes();
}

void Loaded::prepare_unpacked() {
  for (const auto& entry : entries_) {
    allocate(*entry);
    program(*entry, TENON_PHASE_DECODE);
    program(*entry, TENON_PHASE_PREFILL);
  }
}

// Stores, step record and the rows that come from outside.
void Loaded::allocate(Entry& entry) {
  graph::Graph own;
  for (const graph::Store& store : entry.graph.stores)
    if (store.target < 0) own.stores.push_back(store);
  store::StoreOptions how = store_options();
  if (entry.main) how.prefix_cache_bytes = 0;  // beginnings of prompts are kept for main
  entry.stores = std::make_unique<store::Stores>(own, how, plugins_.registry(), *device_);
  const uint32_t rows = std::max(options_.max_decode_rows, max_prefill_rows());
  const program::StepLimits limits = {rows, options_.max_sequences, max_outputs(entry), uint32_t(entry.n_groups()),
                                      entry.stores->table_stride()};
  entry.step = std::make_unique<program::StepRecord>(*device_, limits);
  const auto buffer_of = [&](int64_t cols, const char* what) {
    return cols ? program::Buffer(*device_, uint64_t(tenon_encoding_row_bytes(TENON_ENC_F32, cols)) * rows, what) : program::Buffer();
  };
  entry.hidden = buffer_of(entry.hidden_cols(), "hidden rows");
  entry.overlay = buffer_of(entry.overlay_cols(), "overlay rows");
}

program::Program& Loaded::program(Entry& entry, uint32_t phase, Twin twin) {
  auto& slot = entry.programs[phase == TENON_PHASE_PREFILL][size_t(twin)];
  if (!slot) slot = compile(entry, phase, twin);
  return *slot;
}

std::string Loaded::backend_description() const {
  tenon_str text = {};
  const tenon_backend& backend = device_->backend();
  if (!backend.describe || backend.describe(backend.self, &text) != TENON_OK) return std::string(view(backend.name));
  return std::string(view(text));
}

}  // namespace tenon::engine
