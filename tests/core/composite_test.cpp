#include "graph/composite.hpp"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>

#include "fakes.hpp"

namespace tenon::graph {
namespace {

using core_test::Builder;
using core_test::FakeSource;

std::string fault_of(std::string_view text) {
  try {
    parse_pattern(text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(CompositeTextTest, NamesOperandsInOrderOfFirstAppearance) {
  const Pattern p = parse_pattern("a = add(x, r); n = norm(a; w) ; g, u = linear(n; wg, wu)\n -> a, g, u");
  ASSERT_EQ(p.statements.size(), 3u);
  EXPECT_EQ(p.in, (std::vector<std::string>{"x", "r"}));
  EXPECT_EQ(p.weight, (std::vector<std::string>{"w", "wg", "wu"}));
  EXPECT_EQ(p.out, (std::vector<std::string>{"a", "g", "u"}));
  EXPECT_EQ(p.statements[2].op, uint32_t(TENON_OP_LINEAR));
  EXPECT_EQ(p.statements[2].out, (std::vector<std::string>{"g", "u"}));
}

TEST(CompositeTextTest, AStatementMayGiveNothingAndUseAStore) {
  const Pattern p = parse_pattern("k1 = rope(k; f); kv_write(k1, v; ; s); o = attention(q; ; s) -> o");
  EXPECT_EQ(p.store, std::vector<std::string>{"s"});
  EXPECT_EQ(p.in, (std::vector<std::string>{"k", "v", "q"}));
  EXPECT_TRUE(p.statements[1].out.empty());
}

TEST(CompositeTextTest, SaysWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"a = add(x, r); n = norm(a; w)", "no ->"},
      {"", "no ->"},
      {"-> a", "empty statement"},
      {"a = add(x, r);; n = norm(a) -> n", "empty statement"},
      {"a = add(x, r); -> a", "empty statement"},
      {"a = add x, r; n = norm(a) -> n", "is no statement"},
      {"a = add(x, r; n = norm(a) -> n", "no"},
      {"a = fly(x, r); n = norm(a) -> n", "\"fly\" is no op"},
      {"= add(x, r) n = norm(a) -> n", "no"},
      {"a = add(x, r); n = norm(a; w; s; t) -> n", "too many operand lists"},
      {"a = add(x, r); a = norm(x; w) -> a", "\"a\" is given twice"},
      {"a = add(x, r); n = norm(a; w) -> n, m", "\"m\" is not given"},
      {"a = add(x, r); n = norm(a; w) -> x", "\"x\" is not given"},
      {"a = add(x, r) -> a", "one op only"},
      {"a = add(x, R); n = norm(a; w) -> n", "\"R\" is no name"},
      {"a = add(x, ); n = norm(a; w) -> n", "is no name"},
      {"n = mul(a, x); a = add(x, x) -> n", "\"a\" is used before it is given"},
      {"a = add(x, r)); n = norm(a) -> n", "is no"},
  };
  for (const auto& [text, expected] : cases)
    EXPECT_NE(fault_of(text).find(expected), std::string::npos) << text << ": " << fault_of(text);
}

TEST(CompositeTextTest, HoldsAgainstAnyBytes) {
  const std::string good = "a = add(x, r); n = norm(a; w); kv_write(n, a; ; s) -> a, n";
  ASSERT_EQ(fault_of(good), "");
  uint32_t state = 1;
  for (int i = 0; i < 20000; ++i) {
    std::string text = good;
    for (int k = 0; k < 3; ++k) {
      state = state * 1664525 + 1013904223;
      const size_t at = (state >> 8) % text.size();
      if (state & 1) text[at] = "();=,-> az_"[(state >> 4) % 11];
      if (state & 2) text.erase(at, 1);
    }
    fault_of(text);  // throws std::invalid_argument or nothing
  }
}

bool keeps_nothing(const void*, int32_t) { return false; }
bool keeps_listed(const void* context, int32_t value) {
  return static_cast<const std::set<int32_t>*>(context)->contains(value);
}

class MatcherTest : public ::testing::Test {
 protected:
  MatcherTest() {
    source_.add("table", 16, 8);
    source_.add("out", 16, 8);
    for (const char* name : {"w0", "w1"}) source_.add(name, 1, 8);
    for (const char* name : {"m0", "m1"}) source_.add(name, 8, 8);
  }
  // `body` gets x, the embedding, and answers what goes to the logits.
  void make(const std::function<int32_t(const Builder&, int32_t)>& body) {
    names_ = std::make_unique<NameMap>(source_, std::span<const tenon_name_rule>());
    graph_ = core_test::build(*names_, [&](const Builder& b) {
      const int32_t y = body(b, b.embed(b.weight("table", 16, 8)));
      b.logits(b.linear(b.select(y), {b.weight("out", 16, 8)})[0]);
    });
  }
  // First match anywhere.
  std::optional<Match> find(std::string_view text, const std::set<int32_t>& kept = {}) const {
    const Pattern pattern = parse_pattern(text);
    for (size_t i = 0; i < graph_.nodes.size(); ++i)
      if (auto match =
              match_pattern(pattern, graph_.nodes, i, graph_, kept.empty() ? keeps_nothing : keeps_listed, &kept))
        return match;
    return std::nullopt;
  }
  FakeSource source_;
  std::unique_ptr<NameMap> names_;
  Graph graph_;
};

constexpr const char* kAddNorm = "a = add(x, r); n = norm(a; w) -> a, n";
constexpr const char* kInnerSum = "a = add(x, r); n = norm(a; w) -> n";

TEST_F(MatcherTest, FindsAGroupAndItsOperands) {
  int32_t x, r, a, n, w;
  make([&](const Builder& b, int32_t in) {
    x = in, r = b.norm(x, -1), w = b.weight("w0", 1, 8);
    a = b.add(x, r), n = b.norm(a, w);
    return b.add(a, n);
  });
  const auto match = find(kAddNorm);
  ASSERT_TRUE(match);
  EXPECT_EQ(match->nodes, (std::vector<size_t>{2, 3}));
  EXPECT_EQ(match->group.op, uint32_t(TENON_OP_COMPOSITE));
  EXPECT_EQ(match->group.in, (std::vector<int32_t>{x, r}));
  EXPECT_EQ(match->group.weight, std::vector<int32_t>{w});
  EXPECT_EQ(match->group.out, (std::vector<int32_t>{a, n}));
}

TEST_F(MatcherTest, TheNumberOfWeightsIsPartOfTheForm) {
  make([&](const Builder& b, int32_t x) { return b.norm(b.add(x, x), -1); });
  EXPECT_FALSE(find(kAddNorm));
  EXPECT_TRUE(find("a = add(x, r); n = norm(a) -> n"));
}

TEST_F(MatcherTest, AnInnerValueWithAnotherReaderKeepsTheGroupApart) {
  make([&](const Builder& b, int32_t x) {
    const int32_t a = b.add(x, x), n = b.norm(a, b.weight("w0", 1, 8));
    return b.add(a, n);
  });
  EXPECT_FALSE(find(kInnerSum));
  EXPECT_TRUE(find(kAddNorm));
}

TEST_F(MatcherTest, AViewOfAnInnerValueIsAReaderToo) {
  make([&](const Builder& b, int32_t x) {
    const int32_t a = b.add(x, x), n = b.norm(a, b.weight("w0", 1, 8));
    return b.add(n, b.view(a, 0, 8));
  });
  EXPECT_FALSE(find(kInnerSum));
  EXPECT_TRUE(find(kAddNorm));
}

TEST_F(MatcherTest, AKeptInnerValueKeepsTheGroupApart) {
  int32_t a;
  make([&](const Builder& b, int32_t x) {
    a = b.add(x, x);
    return b.norm(a, b.weight("w0", 1, 8));
  });
  EXPECT_TRUE(find(kInnerSum));
  EXPECT_FALSE(find(kInnerSum, {a}));
  EXPECT_TRUE(find(kAddNorm, {a}));
}

TEST_F(MatcherTest, UnrelatedNodesBetweenDoNotMatter) {
  make([&](const Builder& b, int32_t x) {
    const int32_t a = b.add(x, x);
    const int32_t other = b.linear(x, {b.weight("m0", 8, 8)})[0];
    return b.add(b.norm(a, b.weight("w0", 1, 8)), other);
  });
  const auto match = find(kInnerSum);
  ASSERT_TRUE(match);
  EXPECT_EQ(match->nodes, (std::vector<size_t>{1, 3}));
}

// The group moves to its last node: whoever reads it earlier would read too early.
TEST_F(MatcherTest, AReaderBetweenTheNodesKeepsTheGroupApart) {
  make([&](const Builder& b, int32_t x) {
    const int32_t a = b.add(x, x);
    const int32_t other = b.linear(a, {b.weight("m0", 8, 8)})[0];
    return b.add(b.norm(a, b.weight("w0", 1, 8)), other);
  });
  EXPECT_FALSE(find(kAddNorm));
}

TEST_F(MatcherTest, NodesStandInTheOrderOfTheStatements) {
  make([&](const Builder& b, int32_t x) { return b.add(b.norm(x, b.weight("w0", 1, 8)), x); });
  EXPECT_FALSE(find(kAddNorm));
  EXPECT_TRUE(find("n = norm(x; w); a = add(n, r) -> a"));
  EXPECT_FALSE(find("n = norm(x; w); a = add(r, n) -> a")) << "operands keep their places";
}

TEST_F(MatcherTest, StatementsThatShareNothingAreNotJoined) {
  make([&](const Builder& b, int32_t x) {
    const int32_t a = b.add(x, x), n = b.norm(x, b.weight("w0", 1, 8));
    return b.add(a, n);
  });
  EXPECT_FALSE(find("a = add(x, r); n = norm(y; w) -> a, n"));
}

TEST_F(MatcherTest, StatementsThatShareNothingAreJoinedWithinALayer) {
  const auto make_two = [&](uint32_t second) {
    make([&](const Builder& b, int32_t x) {
      b.layer(0);
      const int32_t q = b.norm(x, b.weight("w0", 1, 8));
      if (second) b.layer(second);
      return b.add(q, b.norm(x, b.weight("w1", 1, 8)));
    });
  };
  make_two(0);
  EXPECT_TRUE(find("q = norm(x; a); k = norm(y; b) -> q, k"));
  make_two(1);
  EXPECT_FALSE(find("q = norm(x; a); k = norm(y; b) -> q, k"));
}

TEST_F(MatcherTest, OneNameIsOneValueAndOneWeight) {
  make([&](const Builder& b, int32_t x) {
    const int32_t g = b.linear(x, {b.weight("m0", 8, 8)})[0], u = b.linear(x, {b.weight("m1", 8, 8)})[0];
    return b.glu(g, u);
  });
  EXPECT_TRUE(find("g = linear(x; a); u = linear(x; b); h = glu(g, u) -> h"));
  EXPECT_FALSE(find("g = linear(x; a); u = linear(x; a); h = glu(g, u) -> h"));
  EXPECT_FALSE(find("g = linear(x; a); u = linear(g; b); h = glu(g, u) -> h"));
}

// mul(a, y) with y the sum itself: what the group gives cannot be what it takes.
TEST_F(MatcherTest, AnOperandIsNeverWhatTheGroupGives) {
  make([&](const Builder& b, int32_t x) {
    const int32_t a = b.add(x, x);
    return b.op(TENON_OP_MUL, nullptr, {a, a})[0];
  });
  EXPECT_FALSE(find("a = add(x, r); m = mul(a, y) -> m"));
  EXPECT_FALSE(find("a = add(x, r); m = mul(a, y) -> a, m"));
  EXPECT_TRUE(find("a = add(x, r); m = mul(a, a) -> m"));
}

TEST_F(MatcherTest, AnOperandIsNoViewOfWhatTheGroupGives) {
  make([&](const Builder& b, int32_t x) {
    const int32_t a = b.add(x, x);
    return b.op(TENON_OP_MUL, nullptr, {a, b.view(a, 0, 8)})[0];
  });
  EXPECT_FALSE(find("a = add(x, r); m = mul(a, y) -> m"));
  EXPECT_FALSE(find("a = add(x, r); m = mul(a, y) -> a, m"));
}

TEST_F(MatcherTest, StoresTieStatementsAndGuardTheirOrder) {
  const tenon_kv_write_attr write = {sizeof write, 1, 8, 8};
  const tenon_attention_attr attention = {sizeof attention, 1, 1, 8, 8, 0, 1.0f, 0, 0, 0};
  for (const bool other_between : {false, true}) {
    make([&](const Builder& b, int32_t x) {
      const int32_t s = b.store(TENON_STORE_PAGED, 1, 8, 8);
      b.op(TENON_OP_KV_WRITE, &write, {x, x}, {}, {s}, 0);
      const int32_t early = other_between ? b.op(TENON_OP_ATTENTION, &attention, {b.norm(x, -1)}, {}, {s})[0] : x;
      const int32_t q = b.norm(x, b.weight("w0", 1, 8));
      return b.add(b.op(TENON_OP_ATTENTION, &attention, {q}, {}, {s})[0], early);
    });
    const auto match = find("kv_write(k, v; ; s); o = attention(q; ; s) -> o");
    ASSERT_TRUE(match);
    EXPECT_EQ(match->group.store, std::vector<int32_t>{0});
    const auto wide = find("kv_write(k, v; ; s); q = norm(k; w); o = attention(q; ; s) -> o");
    EXPECT_EQ(wide.has_value(), !other_between) << "a reader of the store may not be overtaken";
  }
}

}  // namespace
}  // namespace tenon::graph
