// Prefix reuse: what of a prompt a sequence can take over.
#include "model_impl.hpp"
#include "prefill_plan.hpp"

#include <tenon/error.hpp>

#include <algorithm>

namespace tenon {

namespace {

constexpr int64_t kGrid = TENON_PAGE_TOKENS;
constexpr int64_t kPrefillMin = TENON_DECODE_MAX_TOKENS + 1;

// Tokens that the sequence can keep of those that it holds.
int64_t own_length(const store::Stores& stores, const store::SequenceState& state, int64_t shared, int64_t n_prompt, bool only_equal) {
  if (!only_equal && shared == state.length && shared < n_prompt) return shared;
  int64_t length = std::min(shared, n_prompt - kPrefillMin);
  if (only_equal) length = std::min(length, state.exact);
  length = std::max<int64_t>(0, length) / kGrid * kGrid;
  return stores.resumable(state, length) == length ? length : 0;
}

}  // namespace

Resumed Model::Impl::resume(Sequence::Impl& sequence, std::span<const int32_t> prompt, const ResumeOptions& options) {
  if (sequence.entry->main) throw Error(ErrorKind::kUsage, "a draft's sequence has nothing to resume from");
  store::Stores& stores = loaded->stores();
  store::SequenceState& state = sequence.state;
  engine::LiveText& text = sequence.text;
  if (state.is_open) throw Error(ErrorKind::kUsage, "a transaction is open");
  if (!state.fault.empty()) {
    index.leave(text);
    text = {};
    stores.drop(state);
    state = stores.create();
  }
  const int64_t n = int64_t(prompt.size());
  const auto parts = std::mismatch(text.tokens.begin(), text.tokens.end(), prompt.begin(), prompt.end());
  const int64_t shared = parts.first - text.tokens.begin();
  engine::PrefixIndex::Match match;
  if (index.is_on()) match = index.find(prompt, n - kPrefillMin, options.only_equal);
  const int64_t own = text.is_known ? own_length(stores, state, shared, n, options.only_equal) : 0;
  const bool is_own_equal = own % kGrid == 0 && state.exact >= own && n - own >= kPrefillMin;

  Resumed out;
  out.matched = std::max(match.matched, shared);
  if (own > match.prefix.length || (own == match.prefix.length && (is_own_equal || !match.is_equal))) {
    stores.truncate(state, own);
    text.is_known = true;
    text.tokens.resize(size_t(own));
    if (!text.node) index.enter(text, nullptr);
    index.follow(text, state);
    out.reused = own, out.is_equal = own == 0 || is_own_equal;
  } else {
    stores.adopt(state, match.prefix);
    text.is_known = true;
    text.tokens.assign(prompt.begin(), prompt.begin() + match.prefix.length);
    index.enter(text, match.node);
    out.reused = match.prefix.length, out.is_equal = match.is_equal;
  }
  text.wanted = engine::wanted_checkpoints(n, options, stores.cache().n_checkpoints);
  ++n_prompts, n_prompt_tokens += uint64_t(n), n_reused_tokens += uint64_t(out.reused);
  return out;
}

void Model::Impl::was_cut(Sequence::Impl& sequence) {
  if (!sequence.text.is_known) return;
  sequence.text.tokens.resize(size_t(sequence.state.length));
  index.follow(sequence.text, sequence.state);
}

// Where the accepted rows crossed the grid a checkpoint is left, as plain steps would have left it.
void Model::Impl::was_committed(Sequence::Impl& sequence) {
  was_cut(sequence);
  store::Stores& stores = loaded->stores();
  store::SequenceState& state = sequence.state;
  const int64_t crossed = state.length / kGrid * kGrid;
  if (!sequence.text.node || !index.takes_checkpoints() || crossed <= state.base) return;
  if (!state.accepted || crossed == state.length) {
    settle(sequence);
    store::SequenceState there = state;
    there.length = crossed;
    index.checkpoint(sequence.text, there, engine::Mark::kSpaced);
    return;
  }
  // The rows up to there are replayed, then the states before them are put back: all rows still wait.
  if (!index.make_room(2)) return;
  const store::SequenceState waiting = state;
  const int32_t before = stores.take_snapshot(state);
  state.length = crossed, state.accepted -= int32_t(waiting.length - crossed);
  try {
    settle(sequence);
    index.checkpoint(sequence.text, state, engine::Mark::kSpaced);
  } catch (...) {
    stores.drop_snapshot(before);
    throw;
  }
  stores.load_snapshot(state, before);
  stores.drop_snapshot(before);
  state.length = waiting.length, state.accepted = waiting.accepted;
}

PrefixCacheInfo Model::prefix_cache() const {
  const engine::PrefixIndex& index = impl_->index;
  PrefixCacheInfo out;
  const store::CachePlan& plan = impl_->loaded->stores().cache();
  out.limit_bytes = plan.limit_bytes, out.most_checkpoints = plan.n_checkpoints, out.checkpoint_bytes = plan.checkpoint_bytes;
  out.held_bytes = index.bytes(), out.pages = index.n_nodes(), out.checkpoints = index.n_checkpoints(), out.evicted = index.n_evicted();
  out.prompts = impl_->n_prompts, out.prompt_tokens = impl_->n_prompt_tokens, out.reused_tokens = impl_->n_reused_tokens;
  return out;
}

}  // namespace tenon
