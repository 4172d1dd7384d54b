#include "chunks.hpp"
#include "model_impl.hpp"
#include "naming.hpp"
#include "overlay.hpp"
#include "prefill_plan.hpp"

#include <tenon/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>

namespace tenon {

using engine::plan_chunks;
using program::Program;
using program::Segment;
using program::StepRecord;

namespace {

constexpr int64_t kPrefillMin = TENON_DECODE_MAX_TOKENS + 1;

void check_interrupt(const ForwardOptions& options) {
  if (options.cancelled && options.cancelled()) throw Error(ErrorKind::kInterrupted, "interrupted");
}

// Wants of `feed` that fall into [begin, begin + n) of its tokens.
std::vector<engine::StepPart::Want> wants_in(const Feed& feed, int64_t begin, int64_t n, int64_t first_output) {
  std::vector<engine::StepPart::Want> out;
  for (size_t i = 0; i < feed.output_rows.size(); ++i) {
    const int64_t row = feed.output_rows[i] - begin;
    if (row >= 0 && row < n) out.push_back({int32_t(row), first_output + int64_t(i)});
  }
  return out;
}

}  // namespace

Model::Impl::Impl(std::unique_ptr<engine::Loaded> parts) : loaded(std::move(parts)), index(loaded->stores()) {
  engine::Loaded& l = *loaded;
  const Program& decode = l.program(TENON_PHASE_DECODE);
  info.architecture = l.configured().name();
  info.name = std::string(l.source().metadata().string("general.name").value_or(""));
  info.format = std::string(l.source().format());
  info.backend = std::string(l.device().table().backend.data, size_t(l.device().table().backend.size));
  info.backend_description = l.backend_description();
  info.n_layers = l.graph().n_layers, info.width = l.configured().limits().width, info.vocab = l.vocab();
  info.context = l.context(), info.trained_context = l.configured().limits().context;
  info.file_bytes = l.source().file_bytes(), info.weight_bytes = l.weights().source_bytes();
  info.packed_bytes = l.weights().packed_bytes();
  for (const auto& entry : l.entries()) {
    info.store_bytes += entry->stores->bytes();
    for (const uint32_t phase : {TENON_PHASE_DECODE, TENON_PHASE_PREFILL}) info.arena_bytes += l.program(*entry, phase).arena_bytes();
  }
  info.files = l.source().file_paths();
  if (const source::ModelSource* draft = l.draft_source())
    info.files.insert(info.files.end(), draft->file_paths().begin(), draft->file_paths().end());
  info.entries = l.known_entries();
  if (const tenon_limits& limits = l.configured().limits(); TENON_HAS(&limits, n_draft_absent)) info.n_draft_absent = limits.n_draft_absent;
  info.threads = l.n_workers();
  info.decode_barriers = decode.n_barriers(), info.decode_launches = decode.n_launches();
  info.decode_weight_bytes = decode.weight_bytes();
  info.captured = decode.is_capturing();
  const auto counts = decode.layer_counts();
  const auto n = double(std::max<ptrdiff_t>(1, std::count_if(counts.begin(), counts.end(), [](const auto& layer) { return layer.launches > 0; })));  // of this rank
  for (const auto& layer : counts) info.decode_barriers_per_layer += layer.barriers / n, info.decode_launches_per_layer += layer.launches / n;
}

void Model::Impl::check(std::span<const Feed> feeds, const ForwardOptions& options) const {
  if (options.chunk % TENON_PAGE_TOKENS || options.chunk > loaded->options().prefill_chunk)
    throw Error(ErrorKind::kUsage, fmt::format("a prefill chunk of {}: expected a multiple of {} up to {}", options.chunk,
                                               TENON_PAGE_TOKENS, loaded->options().prefill_chunk));
  if (options.decode_step > TENON_DECODE_MAX_TOKENS)
    throw Error(ErrorKind::kUsage, fmt::format("a decode step of {} tokens: at most {}", options.decode_step, TENON_DECODE_MAX_TOKENS));
  if (options.best_only && options.on_row) throw Error(ErrorKind::kUsage, "rows of logits and only their best tokens are both asked for");
  const int64_t vocab = info.vocab;
  std::set<const Sequence*> seen;
  for (const Feed& feed : feeds) {
    if (!feed.sequence || !feed.sequence->impl_ || feed.sequence->impl_->model != this)
      throw Error(ErrorKind::kUsage, "a feed's sequence is not of this model");
    if (!seen.insert(feed.sequence).second) throw Error(ErrorKind::kUsage, "a sequence is fed twice in one call");
    if (feed.sequence->impl_->entry != feeds[0].sequence->impl_->entry)
      throw Error(ErrorKind::kUsage, "the sequences of a call are of several entries");
    check_draft(feed);
    check_overlay(*feed.sequence->impl_->entry, feed, options, loaded->options().prefill_chunk);
    const store::SequenceState& state = feed.sequence->impl_->state;
    if (!state.fault.empty()) throw Error(ErrorKind::kRuntime, "this sequence has ended: " + state.fault);
    for (int32_t token : feed.tokens)
      if (token < 0 || token >= vocab) throw Error(ErrorKind::kUsage, fmt::format("token id {} is not in 0 … {}", token, vocab - 1));
    int32_t last = -1;
    for (int32_t row : feed.output_rows) {
      if (row <= last || size_t(row) >= feed.tokens.size())
        throw Error(ErrorKind::kUsage, fmt::format("output row {} of {} tokens: rows must ascend", row, feed.tokens.size()));
      last = row;
    }
    const int64_t n = int64_t(feed.tokens.size());
    if (state.is_open && state.length - state.base + n > TENON_DECODE_MAX_TOKENS)
      throw Error(ErrorKind::kCapacity, fmt::format("a transaction holds {} tokens; {} are in it and {} more were fed", TENON_DECODE_MAX_TOKENS,
                                                    state.length - state.base, n));
    if (state.length + n > info.context)
      throw Error(ErrorKind::kCapacity, fmt::format("the context holds {} tokens; {} are used and {} more were fed", info.context, state.length, n));
  }
}

void Model::Impl::check_draft(const Feed& feed) const {
  const Sequence::Impl& sequence = *feed.sequence->impl_;
  const size_t expected = feed.tokens.size() * size_t(sequence.entry->hidden_cols());
  if (feed.hidden.size() != expected)
    throw Error(ErrorKind::kUsage, fmt::format("entry {} takes {} hidden values for {} tokens, {} were given", sequence.entry->name, expected,
                                               feed.tokens.size(), feed.hidden.size()));
  if (!sequence.entry->reads_main()) return;
  const int64_t end = sequence.state.length + int64_t(feed.tokens.size());
  if (end > sequence.target->state.length)
    throw Error(ErrorKind::kUsage, fmt::format("{} rows of a draft read as many positions of its sequence, which has {}", end,
                                               sequence.target->state.length));
}

std::vector<std::string> Model::Impl::tap_names(const graph::Graph& graph, const std::vector<std::string>& wanted) {
  std::vector<std::string> out;
  for (const std::string& name : wanted) {
    const size_t before = out.size();
    for (const auto& [tap, value] : graph.taps)
      if (tap == name || tap.starts_with(name + ".")) out.push_back(tap);
    if (out.size() > before) continue;
    std::set<std::string> known;  // hidden for hidden.0, hidden.1 …
    for (const auto& [tap, value] : graph.taps) known.insert(tap.substr(0, tap.rfind('.')));
    throw Error(ErrorKind::kUsage,
                fmt::format("this model has no tap \"{}\"; there are {}", name, fmt::join(known, ", ")));
  }
  return out;
}

Model::Impl::Sink Model::Impl::sink_for(engine::Entry& entry, const ForwardOptions& options) const {
  Sink out = {&entry, &options, tap_names(entry.graph, options.taps)};
  const bool is_apart = options.best_only && out.taps.empty() && loaded->place().n_ranks > 1;
  out.twin = !out.taps.empty() ? engine::Twin::kTaps : is_apart ? engine::Twin::kOwnLogits : engine::Twin::kPlain;
  if (options.best_only) out.pieces = pieces_without(is_apart ? entry.graph.own_columns : graph::Ranges{{0, entry.vocab}}, options.never);
  return out;
}

Output Model::Impl::forward(std::span<const Feed> feeds, const ForwardOptions& options) {
  check(feeds, options);
  engine::Entry& entry = feeds.empty() ? loaded->main() : *feeds[0].sequence->impl_->entry;
  const Sink sink = sink_for(entry, options);
  const int64_t vocab = entry.vocab;
  std::vector<int64_t> first_rows, first_outputs;
  int64_t rows = 0, outputs = 0;
  for (const Feed& feed : feeds) {
    first_rows.push_back(rows), first_outputs.push_back(outputs);
    rows += int64_t(feed.tokens.size()), outputs += int64_t(feed.output_rows.size());
  }
  for (const std::string& tap : sink.taps)
    if (options.tapped) (*options.tapped)[tap].assign(size_t(rows * entry.graph.values[size_t(entry.graph.taps.at(tap))].cols), 0.0f);
  const bool keeps_logits = !options.on_row && !options.best_only;
  if (keeps_logits) logits.resize(size_t(outputs * vocab));
  best.assign(options.best_only ? size_t(outputs) : 0, {});
  for (const Feed& feed : feeds)  // tokens no longer say what such a sequence holds
    if (!feed.overlay.positions.empty()) index.leave(feed.sequence->impl_->text), feed.sequence->impl_->text = {};
  std::vector<size_t> decode;
  for (size_t i = 0; i < feeds.size(); ++i) {
    const bool prefill = int64_t(feeds[i].tokens.size()) >= kPrefillMin && !options.decode_step;
    if (!prefill) {
      if (!feeds[i].tokens.empty()) decode.push_back(i);
    } else {
      run_prefill(feeds[i], first_rows[i], first_outputs[i], sink);
    }
  }
  if (!decode.empty()) run_decode(feeds, decode, first_rows, first_outputs, sink);
  Output out;
  out.vocab = vocab;
  if (!options.on_row) out.rows = outputs;
  if (keeps_logits) out.logits = {logits.data(), size_t(outputs * vocab)};
  out.best = best;
  return out;
}

void Model::Impl::run_prefill(const Feed& feed, int64_t first_row, int64_t first_output, const Sink& sink) {
  store::SequenceState& state = feed.sequence->impl_->state;
  engine::LiveText& text = feed.sequence->impl_->text;
  const int64_t cap = sink.options->chunk ? sink.options->chunk : loaded->options().prefill_chunk;
  const int64_t n_tokens = int64_t(feed.tokens.size()), seq_end = state.length + n_tokens;
  const bool leaves_checkpoints = text.node && index.takes_checkpoints();
  const std::vector<engine::UncutSpan> uncut = engine::spans_of(feed.overlay, state.length);
  int64_t at = 0;
  for (const auto& [n, mark] : engine::plan_prefill(state.length, n_tokens, cap, leaves_checkpoints ? &text.wanted : nullptr, uncut)) {
    check_interrupt(*sink.options);
    Part part = part_of(feed, at, n, seq_end, first_row, first_output);
    run_step(n < kPrefillMin ? TENON_PHASE_DECODE : TENON_PHASE_PREFILL, {&part, 1}, sink);
    if (mark) index.checkpoint(text, state, *mark);
    at += n;
  }
}

void Model::Impl::run_decode(std::span<const Feed> feeds, std::span<const size_t> which, std::span<const int64_t> first_rows,
                             std::span<const int64_t> first_outputs, const Sink& sink) {
  const int64_t width = sink.options->decode_step ? sink.options->decode_step : TENON_DECODE_MAX_TOKENS;
  const size_t max_rows = loaded->options().max_decode_rows, max_seqs = loaded->options().max_sequences;
  std::vector<int64_t> done(feeds.size(), 0);
  std::vector<int64_t> seq_end(feeds.size(), 0);
  for (size_t i : which) seq_end[i] = feeds[i].sequence->impl_->state.length + int64_t(feeds[i].tokens.size());
  for (bool more = true; more;) {
    more = false;
    std::vector<Part> parts;
    size_t rows = 0;
    const auto flush = [&] {
      if (parts.empty()) return;
      check_interrupt(*sink.options);
      run_step(TENON_PHASE_DECODE, parts, sink);
      parts.clear(), rows = 0;
    };
    for (size_t i : which) {
      const Feed& feed = feeds[i];
      int64_t n = std::min(width, int64_t(feed.tokens.size()) - done[i]);
      if (n <= 0) continue;
      // A plain step that would cross the grid ends on it, where a checkpoint can be taken.
      const Sequence::Impl& sequence = *feed.sequence->impl_;
      if (sequence.text.node && index.takes_checkpoints() && !sequence.state.is_open)
        n = std::min(n, TENON_PAGE_TOKENS - sequence.state.length % TENON_PAGE_TOKENS);
      n = engine::uncut_step(feed.overlay, done[i], n);
      if (rows + size_t(n) > max_rows || parts.size() == max_seqs) flush();
      parts.push_back(part_of(feed, done[i], n, seq_end[i], first_rows[i], first_outputs[i]));
      rows += size_t(n), done[i] += n;
      more = more || done[i] < int64_t(feed.tokens.size());
    }
    flush();
  }
}

// Tokens begin … begin + n - 1 of a feed, whose own numbers of rows and outputs begin at first_row and first_output.
engine::StepPart Model::Impl::part_of(const Feed& feed, int64_t begin, int64_t n, int64_t seq_end, int64_t first_row,
                                      int64_t first_output) {
  Sequence::Impl& sequence = *feed.sequence->impl_;
  Part out = {&sequence.state, &sequence.text, feed.tokens.subspan(size_t(begin), size_t(n)), seq_end, first_row + begin,
              wants_in(feed, begin, n, first_output), {}, sequence.target ? &sequence.target->state : nullptr};
  const auto cols = size_t(sequence.entry->hidden_cols());
  if (cols) out.hidden = feed.hidden.subspan(size_t(begin) * cols, size_t(n) * cols);
  out.begin = begin, out.overlay = engine::part_of(feed.overlay, begin, n);
  return out;
}

void Model::Impl::upload_inputs(const engine::Entry& entry, std::span<Part> parts) const {
  const auto upload = [&](tenon_addr& at, std::span<const float> rows, int64_t cols) {
    const auto pitch = uint64_t(tenon_encoding_row_bytes(TENON_ENC_F32, cols));
    const size_t n = pitch == uint64_t(cols) * sizeof(float) ? rows.size() : size_t(cols);  // at once, where rows have no gaps
    for (size_t i = 0; i < rows.size(); i += n, at += n / size_t(cols) * pitch)
      loaded->device().upload(at, rows.data() + i, n * sizeof(float));
  };
  tenon_addr hidden = entry.hidden.address(), overlay = entry.overlay.address();
  for (const Part& part : parts) upload(hidden, part.hidden, entry.hidden_cols()), upload(overlay, part.overlay.rows, entry.overlay_cols());
}

// Writes the parts into the step record's host copy; answers the number of rows.
uint32_t Model::Impl::fill(engine::Entry& entry, std::span<Part> parts) {
  StepRecord& step = *entry.step;
  const store::Stores& stores = *entry.stores;
  // A draft's row pairs the hidden row at its index with the token of the next position.
  const int32_t ahead = entry.main ? 1 : 0;
  const auto token = step.host(StepRecord::kToken), position = step.host(StepRecord::kPosition), index = step.host(StepRecord::kIndex);
  const auto seq = step.host(StepRecord::kSeq), row_start = step.host(StepRecord::kRowStart), span = step.host(StepRecord::kSpan);
  const auto overlay = step.host(StepRecord::kOverlay);
  const uint32_t stride = step.limits().max_rows;
  uint32_t rows = 0;
  int32_t overlay_rows = 0;
  for (size_t s = 0; s < parts.size(); ++s) {
    const store::SequenceState& state = *parts[s].state;
    const Overlay& given = parts[s].overlay;
    size_t next_given = 0;
    row_start[s] = int32_t(rows);
    step.host(StepRecord::kKvLen)[s] = int32_t(state.length);
    step.host(StepRecord::kSeqEnd)[s] = int32_t(parts[s].seq_end);
    step.host(StepRecord::kAccepted)[s] = state.accepted;
    step.host(StepRecord::kReplay)[s] = state.replay;
    step.host(StepRecord::kTape)[s] = state.tape;
    step.host(StepRecord::kTapeStart)[s] = state.tape_rows;
    step.host(StepRecord::kHalf)[s] = state.half;
    step.host(StepRecord::kSlots)[s] = int32_t(state.slot);
    for (size_t g = 0; g < stores.n_groups(); ++g) stores.write_table(state, g, step.host_page_table(uint32_t(g), uint32_t(s)));
    for (size_t g = stores.n_groups(); g < entry.n_groups(); ++g)
      entry.main->stores->write_table(*parts[s].target, g - stores.n_groups(), step.host_page_table(uint32_t(g), uint32_t(s)));
    for (size_t i = 0; i < parts[s].tokens.size(); ++i, ++rows) {
      const int32_t at = int32_t(state.length + int64_t(i));
      token[rows] = parts[s].tokens[i], index[rows] = at, seq[rows] = int32_t(s), span[rows] = overlay[rows] = -1;
      for (uint32_t stream = 0; stream < 4; ++stream) position[stream * stride + rows] = stream < 3 ? at + ahead : 0;
      if (next_given == given.positions.size() || given.positions[next_given] != parts[s].begin + int64_t(i)) continue;
      overlay[rows] = overlay_rows++;
      if (!given.spans.empty()) span[rows] = given.spans[next_given];
      ++next_given;
    }
  }
  row_start[parts.size()] = int32_t(rows);
  const auto counts = step.host(StepRecord::kCounts);
  counts[0] = int32_t(rows), counts[1] = int32_t(parts.size()), counts[2] = 0;
  return rows;
}

void Model::Impl::run_step(uint32_t phase, std::span<Part> parts, const Sink& sink) {
  engine::Entry& entry = *sink.entry;
  Program& program = loaded->program(entry, phase, sink.twin);
  StepRecord& step = *entry.step;
  for (Part& part : parts) entry.stores->reserve(*part.state, int64_t(part.tokens.size()));
  const uint32_t rows = fill(entry, parts);
  upload_inputs(entry, parts);
  // The tail's rows: those whose logits are wanted, or all where taps need every row.
  struct OutRow {
    int32_t row;
    int64_t output;  // -1: for taps only
  };
  std::vector<OutRow> outs;
  uint32_t first = 0;
  for (Part& part : parts) {
    if (sink.taps.empty()) {
      for (const auto& want : part.wants) outs.push_back({int32_t(first) + want.row, want.output});
    } else {
      size_t next = 0;
      for (size_t i = 0; i < part.tokens.size(); ++i) {
        const bool wanted = next < part.wants.size() && part.wants[next].row == int32_t(i);
        outs.push_back({int32_t(first + i), wanted ? part.wants[next++].output : -1});
      }
    }
    first += uint32_t(part.tokens.size());
  }
  const uint32_t most = step.limits().max_outputs;
  const auto load_slice = [&](size_t begin) {
    const uint32_t n = uint32_t(std::min<size_t>(most, outs.size() - begin));
    for (uint32_t i = 0; i < n; ++i) step.host(StepRecord::kOutRow)[i] = outs[begin + i].row, step.host(StepRecord::kStatus)[i] = 0;
    step.host(StepRecord::kCounts)[2] = int32_t(n);
    step.upload();
    return n;
  };
  try {
    uint32_t n = load_slice(0);
    if (loaded->options().poison) program.poison();
    program.run(outs.empty() ? Segment::kBody : Segment::kAll, rows, n);
    keep_taps(program, parts, TENON_DOMAIN_TOKENS, 0, rows, sink);
    for (size_t begin = 0; begin < outs.size();) {
      keep_taps(program, parts, TENON_DOMAIN_OUTPUT_ROWS, uint32_t(begin), n, sink);
      for (uint32_t i = 0; i < n; ++i)
        if (outs[begin + i].output >= 0) emit(program, int32_t(i), outs[begin + i].output, sink);
      begin += n;
      if (begin < outs.size()) {
        check_interrupt(*sink.options);
        n = load_slice(begin);
        program.run(Segment::kTail, rows, n);
      }
    }
  } catch (const std::exception& error) {
    // Recurrent state may have moved on already: such a sequence cannot be trusted any more.
    if (entry.stores->has_recurrent())
      for (Part& part : parts) part.state->fault = error.what();
    throw;
  }
  for (Part& part : parts) {
    entry.stores->stepped(*part.state, int64_t(part.tokens.size()), phase);
    if (part.text && part.text->is_known) moved_on(part, phase);
  }
}

void Model::Impl::moved_on(const Part& part, uint32_t phase) {
  part.text->tokens.insert(part.text->tokens.end(), part.tokens.begin(), part.tokens.end());
  index.count_tokens(part.tokens.size());
  if (part.state->is_open) return;
  index.follow(*part.text, *part.state);
  if (phase == TENON_PHASE_DECODE && part.state->length % TENON_PAGE_TOKENS == 0) index.checkpoint(*part.text, *part.state, engine::Mark::kSpaced);
}

void Model::Impl::emit(Program& program, int32_t row_in_tail, int64_t output, const Sink& sink) {
  const int32_t value = program.graph().logits;
  if (value < 0) return;  // rank 0 has them
  const auto cols = size_t(program.graph().values[size_t(value)].cols);  // of the vocabulary, or this rank's own
  if (!sink.options->on_row && !sink.options->best_only) {
    program.read_row(value, uint32_t(row_in_tail), logits.data() + size_t(output) * cols);
    return;
  }
  const float* row = program.host_row(value, uint32_t(row_in_tail));
  if (!row) {
    logits.resize(cols);
    program.read_row(value, uint32_t(row_in_tail), logits.data());
    row = logits.data();
  }
  if (sink.options->best_only) best[size_t(output)] = best_of({row, cols}, sink.pieces);
  else sink.options->on_row(output, {row, cols});
}

void Model::Impl::keep_taps(Program& program, std::span<Part> parts, uint32_t domain, uint32_t first, uint32_t count, const Sink& sink) {
  if (!sink.options->tapped) return;
  for (const std::string& tap : sink.taps) {
    const int32_t value = program.graph().taps.at(tap);
    if (program.graph().values[size_t(value)].domain != domain) continue;
    const int64_t cols = program.graph().values[size_t(value)].cols;
    std::vector<float>& out = (*sink.options->tapped)[tap];
    uint32_t row = 0;
    for (const Part& part : parts) {
      for (size_t i = 0; i < part.tokens.size(); ++i, ++row)
        if (row >= first && row < first + count) program.read_row(value, row - first, out.data() + (part.first_row + int64_t(i)) * cols);
    }
  }
}

void Model::Impl::settle(Sequence::Impl& sequence) {
  store::SequenceState& state = sequence.state;
  if (state.is_open) throw Error(ErrorKind::kUsage, "a transaction is open");
  if (!state.fault.empty()) throw Error(ErrorKind::kRuntime, "this sequence has ended: " + state.fault);
  if (!state.accepted) return;
  const ForwardOptions options;
  const Sink sink = sink_for(*sequence.entry, options);
  Part part = {&state, nullptr, {}, state.length, 0, {}, {}, sequence.target ? &sequence.target->state : nullptr};
  run_step(TENON_PHASE_DECODE, {&part, 1}, sink);
}

Model::Model(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Model::~Model() = default;

const ModelInfo& Model::info() const { return impl_->info; }

uint64_t Model::sent_bytes() const {
  const parallel::Communicator* communicator = impl_->loaded->communicator();
  return (communicator ? communicator->sent_bytes() : 0) + impl_->sent_by_others;
}

const Tokenizer& Model::tokenizer() const {
  if (!impl_->tokenizer)
    impl_->tokenizer = engine::naming(impl_->loaded->options().path, [&] {
      auto tokenizer = make_tokenizer(impl_->loaded->source().metadata());
      if (tokenizer->size() > impl_->loaded->vocab())
        throw Error(ErrorKind::kFile, "the tokenizer has " + std::to_string(tokenizer->size()) + " tokens, but the model's output has " +
                                          std::to_string(impl_->loaded->vocab()) + " rows");
      return tokenizer;
    });
  return *impl_->tokenizer;
}

std::string Model::chat_template() const {
  return std::string(impl_->loaded->source().metadata().string("tokenizer.chat_template").value_or(""));
}

std::span<const int32_t> Model::suppressed() const { return impl_->loaded->graph().never; }

EntryInfo Model::entry(std::string_view name) const {
  const engine::Entry& entry = impl_->loaded->entry(name);
  return {entry.name, entry.hidden_cols(), entry.vocab, entry.ids, entry.overlay_cols()};
}

Sequence Model::sequence() {
  engine::Entry& main = impl_->loaded->main();
  auto out = std::make_unique<Sequence::Impl>(Sequence::Impl{impl_.get(), &main, nullptr, {}, {}, impl_->next_number++});
  impl_->everywhere(engine::Command::Kind::kCreate, *out, [&] { out->state = main.stores->create(); });
  return Sequence(std::move(out));
}

Sequence Model::draft_sequence(const Sequence& target, std::string_view entry) {
  if (!target.impl_ || target.impl_->model != impl_.get() || target.impl_->entry->main)
    throw Error(ErrorKind::kUsage, "a draft is for a sequence of the model's main entry");
  engine::Entry& draft = impl_->loaded->entry(entry);
  if (!draft.main) throw Error(ErrorKind::kUsage, "entry " + draft.name + " is no draft");
  auto out = std::make_unique<Sequence::Impl>(Sequence::Impl{impl_.get(), &draft, target.impl_.get(), {}, {}, impl_->next_number++});
  engine::Command command;
  command.kind = engine::Command::Kind::kDraft, command.sequence = target.impl_->number, command.copy = out->number, command.entry = draft.name;
  impl_->everywhere(std::move(command), [&](const CancelCallback&) { out->state = draft.stores->create(); });
  return Sequence(std::move(out));
}

Output Model::forward(std::span<const Feed> feeds, const ForwardOptions& options) {
  return impl_->ranks ? impl_->forward_on_ranks(feeds, options) : impl_->forward(feeds, options);
}

Output Model::forward(Sequence& sequence, std::span<const int32_t> tokens, bool all_rows) {
  std::vector<int32_t> rows;
  if (all_rows) {
    rows.resize(tokens.size());
    std::iota(rows.begin(), rows.end(), 0);
  } else if (!tokens.empty()) {
    rows = {int32_t(tokens.size()) - 1};
  }
  const Feed feed = {&sequence, tokens, rows};
  return forward({&feed, 1}, {});
}

Sequence::Sequence(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Sequence::Sequence(Sequence&&) noexcept = default;

Sequence& Sequence::operator=(Sequence&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}

Sequence::~Sequence() {
  if (!impl_) return;
  impl_->model->index.leave(impl_->text);
  impl_->entry->stores->drop(impl_->state);
  if (impl_->model->ranks) impl_->model->dropped.push_back(impl_->number);
}

// Where a model has several ranks, each of them has a sequence of the same number and does the same.
int64_t Sequence::length() const { return impl_->state.length; }

void Sequence::begin() {
  impl_->model->everywhere(engine::Command::Kind::kBegin, *impl_, [&] { impl_->entry->stores->begin(impl_->state); });
}

void Sequence::commit(int64_t keep) {
  engine::Command command;
  command.kind = engine::Command::Kind::kCommit, command.sequence = impl_->number, command.count = keep;
  impl_->model->everywhere(std::move(command), [&](const CancelCallback&) {
    impl_->entry->stores->commit(impl_->state, keep);
    impl_->model->was_committed(*impl_);
  });
}

void Sequence::rollback() {
  impl_->model->everywhere(engine::Command::Kind::kRollback, *impl_, [&] {
    impl_->entry->stores->rollback(impl_->state);
    impl_->model->was_cut(*impl_);
  });
}

int64_t Sequence::truncate(int64_t n) {
  engine::Command command;
  command.kind = engine::Command::Kind::kTruncate, command.sequence = impl_->number, command.count = n;
  int64_t kept = 0;
  const auto others = impl_->model->everywhere(std::move(command), [&](const CancelCallback&) {
    if (n > 0) impl_->model->settle(*impl_);
    kept = impl_->entry->stores->truncate(impl_->state, n);
    impl_->model->was_cut(*impl_);
  });
  impl_->model->check_equal(others, kept);
  return kept;
}

Resumed Sequence::resume(std::span<const int32_t> prompt, const ResumeOptions& options) {
  engine::Command command;
  command.kind = engine::Command::Kind::kResume, command.sequence = impl_->number, command.prompt = prompt, command.resume = options;
  Resumed out;
  const auto others = impl_->model->everywhere(std::move(command), [&](const CancelCallback&) { out = impl_->model->resume(*impl_, prompt, options); });
  impl_->model->check_equal(others, out.reused);
  return out;
}

Sequence Sequence::fork() {
  auto impl = std::make_unique<Impl>(Impl{impl_->model, impl_->entry, impl_->target, {}, {}, impl_->model->next_number++});
  engine::Command command;
  command.kind = engine::Command::Kind::kFork, command.sequence = impl_->number, command.copy = impl->number;
  impl_->model->everywhere(std::move(command), [&](const CancelCallback&) {
    impl_->model->settle(*impl_);
    impl->text.is_known = impl_->text.is_known, impl->text.tokens = impl_->text.tokens;
    impl->state = impl_->entry->stores->fork(impl_->state);
    if (impl_->text.node) impl_->model->index.enter(impl->text, impl_->text.node);
  });
  return Sequence(std::move(impl));
}

std::vector<uint8_t> Sequence::save() const {
  const bool is_share = impl_->model->loaded->place().n_ranks > 1;
  std::vector<std::vector<uint8_t>> all(1);
  std::vector<engine::Outcome> others = impl_->model->everywhere(engine::Command::Kind::kSave, *impl_, [&] {
    impl_->model->settle(*impl_);
    const store::Stores& stores = *impl_->entry->stores;
    all[0] = is_share ? stores.save_share(impl_->state) : stores.save(impl_->state);
  });
  if (others.empty()) return std::move(all[0]);
  for (engine::Outcome& other : others) all.push_back(std::move(other.bytes));
  return store::join_shares(all);
}

void Sequence::restore(std::span<const uint8_t> bytes) {
  if (impl_->state.is_open) throw Error(ErrorKind::kUsage, "a transaction is open");
  engine::Command command;
  command.kind = engine::Command::Kind::kRestore, command.sequence = impl_->number, command.saved = bytes;
  impl_->model->everywhere(std::move(command), [&](const CancelCallback&) {
    impl_->entry->stores->restore(impl_->state, bytes);  // a rank takes its share
    impl_->state.fault.clear();
    impl_->model->index.leave(impl_->text);
    impl_->text = {};  // which tokens these are, the bytes do not say
  });
}

}  // namespace tenon
