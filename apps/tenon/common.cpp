#include "common.hpp"

#include <algorithm>
#include <string>

#include "interrupt.hpp"

namespace tenon::launcher {
namespace {

constexpr int64_t kDefaultContext = 8192;  // what the engine takes for context = 0, where the model has as much

Precision precision_of(const Arguments& arguments) {
  const std::string name = arguments.text("precision", "default");
  return name == "exact" ? Precision::kExact : name == "fast" ? Precision::kFast : Precision::kDefault;
}

uint32_t whole_number(const std::string& text) { return static_cast<uint32_t>(std::stoul(text)); }  // checked when it was read

// A number of ranks, or a list of layers with theirs.
void set_count_or_list(const Arguments& arguments, const char* flag, uint32_t& count, std::string& layers) {
  const std::string text = arguments.text(flag);
  if (is_layer_list(text))
    layers = text;
  else if (!text.empty() && text != "0")
    count = whole_number(text);
}

// Where several processes were started and no flag says what their plan is, all of them share each layer.
uint32_t default_ranks(const Arguments& arguments) {
  for (const char* flag : {"tensor-parallel", "expert-parallel", "pipeline-parallel"})
    if (arguments.has(flag)) return 1;
  const bool has_followers = arguments.verb() == Verb::kInspect || collective_of(arguments) != "threads";
  return has_followers ? arguments.processes().n : 1;
}

void set_ranks(ModelOptions& options, const Arguments& arguments) {
  options.tensor_parallel = static_cast<uint32_t>(arguments.integer("ranks", default_ranks(arguments)));
  set_count_or_list(arguments, "tensor-parallel", options.tensor_parallel, options.tensor_layers);
  set_count_or_list(arguments, "expert-parallel", options.expert_parallel, options.expert_layers);
  options.pipeline_parallel = static_cast<uint32_t>(arguments.integer("pipeline-parallel", 1));
  options.interleave_experts = arguments.text("expert-owners") == "interleaved";
  const std::vector<std::string> parts = arguments.list("sum-parts", ',');
  if (!parts.empty()) options.sum_parts = whole_number(parts[0]);
  if (parts.size() == 2) options.expert_parts = whole_number(parts[1]);
  options.fast_sums = arguments.text("sums") == "fast";
  for (const std::string& device : arguments.list("devices", ',')) options.devices.push_back(whole_number(device));
  if (arguments.has("device")) options.devices = {static_cast<uint32_t>(arguments.integer("device", 0))};
  options.collective = collective_of(arguments);
}

}  // namespace

std::string collective_of(const Arguments& arguments) {
  // A plan can be shown without the others.
  const bool is_over_processes = arguments.processes().n > 1 && arguments.verb() != Verb::kInspect;
  return arguments.text("collective", is_over_processes ? "mpi" : "");
}

uint32_t rank_timeout_ms(const Arguments& arguments) {
  return static_cast<uint32_t>(1000 * arguments.integer("rank-timeout", 600));
}

EngineOptions engine_options(const Arguments& arguments) {
  EngineOptions options;
  options.plugin_path = arguments.list("plugin-path", ':');
  return options;
}

ModelOptions model_options(const Arguments& arguments, int64_t needed) {
  ModelOptions options;
  options.path = text_or_usage_error(arguments, "model");
  options.backend = arguments.text("backend", "auto");
  options.threads = static_cast<uint32_t>(arguments.integer("threads", 0));
  set_ranks(options, arguments);
  options.rank_timeout_ms = rank_timeout_ms(arguments);
  options.precision = precision_of(arguments);
  options.context = arguments.integer("ctx-size", needed > kDefaultContext ? needed : 0);
  options.clip_context = !arguments.has("ctx-size");
  options.cache_type_k = arguments.text("cache-type-k");
  options.cache_type_v = arguments.text("cache-type-v");
  options.prefer = arguments.list("prefer", ',');
  options.forbid = arguments.list("forbid", ',');
  for (const std::string& name : options.prefer)
    if (std::find(options.forbid.begin(), options.forbid.end(), name) != options.forbid.end())
      throw Error(ErrorKind::kUsage, "--prefer " + name + " and --forbid " + name + " contradict each other");
  if (arguments.verb() == Verb::kChat || arguments.verb() == Verb::kInspect)
    options.prefix_cache_bytes = arguments.bytes("prefix-cache", -1);
  options.cancelled = interrupted;
  return options;
}

std::unique_ptr<Model> load_model(Engine& engine, const Arguments& arguments, ModelOptions options) {
  const auto begin = std::chrono::steady_clock::now();
  const bool verbose = arguments.on("verbose");
  std::unique_ptr<Model> model;
  {
    ProgressBar bar(stderr_is_terminal(), verbose);
    options.progress = [&bar](const Progress& progress) { bar.update(progress); };
    model = engine.load(options);
  }
  const ModelInfo& info = model->info();
  note((info.name.empty() ? options.path : info.name) + " (" + info.architecture + ", " + info.format + ") on " +
       info.backend + ": " + info.backend_description + ", " + std::to_string(info.threads) +
       (info.threads == 1 ? " thread" : " threads") +
       (info.n_ranks == 1 ? "" : " in " + std::to_string(info.n_ranks) + " ranks"));
  if (const std::string bound = info.n_ranks > 1 ? binding_note(arguments.processes()) : ""; !bound.empty()) note(bound);
  if (info.n_draft_absent && info.entries.size() == 1)
    note("the file announces " + std::to_string(info.n_draft_absent) + " draft blocks and leaves them to another file");
  if (verbose) {
    note("loaded in " + fixed(seconds_since(begin), 2) + " s: weights " + size_text(info.weight_bytes) + ", packed " +
         size_text(info.packed_bytes) + ", arena " + size_text(info.arena_bytes) + ", stores " +
         size_text(info.store_bytes) + ", context " + std::to_string(info.context));
  }
  return model;
}

int64_t context_limit(const Model& model, const Arguments& arguments) {
  const ModelInfo& info = model.info();
  if (arguments.has("ctx-size") || info.trained_context <= 0) return info.context;
  return std::min(info.context, info.trained_context);
}

void check_context(const Model& model, const Arguments& arguments, int64_t needed, const std::string& what) {
  const int64_t limit = context_limit(model, arguments);
  if (needed <= limit) return;
  std::string message =
      what + " takes " + std::to_string(needed) + " tokens, but the context holds " + std::to_string(limit);
  if (model.info().trained_context > 0)
    message += " (the model was trained for " + std::to_string(model.info().trained_context) + ")";
  throw Error(ErrorKind::kCapacity, message + "; --ctx-size " + std::to_string(needed) + " would hold it");
}

std::string text_or_usage_error(const Arguments& arguments, std::string_view option) {
  const std::string text = arguments.text(option);
  if (!text.empty()) return text;
  const OptionSpec& spec = *find_option(arguments.verb(), option);
  throw Error(ErrorKind::kUsage, "--" + std::string(option) + " " + std::string(spec.argument) +
                                     (arguments.has(option) ? " is empty" : " is missing") + ": " +
                                     std::string(spec.help));
}

void warn_about(const Tokenizer& tokenizer) {
  if (!tokenizer.warning().empty()) note("warning: " + std::string(tokenizer.warning()));
}

void stop_if_interrupted() {
  if (interrupted()) throw Error(ErrorKind::kInterrupted, "interrupted");
}

}  // namespace tenon::launcher
