// Messages between ranks: what is written is read, and what is cut short is refused.
#include <gtest/gtest.h>
#include <tenon/error.hpp>

#include "engine/wire.hpp"

#include <cstring>
#include <vector>

namespace tenon::engine::wire {
namespace {

// Aligned as messages are.
std::span<const uint8_t> aligned(const std::vector<uint8_t>& bytes, std::vector<uint64_t>& words) {
  words.assign((bytes.size() + 7) / 8, 0);
  if (!bytes.empty()) std::memcpy(words.data(), bytes.data(), bytes.size());
  return {reinterpret_cast<const uint8_t*>(words.data()), bytes.size()};
}

template <typename T>
std::vector<T> copy_of(std::span<const T> values) {
  return {values.begin(), values.end()};
}

struct Sample {
  std::vector<int32_t> tokens = {1, 2, 3, 4, 5}, rows = {0, 4}, positions = {2}, spans = {7}, prompt = {9, 8, 7};
  std::vector<float> hidden = {0.5f, -1}, overlay = {3, 4, 5};
  std::vector<uint8_t> saved = {2, 3, 4};
  std::vector<int64_t> ends = {64, 128};
  std::vector<IdRange> never = {{7, 9}, {100, 128}};
  Command command;
  Sample() {
    command.kind = Command::Kind::kForward;
    command.dropped = {3, 1}, command.sequence = 17, command.copy = 18, command.entry = "draft.1", command.count = -2;
    command.prompt = prompt, command.resume.only_equal = true, command.resume.static_prefix = 64, command.resume.message_ends = ends;
    command.saved = saved;
    command.feeds = {{17, tokens, rows, hidden, {overlay, positions, spans}}, {19, prompt, {}, {}, {}}};
    command.chunk = 128, command.decode_step = 3, command.taps = {"hidden", "draft.hidden"};
    command.best_only = true, command.never = never;
  }
};

TEST(Wire, ACommandArrivesAsItWas) {
  const Sample sample;
  parallel::Writer out;
  write(out, sample.command);
  std::vector<uint64_t> words;
  parallel::Reader in(aligned(out.bytes(), words));
  const Command found = read_command(in);
  EXPECT_TRUE(in.is_at_end());
  EXPECT_EQ(found.kind, Command::Kind::kForward);
  EXPECT_EQ(found.dropped, sample.command.dropped);
  EXPECT_EQ(found.sequence, 17u);
  EXPECT_EQ(found.copy, 18u);
  EXPECT_EQ(found.entry, "draft.1");
  EXPECT_EQ(found.count, -2);
  EXPECT_EQ(copy_of(found.prompt), sample.prompt);
  EXPECT_TRUE(found.resume.only_equal);
  EXPECT_EQ(found.resume.static_prefix, 64);
  EXPECT_EQ(copy_of(found.resume.message_ends), sample.ends);
  EXPECT_EQ(copy_of(found.saved), sample.saved);
  ASSERT_EQ(found.feeds.size(), 2u);
  EXPECT_EQ(copy_of(found.feeds[0].tokens), sample.tokens);
  EXPECT_EQ(copy_of(found.feeds[0].output_rows), sample.rows);
  EXPECT_EQ(copy_of(found.feeds[0].hidden), sample.hidden);
  EXPECT_EQ(copy_of(found.feeds[0].overlay.rows), sample.overlay);
  EXPECT_EQ(copy_of(found.feeds[0].overlay.positions), sample.positions);
  EXPECT_EQ(copy_of(found.feeds[0].overlay.spans), sample.spans);
  EXPECT_EQ(found.feeds[1].sequence, 19u);
  EXPECT_TRUE(found.feeds[1].output_rows.empty());
  EXPECT_EQ(found.chunk, 128u);
  EXPECT_EQ(found.decode_step, 3u);
  EXPECT_EQ(found.taps, sample.command.taps);
  EXPECT_TRUE(found.best_only);
  ASSERT_EQ(found.never.size(), 2u);
  EXPECT_EQ(found.never[1].begin, 100);
  EXPECT_EQ(found.never[1].end, 128);
}

TEST(Wire, OptionsArriveAsTheyWere) {
  Load load;
  load.options.path = "model.gguf", load.options.prefer = {"a", "bc"}, load.options.context = 1 << 20, load.options.prefix_cache_bytes = -1;
  load.options.precision = Precision::kExact, load.options.capture = false, load.options.tensor_parallel = 4, load.options.cache_type_v = "q8_0";
  load.options.progress = [](const Progress&) {};
  load.ranks_here = 3;
  parallel::Writer out;
  write(out, load);
  std::vector<uint64_t> words;
  parallel::Reader in(aligned(out.bytes(), words));
  const Load found = read_load(in);
  EXPECT_TRUE(in.is_at_end());
  EXPECT_EQ(found.options.path, "model.gguf");
  EXPECT_EQ(found.options.prefer, load.options.prefer);
  EXPECT_EQ(found.options.context, 1 << 20);
  EXPECT_EQ(found.options.prefix_cache_bytes, -1);
  EXPECT_EQ(found.options.precision, Precision::kExact);
  EXPECT_FALSE(found.options.capture);
  EXPECT_EQ(found.options.tensor_parallel, 4u);
  EXPECT_EQ(found.options.cache_type_v, "q8_0");
  EXPECT_EQ(found.ranks_here, 3u);
  EXPECT_FALSE(found.options.progress);
}

// Cut anywhere, or with a count that its bytes cannot hold: refused, without memory for what is not there.
TEST(Wire, WhatIsCutShortIsRefused) {
  const Sample sample;
  parallel::Writer out;
  write(out, sample.command);
  const std::vector<uint8_t>& all = out.bytes();
  for (size_t n = 0; n < all.size(); n += 8) {
    std::vector<uint64_t> words;
    parallel::Reader in(aligned({all.begin(), all.begin() + ptrdiff_t(n)}, words));
    EXPECT_THROW(read_command(in), Error) << n << " of " << all.size() << " bytes";
  }
  for (size_t at = 0; at < all.size(); at += 8) {
    std::vector<uint8_t> bytes = all;
    std::fill_n(bytes.begin() + ptrdiff_t(at), 8, uint8_t(0x7f));
    std::vector<uint64_t> words;
    parallel::Reader in(aligned(bytes, words));
    try {
      read_command(in);  // where a value was changed, not a count
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace tenon::engine::wire
