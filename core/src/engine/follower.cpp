#include "follower.hpp"

#include <tenon/error.hpp>

#include <fmt/format.h>

namespace tenon::engine {

Follower::Follower(std::unique_ptr<Model> model, uint32_t rank, std::function<void()> probe)
    : model_(std::move(model)), rank_(rank), probe_(std::move(probe)) {}

Sequence& Follower::sequence(uint64_t number) {
  const auto found = sequences_.find(number);
  if (found == sequences_.end()) throw Error(ErrorKind::kRuntime, fmt::format("rank {} has no sequence {}", rank_, number));
  return found->second;
}

Outcome Follower::execute(const Command& command, const CancelCallback& cancelled) {
  for (const uint64_t number : command.dropped) sequences_.erase(number);
  Outcome outcome;
  outcome.value = run(command, cancelled, outcome);
  outcome.sent_bytes = model_->sent_bytes();
  return outcome;
}

int64_t Follower::run(const Command& command, const CancelCallback& cancelled, Outcome& outcome) {
  const auto add = [&](uint64_t number, Sequence made) {
    if (!sequences_.emplace(number, std::move(made)).second)
      throw Error(ErrorKind::kRuntime, fmt::format("rank {} has a sequence {} already", rank_, number));
  };
  switch (command.kind) {
    case Command::Kind::kCreate: add(command.sequence, model_->sequence()); break;
    case Command::Kind::kDraft: add(command.copy, model_->draft_sequence(sequence(command.sequence), command.entry)); break;
    case Command::Kind::kFork: add(command.copy, sequence(command.sequence).fork()); break;
    case Command::Kind::kBegin: sequence(command.sequence).begin(); break;
    case Command::Kind::kCommit: sequence(command.sequence).commit(command.count); break;
    case Command::Kind::kRollback: sequence(command.sequence).rollback(); break;
    case Command::Kind::kTruncate: return sequence(command.sequence).truncate(command.count);
    case Command::Kind::kResume: return sequence(command.sequence).resume(command.prompt, command.resume).reused;
    case Command::Kind::kSave: outcome.bytes = sequence(command.sequence).save(); break;
    case Command::Kind::kRestore: sequence(command.sequence).restore(command.saved); break;
    case Command::Kind::kForward: outcome.best = forward(command, cancelled); break;
    case Command::Kind::kProbe:
      if (probe_) probe_();
      break;
  }
  return 0;
}

// Rows and taps are read by rank 0 alone; those that are wanted decide what is computed, so that exchanges fit.
std::vector<BestToken> Follower::forward(const Command& command, const CancelCallback& cancelled) {
  std::vector<Feed> feeds;
  for (const Command::Feed& feed : command.feeds)
    feeds.push_back({&sequence(feed.sequence), feed.tokens, feed.output_rows, feed.hidden, feed.overlay});
  ForwardOptions options;
  options.chunk = command.chunk, options.decode_step = command.decode_step, options.taps = command.taps;
  options.cancelled = cancelled;
  options.best_only = command.best_only, options.never = command.never;
  if (!command.best_only) options.on_row = [](int64_t, std::span<const float>) {};
  const Output output = model_->forward(feeds, options);
  return {output.best.begin(), output.best.end()};
}

}  // namespace tenon::engine
