#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "common.hpp"
#include "interrupt.hpp"
#include "pieces.hpp"
#include "safetensors_file.hpp"
#include "verbs.hpp"

namespace tenon::launcher {
namespace {

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

// Evaluates piece after piece and writes each wanted row to every place that asks for it.
class Evaluation {
 public:
  Evaluation(Model& model, const Arguments& arguments, std::vector<int32_t> tokens, std::vector<int64_t> rows,
             SafetensorsFile& file)
      : model_(model), tokens_(std::move(tokens)), rows_(std::move(rows)), file_(file) {
    options_.chunk = static_cast<uint32_t>(arguments.integer("chunk", 0));
    options_.decode_step = static_cast<uint32_t>(arguments.integer("step", 0));
    options_.taps = arguments.list("taps", ',');
    options_.tapped = options_.taps.empty() ? nullptr : &taps_;
    options_.cancelled = interrupted;
    const int64_t copies = arguments.integer("copies", 1);
    for (int64_t copy = 0; copy < copies; ++copy) sequences_.push_back(model.sequence());
    for (size_t place = 0; place < rows_.size(); ++place) places_[rows_[place]].push_back(static_cast<int64_t>(place));
  }

  void run() {
    for (const Piece& piece : pieces()) {
      stop_if_interrupted();
      evaluate(piece);
    }
  }

 private:
  std::vector<Piece> pieces() const {
    const int64_t n_tokens = static_cast<int64_t>(tokens_.size());
    const bool many_rows = places_.size() > 64;
    int64_t size = piece_size(model_.info().vocab, many_rows ? static_cast<int64_t>(sequences_.size()) : 0);
    if (options_.decode_step > 0) {
      const int64_t step = options_.decode_step;  // a piece is whole steps, so that only the last step is shorter
      return plan_pieces(n_tokens, std::max(step, size / step * step), false);
    }
    if (options_.chunk > 0) {
      const int64_t chunk = options_.chunk;  // a piece is whole chunks
      size = std::max<int64_t>({chunk, size / chunk * chunk, 2 * kGrid});
    }
    return plan_pieces(n_tokens, size, true);
  }

  void evaluate(const Piece& piece) {
    const int64_t n_tokens = piece.end - piece.begin;
    std::vector<int32_t> wanted;
    for (auto place = places_.lower_bound(piece.begin); place != places_.end() && place->first < piece.end; ++place)
      wanted.push_back(static_cast<int32_t>(place->first - piece.begin));
    const auto tokens = std::span(tokens_).subspan(static_cast<size_t>(piece.begin), static_cast<size_t>(n_tokens));
    std::vector<Feed> feeds;
    for (Sequence& sequence : sequences_) feeds.push_back({&sequence, tokens, wanted});
    taps_.clear();
    const Output output = model_.forward(feeds, options_);
    check_copies(output, wanted, piece.begin);
    if (!defined_) define(output.vocab, n_tokens);
    for (size_t row = 0; row < wanted.size(); ++row) write_row(output, row, piece.begin + wanted[row], wanted[row]);
  }

  // Every sequence's values must be bit-equal to the first one's.
  void check_copies(const Output& output, const std::vector<int32_t>& wanted, int64_t begin) const {
    const int64_t n_rows = static_cast<int64_t>(wanted.size());
    for (int64_t copy = 1; copy < static_cast<int64_t>(sequences_.size()); ++copy)
      for (int64_t row = 0; row < n_rows; ++row) {
        const std::span<const float> mine = output.row(copy * n_rows + row), first = output.row(row);
        if (std::memcmp(mine.data(), first.data(), first.size_bytes()) == 0) continue;
        const auto [a, b] = std::mismatch(first.begin(), first.end(), mine.begin(),
                                          [](float x, float y) { return std::memcmp(&x, &y, sizeof(x)) == 0; });
        throw Error(ErrorKind::kRuntime, "--copies: copy " + std::to_string(copy) +
                                             " differs from copy 0 at position " +
                                             std::to_string(begin + wanted[static_cast<size_t>(row)]) + ", logit " +
                                             std::to_string(a - first.begin()) + ": " + std::to_string(*b) +
                                             " against " + std::to_string(*a));
      }
  }

  void define(int64_t vocab, int64_t n_tokens) {
    defined_ = true;
    const int64_t n_rows = static_cast<int64_t>(rows_.size());
    std::vector<ArraySpec> specs = {{"logits", {n_rows, vocab}}};
    if (options_.tapped) {
      arrays_ = tap_arrays(taps_, options_.taps, n_tokens * static_cast<int64_t>(sequences_.size()));
      for (const TapArray& array : arrays_) {
        if (array.joined)
          specs.push_back({array.name, {static_cast<int64_t>(array.parts.size()), n_rows, array.cols}});
        else
          specs.push_back({array.name, {n_rows, array.cols}});
      }
    }
    file_.define(specs);
  }

  void write_row(const Output& output, size_t output_row, int64_t position, int64_t row_in_piece) {
    const int64_t n_rows = static_cast<int64_t>(rows_.size());
    for (int64_t place : places_.at(position)) {
      file_.write("logits", place * output.vocab, output.row(static_cast<int64_t>(output_row)));
      for (const TapArray& array : arrays_)
        for (size_t part = 0; part < array.parts.size(); ++part) {
          const auto found = taps_.find(array.parts[part]);
          const size_t begin = static_cast<size_t>(row_in_piece * array.cols);
          if (found == taps_.end() || found->second.size() < begin + static_cast<size_t>(array.cols))
            throw Error(ErrorKind::kRuntime, "tap " + array.parts[part] + " has no row " + std::to_string(position));
          file_.write(array.name, (static_cast<int64_t>(part) * n_rows + place) * array.cols,
                      std::span<const float>(found->second).subspan(begin, static_cast<size_t>(array.cols)));
        }
    }
  }

  Model& model_;
  std::vector<int32_t> tokens_;
  std::vector<int64_t> rows_;
  std::map<int64_t, std::vector<int64_t>> places_;  // position -> rows of the file that want it
  SafetensorsFile& file_;
  std::vector<Sequence> sequences_;
  ForwardOptions options_;
  Taps taps_;
  std::vector<TapArray> arrays_;
  bool defined_ = false;
};

}  // namespace

int eval(const Arguments& arguments) {
  const std::vector<int32_t> tokens = parse_ids("--tokens", text_or_usage_error(arguments, "tokens"));
  if (tokens.empty()) throw Error(ErrorKind::kUsage, "--tokens: there are none");
  const int64_t n_tokens = static_cast<int64_t>(tokens.size());
  std::vector<int64_t> rows = parse_rows(arguments.text("rows", "last"), n_tokens);
  const int64_t chunk = arguments.integer("chunk", kGrid);
  if (chunk % kGrid != 0)
    throw Error(ErrorKind::kUsage, "--chunk: expected a multiple of 64, found " + std::to_string(chunk));
  ModelOptions options = model_options(arguments, n_tokens);
  options.max_sequences = static_cast<uint32_t>(arguments.integer("copies", 1));
  const std::string out = text_or_usage_error(arguments, "out");

  Engine engine(engine_options(arguments));
  SafetensorsFile file(out);
  const std::unique_ptr<Model> model = load_model(engine, arguments, std::move(options));
  check_context(*model, arguments, n_tokens, "--tokens");
  Evaluation(*model, arguments, tokens, std::move(rows), file).run();
  file.finish();
  return 0;
}

}  // namespace tenon::launcher
