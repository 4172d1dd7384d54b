#include "store/stores.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <tenon/error.hpp>

#include "fakes.hpp"

namespace tenon::store {
namespace {

using core_test::FakeDevice;

constexpr int64_t kPage = TENON_PAGE_TOKENS;

// Paged stores (all tokens, a window of 40), on demand a convolution and a recurrent state, and latent rows.
graph::Graph graph_of(bool recurrent) {
  graph::Graph graph;
  const auto add = [&](uint32_t kind, uint32_t heads, int64_t k, int64_t v, int32_t window, int64_t tape) {
    graph::Store s;
    s.kind = kind, s.heads = heads, s.cols_k = k, s.cols_v = v, s.window = window, s.tape_cols = tape;
    graph.stores.push_back(s);
  };
  add(TENON_STORE_PAGED, 2, 16, 8, 0, 0);
  add(TENON_STORE_PAGED, 1, 8, 8, 40, 0);
  add(TENON_STORE_PAGED, 1, 4, 4, 40, 0);
  if (recurrent) add(TENON_STORE_CONV, 0, 12, 3, 0, 12), add(TENON_STORE_RECURRENT, 2, 8, 4, 0, 20);
  add(TENON_STORE_LATENT, 1, 6, 0, 0, 0);
  return graph;
}

class StoresTest : public ::testing::TestWithParam<bool> {
 protected:
  void make(int64_t context = 512, uint32_t max_sequences = 3, uint32_t max_step = 128, int64_t cache = 0) {
    stores_.reset();
    StoreOptions options;
    options.prefix_cache_bytes = cache;
    options.context = context, options.max_sequences = max_sequences, options.max_step_tokens = max_step;
    stores_ = std::make_unique<Stores>(graph_of(GetParam()), options, registry_, device_.device());
    tables_.assign(stores_->n_groups() * stores_->table_stride(), -2);
    n_pages_.clear();
    for (size_t g = 0; g < stores_->n_groups(); ++g) n_pages_.push_back(stores_->page_pool(g).n_free());
  }
  void SetUp() override { make(); }

  // Page ids of a group as a step sees them.
  std::vector<int32_t> pages(const SequenceState& s, size_t group) {
    std::vector<int32_t> out(stores_->table_stride(), -2);
    stores_->write_table(s, group, out);
    return out;
  }
  // What a step of n tokens does: reserve, write something into every new row and state, go on.
  void step(SequenceState& s, int64_t n, int salt = 0, uint32_t phase = TENON_PHASE_DECODE) {
    stores_->reserve(s, n);
    fill(s, n, salt);
    stores_->stepped(s, n, phase);
  }
  // Rows hold a number made of store, position and salt, so that a restored row shows where it came from.
  void fill(const SequenceState& s, int64_t n, int salt) {
    const auto tables = stores_->tables({0, 0}, 0);
    for (size_t i = 0; i < tables.size(); ++i) {
      const tenon_store_type& type = stores_->types()[i];
      if (!graph::is_paged(type.kind)) {
        const uint64_t half =
            type.kind == TENON_STORE_CONV ? uint64_t(type.cols_k * type.cols_v * 4) * uint64_t(1 - s.half) : 0;
        std::memset(at(tables[i], s.slot) + half, int(s.length + n + int64_t(i)) + salt,
                    size_t(type.cols_k * type.cols_v * 4));
        continue;
      }
      const auto list = pages(s, type.window ? 1 : 0);
      for (int64_t p = s.length; p < s.length + n; ++p) {
        for (uint32_t h = 0; h < type.heads; ++h) {
          const int64_t k = type.cols_k / type.heads * 2, v = type.cols_v / type.heads * 2;  // f16
          uint8_t* page = at(tables[i], uint32_t(list[size_t(p / kPage)]));
          std::memset(page + (h * kPage + p % kPage) * k, int(p * 7 + int64_t(i) + h) + salt, size_t(k));
          std::memset(page + tables[i].value_offset + (h * kPage + p % kPage) * v, int(p * 5 + int64_t(i) + h) + salt,
                      size_t(v));
        }
      }
    }
  }
  static uint8_t* at(const tenon_store& table, uint32_t page) {
    return reinterpret_cast<uint8_t*>(table.base + uint64_t(table.page_bytes) * page);
  }
  SequenceState sequence_of(int64_t length) {
    SequenceState s = stores_->create();
    while (s.length < length) step(s, std::min<int64_t>(100, length - s.length));
    return s;
  }
  // Bookkeeping that must hold after any call: pages are counted as often as they are held, and reach what a query can
  // read.
  void expect_sound(const std::vector<const SequenceState*>& all) {
    for (size_t g = 0; g < stores_->n_groups(); ++g) {
      std::map<int32_t, uint32_t> held;
      for (const SequenceState* s : all) {
        const int64_t window = g == 0 ? 0 : 40;
        const int64_t oldest = window ? std::max<int64_t>(0, (s->is_open ? s->base : s->length) - (window - 1)) : 0;
        for (size_t p = 0; p < s->pages[g].size(); ++p) {
          const int32_t page = s->pages[g][p];
          if (page >= 0) {
            ++held[page];
          } else {
            ASSERT_LE(int64_t(p + 1) * kPage, oldest) << "a page in reach was given back";
          }
        }
        ASSERT_GE(int64_t(s->pages[g].size()) * kPage, s->length);
      }
      for (const auto& [page, n] : held) ASSERT_EQ(stores_->page_pool(g).holders(page), n) << "page " << page;
    }
  }

  // All pages of a group, counted before anything is live.
  int64_t n_pages(size_t group) const { return n_pages_[group]; }

  plugin::Registry registry_;
  FakeDevice device_;
  std::vector<int64_t> n_pages_;
  std::unique_ptr<Stores> stores_;
  std::vector<int32_t> tables_;
};

ErrorKind kind_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.kind();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorKind::kRuntime;
}

TEST_P(StoresTest, TypesFollowTheOptions) {
  const auto& types = stores_->types();
  EXPECT_EQ(types[0].dtype_k, uint32_t(TENON_DTYPE_F16));
  EXPECT_EQ(types[0].layout, 0u);
  EXPECT_EQ(types.back().kind, uint32_t(TENON_STORE_LATENT));
  EXPECT_EQ(types.back().dtype_v, types.back().dtype_k);
  EXPECT_EQ(stores_->n_groups(), 2u) << "stores of one window share their pages";
  EXPECT_EQ(stores_->has_recurrent(), GetParam());
  if (GetParam()) {
    EXPECT_EQ(types[4].dtype_k, uint32_t(TENON_DTYPE_F32));
  }
  const auto tables = stores_->tables({100, 200}, 300);
  EXPECT_EQ(tables[0].table, 100u);
  EXPECT_EQ(tables[1].table, 200u);
  EXPECT_EQ(tables[2].table, 200u);
  EXPECT_EQ(tables[0].page_tokens, uint32_t(kPage));
  EXPECT_EQ(tables[0].value_offset, 2 * kPage * 8 * 2);
  EXPECT_EQ(tables.back().table, 100u) << "latent rows lie in pages of all tokens";
  EXPECT_EQ(tables.back().page_bytes, kPage * 6 * 2) << "and there are no values beside them";
  if (GetParam()) {
    EXPECT_EQ(tables[3].table, 300u);
  }
}

TEST_P(StoresTest, PagesComeAsTheyAreNeeded) {
  SequenceState s = stores_->create();
  EXPECT_EQ(pages(s, 0)[0], -1);
  stores_->reserve(s, 1);
  EXPECT_GE(pages(s, 0)[0], 0);
  EXPECT_EQ(pages(s, 0)[1], -1);
  EXPECT_EQ(s.length, 0) << "reserving is not writing";
  stores_->stepped(s, 1);
  EXPECT_EQ(s.length, 1);
  const auto before = pages(s, 0);
  stores_->reserve(s, 63);
  EXPECT_EQ(pages(s, 0), before) << "64 tokens fit one page";
  stores_->reserve(s, 64);
  EXPECT_GE(pages(s, 0)[1], 0);
  EXPECT_EQ(pages(s, 0).back(), -1);
}

TEST_P(StoresTest, AWindowGivesBackItsPagesAndNoOther) {
  SequenceState s = sequence_of(0);
  for (int64_t length = 0; length < 500; length += 20) {
    step(s, 20);
    expect_sound({&s});
  }
  // 500 tokens and a window of 40: keys 461 … can be reached, so pages 0 … 6 are gone.
  stores_->reserve(s, 1);
  const auto kept = pages(s, 1);
  for (int64_t p = 0; p < 7; ++p) EXPECT_EQ(kept[size_t(p)], -1) << p;
  EXPECT_GE(kept[7], 0);
  for (int32_t page : pages(s, 0)) {
    if (page < 0) break;
    EXPECT_GE(page, 0);
  }
  EXPECT_EQ(std::count_if(s.pages[0].begin(), s.pages[0].end(), [](int32_t p) { return p >= 0; }), 8);
}

TEST_P(StoresTest, AnOpenTransactionKeepsWhatItsBaseCanReach) {
  SequenceState s = sequence_of(64 + 39 - 1);  // the next query reads keys from 63 on
  stores_->begin(s);
  for (int i = 0; i < 15; ++i) {
    step(s, 1);
    expect_sound({&s});
    EXPECT_GE(pages(s, 1)[0], 0) << "rollback would need page 0";
  }
  stores_->commit(s, 15);
  step(s, 1);
  EXPECT_EQ(pages(s, 1)[0], -1);
}

TEST_P(StoresTest, AllSequencesFitTheirContextInStepsOfAnySize) {
  std::mt19937 random(4);
  std::vector<SequenceState> all;
  for (int i = 0; i < 3; ++i) all.push_back(stores_->create());
  while (true) {
    bool moved = false;
    for (SequenceState& s : all) {
      const int64_t n = std::min<int64_t>(1 + random() % 128, 512 - s.length);
      if (n <= 0) continue;
      ASSERT_NO_THROW(step(s, n));
      moved = true;
    }
    expect_sound({&all[0], &all[1], &all[2]});
    if (!moved) break;
  }
  for (SequenceState& s : all) {
    EXPECT_EQ(s.length, 512);
    EXPECT_EQ(kind_of([&] { stores_->reserve(s, 1); }), ErrorKind::kCapacity);
  }
}

TEST_P(StoresTest, CapacityErrorsChangeNothing) {
  SequenceState s = sequence_of(500);
  const auto before = s.pages;
  const auto saved = stores_->save(s);
  try {
    stores_->reserve(s, 13);
    FAIL() << "513 tokens went into 512";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCapacity);
    for (const char* part : {"512", "500", "13"})
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
  EXPECT_EQ(s.pages, before);
  EXPECT_EQ(s.length, 500);
  EXPECT_EQ(stores_->save(s), saved);
  step(s, 12);
  SequenceState b = stores_->create(), c = stores_->create();
  EXPECT_EQ(kind_of([&] { stores_->create(); }), ErrorKind::kCapacity);
  EXPECT_EQ(kind_of([&] { stores_->fork(s); }), ErrorKind::kCapacity);
  stores_->drop(b);
  SequenceState again = stores_->create();
  EXPECT_EQ(again.slot, b.slot);
  expect_sound({&s, &c, &again});
}

TEST_P(StoresTest, MemoryThatIsShortIsAnAnswer) {
  device_.limit_bytes = 10000;
  StoreOptions options;
  options.context = 4096;
  EXPECT_EQ(kind_of([&] { Stores(graph_of(GetParam()), options, registry_, device_.device()); }), ErrorKind::kCapacity);
}

TEST_P(StoresTest, DroppedPagesServeTheNext) {
  std::set<int32_t> first, second;
  for (auto* list : {&first, &second}) {
    SequenceState s = sequence_of(512);
    list->insert(s.pages[0].begin(), s.pages[0].end());
    stores_->drop(s);
  }
  EXPECT_EQ(first, second);
}

TEST_P(StoresTest, FreshSequencesBeginWithZeroState) {
  if (!GetParam()) GTEST_SKIP() << "no state to clear";
  SequenceState s = sequence_of(30);
  const uint32_t slot = s.slot;
  stores_->drop(s);
  s = stores_->create();
  ASSERT_EQ(s.slot, slot);
  EXPECT_EQ(s.half, 0);
  for (size_t i : {3u, 4u}) {
    const auto tables = stores_->tables({0, 0}, 0);
    const uint8_t* state = at(tables[i], slot);
    EXPECT_TRUE(std::all_of(state, state + tables[i].page_bytes, [](uint8_t b) { return b == 0; })) << i;
  }
}

TEST_P(StoresTest, TransactionsKeepTheirBooks) {
  SequenceState s = sequence_of(50);
  EXPECT_EQ(kind_of([&] { stores_->commit(s, 0); }), ErrorKind::kUsage);
  EXPECT_EQ(kind_of([&] { stores_->rollback(s); }), ErrorKind::kUsage);
  stores_->begin(s);
  EXPECT_EQ(kind_of([&] { stores_->begin(s); }), ErrorKind::kUsage);
  EXPECT_EQ(s.base, 50);
  EXPECT_EQ(s.tape, GetParam() ? 0 : -1);
  step(s, 4), step(s, 3);
  EXPECT_EQ(s.length, 57);
  EXPECT_EQ(s.tape_rows, GetParam() ? 7 : 0);
  EXPECT_EQ(kind_of([&] { stores_->commit(s, 8); }), ErrorKind::kUsage);
  EXPECT_EQ(kind_of([&] { stores_->commit(s, -1); }), ErrorKind::kUsage);
  EXPECT_EQ(kind_of([&] { stores_->truncate(s, 10); }), ErrorKind::kUsage);
  EXPECT_TRUE(s.is_open) << "what was refused closed nothing";
  stores_->commit(s, 5);
  EXPECT_FALSE(s.is_open);
  EXPECT_EQ(s.length, 55);
  EXPECT_EQ(s.accepted, GetParam() ? 5 : 0);
  stores_->begin(s);
  stores_->commit(s, 0);
  EXPECT_EQ(s.accepted, GetParam() ? 5 : 0) << "rows that no step has replayed still wait";
}

TEST_P(StoresTest, TapesAndHalvesAlternate) {
  if (!GetParam()) GTEST_SKIP() << "no tape";
  SequenceState s = sequence_of(20);
  const int32_t half = s.half;
  step(s, 1);
  EXPECT_EQ(s.half, 1 - half) << "a plain step writes the other half";
  stores_->begin(s);
  step(s, 5);
  EXPECT_EQ(s.half, 1 - half) << "a taped step leaves the base";
  stores_->commit(s, 2);
  EXPECT_EQ(s.replay, 0);
  stores_->begin(s);
  EXPECT_EQ(s.tape, 1) << "slot 0 is still to be replayed";
  step(s, 3);
  EXPECT_EQ(s.half, half) << "the replay wrote the base";
  EXPECT_EQ(s.accepted, 0);
  step(s, 2);
  EXPECT_EQ(s.half, half);
  stores_->rollback(s);
  EXPECT_EQ(s.length, 23);
  EXPECT_EQ(s.accepted, 0);
  stores_->begin(s);
  EXPECT_EQ(s.tape, 0);
  stores_->rollback(s);
  stores_->begin(s);
  step(s, 2);
  stores_->commit(s, 2);
  step(s, 40);  // a prompt behind it replays, then writes once
  EXPECT_EQ(s.half, 1 - half);
  EXPECT_EQ(s.accepted, 0);
}

TEST_P(StoresTest, TruncateKeepsWhatEveryStoreCanResume) {
  SequenceState s = sequence_of(300);
  stores_->reserve(s, 1);  // the window has given back pages 0 … 3
  EXPECT_EQ(stores_->truncate(s, 300), 300);
  EXPECT_EQ(stores_->truncate(s, 1000), 300);
  EXPECT_EQ(kind_of([&] { stores_->truncate(s, -1); }), ErrorKind::kUsage);
  if (GetParam()) {
    EXPECT_EQ(stores_->truncate(s, 299), 0) << "a state has no past";
    EXPECT_EQ(s.length, 0);
    return;
  }
  ASSERT_EQ(pages(s, 1)[3], -1);
  ASSERT_GE(pages(s, 1)[4], 0);
  SequenceState other = stores_->fork(s);
  // Page 4 begins at 256: a query at 295 reads keys from 256 on.
  EXPECT_EQ(stores_->truncate(s, 295), 295);
  expect_sound({&s, &other});
  EXPECT_EQ(stores_->truncate(s, 294), 0);
  EXPECT_EQ(std::count_if(s.pages[0].begin(), s.pages[0].end(), [](int32_t p) { return p >= 0; }), 0);
  step(s, 100);
  EXPECT_EQ(stores_->truncate(other, 295), 295);
  expect_sound({&s, &other});
}

TEST_P(StoresTest, ForkSaveAndRestoreKeepTheBytes) {
  for (int64_t length : {0, 1, 39, 40, 41, 64, 65, 103, 104, 300, 512}) {
    SCOPED_TRACE(length);
    SequenceState s = sequence_of(length);
    const auto bytes = stores_->save(s);
    SequenceState copy = stores_->fork(s);
    EXPECT_EQ(copy.length, length);
    EXPECT_EQ(stores_->save(copy), bytes);
    EXPECT_EQ(copy.pages[0], s.pages[0]) << "a fork shares its pages";
    expect_sound({&s, &copy});
    if (length < 512) step(copy, 1, 100);
    EXPECT_EQ(stores_->save(s), bytes) << "a fork goes its own way";
    SequenceState back = sequence_of(77);
    stores_->restore(back, bytes);
    EXPECT_EQ(stores_->save(back), bytes);
    EXPECT_EQ(back.accepted, 0);
    expect_sound({&s, &copy, &back});
    for (SequenceState* one : {&s, &copy, &back}) stores_->drop(*one);
  }
}

TEST_P(StoresTest, WhatAForkWritesStaysItsOwn) {
  for (int64_t length : {1, 40, 64, 100, 300}) {
    SCOPED_TRACE(length);
    SequenceState s = sequence_of(length);
    SequenceState a = stores_->fork(s), b = stores_->fork(a);
    const auto before = stores_->save(s);
    step(a, 20, 1);
    step(b, 90, 2);
    EXPECT_EQ(stores_->save(s), before);
    const auto of_a = stores_->save(a), of_b = stores_->save(b);
    step(s, 70, 3);
    EXPECT_EQ(stores_->save(a), of_a);
    EXPECT_EQ(stores_->save(b), of_b);
    EXPECT_NE(of_a, of_b);
    expect_sound({&s, &a, &b});
    for (SequenceState* one : {&s, &a, &b}) stores_->drop(*one);
    for (size_t g = 0; g < stores_->n_groups(); ++g) EXPECT_EQ(stores_->page_pool(g).n_free(), n_pages(g));
  }
}

// A copy of a shared page needs a free one; without it the sequence stays as it was.
TEST_P(StoresTest, ASharedPageIsCopiedOnlyWhereAPageIsFree) {
  SequenceState s = sequence_of(100);
  SequenceState fork = stores_->fork(s);
  std::vector<int32_t> taken;
  while (stores_->page_pool(0).n_free()) taken.push_back(stores_->page_pool(0).take());
  const auto before = stores_->save(fork);
  const auto pages_before = fork.pages;
  EXPECT_EQ(kind_of([&] { stores_->reserve(fork, 1); }), ErrorKind::kCapacity);
  EXPECT_EQ(fork.pages, pages_before);
  EXPECT_EQ(stores_->save(fork), before);
  size_t asked = 0;
  stores_->set_reclaim([&](size_t group) {
    if (group || taken.empty()) return false;
    ++asked;
    stores_->page_pool(group).release(taken.back());
    taken.pop_back();
    return true;
  });
  step(fork, 1, 5);
  EXPECT_EQ(asked, 1u);
  EXPECT_EQ(stores_->save(s), before);
  EXPECT_NE(stores_->save(fork), before);
}

// What prefill steps on the grid wrote is known to be what a cold run would have left.
TEST_P(StoresTest, ExactLengthsEndWhereDecodeBegan) {
  SequenceState s = stores_->create();
  step(s, 128, 0, TENON_PHASE_PREFILL);
  EXPECT_EQ(s.exact, 128);
  step(s, 36, 0, TENON_PHASE_PREFILL);
  EXPECT_EQ(s.exact, 164);
  SequenceState fork = stores_->fork(s);
  EXPECT_EQ(fork.exact, 164);
  step(fork, 28, 0, TENON_PHASE_PREFILL);
  EXPECT_EQ(fork.exact, 164) << "off the grid";
  step(s, 28);
  EXPECT_EQ(s.length, 192);
  EXPECT_EQ(s.exact, 164);
  step(s, 64, 0, TENON_PHASE_PREFILL);
  EXPECT_EQ(s.exact, 164) << "behind decode steps";
  stores_->restore(fork, stores_->save(s));
  EXPECT_EQ(fork.exact, 0) << "nobody knows";
  if (GetParam()) return;
  EXPECT_EQ(stores_->truncate(s, 200), 200);
  EXPECT_EQ(s.exact, 164);
}

TEST_P(StoresTest, PrefixesAreAdoptedWithTheirPagesAndStates) {
  make(512, 3, 128, 1 << 20);
  ASSERT_GT(stores_->cache().n_checkpoints, 0);
  SequenceState s = stores_->create();
  step(s, 128, 0, TENON_PHASE_PREFILL);
  const auto bytes = stores_->save(s);
  StoredPrefix prefix;
  prefix.length = 128, prefix.exact = 128, prefix.pages = s.pages;
  for (size_t g = 0; g < 2; ++g)
    for (int32_t page : prefix.pages[g])
      if (page >= 0) stores_->page_pool(g).share(page);
  const int64_t n_snapshots = stores_->n_free_snapshots();
  if (GetParam()) {
    prefix.snapshot = stores_->take_snapshot(s);
    EXPECT_EQ(stores_->n_free_snapshots(), n_snapshots - 1);
  }
  step(s, 100, 9);
  SequenceState other = sequence_of(77);
  stores_->adopt(other, prefix);
  EXPECT_EQ(other.length, 128);
  EXPECT_EQ(other.exact, 128);
  EXPECT_EQ(stores_->save(other), bytes);
  step(other, 50, 4);
  EXPECT_EQ(other.exact, 128);
  stores_->adopt(s, prefix);
  EXPECT_EQ(stores_->save(s), bytes) << "again, and over what it held";
  stores_->drop(s), stores_->drop(other);
  for (size_t g = 0; g < 2; ++g)
    for (int32_t page : prefix.pages[g]) stores_->page_pool(g).release(page);
  if (GetParam()) stores_->drop_snapshot(prefix.snapshot);
  EXPECT_EQ(stores_->n_free_snapshots(), n_snapshots);
  for (size_t g = 0; g < 2; ++g) EXPECT_EQ(stores_->page_pool(g).n_free(), n_pages(g));
}

TEST_P(StoresTest, TheCacheTakesWhatItsPlanSays) {
  const uint64_t without = stores_->bytes();
  EXPECT_EQ(stores_->cache().bytes, 0u);
  EXPECT_FALSE(stores_->cache().is_on());
  for (int64_t limit : {int64_t(1), int64_t(5000), int64_t(1) << 20}) {
    make(512, 3, 128, limit);
    EXPECT_EQ(stores_->cache().limit_bytes, uint64_t(limit));
    EXPECT_LE(stores_->cache().bytes, uint64_t(limit));
    EXPECT_EQ(stores_->bytes(), without + stores_->cache().bytes);
  }
  make(512, 3, 128, kChosenCache);
  EXPECT_EQ(stores_->bytes(), without + stores_->cache().bytes);
  EXPECT_GE(stores_->cache().n_checkpoints, 10);
  EXPECT_GE(stores_->cache().n_pages, 8);
}

// A restored sequence can be cut back as far as the saved one.
TEST_P(StoresTest, RestoredWindowsReachAsFarBack) {
  if (GetParam()) GTEST_SKIP() << "a state has no past";
  SequenceState s = sequence_of(300);
  SequenceState copy = stores_->fork(s);
  ASSERT_EQ(stores_->truncate(copy, 296), 296);
  ASSERT_EQ(stores_->truncate(s, 296), 296);
  EXPECT_EQ(stores_->save(copy), stores_->save(s));
}

TEST_P(StoresTest, EqualHistoriesSaveEqualBytes) {
  SequenceState a = sequence_of(130), b = stores_->create();
  for (int64_t n : {64, 3, 50, 13}) step(b, n);
  if (a.half != b.half) step(a, 1), step(b, 1);
  EXPECT_EQ(stores_->save(a), stores_->save(b));
}

TEST_P(StoresTest, ARefusedRestoreLeavesTheSequence) {
  SequenceState s = sequence_of(150), other = sequence_of(90);
  const auto good = stores_->save(s), mine = stores_->save(other);
  std::vector<std::vector<uint8_t>> bad = {{}, {1, 2, 3}, good, good, good, good, good, good};
  bad[2].pop_back();
  bad[3].push_back(0);
  bad[4][0] ^= 1;  // magic
  bad[5][8] ^= 1;  // number of stores
  const int64_t lengths[] = {-1, 513};
  for (int i = 0; i < 2; ++i) std::memcpy(bad[size_t(6 + i)].data() + 24, &lengths[i], 8);
  for (size_t i = 0; i < bad.size(); ++i) {
    EXPECT_EQ(kind_of([&] { stores_->restore(other, bad[i]); }), ErrorKind::kUsage) << i;
    EXPECT_EQ(other.length, 90);
    EXPECT_EQ(stores_->save(other), mine) << i;
  }
  std::vector<uint8_t> shorter = good;  // a length that the bytes do not fit
  const int64_t length = 149;
  std::memcpy(shorter.data() + 24, &length, 8);
  EXPECT_EQ(kind_of([&] { stores_->restore(other, shorter); }), ErrorKind::kUsage);
  EXPECT_EQ(stores_->save(other), mine);
}

TEST_P(StoresTest, HostileBytesGiveAnErrorOrASoundSequence) {
  SequenceState s = sequence_of(150), other = stores_->create();
  const auto good = stores_->save(s);
  std::mt19937 random(9);
  size_t n_refused = 0;
  for (int round = 0; round < 3000; ++round) {
    auto bytes = good;
    const uint32_t way = random() % 4;
    if (way == 0) bytes.resize(random() % (bytes.size() + 50));
    for (uint32_t k = way == 3 ? 1 : random() % 6; k-- > 0 && !bytes.empty();)
      bytes[random() % std::min<size_t>(bytes.size(), way == 1 ? bytes.size() : 32)] = uint8_t(random());
    try {
      stores_->restore(other, bytes);
      ASSERT_EQ(stores_->save(other), bytes);
    } catch (const Error& error) {
      ASSERT_TRUE(error.kind() == ErrorKind::kUsage || error.kind() == ErrorKind::kCapacity);
      ++n_refused;
    }
    expect_sound({&s, &other});
    ASSERT_NO_FATAL_FAILURE(step(other, other.length < 500 ? 1 : 0));
  }
  EXPECT_GT(n_refused, 1000u);
  EXPECT_EQ(stores_->save(s), good) << "others are untouched";
}

// Any order of calls keeps pages apart and every page counted: at the end all of them can be had again.
TEST_P(StoresTest, AnyOrderOfCallsKeepsTheBooks) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    make();
    std::mt19937 random(seed);
    std::vector<SequenceState> all;
    std::vector<std::vector<uint8_t>> saved;  // of each, where nothing is open
    for (int i = 0; i < 300; ++i) {
      if (all.empty() || (all.size() < 3 && random() % 10 == 0)) {
        all.push_back(stores_->create());
        saved.emplace_back();
        continue;
      }
      const size_t which = random() % all.size();
      SequenceState& s = all[which];
      size_t changed = which;
      const uint32_t dice = random() % 12;
      const auto settled = [&] { return !s.is_open && s.accepted == 0; };
      if (dice < 5) {
        const int64_t open = s.is_open ? s.length - s.base : 0;
        const int64_t n = s.is_open ? int64_t(random() % uint32_t(16 - open)) : int64_t(random() % 128);
        if (n > 0 && s.length + n <= 512) step(s, n, i);
      } else if (dice < 7) {
        s.is_open ? stores_->commit(s, int64_t(random() % uint32_t(s.length - s.base + 1))) : stores_->begin(s);
      } else if (dice == 7) {
        if (!s.is_open) stores_->truncate(s, int64_t(random() % 512));
      } else if (dice == 8 && settled() && all.size() < 3) {
        all.push_back(stores_->fork(s));
        saved.push_back(saved[which]);
      } else if (dice == 9 && settled()) {
        changed = random() % all.size();
        if (!all[changed].is_open) stores_->restore(all[changed], stores_->save(s));
      } else if (dice == 10) {
        stores_->drop(s);
        std::swap(s, all.back()), std::swap(saved[which], saved.back());
        all.pop_back(), saved.pop_back();
        changed = all.size();
      }
      for (size_t j = 0; j < all.size(); ++j) {
        if (j == changed || all[j].is_open || all[j].accepted) {
          saved[j] = all[j].is_open || all[j].accepted ? std::vector<uint8_t>() : stores_->save(all[j]);
        } else if (!saved[j].empty()) {
          ASSERT_EQ(stores_->save(all[j]), saved[j]) << "seed " << seed << ", call " << i << " changed another sequence";
        }
      }
      std::vector<const SequenceState*> live;
      for (const SequenceState& one : all) live.push_back(&one);
      expect_sound(live);
      if (HasFatalFailure()) FAIL() << "seed " << seed << ", call " << i;
    }
    for (SequenceState& s : all) stores_->drop(s);
    for (size_t g = 0; g < stores_->n_groups(); ++g)
      EXPECT_EQ(stores_->page_pool(g).n_free(), n_pages(g)) << "every page is free again";
    std::vector<SequenceState> full;
    for (int i = 0; i < 3; ++i) full.push_back(sequence_of(512));
    EXPECT_EQ(kind_of([&] { stores_->create(); }), ErrorKind::kCapacity);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, StoresTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Recurrent" : "Paged"; });

TEST(StoreOptionsTest, AHeadMustHoldWholeBlocks) {
  static tenon_dtype block = {};
  block.struct_size = sizeof block, block.name = core_test::str("blocky"), block.block_cols = 32,
  block.block_bytes = 18;
  plugin::Registry registry;
  registry.registered_dtypes.push_back(&block);
  FakeDevice device;
  StoreOptions options;
  options.context = 64, options.dtype_k = TENON_DTYPE_FIRST_REGISTERED;
  try {
    Stores(graph_of(false), options, registry, device.device());
    FAIL() << "heads of 8 columns went into blocks of 32";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find("blocky"), std::string::npos) << error.what();
  }
  EXPECT_EQ(device.n_allocations(), 0u);
}

// Nothing is listed page by page before there is memory for the pages.
TEST(StoreOptionsTest, ContextsBeyondAllMemoryAreRefusedAtOnce) {
  FakeDevice device;
  plugin::Registry registry;
  StoreOptions options;
  for (const auto& [context, sequences] : {std::pair<int64_t, uint32_t>{int64_t(1) << 40, 1}, {1000000000, 1024}}) {
    options.context = context, options.max_sequences = sequences;
    try {
      Stores(graph_of(false), options, registry, device.device());
      FAIL() << sequences << " sequences of " << context << " tokens were accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCapacity);
      EXPECT_NE(std::string(error.what()).find(std::to_string(context)), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(device.n_allocations(), 0u);
}

}  // namespace
}  // namespace tenon::store
