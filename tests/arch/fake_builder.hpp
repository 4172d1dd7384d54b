// fake_builder.hpp: a builder that records a graph and checks every operand's width, as docs/ops.md gives it.
#pragma once

#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fake_host.hpp"

namespace tenon::test {

struct Recorded {
  uint32_t op;
  int layer;         // -1 before the first
  std::string name;  // "linear"
  std::vector<int32_t> in, out;
  std::vector<std::string> weights;
  std::vector<int32_t> stores;
  std::vector<char> attr;
  template <typename T>
  T as() const {
    T value;
    std::memcpy(&value, attr.data(), sizeof value);
    return value;
  }
};
struct RecordedWeight {
  tenon_weight_decl decl;
  std::string name, tied_to;
  std::vector<tenon_segment> segments;
  std::vector<float> values;  // of a constant
};
struct RecordedValue {
  int64_t cols;
  int32_t base = -1;  // a view's
  int64_t col0 = 0, groups = 1, group_step = 0;
};

class FakeBuilder {
 public:
  // `meta` answers has_weight(); borrowed.
  explicit FakeBuilder(const tenon_meta* meta);
  const tenon_builder* table() const { return &table_; }

  std::vector<Recorded> nodes;
  std::vector<RecordedWeight> weights;
  std::vector<tenon_store_decl> stores;
  std::vector<RecordedValue> values;
  std::map<std::string, int32_t> taps;
  int32_t logits_value = -1;
  float softcap = -1;
  std::vector<int32_t> never;
  std::string id_map;
  // Of the model that a draft is for: rows and columns of weights, width of hidden rows.
  std::map<std::string, std::pair<int64_t, int64_t>> target_weights;
  int64_t hidden_width = 0;
  int32_t overlay = -1;   // the value, once asked for
  int refuse_op_at = -1;  // op() fails when so many nodes were added

  // "embed norm linear×3 …" of one layer.
  std::string ops(int layer) const;
  const RecordedWeight* find(const std::string& name) const;
  const Recorded* producer(int32_t value) const;
  // Node of a layer that uses that weight.
  const Recorded* user(const std::string& weight) const;

 private:
  static FakeBuilder& of(void* self) { return *static_cast<FakeBuilder*>(self); }
  int32_t add_value(int64_t cols);
  bool infer(Recorded& node, uint32_t n_out);
  tenon_builder table_ = {};
  const tenon_meta* meta_;
  int layer_ = -1;
};

}  // namespace tenon::test
