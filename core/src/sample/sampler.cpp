#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <tenon/error.hpp>
#include <tenon/sampler.hpp>

#include "sample/best.hpp"
#include "sample/philox.hpp"

namespace tenon {
namespace {

struct Candidate {
  float logit = 0;
  int32_t id = 0;
  double weight = 0;  // relative to the best: exp((logit - best) / temperature)
};

// Better first; of equal logits the lower id.
bool is_better(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

[[noreturn]] void refuse(const char* field, double value, const char* expected) {
  throw Error(ErrorKind::kUsage, std::string(field) + " is " + std::to_string(value) + ", expected " + expected);
}

[[noreturn]] void refuse_row(const std::string& what) { throw Error(ErrorKind::kRuntime, "sampling: " + what); }

[[noreturn]] void refuse_nan(ptrdiff_t id) { refuse_row("logit " + std::to_string(id) + " is not a number"); }
[[noreturn]] void refuse_hopeless() { refuse_row("every logit is -inf, so no token can be chosen"); }

// The largest logit; throws where there is none to choose.
float largest(std::span<const float> logits) {
  if (logits.empty()) refuse_row("the row of logits is empty");
  const Peak peak = peak_of(logits);
  if (peak.has_nan) refuse_nan(std::find_if(logits.begin(), logits.end(), [](float value) { return value != value; }) - logits.begin());
  if (peak.value == Peak().value) refuse_hopeless();
  return peak.value;
}

int32_t lowest_id_of(std::span<const float> logits, float value) {
  return static_cast<int32_t>(std::find(logits.begin(), logits.end(), value) - logits.begin());
}

bool is_greedy(const SamplingOptions& options) { return options.temperature == 0 || options.top_k == 1; }

bool has_penalties(const SamplingOptions& options) {
  return options.penalty_window != 0 &&
         (options.repetition_penalty != 1.0f || options.presence_penalty != 0.0f || options.frequency_penalty != 0.0f);
}

// Changes the logits of tokens in the window. History may name ids outside the row (another vocabulary): they are
// skipped.
void apply_penalties(std::span<float> logits, const SamplingOptions& options, std::span<const int32_t> history) {
  const size_t window = options.penalty_window < 0
                            ? history.size()
                            : std::min(history.size(), static_cast<size_t>(options.penalty_window));
  std::vector<int32_t> seen(history.end() - static_cast<ptrdiff_t>(window), history.end());
  std::sort(seen.begin(), seen.end());
  for (size_t i = 0; i < seen.size();) {
    size_t end = i + 1;
    while (end < seen.size() && seen[end] == seen[i]) ++end;
    const auto count = static_cast<float>(end - i);
    if (seen[i] >= 0 && static_cast<size_t>(seen[i]) < logits.size()) {
      float& logit = logits[static_cast<size_t>(seen[i])];
      logit = logit > 0 ? logit / options.repetition_penalty : logit * options.repetition_penalty;
      logit -= options.presence_penalty + options.frequency_penalty * count;
    }
    i = end;
  }
}

// The k best, in order of id. `-inf` is never among them.
std::vector<Candidate> best_k(std::span<const float> logits, size_t k) {
  std::vector<Candidate> heap;  // the worst on top
  if (k >= logits.size() || k > 4096) {
    heap.reserve(logits.size());
    for (size_t i = 0; i < logits.size(); ++i) {
      if (logits[i] > -std::numeric_limits<float>::infinity()) heap.push_back({logits[i], static_cast<int32_t>(i)});
    }
    if (k < heap.size()) {
      std::nth_element(heap.begin(), heap.begin() + static_cast<ptrdiff_t>(k), heap.end(), is_better);
      heap.resize(k);
      std::sort(heap.begin(), heap.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
    }
    return heap;
  }
  heap.reserve(k);
  float bar = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] > bar)) continue;  // an equal logit with a higher id is worse
    if (heap.size() == k) {
      std::pop_heap(heap.begin(), heap.end(), is_better);
      heap.pop_back();
    }
    heap.push_back({logits[i], static_cast<int32_t>(i)});
    std::push_heap(heap.begin(), heap.end(), is_better);
    if (heap.size() == k) bar = heap.front().logit;
  }
  std::sort(heap.begin(), heap.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  return heap;
}

// Keeps the smallest set of best candidates whose weights sum to at least `share`, sorting only as far as needed.
void keep_top(std::vector<Candidate>& candidates, double share) {
  double sum = 0;
  size_t sorted = 0;
  for (size_t step = 64; sorted < candidates.size(); step *= 2) {
    const size_t end = std::min(candidates.size(), sorted + step);
    const auto begin = candidates.begin() + static_cast<ptrdiff_t>(sorted);
    const auto middle = candidates.begin() + static_cast<ptrdiff_t>(end);
    if (middle != candidates.end()) std::nth_element(begin, middle, candidates.end(), is_better);
    std::sort(begin, middle, is_better);
    for (; sorted < end; ++sorted) {
      sum += candidates[sorted].weight;
      if (sum >= share) {
        candidates.resize(sorted + 1);
        return;
      }
    }
  }
}

double sum_of(const std::vector<Candidate>& candidates) {
  double sum = 0;
  for (const Candidate& candidate : candidates) sum += candidate.weight;
  return sum;
}

int32_t draw(const std::vector<Candidate>& candidates, double uniform) {
  const double target = uniform * sum_of(candidates);
  double sum = 0;
  int32_t last = candidates.front().id;
  for (const Candidate& candidate : candidates) {
    if (candidate.weight <= 0) continue;
    sum += candidate.weight;
    last = candidate.id;
    if (sum > target) break;
  }
  return last;
}

}  // namespace

void check(const SamplingOptions& options) {
  const auto finite = [](float value) { return std::isfinite(value); };
  if (!finite(options.temperature) || options.temperature < 0) {
    refuse("temperature", options.temperature, "a number from 0 (greedy) up");
  }
  if (options.top_k < 0) refuse("top_k", options.top_k, "0 (off) or more");
  if (!(options.top_p >= 0 && options.top_p <= 1)) refuse("top_p", options.top_p, "0 to 1 (off)");
  if (!(options.min_p >= 0 && options.min_p <= 1)) refuse("min_p", options.min_p, "0 (off) to 1");
  if (!finite(options.repetition_penalty) || options.repetition_penalty <= 0) {
    refuse("repetition_penalty", options.repetition_penalty, "a number above 0 (1 = off)");
  }
  if (!finite(options.presence_penalty)) refuse("presence_penalty", options.presence_penalty, "a number (0 = off)");
  if (!finite(options.frequency_penalty)) refuse("frequency_penalty", options.frequency_penalty, "a number (0 = off)");
  if (options.penalty_window < -1) refuse("penalty_window", options.penalty_window, "-1 (all) or more");
}

bool needs_only_best(const SamplingOptions& options) { return is_greedy(options) && !has_penalties(options); }

int32_t sample(const BestToken& best) {
  if (best.not_a_number >= 0) refuse_nan(best.not_a_number);
  if (best.id < 0) refuse_hopeless();
  return best.id;
}

double counter_uniform(uint64_t seed, uint64_t index) {
  const auto random = philox_4x32_10({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), 0, 0},
                                     {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  const uint64_t bits = static_cast<uint64_t>(random[0]) << 32 | random[1];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

// Candidates are laid on the line in order of id, so the draw needs no sorted vocabulary.
int32_t sample(std::span<const float> logits, const SamplingOptions& options, std::span<const int32_t> history,
               uint64_t index) {
  std::vector<float> changed;
  if (has_penalties(options) && !history.empty()) {
    changed.assign(logits.begin(), logits.end());
    apply_penalties(changed, options, history);
    logits = changed;
  }
  const float best = largest(logits);
  if (is_greedy(options)) return lowest_id_of(logits, best);

  std::vector<Candidate> candidates =
      best_k(logits, options.top_k == 0 ? logits.size() : static_cast<size_t>(options.top_k));
  const double scale = 1.0 / static_cast<double>(options.temperature);
  for (Candidate& candidate : candidates) {
    // Where the best is +inf, the finite ones have no chance and those at +inf have the same.
    candidate.weight = candidate.logit == best
                           ? 1.0
                           : std::exp((static_cast<double>(candidate.logit) - static_cast<double>(best)) * scale);
  }
  const double total = sum_of(candidates);
  // Both filters keep the best ones, so their order does not change the result: the cheap one goes first.
  if (options.min_p > 0) {
    const double bar = static_cast<double>(options.min_p);
    std::erase_if(candidates, [bar](const Candidate& candidate) { return candidate.weight < bar; });
  }
  if (options.top_p < 1) {
    keep_top(candidates, static_cast<double>(options.top_p) * total);
    std::sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  }
  return draw(candidates, counter_uniform(options.seed, index));
}

}  // namespace tenon
