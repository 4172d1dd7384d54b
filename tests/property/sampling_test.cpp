// A sampled token depends on its row of logits, the options, the seed and its index only (P11): a sequence says the
// same alone and in any company, whenever it joins.
#include <tenon/sampler.hpp>

#include "property.hpp"

namespace tenon::property {
namespace {

// One speaker of a batch.
struct Speaker {
  Tokens prompt;
  uint64_t seed;
  size_t joins_at, n_tokens;  // of the batch's steps; how many it says
};

SamplingOptions options_of(const Speaker& speaker) {
  SamplingOptions options;
  options.temperature = 1, options.seed = speaker.seed;
  options.top_k = 0, options.top_p = 1, options.min_p = 0;
  options.presence_penalty = 0.25f;  // the history counts as well
  return options;
}

// A sequence that says one token after the other.
struct Voice {
  Voice(Model& model, const Speaker& speaker)
      : speaker(&speaker), sequence(model.sequence()), history(speaker.prompt), next(speaker.prompt) {}
  bool is_done() const { return history.size() == speaker->prompt.size() + speaker->n_tokens; }
  void hear(std::span<const float> row) {
    next = {sample(row, options_of(*speaker), history, history.size() - speaker->prompt.size())};
    history.push_back(next[0]);
  }
  const Speaker* speaker;
  Sequence sequence;
  Tokens history, next;
};

Tokens alone(Model& model, const Speaker& speaker) {
  Voice voice(model, speaker);
  while (!voice.is_done()) voice.hear(model.forward(voice.sequence, voice.next).row(0));
  return voice.history;
}

std::vector<Tokens> together(Model& model, const std::vector<Speaker>& speakers) {
  std::vector<Voice> voices;
  for (const Speaker& speaker : speakers) voices.emplace_back(model, speaker);
  for (size_t step = 0;; ++step) {
    std::vector<Voice*> speaking;
    bool is_over = true;
    for (Voice& voice : voices) {
      is_over = is_over && voice.is_done();
      if (step >= voice.speaker->joins_at && !voice.is_done()) speaking.push_back(&voice);
    }
    if (is_over) break;
    std::vector<int32_t> last;
    for (const Voice* voice : speaking) last.push_back(int32_t(voice->next.size()) - 1);
    std::vector<Feed> feeds;
    for (size_t i = 0; i < speaking.size(); ++i)
      feeds.push_back({&speaking[i]->sequence, speaking[i]->next, {&last[i], 1}});
    const Output out = model.forward(feeds);
    for (size_t i = 0; i < speaking.size(); ++i) speaking[i]->hear(out.row(int64_t(i)));
  }
  std::vector<Tokens> out;
  for (Voice& voice : voices) out.push_back(std::move(voice.history));
  return out;
}

class SamplingTest : public PropertyTest {};

TEST_P(SamplingTest, ASequenceSaysTheSameAloneAndInCompany) {
  const auto model = load();
  const size_t n = GetParam().is_slow() ? 4 : 7, n_tokens = GetParam().is_slow() ? 6 : 24;
  std::vector<Speaker> speakers;
  for (size_t i = 0; i < n; ++i)
    speakers.push_back({random_tokens(uint32_t(201 + i), 2 + i * 5, *model), 1000 + i, i * 2 % 5, n_tokens - i % 3});
  // One prompt twice, with one seed and with another one.
  speakers.push_back(speakers[1]);
  speakers.push_back(speakers[1]);
  speakers.back().seed = 77;
  const std::vector<Tokens> found = together(*model, speakers);
  for (size_t i = 0; i < speakers.size(); ++i) EXPECT_EQ(found[i], alone(*model, speakers[i])) << "speaker " << i;
  EXPECT_EQ(found[n], found[1]);
  EXPECT_NE(found[n + 1], found[1]);
}

INSTANTIATE_TEST_SUITE_P(Models, SamplingTest, ::testing::ValuesIn(most_cases()), case_name);

}  // namespace
}  // namespace tenon::property
