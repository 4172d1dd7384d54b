#include "engine/prefix_index.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <random>
#include <set>
#include <tenon/error.hpp>

#include "engine/chunks.hpp"
#include "engine/prefill_plan.hpp"
#include "fakes.hpp"

namespace tenon::engine {
namespace {

constexpr int64_t kGrid = TENON_PAGE_TOKENS;

struct Kinds {
  const char* name;
  bool full, window, state;
};

graph::Graph graph_of(const Kinds& kinds) {
  graph::Graph graph;
  const auto add = [&](uint32_t kind, uint32_t heads, int64_t k, int64_t v, int32_t window) {
    graph::Store s;
    s.kind = kind, s.heads = heads, s.cols_k = k, s.cols_v = v, s.window = window, s.tape_cols = window ? 0 : 4;
    graph.stores.push_back(s);
  };
  if (kinds.full) add(TENON_STORE_PAGED, 1, 4, 4, 0);
  if (kinds.window) add(TENON_STORE_PAGED, 1, 4, 4, 100), add(TENON_STORE_PAGED, 1, 4, 4, 20);
  if (kinds.state) add(TENON_STORE_CONV, 0, 4, 3, 0), add(TENON_STORE_RECURRENT, 1, 4, 4, 0);
  return graph;
}

// Sequences that write, for every token, a number made of all tokens before it: what is reused must have been written
// for the same tokens.
class PrefixIndexTest : public ::testing::TestWithParam<Kinds> {
 protected:
  struct Live {
    store::SequenceState state;
    LiveText text;
  };

  void make(int64_t cache_bytes, uint32_t max_sequences = 3) {
    live_.clear(), index_.reset(), stores_.reset();
    store::StoreOptions options;
    options.context = 1024, options.max_sequences = max_sequences, options.max_step_tokens = 128;
    options.prefix_cache_bytes = cache_bytes;
    stores_ = std::make_unique<store::Stores>(graph_of(GetParam()), options, registry_, device_.device());
    index_ = std::make_unique<PrefixIndex>(*stores_);
    n_free_.clear();
    for (size_t g = 0; g < stores_->n_groups(); ++g) n_free_.push_back(stores_->page_pool(g).n_free());
    n_snapshots_ = stores_->n_free_snapshots();
  }
  Live& begin() {
    Live& live = live_.emplace_back();
    live.state = stores_->create();
    live.text.is_known = true;
    index_->enter(live.text, nullptr);
    return live;
  }
  void drop(Live& live) {
    index_->leave(live.text);
    stores_->drop(live.state);
    live.text = {};
  }
  // One step; ends on the grid at most.
  void step(Live& live, std::span<const int32_t> tokens, uint32_t phase = TENON_PHASE_PREFILL) {
    stores_->reserve(live.state, int64_t(tokens.size()));
    for (int32_t token : tokens) {
      live.text.tokens.push_back(token);
      write(live, int64_t(live.text.tokens.size()) - 1, digest(live.text.tokens));
    }
    stores_->stepped(live.state, int64_t(tokens.size()), phase);
    index_->count_tokens(tokens.size());
    index_->follow(live.text, live.state);
  }
  static uint8_t digest(std::span<const int32_t> tokens) {
    uint32_t h = 7;
    for (int32_t token : tokens) h = h * 31 + uint32_t(token) + 1;
    return uint8_t(h >> 8);
  }
  template <typename Visit>
  void visit(const Live& live, int64_t position, int32_t half, Visit&& visit) {
    const auto tables = stores_->tables(std::vector<tenon_addr>(stores_->n_groups()), 0);
    std::vector<int32_t> list(stores_->table_stride());
    size_t group = 0;
    for (size_t i = 0; i < tables.size(); ++i) {
      if (stores_->types()[i].kind == TENON_STORE_PAGED) {
        stores_->write_table(live.state, group++, list);
        const int32_t page = list[size_t(position / kGrid)];
        if (page >= 0)
          visit(
              reinterpret_cast<uint8_t*>(tables[i].base + uint64_t(tables[i].page_bytes * page + position % kGrid * 8)),
              8);
      } else if (position + 1 == int64_t(live.text.tokens.size())) {
        const bool conv = stores_->types()[i].kind == TENON_STORE_CONV;
        const uint64_t bytes = uint64_t(stores_->types()[i].cols_k * stores_->types()[i].cols_v * 4);
        visit(reinterpret_cast<uint8_t*>(tables[i].base + uint64_t(tables[i].page_bytes) * live.state.slot +
                                         (conv ? bytes * uint64_t(half) : 0)),
              bytes);
      }
    }
  }
  void write(const Live& live, int64_t position, uint8_t value) {
    visit(live, position, 1 - live.state.half, [&](uint8_t* at, uint64_t n) { std::memset(at, value, n); });
  }
  // Everything that a query behind the text can read.
  void expect_right(const Live& live) {
    const auto& tokens = live.text.tokens;
    ASSERT_EQ(int64_t(tokens.size()), live.state.length);
    for (int64_t p = 0; p < live.state.length; ++p) {
      const uint8_t value = digest(std::span(tokens).first(size_t(p + 1)));
      visit(live, p, live.state.half, [&](uint8_t* at, uint64_t n) {
        for (uint64_t i = 0; i < n; ++i) ASSERT_EQ(at[i], value) << "position " << p << " of " << tokens.size();
      });
    }
    for (size_t g = 0; g < stores_->n_groups(); ++g)
      for (int64_t p = stores_->first_page_in_reach(g, live.state.length); p * kGrid < live.state.length; ++p)
        ASSERT_GE(live.state.pages[g][size_t(p)], 0);
  }
  // As the engine does it.
  int64_t resume(Live& live, const std::vector<int32_t>& prompt, bool only_equal = false) {
    const auto match = index_->find(prompt, int64_t(prompt.size()) - 16, only_equal);
    EXPECT_LE(match.prefix.length, match.matched);
    if (!match.prefix.length) {
      stores_->truncate(live.state, 0);
      live.text.tokens.clear();
      index_->follow(live.text, live.state);
      return 0;
    }
    stores_->adopt(live.state, match.prefix);
    live.text.tokens.assign(prompt.begin(), prompt.begin() + match.prefix.length);
    index_->enter(live.text, match.node);
    expect_right(live);
    EXPECT_EQ(match.is_equal, match.prefix.exact == match.prefix.length);
    return match.prefix.length;
  }
  void feed(Live& live, const std::vector<int32_t>& prompt, const ResumeOptions& options = {}) {
    live.text.wanted = wanted_checkpoints(int64_t(prompt.size()), options, stores_->cache().n_checkpoints);
    int64_t at = live.state.length;
    for (const auto& [n, mark] : plan_prefill(at, int64_t(prompt.size()) - at, 128,
                                              index_->takes_checkpoints() ? &live.text.wanted : nullptr)) {
      step(live, std::span(prompt).subspan(size_t(at), size_t(n)));
      if (mark) index_->checkpoint(live.text, live.state, *mark);
      at += n;
    }
  }
  void expect_all_free() {
    for (size_t g = 0; g < stores_->n_groups(); ++g)
      EXPECT_EQ(stores_->page_pool(g).n_free(), n_free_[g]) << "group " << g;
    EXPECT_EQ(stores_->n_free_snapshots(), n_snapshots_);
    EXPECT_EQ(index_->bytes(), 0u);
    EXPECT_EQ(index_->n_nodes() + index_->n_checkpoints(), 0);
  }
  static std::vector<int32_t> text(uint32_t seed, size_t n) {
    std::mt19937 random(seed);
    std::vector<int32_t> out(n);
    for (int32_t& token : out) token = int32_t(random() % 1000);
    return out;
  }

  plugin::Registry registry_;
  core_test::FakeDevice device_;
  std::unique_ptr<store::Stores> stores_;
  std::unique_ptr<PrefixIndex> index_;
  std::deque<Live> live_;
  std::vector<int64_t> n_free_;
  int64_t n_snapshots_ = 0;
};

TEST_P(PrefixIndexTest, FindsTheLongestBeginOnTheGrid) {
  make(store::kChosenCache);
  Live& a = begin();
  const auto prompt = text(1, 300);
  feed(a, prompt);
  EXPECT_EQ(index_->find(prompt, 284, true).prefix.length, 256);
  EXPECT_EQ(index_->find(prompt, 284, true).matched, 256);
  EXPECT_EQ(index_->find(prompt, 255, true).prefix.length, GetParam().window || GetParam().state ? 0 : 192);
  auto other = prompt;
  other[200] = -5;
  EXPECT_EQ(index_->find(other, 284, true).matched, 200);
  EXPECT_EQ(index_->find(std::span(prompt).first(150), 284, true).matched, 150);
  EXPECT_EQ(index_->find(text(2, 300), 284, true).matched, 0);
  EXPECT_EQ(index_->find({}, 284, true).matched, 0);
  Live& b = begin();
  EXPECT_EQ(resume(b, prompt), 256);
  drop(a), drop(b);
  EXPECT_GT(index_->bytes(), 0u);
  index_->clear();
  expect_all_free();
}

TEST_P(PrefixIndexTest, WhatDecodeMadeIsMarkedUntilPrefillMakesIt) {
  make(store::kChosenCache);
  Live& a = begin();
  const auto prompt = text(3, 300);
  feed(a, {prompt.begin(), prompt.begin() + 100});
  for (size_t i = 100; i < 300; ++i) {
    step(a, std::span(prompt).subspan(i, 1), TENON_PHASE_DECODE);
    if (a.state.length % kGrid == 0) index_->checkpoint(a.text, a.state, Mark::kSpaced);
  }
  EXPECT_EQ(index_->find(prompt, 284, false).prefix.length, 256);
  EXPECT_FALSE(index_->find(prompt, 284, false).is_equal);
  EXPECT_LT(index_->find(prompt, 284, false).prefix.exact, 256);
  EXPECT_EQ(index_->find(prompt, 284, true).prefix.length, 64);
  Live& b = begin();
  EXPECT_EQ(resume(b, prompt, true), 64);
  feed(b, prompt);
  EXPECT_EQ(index_->find(prompt, 284, true).prefix.length, 256);
  EXPECT_TRUE(index_->find(prompt, 284, false).is_equal);
  drop(a), drop(b);
  index_->clear();
  expect_all_free();
}

TEST_P(PrefixIndexTest, AnAbandonedTailWithoutCheckpointsIsGivenUp) {
  if (!GetParam().window && !GetParam().state) GTEST_SKIP() << "every page can be resumed from";
  make(store::kChosenCache);
  Live& a = begin();
  feed(a, text(4, 100));
  const uint64_t before = index_->bytes();
  step(a, text(5, 120), TENON_PHASE_DECODE);
  if (GetParam().full) {
    EXPECT_GT(index_->bytes(), before);
  }
  drop(a);
  EXPECT_EQ(index_->bytes(), before);
  EXPECT_EQ(index_->n_nodes(), 1);
}

// Many texts go through little memory: all answers stay right, live sequences keep what they hold, and at the end every
// page and snapshot is free again.
TEST_P(PrefixIndexTest, AnyScriptKeepsTheBooks) {
  for (uint32_t seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE(seed);
    make(std::vector<int64_t>{1, 3000, 9000, 60000}[seed % 4]);
    std::mt19937 random(seed);
    std::vector<std::vector<int32_t>> known = {text(seed, 400)};
    std::vector<Live*> all;
    int64_t n_reused = 0;
    for (int i = 0; i < 80; ++i) {
      const uint32_t dice = random() % 10;
      if (all.empty() || (dice == 0 && all.size() < 3)) {
        all.push_back(&begin());
        continue;
      }
      const size_t which = random() % all.size();
      Live& live = *all[which];
      if (dice < 6) {
        const auto& old = known[random() % known.size()];
        std::vector<int32_t> prompt(old.begin(), old.begin() + ptrdiff_t(random() % old.size()));
        const auto more = text(random(), 16 + random() % 200);
        prompt.insert(prompt.end(), more.begin(), more.end());
        if (prompt.size() > 900) continue;
        n_reused += resume(live, prompt, random() % 2);
        const std::vector<int64_t> ends = {int64_t(random() % prompt.size()), int64_t(prompt.size())};
        feed(live, prompt, {.static_prefix = 70, .message_ends = ends});
        known.push_back(prompt);
      } else if (dice < 9) {
        for (uint32_t n = random() % 100; n-- > 0 && live.state.length < 1000;) {
          step(live, text(random(), 1), TENON_PHASE_DECODE);
          if (live.state.length % kGrid == 0) index_->checkpoint(live.text, live.state, Mark::kSpaced);
        }
      } else {
        drop(live);
        all.erase(all.begin() + ptrdiff_t(which));
      }
      for (Live* one : all) ASSERT_NO_FATAL_FAILURE(expect_right(*one)) << "call " << i;
      ASSERT_LE(index_->n_checkpoints(), stores_->cache().n_checkpoints);
    }
    if (stores_->cache().n_checkpoints > 3) {
      EXPECT_GT(n_reused, 0);
    }
    for (Live* one : all) drop(*one);
    index_->clear();
    expect_all_free();
  }
}

// A page that only the index holds goes to a live sequence that needs it.
TEST_P(PrefixIndexTest, LiveSequencesGetThePagesThatTheyNeed) {
  make(2000);
  for (uint32_t seed = 0; seed < 6; ++seed) {
    Live& live = begin();
    feed(live, text(seed, 1024));
    expect_right(live);
    drop(live);
  }
  std::vector<Live*> all = {&begin(), &begin(), &begin()};
  for (uint32_t i = 0; i < 3; ++i) ASSERT_NO_THROW(feed(*all[i], text(20 + i, 1024)));
  for (Live* one : all) expect_right(*one);
}

// Of one text checkpoints are kept close at its end and wide apart at its begin; where messages end they stay longer.
TEST_P(PrefixIndexTest, TheMostUsefulCheckpointsAreKept) {
  if (!GetParam().state) GTEST_SKIP() << "counts snapshots";
  make(1 << 16);
  const int64_t most = stores_->cache().n_checkpoints;
  ASSERT_GT(most, 4);
  Live& a = begin();
  feed(a, text(30, 200), {.static_prefix = 70});
  while (a.state.length < 1000) {
    step(a, text(uint32_t(a.state.length), 1), TENON_PHASE_DECODE);
    if (a.state.length % kGrid == 0) index_->checkpoint(a.text, a.state, Mark::kSpaced);
  }
  EXPECT_EQ(index_->find(a.text.tokens, 960, false).prefix.length, 960);
  EXPECT_EQ(index_->find(std::span(a.text.tokens).first(90), 74, true).prefix.length, 64) << "the static prefix";
  EXPECT_EQ(index_->find(std::span(a.text.tokens).first(200), 184, true).prefix.length, 128) << "the prompt's end";
}

INSTANTIATE_TEST_SUITE_P(Kinds, PrefixIndexTest,
                         ::testing::Values(Kinds{"Full", true, false, false}, Kinds{"Window", true, true, false},
                                           Kinds{"State", true, false, true}, Kinds{"All", true, true, true},
                                           Kinds{"WindowOnly", false, true, false},
                                           Kinds{"StateOnly", false, false, true}),
                         [](const auto& info) { return info.param.name; });

// ---- where checkpoints are left

using Wanted = std::map<int64_t, Mark>;

TEST(PrefillPlanTest, WantedPositionsAreOnTheGrid) {
  const std::vector<int64_t> ends = {10, 130, 200, 1000};
  const Wanted found = wanted_checkpoints(400, {.static_prefix = 70, .message_ends = ends}, 16);
  EXPECT_EQ(
      found,
      (Wanted{
          {64, Mark::kStaticPrefix}, {128, Mark::kMessageEnd}, {192, Mark::kMessageEnd}, {384, Mark::kMessageEnd}}));
  const std::vector<int64_t> odd = {-5};
  EXPECT_EQ(wanted_checkpoints(79, {.static_prefix = -1, .message_ends = odd}, 16), Wanted{});
  EXPECT_EQ(wanted_checkpoints(80, {}, 16), (Wanted{{64, Mark::kMessageEnd}}));
  std::vector<int64_t> many;
  for (int64_t i = 1; i < 50; ++i) many.push_back(i * 64);
  EXPECT_EQ(wanted_checkpoints(3300, {.message_ends = many}, 8).size(), 5u) << "the last ones";
}

TEST(PrefillPlanTest, ChunksEndWhereCheckpointsAreWanted) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    const int64_t begin = random() % 200, n = 16 + random() % 1500, cap = 64 * (1 + random() % 8);
    Wanted wanted;
    for (int i = 0; i < 4; ++i) wanted[int64_t(random() % 30) * 64] = Mark::kMessageEnd;
    int64_t at = begin;
    std::set<int64_t> marked;
    for (const auto& [length, mark] : plan_prefill(begin, n, cap, &wanted)) {
      if (length < 16) {
        ASSERT_TRUE(at == begin && begin % 64 && mark) << "up to the first wanted position";
      }
      ASSERT_GT(length, 0);
      ASSERT_LE(length, longest_chunk(cap));
      at += length;
      if (mark) {
        ASSERT_EQ(at % 64, 0);
        marked.insert(at);
      }
      ASSERT_TRUE(at % 64 == 0 || at == begin + n);
    }
    ASSERT_EQ(at, begin + n);
    for (const auto& [position, mark] : wanted) {
      if (position > begin && position <= begin + n - 16) {
        ASSERT_TRUE(marked.count(position)) << position << " of " << begin << " + " << n;
      }
    }
  }
}

TEST(PrefillPlanTest, LongPromptsLeaveFewSpacedCheckpoints) {
  const Wanted none;
  std::vector<int64_t> marked;
  int64_t at = 0;
  for (const auto& [length, mark] : plan_prefill(0, 8000, 512, &none)) {
    at += length;
    if (mark) marked.push_back(8000 - at);
  }
  EXPECT_EQ(marked, (std::vector<int64_t>{4416, 2368, 1344, 832}));
  for (const auto& chunk : plan_prefill(0, 8000, 512, nullptr)) EXPECT_FALSE(chunk.mark);
}

}  // namespace
}  // namespace tenon::engine
