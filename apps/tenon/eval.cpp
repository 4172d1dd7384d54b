#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>

#include "common.hpp"
#include "eval_draft.hpp"
#include "eval_output.hpp"
#include "overlay_file.hpp"
#include "verbs.hpp"

namespace tenon::launcher {
namespace {

constexpr int64_t kGrid = 64;  // prefill chunks are multiples of it

// Positions in the order asked, duplicates kept. Throws Error(kUsage).
std::vector<int64_t> parse_rows(const std::string& text, int64_t n_tokens) {
  std::vector<int64_t> rows;
  if (text == "last") return {n_tokens - 1};
  if (text == "all") {
    for (int64_t row = 0; row < n_tokens; ++row) rows.push_back(row);
    return rows;
  }
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    int64_t row = -1;
    auto [stopped, error] = std::from_chars(text.data() + begin, text.data() + end, row);
    if (error != std::errc() || stopped != text.data() + end || row < 0 || row >= n_tokens)
      throw Error(ErrorKind::kUsage, "--rows: expected all, last or positions from 0 to " +
                                         std::to_string(n_tokens - 1) + " such as 0,3, found '" +
                                         text.substr(begin, end - begin) + "'");
    rows.push_back(row);
    begin = end + 1;
  }
  return rows;
}

// Feeds the tokens, to one sequence or to several equal ones.
class Evaluation {
 public:
  Evaluation(Model& model, const Arguments& arguments, const std::vector<int32_t>& tokens, const Overlay& overlay,
             EvalOutput& output)
      : model_(model), tokens_(tokens), overlay_(overlay), output_(output), options_(forward_options(arguments)) {
    options_.taps = arguments.list("taps", ',');
    const int64_t copies = arguments.integer("copies", 1);
    for (int64_t copy = 0; copy < copies; ++copy) sequences_.push_back(model.sequence());
  }

  void run() {
    const EntryInfo entry = model_.entry("main");
    std::vector<Feed> feeds;
    for (Sequence& sequence : sequences_) feeds.push_back({&sequence, tokens_, output_.wanted(), {}, overlay_});
    if (options_.taps.empty() && sequences_.size() == 1) {
      output_.define(entry);
      // Row by row: all rows of a long text need not fit in memory.
      options_.on_row = [this](int64_t row, std::span<const float> logits) { output_.write_logits(row, logits); };
      model_.forward(feeds, options_);
      return;
    }
    Taps taps;
    options_.tapped = options_.taps.empty() ? nullptr : &taps;
    const Output output = model_.forward(feeds, options_);
    check_copies(output);
    const auto n_tokens = static_cast<int64_t>(tokens_.size());
    const std::vector<TapArray> arrays =
        tap_arrays(taps, options_.taps, n_tokens * static_cast<int64_t>(sequences_.size()));
    output_.define(entry, arrays);
    for (int64_t row = 0; row < n_wanted(); ++row) output_.write_logits(row, output.row(row));
    for (const TapArray& array : arrays) output_.write_tap(array, taps);
  }

 private:
  int64_t n_wanted() const { return static_cast<int64_t>(output_.wanted().size()); }

  // Every sequence's values must be bit-equal to the first one's.
  void check_copies(const Output& output) const {
    for (int64_t copy = 1; copy < static_cast<int64_t>(sequences_.size()); ++copy)
      for (int64_t row = 0; row < n_wanted(); ++row) {
        const std::span<const float> mine = output.row(copy * n_wanted() + row), first = output.row(row);
        if (std::memcmp(mine.data(), first.data(), first.size_bytes()) == 0) continue;
        const auto [a, b] = std::mismatch(first.begin(), first.end(), mine.begin(),
                                          [](float x, float y) { return std::memcmp(&x, &y, sizeof(x)) == 0; });
        throw Error(ErrorKind::kRuntime, "--copies: copy " + std::to_string(copy) +
                                             " differs from copy 0 at position " +
                                             std::to_string(output_.wanted()[static_cast<size_t>(row)]) + ", logit " +
                                             std::to_string(a - first.begin()) + ": " + std::to_string(*b) +
                                             " against " + std::to_string(*a));
      }
  }

  Model& model_;
  const std::vector<int32_t>& tokens_;
  const Overlay overlay_;
  EvalOutput& output_;
  std::vector<Sequence> sequences_;
  ForwardOptions options_;
};

}  // namespace

int eval(const Arguments& arguments) {
  const std::vector<int32_t> tokens = parse_some_ids("--tokens", text_or_usage_error(arguments, "tokens"));
  const std::string entry = arguments.text("entry", "main");
  const std::vector<std::string> drafts = entry == "main" ? std::vector<std::string>() : draft_chain(entry);
  for (const char* flag : {"copies", "overlay"})
    if (!drafts.empty() && arguments.has(flag))
      throw Error(ErrorKind::kUsage, "--" + std::string(flag) + " is for the main entry, not for " + entry);
  // A draft's row pairs two neighbours, and each of a chain is one further ahead.
  const int64_t n_tokens = static_cast<int64_t>(tokens.size()), n_rows = n_tokens - static_cast<int64_t>(drafts.size());
  if (n_rows < 1)
    throw Error(ErrorKind::kUsage, "--tokens: entry " + entry + " needs " + std::to_string(drafts.size() + 1) +
                                       " or more, found " + std::to_string(n_tokens));
  const std::vector<int64_t> rows = parse_rows(arguments.text("rows", "last"), n_rows);
  const int64_t chunk = arguments.integer("chunk", kGrid);
  if (chunk % kGrid != 0)
    throw Error(ErrorKind::kUsage, "--chunk: expected a multiple of 64, found " + std::to_string(chunk));
  ModelOptions options = model_options(arguments, n_tokens);
  options.max_sequences = static_cast<uint32_t>(arguments.integer("copies", 1));
  options.prefill_chunk = std::max(options.prefill_chunk, static_cast<uint32_t>(chunk));
  std::optional<OverlayFile> overlay;
  if (arguments.has("overlay")) {
    overlay.emplace(text_or_usage_error(arguments, "overlay"), n_tokens);
    options.overlay = true;
    // A span is computed in one chunk, however long.
    const auto span = static_cast<uint32_t>((overlay->longest_span() + kGrid - 1) / kGrid * kGrid);
    options.prefill_chunk = std::max(options.prefill_chunk, span);
  }
  options.draft_path = arguments.text("draft");
  options.entries = {drafts.rbegin(), drafts.rend()};  // the one that was asked for first, for messages
  const std::string out = text_or_usage_error(arguments, "out");

  Engine engine(engine_options(arguments));
  std::error_code ignored;  // a model that is not there is the engine's matter
  for (const std::string& path : {options.path, options.draft_path})
    if (std::filesystem::equivalent(out, path, ignored))
      throw Error(ErrorKind::kUsage, "--out " + out + " is the model file");
  if (overlay && std::filesystem::equivalent(out, arguments.text("overlay"), ignored))
    throw Error(ErrorKind::kUsage, "--out " + out + " is the overlay file");
  SafetensorsFile file(out);
  const std::unique_ptr<Model> model = load_model(engine, arguments, std::move(options));
  // A model is more than the path it was named by: a folder, parts, a configuration.
  for (const std::string& path : model->info().files)
    if (std::filesystem::equivalent(out, path, ignored))
      throw Error(ErrorKind::kUsage, "--out " + out + " is a file of the model");
  check_context(*model, arguments, n_tokens, "--tokens");
  if (overlay) overlay->read_rows(model->entry("main").overlay_width);
  EvalOutput output(rows, file);
  if (drafts.empty()) {
    Evaluation(*model, arguments, tokens, overlay ? overlay->overlay() : Overlay(), output).run();
  } else {
    evaluate_draft(*model, arguments, tokens, drafts, output);
  }
  file.finish();
  // Written all the same: the taps show where it began.
  if (output.broken() >= 0)
    throw Error(ErrorKind::kRuntime,
                "the logits of position " + std::to_string(output.broken()) + " are not finite; see " + out);
  return 0;
}

}  // namespace tenon::launcher
