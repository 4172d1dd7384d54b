// command.hpp: what rank 0 has every rank of a model do. A rank's sequences have numbers, which rank 0 gives.
#pragma once

#include <tenon/engine.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tenon::engine {

// Borrows what its spans show: the caller's, or the message that it was read from.
struct Command {
  enum class Kind : uint32_t { kCreate, kDraft, kFork, kBegin, kCommit, kRollback, kTruncate, kResume, kSave, kRestore, kForward, kProbe };
  struct Feed {
    uint64_t sequence = 0;
    std::span<const int32_t> tokens, output_rows;
    std::span<const float> hidden;
    Overlay overlay = {};
  };
  Kind kind = Kind::kForward;
  std::vector<uint64_t> dropped;    // sequences that are gone, before all else
  uint64_t sequence = 0, copy = 0;  // the one that is meant, or drafted for; kFork, kDraft: the new one
  std::string entry;                // kDraft
  int64_t count = 0;                // kCommit: tokens that stay; kTruncate: the length wanted
  std::span<const int32_t> prompt;  // kResume
  ResumeOptions resume;
  std::span<const uint8_t> saved;   // kRestore: by all ranks together
  std::vector<Feed> feeds;          // kForward
  uint32_t chunk = 0, decode_step = 0;
  std::vector<std::string> taps;
  bool best_only = false;
  std::span<const IdRange> never;
};

// What a rank answers.
struct Outcome {
  int64_t value = 0;           // tokens kept or reused, equal on all ranks
  std::vector<uint8_t> bytes;  // kSave
  std::vector<BestToken> best; // kForward: among the rank's own logits, where only the best are wanted
  uint64_t sent_bytes = 0;     // by the rank to others, since it was loaded
};

}  // namespace tenon::engine
