#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <tenon/sampler.hpp>

#include "common.hpp"
#include "interrupt.hpp"
#include "verbs.hpp"

namespace tenon::launcher {
namespace {

using nlohmann::ordered_json;

SamplingOptions sampling_options(const Arguments& arguments) {
  SamplingOptions options;
  options.temperature = static_cast<float>(arguments.number("temp", options.temperature));
  options.top_k = static_cast<int32_t>(arguments.integer("top-k", options.top_k));
  options.top_p = static_cast<float>(arguments.number("top-p", options.top_p));
  options.min_p = static_cast<float>(arguments.number("min-p", options.min_p));
  options.repetition_penalty = static_cast<float>(arguments.number("repeat-penalty", options.repetition_penalty));
  options.presence_penalty = static_cast<float>(arguments.number("presence-penalty", options.presence_penalty));
  options.frequency_penalty = static_cast<float>(arguments.number("frequency-penalty", options.frequency_penalty));
  // 32 bits of chance: short enough to type again.
  options.seed = static_cast<uint64_t>(arguments.has("seed") ? arguments.integer("seed", 0) : std::random_device()());
  check(options);
  return options;
}

// What was generated so far, and how.
struct Generation {
  std::vector<int32_t> ids;
  std::string text;
  const char* finish_reason = "error";
  std::optional<Error> error;
  double load_seconds = 0, prompt_seconds = 0, generate_seconds = 0;
};

// Generates token after token into a Generation and streams the text. One use.
class Generator {
 public:
  Generator(Model& model, const Arguments& arguments, const SamplingOptions& sampling)
      : model_(model),
        tokenizer_(model.tokenizer()),
        sampling_(sampling),
        streams_(!arguments.on("json")),
        ignores_eos_(arguments.on("ignore-eos")),
        limit_(arguments.integer("n-predict", 128)),
        context_(context_limit(model, arguments)) {
    forward_options_.cancelled = interrupted;
  }

  // An error of the engine or Ctrl-C ends the generation and is told in it; failing output throws.
  void run(const std::vector<int32_t>& prompt, Generation& generation) {
    try {
      generate(prompt, generation);
    } catch (const OutputError&) {
      throw;
    } catch (const Error& error) {
      generation.finish_reason = "error";
      generation.error = error;
    }
    emit(stream_.finish(), generation);
    if (streams_ && output_is_terminal() && !generation.text.ends_with('\n')) print("\n");  // for the next prompt
  }

 private:
  void generate(const std::vector<int32_t>& prompt, Generation& generation) {
    Sequence sequence = model_.sequence();
    std::vector<int32_t> history = prompt;
    auto begin = std::chrono::steady_clock::now();
    std::span<const float> logits = forward(sequence, prompt);
    generation.prompt_seconds = seconds_since(begin);
    begin = std::chrono::steady_clock::now();
    while (true) {
      if (limit_ >= 0 && static_cast<int64_t>(generation.ids.size()) >= limit_) {
        generation.finish_reason = "length";
        break;
      }
      const int32_t token = sample(masked(logits), sampling_, history, history.size());
      history.push_back(token);
      generation.ids.push_back(token);
      emit(stream_.push(tokenizer_.piece(token)), generation);
      generation.generate_seconds = seconds_since(begin);
      if (!ignores_eos_ && tokenizer_.ends_generation(token)) {
        generation.finish_reason = "stop";
        break;
      }
      stop_if_interrupted();
      if (limit_ >= 0 && static_cast<int64_t>(generation.ids.size()) >= limit_) continue;
      if (sequence.length() >= context_) {
        generation.finish_reason = "context";
        break;
      }
      logits = forward(sequence, {&history.back(), 1});
    }
    generation.generate_seconds = seconds_since(begin);
  }

  // Logits after the last of `tokens`.
  std::span<const float> forward(Sequence& sequence, std::span<const int32_t> tokens) {
    const int32_t last = static_cast<int32_t>(tokens.size()) - 1;
    const Feed feed{&sequence, tokens, {&last, 1}};
    return model_.forward({&feed, 1}, forward_options_).row(0);
  }

  // The logits with tokens that must not come up at minus infinity: those the model's makers suppress, and ids above
  // the vocabulary, which only pad the head. Copied only if there are any.
  std::span<const float> masked(std::span<const float> logits) {
    const size_t n_tokens = static_cast<size_t>(std::max(0, tokenizer_.size()));
    const std::span<const int32_t> suppressed = tokenizer_.suppressed();
    if (suppressed.empty() && n_tokens >= logits.size()) return logits;
    masked_.assign(logits.begin(), logits.end());
    constexpr float kNever = -std::numeric_limits<float>::infinity();
    for (int32_t id : suppressed)
      if (id >= 0 && static_cast<size_t>(id) < masked_.size()) masked_[static_cast<size_t>(id)] = kNever;
    for (size_t id = n_tokens; id < masked_.size(); ++id) masked_[id] = kNever;
    return masked_;
  }

  void emit(const std::string& text, Generation& generation) {
    generation.text += text;
    if (streams_) print(text);
  }

  Model& model_;
  const Tokenizer& tokenizer_;
  SamplingOptions sampling_;
  bool streams_, ignores_eos_;
  int64_t limit_, context_;
  ForwardOptions forward_options_;
  TextStream stream_;
  std::vector<float> masked_;
};

// The first generated token comes out of the prompt's own pass: the time of the others is what is measured.
size_t n_decoded(const Generation& generation) { return generation.ids.empty() ? 0 : generation.ids.size() - 1; }

double rate(size_t tokens, double seconds) { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }

std::string to_json(const Generation& generation, size_t n_prompt, uint64_t seed) {
  const ordered_json answer = {
      {"ids", generation.ids},
      {"text", generation.text},
      {"finish_reason", generation.finish_reason},
      {"timings",
       {{"load_seconds", generation.load_seconds},
        {"prompt_tokens", n_prompt},
        {"prompt_seconds", generation.prompt_seconds},
        {"prompt_tokens_per_second", rate(n_prompt, generation.prompt_seconds)},
        {"generated_tokens", generation.ids.size()},
        {"generated_seconds", generation.generate_seconds},
        {"generated_tokens_per_second", rate(n_decoded(generation), generation.generate_seconds)}}},
      {"seed", seed}};
  return answer.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::vector<int32_t> encode_prompt(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<int32_t> ids = tokenizer.encode(text);
  if (ids.empty())
    throw Error(ErrorKind::kUsage, "--prompt is empty, and this model has no beginning-of-text token to start from");
  return ids;
}

}  // namespace

int run(const Arguments& arguments) {
  const SamplingOptions sampling = sampling_options(arguments);
  const bool has_text = arguments.has("prompt");
  if (!has_text && !arguments.has("tokens")) throw Error(ErrorKind::kUsage, "--prompt TEXT or --tokens IDS is missing");
  const std::string text = arguments.text("prompt");
  const int64_t n_predict = std::max<int64_t>(0, arguments.integer("n-predict", 128));
  text_or_usage_error(arguments, "model");

  std::vector<int32_t> prompt;
  if (!has_text) {
    prompt = parse_ids("--tokens", arguments.text("tokens"));
    if (prompt.empty()) throw Error(ErrorKind::kUsage, "--tokens: there are none");
  }
  Engine engine(engine_options(arguments));
  // The context must be known before the load. A token covers a byte at least, save for a few that the tokenizer adds
  // and for spaces that it spells with three: only long texts have to be counted beforehand.
  int64_t n_prompt = static_cast<int64_t>(has_text ? 3 * text.size() + 8 : prompt.size());
  if (has_text && n_prompt + n_predict > 8192)
    n_prompt = static_cast<int64_t>(encode_prompt(*engine.load_tokenizer(arguments.text("model")), text).size());

  Generation generation;
  auto begin = std::chrono::steady_clock::now();
  const std::unique_ptr<Model> model = load_model(engine, arguments, model_options(arguments, n_prompt + n_predict));
  generation.load_seconds = seconds_since(begin);
  warn_about(model->tokenizer());
  if (has_text) prompt = encode_prompt(model->tokenizer(), text);
  check_context(*model, arguments, static_cast<int64_t>(prompt.size()), "the prompt");
  if (!arguments.on("raw"))
    note("the text is completed as it is: this build has no chat templates yet (--raw says that this is wanted)");

  Generator(*model, arguments, sampling).run(prompt, generation);
  if (arguments.on("json")) print(to_json(generation, prompt.size(), sampling.seed));
  note("prompt " + std::to_string(prompt.size()) + " tokens in " + fixed(generation.prompt_seconds, 2) + " s (" +
       fixed(rate(prompt.size(), generation.prompt_seconds), 1) + " t/s), generated " +
       std::to_string(generation.ids.size()) + " in " + fixed(generation.generate_seconds, 2) + " s (" +
       fixed(rate(n_decoded(generation), generation.generate_seconds), 1) + " t/s), ended by " +
       (interrupted() ? "interruption" : generation.finish_reason) +
       (sampling.temperature > 0 ? ", seed " + std::to_string(sampling.seed) : ""));
  if (generation.error) throw *generation.error;
  return 0;
}

}  // namespace tenon::launcher
