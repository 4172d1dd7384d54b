#include "eval_draft.hpp"

#include <tenon/abi.h>

#include <algorithm>
#include <charconv>

namespace tenon::launcher {
namespace {

constexpr const char* kHidden = "draft.hidden";  // the tap that the next entry of the chain reads
constexpr int64_t kMostDrafts = 16;
constexpr int64_t kGrid = 64;        // prefill chunks are multiples of it
constexpr int64_t kPrefillMin = 16;  // tokens that go through the prefill phase

// Tokens of the next part: a step, or a chunk that leaves no tail too short for the prefill phase.
int64_t part_size(const ForwardOptions& options, int64_t left) {
  if (options.decode_step) return std::min<int64_t>(options.decode_step, left);
  const int64_t n = std::min<int64_t>(options.chunk, left), tail = left - n;
  if (tail == 0 || tail >= kPrefillMin) return n;
  return n > kGrid ? n - kGrid : left;
}

class Chain {
 public:
  Chain(Model& model, const std::vector<int32_t>& tokens, const std::vector<std::string>& drafts, EvalOutput& output)
      : model_(model), tokens_(tokens), drafts_(drafts), output_(output), main_(model.sequence()) {
    for (const std::string& draft : drafts) sequences_.push_back(model.draft_sequence(main_, draft));
  }

  void run(ForwardOptions options, const std::vector<std::string>& asked) {
    if (!options.chunk) options.chunk = ModelOptions().prefill_chunk;
    Taps all;
    std::vector<std::vector<float>> logits;
    for (int64_t begin = 0, n = 0; begin < n_tokens(); begin += n) {
      n = part_size(options, n_tokens() - begin);
      std::vector<float> hidden = run_main(options, begin, n);
      for (size_t k = 0; k < drafts_.size(); ++k) {
        const int64_t end = std::min(begin + n, n_tokens() - 1 - static_cast<int64_t>(k));
        if (end <= begin) break;
        const bool is_last = k + 1 == drafts_.size();
        hidden.resize(static_cast<size_t>((end - begin) * model_.entry(drafts_[k]).hidden_width));
        Taps taps;
        options.taps = is_last ? asked : std::vector<std::string>{kHidden};
        options.tapped = options.taps.empty() ? nullptr : &taps;
        run_draft(options, k, begin, end, hidden, is_last ? &logits : nullptr);
        if (!is_last) hidden = std::move(taps.at(kHidden));
        if (is_last)
          for (auto& [name, values] : taps) all[name].insert(all[name].end(), values.begin(), values.end());
      }
    }
    const std::vector<TapArray> arrays = tap_arrays(all, asked, n_tokens() - static_cast<int64_t>(drafts_.size()));
    output_.define(model_.entry(drafts_.back()), arrays);
    for (size_t row = 0; row < logits.size(); ++row) output_.write_logits(static_cast<int64_t>(row), logits[row]);
    for (const TapArray& array : arrays) output_.write_tap(array, all);
  }

 private:
  int64_t n_tokens() const { return static_cast<int64_t>(tokens_.size()); }
  std::span<const int32_t> part(int64_t begin, int64_t end) const {
    return std::span(tokens_).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  }

  // Hidden rows of the tokens.
  std::vector<float> run_main(ForwardOptions options, int64_t begin, int64_t n) {
    Taps taps;
    options.taps = {kHidden}, options.tapped = &taps;
    const Feed feed = {&main_, part(begin, begin + n), {}};
    model_.forward({&feed, 1}, options);
    return std::move(taps.at(kHidden));
  }

  // Rows begin … end - 1; the logits of those that are wanted go to the end of `logits`.
  void run_draft(const ForwardOptions& options, size_t k, int64_t begin, int64_t end, std::span<const float> hidden,
                 std::vector<std::vector<float>>* logits) {
    std::vector<int32_t> wanted;
    for (const int32_t row : output_.wanted())
      if (logits && row >= begin && row < end) wanted.push_back(row - static_cast<int32_t>(begin));
    const int64_t ahead = 1 + static_cast<int64_t>(k);
    const Feed feed = {&sequences_[k], part(begin + ahead, end + ahead), wanted, hidden};
    const Output out = model_.forward({&feed, 1}, options);
    for (int64_t row = 0; row < out.rows; ++row) logits->emplace_back(out.row(row).begin(), out.row(row).end());
  }

  Model& model_;
  const std::vector<int32_t>& tokens_;
  const std::vector<std::string>& drafts_;
  EvalOutput& output_;
  Sequence main_;
  std::vector<Sequence> sequences_;
};

}  // namespace

std::vector<std::string> draft_chain(const std::string& entry) {
  constexpr std::string_view kPrefix = "draft.";
  int64_t last = -1;
  const char* const end = entry.data() + entry.size();
  if (entry.starts_with(kPrefix)) {
    const auto [stopped, error] = std::from_chars(entry.data() + kPrefix.size(), end, last);
    if (error != std::errc() || stopped != end || last >= kMostDrafts) last = -1;
  }
  std::vector<std::string> out;
  for (int64_t i = 0; i <= last; ++i) out.push_back(std::string(kPrefix) + std::to_string(i));
  return out.empty() || out.back() != entry ? std::vector<std::string>{entry} : out;
}

void evaluate_draft(Model& model, const Arguments& arguments, const std::vector<int32_t>& tokens,
                    const std::vector<std::string>& drafts, EvalOutput& output) {
  Chain(model, tokens, drafts, output).run(forward_options(arguments), arguments.list("taps", ','));
}

}  // namespace tenon::launcher
