#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "common.hpp"
#include "interrupt.hpp"
#include "rows.hpp"
#include "verbs.hpp"

namespace tenon::launcher {
namespace {

using nlohmann::ordered_json;

struct Spread {
  double median = 0, min = 0, max = 0;
};

Spread spread(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  const double median = values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {median, values.front(), values.back()};
}

ordered_json to_json(const Spread& rate) { return {{"median", rate.median}, {"min", rate.min}, {"max", rate.max}}; }

// Seconds of one round: the prompt into an empty context, then one token after the other with the likeliest one found
// each time, as greedy generation does. The tokens fed are given, so every round does the same work.
struct Round {
  double prefill_seconds = 0, decode_seconds = 0;
  uint64_t prefill_sent_bytes = 0, decode_sent_bytes = 0;  // by all ranks to each other
};

Round run_round(Model& model, std::span<const int32_t> prompt, std::span<const int32_t> steps) {
  Sequence sequence = model.sequence();
  Round round;
  int64_t found = 0;
  ForwardOptions options;
  options.cancelled = interrupted;
  // The likeliest token after `tokens`.
  const auto feed = [&](std::span<const int32_t> tokens) {
    const int32_t last = static_cast<int32_t>(tokens.size()) - 1;
    const Feed feed{&sequence, tokens, {&last, 1}};
    return argmax(model.forward({&feed, 1}, options).row(0));
  };
  const uint64_t sent_before = model.sent_bytes();
  const auto begin = std::chrono::steady_clock::now();
  if (!prompt.empty()) found += feed(prompt);
  const auto middle = std::chrono::steady_clock::now();
  const uint64_t sent_by_prompt = model.sent_bytes();
  for (const int32_t& token : steps) {
    stop_if_interrupted();
    found += feed({&token, 1});
  }
  round.decode_seconds = seconds_since(middle);
  round.prefill_sent_bytes = sent_by_prompt - sent_before, round.decode_sent_bytes = model.sent_bytes() - sent_by_prompt;
  round.prefill_seconds = std::chrono::duration<double>(middle - begin).count();
  if (found < 0) throw Error(ErrorKind::kRuntime, "no likeliest token");  // keeps the searches from being left out
  return round;
}

std::string table_row(const std::string& test, const Spread& rate, const std::string& more) {
  const auto cell = [](const std::string& text, size_t width) {
    return std::string(text.size() < width ? width - text.size() : 0, ' ') + text;
  };
  return test + std::string(test.size() < 12 ? 12 - test.size() : 0, ' ') + cell(fixed(rate.median, 2), 12) +
         cell(fixed(rate.min, 2), 12) + cell(fixed(rate.max, 2), 12) + (more.empty() ? "" : "  " + more) + "\n";
}

}  // namespace

int bench(const Arguments& arguments) {
  const int64_t n_prompt = arguments.integer("n-prompt", 512);
  const int64_t n_steps = arguments.integer("n-gen", 128);
  const int64_t n_rounds = arguments.integer("repetitions", 5);
  if (n_prompt + n_steps == 0) throw Error(ErrorKind::kUsage, "--n-prompt 0 and --n-gen 0 leave nothing to measure");

  Engine engine(engine_options(arguments));
  const std::unique_ptr<Model> model = load_model(engine, arguments, model_options(arguments, n_prompt + n_steps));
  check_context(*model, arguments, n_prompt + n_steps, "a round");
  const ModelInfo& info = model->info();

  std::mt19937 random(1);
  std::uniform_int_distribution<int32_t> any_token(0, static_cast<int32_t>(info.vocab) - 1);
  std::vector<int32_t> tokens(static_cast<size_t>(n_prompt + n_steps));
  for (int32_t& token : tokens) token = any_token(random);
  const std::span<const int32_t> prompt = std::span(tokens).first(static_cast<size_t>(n_prompt));
  const std::span<const int32_t> steps = std::span(tokens).subspan(static_cast<size_t>(n_prompt));

  std::vector<double> prefill_rates, decode_rates;
  const Round sent = run_round(*model, prompt, steps);
  for (int64_t index = 0; index < n_rounds; ++index) {
    stop_if_interrupted();
    const Round round = run_round(*model, prompt, steps);
    prefill_rates.push_back(static_cast<double>(n_prompt) / std::max(round.prefill_seconds, 1e-9));
    decode_rates.push_back(static_cast<double>(n_steps) / std::max(round.decode_seconds, 1e-9));
    if (arguments.on("verbose"))
      note("round " + std::to_string(index + 1) + ": prefill " + fixed(prefill_rates.back(), 2) + " t/s, decode " +
           fixed(decode_rates.back(), 2) + " t/s");
  }

  const Spread prefill = spread(prefill_rates), decode = spread(decode_rates);
  const double bytes_per_second = static_cast<double>(info.decode_weight_bytes) * decode.median;
  const std::string path = arguments.text("model");
  if (arguments.on("json")) {
    ordered_json answer;
    answer["prefill"] = nullptr;
    answer["decode"] = nullptr;
    if (n_prompt > 0)
      answer["prefill"] = {{"tokens_per_second", to_json(prefill)}, {"tokens", n_prompt}, {"sent_bytes", sent.prefill_sent_bytes}};
    if (n_steps > 0)
      answer["decode"] = {{"tokens_per_second", to_json(decode)},
                          {"tokens", n_steps},
                          {"bytes_per_token", info.decode_weight_bytes},
                          {"sent_bytes_per_token", sent.decode_sent_bytes / static_cast<uint64_t>(n_steps)},
                          {"gigabytes_per_second", bytes_per_second / 1e9},
                          {"launches_per_layer", info.decode_launches_per_layer},
                          {"barriers_per_layer", info.decode_barriers_per_layer},
                          {"captured", info.captured}};
    answer["model"] = path;
    answer["threads"] = info.threads;
    answer["ranks"] = info.n_ranks;
    answer["backend"] = info.backend;
    print(answer.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n");
    return 0;
  }
  std::string table = path + ", " + info.backend + ", " + std::to_string(info.threads) + " threads, " +
                      std::to_string(n_rounds) + " rounds\n" + "test            t/s median         min         max\n";
  if (n_prompt > 0) table += table_row("prefill " + std::to_string(n_prompt), prefill, "");
  if (n_steps > 0)
    table += table_row("decode " + std::to_string(n_steps), decode,
                       size_text(info.decode_weight_bytes) + " a token, " + fixed(bytes_per_second / 1e9, 2) +
                           " GB/s, " + fixed(info.decode_launches_per_layer, 1) + " launches and " +
                           fixed(info.decode_barriers_per_layer, 1) + " barriers a layer, " +
                           (info.captured ? "captured" : "not captured"));
  print(table);
  return 0;
}

}  // namespace tenon::launcher
