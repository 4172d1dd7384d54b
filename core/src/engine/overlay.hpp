// overlay.hpp: rows that stand in for the embeddings of some tokens of a feed.
#pragma once

#include <tenon/engine.hpp>
#include <vector>

#include "chunks.hpp"
#include "entry.hpp"

namespace tenon::engine {

// Throws Error(kUsage) where the entry takes no such rows, or they do not fit it, the feed's tokens or the way that
// those are fed. `most` = rows that a prefill chunk may be asked to hold.
void check_overlay(const Entry& entry, const Feed& feed, const ForwardOptions& options, int64_t most);

// Spans as places in the feed's tokens, plus `first`.
std::vector<UncutSpan> spans_of(const Overlay& overlay, int64_t first);

// What an overlay has for tokens begin … begin + n - 1 of its feed; positions stay the feed's.
Overlay part_of(const Overlay& overlay, int64_t begin, int64_t n);

// Tokens of a decode step from token `at` of a feed on, at most n: no step ends inside a span. check_overlay() has seen
// that each fits into a step.
int64_t uncut_step(const Overlay& overlay, int64_t at, int64_t n);

}  // namespace tenon::engine
