#include "text/merge.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

namespace tenon::text {
namespace {

struct Rules {
  std::map<std::pair<int32_t, int32_t>, Join> joins;
  Join operator()(const Symbol& left, const Symbol& right) const {
    const auto it = joins.find({left.id, right.id});
    return it == joins.end() ? Join{} : it->second;
  }
};

std::vector<Symbol> symbols_of(const std::string& letters) {
  std::vector<Symbol> symbols;
  for (size_t i = 0; i < letters.size(); ++i) {
    symbols.push_back({.begin = static_cast<uint32_t>(i), .size = 1, .id = letters[i] - 'a'});
  }
  return symbols;
}

std::string shape(const std::vector<Symbol>& symbols) {
  std::string out;
  for (const Symbol& symbol : symbols) {
    out += std::to_string(symbol.begin) + "+" + std::to_string(symbol.size) + "=" + std::to_string(symbol.id) + " ";
  }
  return out;
}

std::string merged(const std::string& letters, const Rules& rules) {
  MergeScratch scratch;
  scratch.symbols = symbols_of(letters);
  merge(scratch, rules);
  return shape(scratch.symbols);
}

// The definition: look at every pair, join the best, begin again.
std::string merged_by_definition(const std::string& letters, const Rules& rules) {
  std::vector<Symbol> symbols = symbols_of(letters);
  for (;;) {
    size_t best = symbols.size();
    Join best_join;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const Join join = rules(symbols[i], symbols[i + 1]);
      if (join.id >= 0 && (best == symbols.size() || join.order < best_join.order)) {
        best = i;
        best_join = join;
      }
    }
    if (best == symbols.size()) return shape(symbols);
    symbols[best].size += symbols[best + 1].size;
    symbols[best].id = best_join.id;
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

TEST(Merge, TiesJoinFromTheLeft) {
  Rules rules;
  rules.joins[{0, 0}] = {7, 10};
  EXPECT_EQ(merged("aaa", rules), "0+2=10 2+1=0 ");
}

TEST(Merge, EqualsItsDefinitionForShortAndLongText) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    Rules rules;
    int32_t next = 4;
    for (uint32_t rank = 0; rank < 30; ++rank) {
      const std::pair<int32_t, int32_t> pair{static_cast<int32_t>(random() % static_cast<uint32_t>(next)),
                                             static_cast<int32_t>(random() % static_cast<uint32_t>(next))};
      if (rules.joins.emplace(pair, Join{rank / 2, next}).second) ++next;
    }
    std::string letters;
    const size_t length = random() % 120;
    for (size_t i = 0; i < length; ++i) letters += static_cast<char>('a' + random() % 4);
    EXPECT_EQ(merged(letters, rules), merged_by_definition(letters, rules)) << letters;
  }
}

}  // namespace
}  // namespace tenon::text
