// graph.hpp: an entry graph: typed values, nodes over ops, the weights and stores they use. Plain data.
#pragma once

#include <tenon/abi.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::graph {

constexpr uint32_t kNoLayer = UINT32_MAX;

// Elements of an axis. A list of them ascends, and they lie apart from each other.
struct Range {
  int64_t begin = 0, end = 0;
  auto operator<=>(const Range&) const = default;
};
using Ranges = std::vector<Range>;

// A value: rows of a domain, `cols` wide. A view names columns of another value without a copy.
struct Value {
  uint32_t encoding = TENON_ENC_F32, domain = TENON_DOMAIN_TOKENS;
  int64_t cols = 0;
  uint32_t input = 0;  // TENON_INPUT_* when the step supplies it
  int32_t base = -1;   // viewed value; never itself a view
  int64_t col0 = 0, groups = 1, group_step = 0;
  bool is_view() const { return base >= 0; }
};

// Who reads what a node makes; a Program has only those nodes that its caller needs.
enum class Purpose : uint8_t {
  kAll,
  kTaps,         // those who look at taps
  kWholeLogits,  // those who want the logits of all ids in one place
  kOwnLogits,    // those who look at logits where they are computed
};

struct Node {
  uint32_t op = TENON_OP_NONE;
  std::vector<uint8_t> attr;  // the op's attribute struct, or empty
  std::vector<int32_t> in, out, weight, store;
  uint32_t layer = kNoLayer;
  Purpose purpose = Purpose::kAll;
  std::string name;
  const void* attr_data() const { return attr.empty() ? nullptr : attr.data(); }
  template <typename T>
  const T& attr_as() const {
    return *reinterpret_cast<const T*>(attr.data());
  }
};

struct Weight {
  std::string name;     // canonical
  uint32_t source = 0;  // whose files it comes from: 0 the model's, 1 those of a draft that has its own
  uint32_t role = TENON_ROLE_REPLICATED, flags = 0, parts = 0, n_expert = 0;
  int64_t rows = 0, cols = 0;
  std::vector<tenon_segment> segments;
  // A rank's share of what the files hold: these rows of the weight (of each expert), and of them these columns. Empty: all.
  Ranges kept_rows, kept_cols;
  Ranges kept_experts;  // those that a rank owns, of n_expert, by which they are numbered everywhere. Empty: all.
  int64_t file_rows = 0, file_cols = 0;  // before an axis was cut
  int64_t all_rows() const { return kept_rows.empty() ? rows : file_rows; }
  int64_t all_cols() const { return kept_cols.empty() ? cols : file_cols; }
  std::vector<float> constant;  // given by the architecture; empty = from the files
  bool is_constant = false;
  int32_t divisor = -1;  // a constant is divided, entry by entry, by this weight of the files
};

// Rows lie in pages of 64 tokens.
constexpr bool is_paged(uint32_t store_kind) { return store_kind == TENON_STORE_PAGED || store_kind == TENON_STORE_LATENT; }

struct Store {
  uint32_t kind = 0, heads = 0, layer = kNoLayer;
  int32_t window = 0;
  int64_t cols_k = 0, cols_v = 0, tape_cols = 0;
  tenon_segment cut = {};
  // A rank's share: these of all K/V heads (paged), value heads (recurrent) or channels (conv), of which there are as many as
  // before the cut. Empty: all.
  Ranges kept;
  uint32_t all_heads = 0;
  int64_t all_cols_k = 0, all_cols_v = 0;
  bool is_absent = false;  // only nodes of other ranks use it: it takes no memory here
  std::string role;     // what drafts call it
  int32_t target = -1;  // in a draft: number of the store of the model drafted for that this one is; -1 = its own
};

struct Graph {
  std::vector<Value> values;
  std::vector<Node> nodes;      // in an order that respects every dependency
  std::vector<Weight> weights;  // of the entries before it, numbered alike, then its own
  std::map<std::pair<uint32_t, std::string>, int32_t> weight_ids;  // by source and name; tied names too
  std::vector<Store> stores;
  std::map<std::string, int32_t> taps;
  int32_t logits = -1;      // value with vocab columns, before the cap
  // Of a rank's graph: the logits that this rank says something about before they are brought together, and of which columns
  // they are; -1 = none, or the graph is of no rank.
  int32_t own_logits = -1;
  Ranges own_columns;
  int32_t overlay = -1;     // rows that stand in for embeddings; -1: none are taken
  bool sees_spans = false;  // some attention has a span mask
  float softcap = 0;
  std::vector<int32_t> never;
  std::string id_map;  // canonical name of the tensor with the ids that the logits stand for; "" = all, in order
  uint32_t n_layers = 0;

  int32_t base_of(int32_t value) const { return value < 0 ? -1 : values[size_t(value)].is_view() ? values[size_t(value)].base : value; }
};

// Of a node's rows.
inline uint32_t domain_of(const Graph& graph, const Node& node) {
  const std::vector<int32_t>& ids = node.out.empty() ? node.in : node.out;
  return ids.empty() ? uint32_t(TENON_DOMAIN_TOKENS) : graph.values[size_t(ids[0])].domain;
}

}  // namespace tenon::graph
