// generation.hpp: token after token out of a model, streamed as text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tenon/sampler.hpp>
#include <vector>

#include "common.hpp"

namespace tenon::launcher {

SamplingOptions sampling_options(const Arguments& arguments);

// What was generated so far, and how.
struct Generation {
  std::vector<int32_t> ids;
  std::string text;  // as it is shown
  std::string
      marked_text;  // with control tokens, without the one that ended it: what a chat template wants to see again
  const char* finish_reason = "error";
  std::optional<Error> error;
  double load_seconds = 0, prompt_seconds = 0, generate_seconds = 0;
  Resumed resumed;
};

// Generates token after token into a Generation and streams the text.
class Generator {
 public:
  // `n_predict`: without --n-predict, tokens to generate at most; -1 = until the context is full.
  Generator(Model& model, const Arguments& arguments, const SamplingOptions& sampling, int64_t n_predict);

  // The sequence may hold anything: what it can reuse it keeps. An error of the engine or Ctrl-C ends the generation
  // and is told in it; failing output throws.
  void run(Sequence& sequence, const std::vector<int32_t>& prompt, const ResumeOptions& resume, Generation& generation);
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;
  void set_seed(uint64_t seed) { sampling_.seed = seed; }

 private:
  void generate(Sequence& sequence, const std::vector<int32_t>& prompt, const ResumeOptions& resume,
                Generation& generation);
  Output forward(Sequence& sequence, std::span<const int32_t> tokens);
  int32_t choose(const Output& output, const std::vector<int32_t>& history);
  std::span<const float> masked(std::span<const float> logits);
  void emit(const std::string& text, Generation& generation);

  Model& model_;
  const Tokenizer& tokenizer_;
  SamplingOptions sampling_;
  bool streams_, ignores_eos_;
  int64_t limit_, context_;
  ForwardOptions forward_options_;
  TextStream stream_;
  std::vector<IdRange> never_;  // ids that must not come up
  std::vector<float> masked_;
};

double rate(size_t tokens, double seconds);
// Tokens that a decode step made. The first comes out of the prompt's own pass: the time of the others is measured.
size_t n_decoded(const Generation& generation);

// "prompt 12 tokens in 0.10 s (…), generated 5 in …".
std::string summary(const Generation& generation, size_t n_prompt, const SamplingOptions& sampling);

}  // namespace tenon::launcher
