// model_impl.hpp: a loaded model that runs steps: fills the step record, runs Programs, moves sequences on.
#pragma once

#include "loaded.hpp"
#include "prefix_index.hpp"
#include "ranks.hpp"
#include "sample/best.hpp"

#include <tenon/engine.hpp>

#include <memory>
#include <mutex>
#include <vector>

namespace tenon {

namespace engine {

// Tokens of one sequence in one step.
struct StepPart {
  store::SequenceState* state;
  LiveText* text;             // null where no tokens are fed
  std::span<const int32_t> tokens;
  int64_t seq_end;            // where its request ends
  int64_t first_row = 0;      // number of the first token in the call's feed order, for taps
  struct Want {
    int32_t row;       // of the step's tokens of this part
    int64_t output;    // number of the wanted row in the call
  };
  std::vector<Want> wants;
  std::span<const float> hidden;  // a row a token
  const store::SequenceState* target = nullptr;  // of a draft: the sequence drafted for
  int64_t begin = 0;  // number of the first token in its feed
  Overlay overlay = {};  // positions are the feed's
};

}  // namespace engine

struct Sequence::Impl {
  Model::Impl* model;
  engine::Entry* entry;
  const Impl* target;  // of a draft
  store::SequenceState state;
  engine::LiveText text;
  uint64_t number = 0;  // where there are several ranks, the same on all
};

// One thread at a time, as Model says.
struct Model::Impl {
  explicit Impl(std::unique_ptr<engine::Loaded> parts);

  using Part = engine::StepPart;
  // What a forward call runs and collects.
  struct Sink {
    engine::Entry* entry;
    const ForwardOptions* options;
    std::vector<std::string> taps;  // names of the graph's taps that were asked for
    engine::Twin twin = engine::Twin::kPlain;
    std::vector<IdPiece> pieces = {};  // of a row of this rank's logits: those that may be the best
  };

  Output forward(std::span<const Feed> feeds, const ForwardOptions& options);
  Sink sink_for(engine::Entry& entry, const ForwardOptions& options) const;
  // The same on every rank of the model; answers what rank 0 has computed.
  Output forward_on_ranks(std::span<const Feed> feeds, const ForwardOptions& options);
  // Does what the command says on this rank, by `own`, and on the others where there are any; answers what those do.
  std::vector<engine::Outcome> everywhere(engine::Command command, const engine::OtherRanks::Own& own, const CancelCallback& cancelled = {});
  std::vector<engine::Outcome> everywhere(engine::Command::Kind kind, const Sequence::Impl& sequence, const std::function<void()>& own);
  // Throws Error(kRuntime) where another rank's value is not that of this one.
  void check_equal(std::span<const engine::Outcome> outcomes, int64_t value) const;
  // Replays accepted rows that wait, so that stores hold what the lengths say.
  void settle(Sequence::Impl& sequence);
  Resumed resume(Sequence::Impl& sequence, std::span<const int32_t> prompt, const ResumeOptions& options);
  // The sequence was cut, or its transaction ended.
  void was_cut(Sequence::Impl& sequence);
  void was_committed(Sequence::Impl& sequence);

  std::unique_ptr<engine::Loaded> loaded;
  engine::PrefixIndex index;
  uint64_t n_prompts = 0, n_prompt_tokens = 0, n_reused_tokens = 0;
  ModelInfo info;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::vector<float> logits;
  std::vector<BestToken> best;       // of the wanted rows, as far as this rank's logits say
  uint64_t next_number = 1;          // of a sequence
  std::vector<uint64_t> dropped;     // sequences that the other ranks still have
  uint64_t sent_by_others = 0;       // bytes that other ranks had sent behind the last command
  std::unique_ptr<engine::OtherRanks> ranks;  // of rank 0, where there are others

 private:
  void check(std::span<const Feed> feeds, const ForwardOptions& options) const;
  void check_draft(const Feed& feed) const;
  void run_prefill(const Feed& feed, int64_t first_row, int64_t first_output, const Sink& sink);
  void run_decode(std::span<const Feed> feeds, std::span<const size_t> which, std::span<const int64_t> first_rows,
                  std::span<const int64_t> first_outputs, const Sink& sink);
  void run_step(uint32_t phase, std::span<Part> parts, const Sink& sink);
  void moved_on(const Part& part, uint32_t phase);
  uint32_t fill(engine::Entry& entry, std::span<Part> parts);
  void upload_inputs(const engine::Entry& entry, std::span<Part> parts) const;
  static Part part_of(const Feed& feed, int64_t begin, int64_t n, int64_t seq_end, int64_t first_row, int64_t first_output);
  void emit(program::Program& program, int32_t row_in_tail, int64_t output, const Sink& sink);
  void keep_taps(program::Program& program, std::span<Part> parts, uint32_t domain, uint32_t first, uint32_t count, const Sink& sink);
  static std::vector<std::string> tap_names(const graph::Graph& graph, const std::vector<std::string>& wanted);
};

}  // namespace tenon
