#include "generation.hpp"

#include <algorithm>
#include <limits>
#include <random>

#include "interrupt.hpp"

namespace tenon::launcher {

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

namespace {

// Those that the model's makers or its architecture suppress, and ids above the vocabulary, which only pad the head.
std::vector<IdRange> ids_never_sampled(const Model& model) {
  const auto n_ids = static_cast<int32_t>(model.info().vocab);
  std::vector<IdRange> never;
  for (const std::span<const int32_t> ids : {model.tokenizer().suppressed(), model.suppressed()})
    for (const int32_t id : ids) {
      if (id < 0 || id >= n_ids) continue;
      if (!never.empty() && never.back().end == id)
        ++never.back().end;
      else
        never.push_back({id, id + 1});
    }
  if (const int32_t n_tokens = std::max(0, model.tokenizer().size()); n_tokens < n_ids)
    never.push_back({n_tokens, n_ids});
  return never;
}

}  // namespace

Generator::Generator(Model& model, const Arguments& arguments, const SamplingOptions& sampling, int64_t n_predict)
    : model_(model),
      tokenizer_(model.tokenizer()),
      sampling_(sampling),
      streams_(!arguments.on("json")),
      ignores_eos_(arguments.on("ignore-eos")),
      limit_(arguments.integer("n-predict", n_predict)),
      context_(context_limit(model, arguments)),
      never_(ids_never_sampled(model)) {
  forward_options_.cancelled = interrupted;
  forward_options_.best_only = needs_only_best(sampling);
  forward_options_.never = never_;
}

void Generator::run(Sequence& sequence, const std::vector<int32_t>& prompt, const ResumeOptions& resume,
                    Generation& generation) {
  stream_ = TextStream();
  try {
    generate(sequence, prompt, resume, generation);
  } catch (const OutputError&) {
    throw;
  } catch (const Error& error) {
    generation.finish_reason = "error";
    generation.error = error;
  }
  emit(stream_.finish(), generation);
}

void Generator::generate(Sequence& sequence, const std::vector<int32_t>& prompt, const ResumeOptions& resume,
                         Generation& generation) {
  std::vector<int32_t> history = prompt;
  auto begin = std::chrono::steady_clock::now();
  generation.resumed = sequence.resume(prompt, resume);
  Output output =
      forward(sequence, std::span<const int32_t>(prompt).subspan(static_cast<size_t>(generation.resumed.reused)));
  generation.prompt_seconds = seconds_since(begin);
  begin = std::chrono::steady_clock::now();
  while (true) {
    if (limit_ >= 0 && static_cast<int64_t>(generation.ids.size()) >= limit_) {
      generation.finish_reason = "length";
      break;
    }
    const int32_t token = choose(output, history);
    history.push_back(token);
    generation.ids.push_back(token);
    emit(stream_.push(tokenizer_.piece(token)), generation);
    generation.generate_seconds = seconds_since(begin);
    if (!ignores_eos_ && tokenizer_.ends_generation(token)) {
      generation.finish_reason = "stop";
      break;
    }
    generation.marked_text += tokenizer_.piece(token, /*show_control=*/true);
    stop_if_interrupted();
    if (limit_ >= 0 && static_cast<int64_t>(generation.ids.size()) >= limit_) continue;
    if (sequence.length() >= context_) {
      generation.finish_reason = "context";
      break;
    }
    output = forward(sequence, {&history.back(), 1});
  }
  generation.generate_seconds = seconds_since(begin);
}

// What comes after the last of `tokens`: logits, or the best of them where that is enough.
Output Generator::forward(Sequence& sequence, std::span<const int32_t> tokens) {
  const int32_t last = static_cast<int32_t>(tokens.size()) - 1;
  const Feed feed{&sequence, tokens, {&last, 1}};
  return model_.forward({&feed, 1}, forward_options_);
}

int32_t Generator::choose(const Output& output, const std::vector<int32_t>& history) {
  if (forward_options_.best_only) return sample(output.best[0]);
  return sample(masked(output.row(0)), sampling_, history, history.size());
}

// The logits with tokens that must not come up at minus infinity. Copied only if there are any.
std::span<const float> Generator::masked(std::span<const float> logits) {
  if (never_.empty()) return logits;
  masked_.assign(logits.begin(), logits.end());
  for (const IdRange& ids : never_)
    std::fill(masked_.begin() + ids.begin, masked_.begin() + ids.end, -std::numeric_limits<float>::infinity());
  return masked_;
}

void Generator::emit(const std::string& text, Generation& generation) {
  generation.text += text;
  if (streams_) print(text);
}

double rate(size_t tokens, double seconds) { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }

size_t n_decoded(const Generation& generation) { return generation.ids.empty() ? 0 : generation.ids.size() - 1; }

std::string summary(const Generation& generation, size_t n_prompt, const SamplingOptions& sampling) {
  const size_t n_computed = n_prompt - static_cast<size_t>(generation.resumed.reused);
  return "prompt " + std::to_string(n_prompt) + " tokens" +
         (generation.resumed.reused > 0 ? ", " + std::to_string(n_computed) + " of them new," : "") + " in " +
         fixed(generation.prompt_seconds, 2) + " s (" + fixed(rate(n_computed, generation.prompt_seconds), 1) +
         " t/s), generated " + std::to_string(generation.ids.size()) + " in " + fixed(generation.generate_seconds, 2) +
         " s (" + fixed(rate(n_decoded(generation), generation.generate_seconds), 1) + " t/s), ended by " +
         (interrupted() ? "interruption" : generation.finish_reason) +
         (sampling.temperature > 0 ? ", seed " + std::to_string(sampling.seed) : "");
}

}  // namespace tenon::launcher
