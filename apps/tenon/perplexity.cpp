#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "common.hpp"
#include "interrupt.hpp"
#include "rows.hpp"
#include "verbs.hpp"

namespace tenon::launcher {
namespace {

constexpr int64_t kDefaultWindow = 512;

struct Score {
  double nll_sum = 0;
  int64_t tokens = 0;
  double nll() const { return nll_sum / static_cast<double>(tokens); }
};

// Adds what positions [first, last] of `tokens`, read from an empty context, say about the token after each.
void score_context(Model& model, std::span<const int32_t> tokens, int64_t first, int64_t last, Score& score) {
  Sequence sequence = model.sequence();
  std::vector<int32_t> rows(static_cast<size_t>(last - first + 1));
  std::iota(rows.begin(), rows.end(), static_cast<int32_t>(first));
  ForwardOptions options;
  options.cancelled = interrupted;
  options.on_row = [&](int64_t row, std::span<const float> logits) {
    const double nll = negative_log_likelihood(logits, tokens[static_cast<size_t>(first + row + 1)]);
    if (!std::isfinite(nll))
      throw Error(ErrorKind::kRuntime, "the logits of position " + std::to_string(first + row) + " are not finite");
    score.nll_sum += nll;
    ++score.tokens;
  };
  const Feed feed{&sequence, tokens, rows};
  model.forward({&feed, 1}, options);
}

// llama.cpp's convention: windows of `window` tokens that begin with BOS where the model adds one; the second half of
// each is scored; a short last window is dropped.
Score score_windows(Model& model, const std::string& path, std::vector<int32_t> tokens, int64_t window) {
  const Tokenizer& tokenizer = model.tokenizer();
  const int64_t n_windows = static_cast<int64_t>(tokens.size()) / window;
  if (n_windows == 0)
    throw Error(ErrorKind::kUsage, "--file " + path + ": the text has " + std::to_string(tokens.size()) +
                                       " tokens, but a window takes " + std::to_string(window) +
                                       "; give a smaller --ctx-size or --score all");
  const bool terminal = stderr_is_terminal();
  const auto begin = std::chrono::steady_clock::now();
  Score score;
  for (int64_t index = 0; index < n_windows; ++index) {
    stop_if_interrupted();
    const std::span<int32_t> part =
        std::span(tokens).subspan(static_cast<size_t>(index * window), static_cast<size_t>(window));
    if (tokenizer.adds_bos() && tokenizer.bos()) part[0] = *tokenizer.bos();
    score_context(model, part, window / 2, window - 2, score);
    if (terminal) {
      const double left =
          seconds_since(begin) / static_cast<double>(index + 1) * static_cast<double>(n_windows - index - 1);
      std::fprintf(stderr, "\rwindow %lld of %lld: perplexity %.4f, %.0f s left\033[K",
                   static_cast<long long>(index + 1), static_cast<long long>(n_windows), std::exp(score.nll()), left);
    }
  }
  if (terminal) std::fputs("\r\033[K", stderr);
  return score;
}

}  // namespace

int perplexity(const Arguments& arguments) {
  const std::string path = text_or_usage_error(arguments, "file");
  const std::string text = read_file(path);
  const bool all = arguments.text("score", "half") == "all";
  const int64_t window = arguments.integer("ctx-size", kDefaultWindow);
  Engine engine(engine_options(arguments));

  ModelOptions options = model_options(arguments, window);
  std::vector<int32_t> tokens;
  if (all) {
    tokens = engine.load_tokenizer(options.path)->encode(text);
    options = model_options(arguments, static_cast<int64_t>(tokens.size()));
  }
  const std::unique_ptr<Model> model = load_model(engine, arguments, std::move(options));
  warn_about(model->tokenizer());
  if (!all) tokens = model->tokenizer().encode(text);

  const auto begin = std::chrono::steady_clock::now();
  Score score;
  if (all) {
    const int64_t n_tokens = static_cast<int64_t>(tokens.size());
    if (n_tokens < 2)
      throw Error(ErrorKind::kUsage,
                  "--file " + path + ": the text has " + std::to_string(n_tokens) + " tokens, at least 2 are needed");
    check_context(*model, arguments, n_tokens, "--score all");
    score_context(*model, tokens, 0, n_tokens - 2, score);
  } else {
    check_context(*model, arguments, window, "a window");
    score = score_windows(*model, path, std::move(tokens), window);
  }
  note(std::to_string(score.tokens) + " tokens scored in " + fixed(seconds_since(begin), 2) + " s");

  if (arguments.on("json")) {
    const nlohmann::ordered_json answer = {
        {"nll", score.nll()}, {"perplexity", std::exp(score.nll())}, {"tokens", score.tokens}};
    print(answer.dump() + "\n");
  } else {
    print("perplexity " + fixed(std::exp(score.nll()), 4) + "  (nll " + fixed(score.nll(), 6) + " over " +
          std::to_string(score.tokens) + " tokens)\n");
  }
  return 0;
}

}  // namespace tenon::launcher
