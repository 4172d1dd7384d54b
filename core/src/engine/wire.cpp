#include "wire.hpp"

#include "parallel/failure.hpp"

#include <fmt/format.h>

#include <new>
#include <type_traits>

namespace tenon::engine::wire {
namespace {

using parallel::Reader;
using parallel::Writer;

// One list of fields serves both directions.
struct Put {
  Writer& to;
  template <typename T>
  void operator()(const T& value) const {
    if constexpr (std::is_same_v<T, std::string>) {
      to.text(value);
    } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      to.integer(int64_t(value));
    } else {
      to.number(value.size());
      for (const auto& one : value) (*this)(one);
    }
  }
};
struct Take {
  Reader& from;
  template <typename T>
  void operator()(T& value) const {
    if constexpr (std::is_same_v<T, std::string>) {
      value = from.text();
    } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      value = T(from.integer());
    } else {
      value.resize(from.count());
      for (auto& one : value) (*this)(one);
    }
  }
};

// All fields but callbacks. The names are bound so that a new field cannot be forgotten here.
template <typename Options, typename Visit>
void visit_options(Options& options, const Visit& visit) {
  auto& [path, entries, draft_path, backend, threads, tensor_parallel, expert_parallel, pipeline_parallel, tensor_layers, expert_layers,
         interleave_experts, sum_parts, expert_parts, fast_sums, devices, collective, rank_timeout_ms, precision, context, clip_context,
         max_sequences, prefill_chunk, overlay, max_decode_rows, cache_type_k, cache_type_v, prefer, forbid, composites, capture,
         prefix_cache_bytes, poison, progress, cancelled] = options;
  static_cast<void>(progress), static_cast<void>(cancelled);
  visit(path), visit(entries), visit(draft_path), visit(backend), visit(threads), visit(tensor_parallel), visit(expert_parallel);
  visit(pipeline_parallel), visit(tensor_layers), visit(expert_layers), visit(interleave_experts), visit(sum_parts), visit(expert_parts);
  visit(fast_sums), visit(devices), visit(collective), visit(rank_timeout_ms), visit(precision), visit(context), visit(clip_context);
  visit(max_sequences), visit(prefill_chunk), visit(overlay), visit(max_decode_rows), visit(cache_type_k), visit(cache_type_v), visit(prefer);
  visit(forbid), visit(composites), visit(capture), visit(prefix_cache_bytes), visit(poison);
}

template <typename Share, typename Visit>
void visit_share(Share& share, const Visit& visit) {
  visit(share.weight_bytes), visit(share.packed_bytes), visit(share.decode_weight_bytes), visit(share.arena_bytes), visit(share.store_bytes), visit(share.threads);
}

const char* stage_name(std::string_view name) {
  for (const char* known : {"read", "pack"})
    if (name == known) return known;
  return "load";
}

}  // namespace

Result failure(const std::exception_ptr& error, bool is_aftermath) {
  Result out;
  out.failed = true, out.is_alike = parallel::is_alike(error), out.is_aftermath = is_aftermath;
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    out.kind = e.kind(), out.message = e.what();
  } catch (const std::bad_alloc&) {
    out.kind = ErrorKind::kCapacity, out.message = "out of memory";
  } catch (const std::exception& e) {
    out.message = e.what();
  }
  return out;
}

std::exception_ptr error_of(const Result& result) { return std::make_exception_ptr(Error(result.kind, result.message)); }

void write(Writer& to, const Load& load) {
  visit_options(load.options, Put{to});
  to.number(load.ranks_here);
}

Load read_load(Reader& from) {
  Load out;
  visit_options(out.options, Take{from});
  out.ranks_here = uint32_t(from.number());
  return out;
}

void write(Writer& to, const Command& command) {
  to.number(uint64_t(command.kind));
  to.array(std::span<const uint64_t>(command.dropped));
  to.number(command.sequence), to.number(command.copy), to.text(command.entry), to.integer(command.count);
  to.array(command.prompt);
  to.number(command.resume.only_equal), to.integer(command.resume.static_prefix), to.array(command.resume.message_ends);
  to.array(command.saved);
  to.number(command.feeds.size());
  for (const Command::Feed& feed : command.feeds) {
    to.number(feed.sequence), to.array(feed.tokens), to.array(feed.output_rows), to.array(feed.hidden);
    to.array(feed.overlay.rows), to.array(feed.overlay.positions), to.array(feed.overlay.spans);
  }
  to.number(command.chunk), to.number(command.decode_step);
  Put{to}(command.taps);
  to.number(command.best_only), to.array(command.never);
}

Command read_command(Reader& from) {
  Command out;
  out.kind = Command::Kind(from.number());
  const std::span<const uint64_t> dropped = from.array<uint64_t>();
  out.dropped.assign(dropped.begin(), dropped.end());
  out.sequence = from.number(), out.copy = from.number(), out.entry = from.text(), out.count = from.integer();
  out.prompt = from.array<int32_t>();
  out.resume.only_equal = from.number(), out.resume.static_prefix = from.integer(), out.resume.message_ends = from.array<int64_t>();
  out.saved = from.array<uint8_t>();
  for (size_t n = from.count(); n; --n) {
    Command::Feed feed;
    feed.sequence = from.number(), feed.tokens = from.array<int32_t>(), feed.output_rows = from.array<int32_t>(), feed.hidden = from.array<float>();
    feed.overlay.rows = from.array<float>(), feed.overlay.positions = from.array<int32_t>(), feed.overlay.spans = from.array<int32_t>();
    out.feeds.push_back(feed);
  }
  out.chunk = uint32_t(from.number()), out.decode_step = uint32_t(from.number());
  Take{from}(out.taps);
  out.best_only = from.number(), out.never = from.array<IdRange>();
  return out;
}

void write(Writer& to, const Result& result) {
  to.number(result.failed), to.number(uint64_t(result.kind)), to.number(result.is_alike), to.number(result.is_aftermath);
  to.text(result.message);
  to.integer(result.outcome.value), to.array(std::span<const uint8_t>(result.outcome.bytes)), to.number(result.outcome.sent_bytes);
  to.array(std::span<const BestToken>(result.outcome.best));
  visit_share(result.share, Put{to});
}

Result read_result(Reader& from) {
  Result out;
  out.failed = from.number(), out.kind = ErrorKind(from.number()), out.is_alike = from.number(), out.is_aftermath = from.number();
  out.message = from.text();
  out.outcome.value = from.integer();
  const std::span<const uint8_t> bytes = from.array<uint8_t>();
  out.outcome.bytes.assign(bytes.begin(), bytes.end());
  out.outcome.sent_bytes = from.number();
  const std::span<const BestToken> best = from.array<BestToken>();
  out.outcome.best.assign(best.begin(), best.end());
  visit_share(out.share, Take{from});
  return out;
}

void write(Writer& to, const Progress& progress) {
  to.text(progress.stage), to.number(progress.done_bytes), to.number(progress.total_bytes), to.number(progress.rank);
}

Progress read_progress(Reader& from) {
  Progress out = {};
  out.stage = stage_name(from.text());
  out.done_bytes = from.number(), out.total_bytes = from.number(), out.rank = uint32_t(from.number());
  return out;
}

}  // namespace tenon::engine::wire
