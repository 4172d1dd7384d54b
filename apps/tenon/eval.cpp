#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "common.hpp"
#include "interrupt.hpp"
#include "safetensors_file.hpp"
#include "verbs.hpp"

namespace tenon::launcher {
namespace {

constexpr int64_t kGrid = 64;  // prefill chunks are multiples of it

using Taps = std::map<std::string, std::vector<float>>;

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

// One array of the file that comes from taps: NAME.0 … NAME.n joined along the first dimension, or one tap alone.
struct TapArray {
  std::string name;
  std::vector<std::string> parts;
  bool joined = false;
  int64_t cols = 0;
};

// hidden.<i> become one array, [layers + 1, rows, width]; every other tap is an array of its own, [rows, cols].
std::vector<TapArray> tap_arrays(const Taps& taps, const std::vector<std::string>& asked, int64_t n_tokens) {
  std::vector<TapArray> arrays;
  std::set<std::string> taken;
  if (std::find(asked.begin(), asked.end(), "hidden") != asked.end()) {
    TapArray hidden{"hidden", {}, true, 0};
    for (int64_t layer = 0; taps.count("hidden." + std::to_string(layer)); ++layer) {
      hidden.parts.push_back("hidden." + std::to_string(layer));
      taken.insert(hidden.parts.back());
    }
    if (!hidden.parts.empty()) arrays.push_back(std::move(hidden));
  }
  for (const auto& [name, values] : taps)
    if (!taken.count(name)) arrays.push_back({name, {name}, false, 0});
  for (TapArray& array : arrays) {
    const size_t n_values = taps.at(array.parts.front()).size();
    array.cols = static_cast<int64_t>(n_values) / n_tokens;
    for (const std::string& part : array.parts)
      if (taps.at(part).size() != n_values || n_values % static_cast<size_t>(n_tokens) != 0)
        throw Error(ErrorKind::kRuntime, "tap " + part + ": " + std::to_string(taps.at(part).size()) + " values for " +
                                             std::to_string(n_tokens) + " tokens, unlike " + array.parts.front());
  }
  return arrays;
}

// Feeds the tokens and writes each wanted row to every place that asks for it.
class Evaluation {
 public:
  Evaluation(Model& model, const Arguments& arguments, const std::vector<int32_t>& tokens,
             const std::vector<int64_t>& rows, SafetensorsFile& file)
      : model_(model), tokens_(tokens), n_rows_(static_cast<int64_t>(rows.size())), file_(file) {
    options_.chunk = static_cast<uint32_t>(arguments.integer("chunk", 0));
    options_.decode_step = static_cast<uint32_t>(arguments.integer("step", 0));
    options_.taps = arguments.list("taps", ',');
    options_.cancelled = interrupted;
    const int64_t copies = arguments.integer("copies", 1);
    for (int64_t copy = 0; copy < copies; ++copy) sequences_.push_back(model.sequence());
    std::map<int64_t, std::vector<int64_t>> places;
    for (int64_t place = 0; place < n_rows_; ++place) places[rows[static_cast<size_t>(place)]].push_back(place);
    for (auto& [position, list] : places) {
      wanted_.push_back(static_cast<int32_t>(position));
      places_.push_back(std::move(list));
    }
  }

  void run() {
    std::vector<Feed> feeds;
    for (Sequence& sequence : sequences_) feeds.push_back({&sequence, tokens_, wanted_});
    if (options_.taps.empty() && sequences_.size() == 1) {
      define();
      // Row by row: all rows of a long text need not fit in memory.
      options_.on_row = [this](int64_t row, std::span<const float> logits) { write_logits(row, logits); };
      model_.forward(feeds, options_);
      return;
    }
    Taps taps;
    options_.tapped = options_.taps.empty() ? nullptr : &taps;
    const Output output = model_.forward(feeds, options_);
    check_copies(output);
    const std::vector<TapArray> arrays = tap_arrays(taps, options_.taps, n_tokens() * n_copies());
    define(arrays);
    for (int64_t row = 0; row < n_wanted(); ++row) write_logits(row, output.row(row));
    for (const TapArray& array : arrays) write_tap(array, taps);
  }

  int32_t broken() const { return broken_; }

 private:
  int64_t n_tokens() const { return static_cast<int64_t>(tokens_.size()); }
  int64_t n_copies() const { return static_cast<int64_t>(sequences_.size()); }
  int64_t n_wanted() const { return static_cast<int64_t>(wanted_.size()); }

  // Every sequence's values must be bit-equal to the first one's.
  void check_copies(const Output& output) const {
    for (int64_t copy = 1; copy < n_copies(); ++copy)
      for (int64_t row = 0; row < n_wanted(); ++row) {
        const std::span<const float> mine = output.row(copy * n_wanted() + row), first = output.row(row);
        if (std::memcmp(mine.data(), first.data(), first.size_bytes()) == 0) continue;
        const auto [a, b] = std::mismatch(first.begin(), first.end(), mine.begin(),
                                          [](float x, float y) { return std::memcmp(&x, &y, sizeof(x)) == 0; });
        throw Error(ErrorKind::kRuntime, "--copies: copy " + std::to_string(copy) +
                                             " differs from copy 0 at position " +
                                             std::to_string(wanted_[static_cast<size_t>(row)]) + ", logit " +
                                             std::to_string(a - first.begin()) + ": " + std::to_string(*b) +
                                             " against " + std::to_string(*a));
      }
  }

  void define(const std::vector<TapArray>& arrays = {}) {
    std::vector<ArraySpec> specs = {{"logits", {n_rows_, model_.info().vocab}}};
    for (const TapArray& array : arrays) {
      specs.push_back({array.name, {n_rows_, array.cols}});
      if (array.joined) specs.back().shape.insert(specs.back().shape.begin(), static_cast<int64_t>(array.parts.size()));
    }
    file_.define(specs);
  }

  void write_logits(int64_t row, std::span<const float> logits) {
    const auto finite = [](float value) { return std::isfinite(value); };
    if (broken_ < 0 && !std::all_of(logits.begin(), logits.end(), finite)) broken_ = wanted_[static_cast<size_t>(row)];
    for (int64_t place : places_[static_cast<size_t>(row)])
      file_.write("logits", place * static_cast<int64_t>(logits.size()), logits);
  }

  void write_tap(const TapArray& array, const Taps& taps) {
    for (size_t part = 0; part < array.parts.size(); ++part) {
      const std::span<const float> values = taps.at(array.parts[part]);
      for (size_t row = 0; row < wanted_.size(); ++row)
        for (int64_t place : places_[row])
          file_.write(array.name, (static_cast<int64_t>(part) * n_rows_ + place) * array.cols,
                      values.subspan(static_cast<size_t>(wanted_[row] * array.cols), static_cast<size_t>(array.cols)));
    }
  }

  Model& model_;
  const std::vector<int32_t>& tokens_;
  int64_t n_rows_;                            // of the file
  std::vector<int32_t> wanted_;               // their positions, ascending, each once
  std::vector<std::vector<int64_t>> places_;  // of each wanted position: the rows of the file that want it
  int32_t broken_ = -1;                       // the first position whose logits are not all finite
  SafetensorsFile& file_;
  std::vector<Sequence> sequences_;
  ForwardOptions options_;
};

}  // namespace

int eval(const Arguments& arguments) {
  const std::vector<int32_t> tokens = parse_some_ids("--tokens", text_or_usage_error(arguments, "tokens"));
  const int64_t n_tokens = static_cast<int64_t>(tokens.size());
  const std::vector<int64_t> rows = parse_rows(arguments.text("rows", "last"), n_tokens);
  const int64_t chunk = arguments.integer("chunk", kGrid);
  if (chunk % kGrid != 0)
    throw Error(ErrorKind::kUsage, "--chunk: expected a multiple of 64, found " + std::to_string(chunk));
  ModelOptions options = model_options(arguments, n_tokens);
  options.max_sequences = static_cast<uint32_t>(arguments.integer("copies", 1));
  options.prefill_chunk = std::max(options.prefill_chunk, static_cast<uint32_t>(chunk));
  const std::string out = text_or_usage_error(arguments, "out");

  Engine engine(engine_options(arguments));
  std::error_code ignored;  // a model that is not there is the engine's matter
  if (std::filesystem::equivalent(out, options.path, ignored))
    throw Error(ErrorKind::kUsage, "--out " + out + " is the model file");
  SafetensorsFile file(out);
  const std::unique_ptr<Model> model = load_model(engine, arguments, std::move(options));
  check_context(*model, arguments, n_tokens, "--tokens");
  Evaluation evaluation(*model, arguments, tokens, rows, file);
  evaluation.run();
  file.finish();
  // Written all the same: the taps show where it began.
  if (evaluation.broken() >= 0)
    throw Error(ErrorKind::kRuntime,
                "the logits of position " + std::to_string(evaluation.broken()) + " are not finite; see " + out);
  return 0;
}

}  // namespace tenon::launcher
