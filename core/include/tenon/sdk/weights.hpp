// weights.hpp: what weights an architecture has, how they are cut over devices, and what other containers call them.
//
// Declared once, in Architecture::declare(); the graph then refers to a weight by its canonical name, which is the GGUF
// one. Shapes are {rows, cols}: outputs × inputs, cols contiguous. A vector is {1, n}.
#pragma once

#include <algorithm>
#include <deque>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tenon/sdk/metadata.hpp>
#include <utility>
#include <vector>

namespace tenon::sdk {

struct Dims {
  int64_t rows, cols;
};

// One declaration, refined by chained calls.
class WeightDecl {
 public:
  WeightDecl(std::string name, uint32_t role, Dims dims, uint32_t flags)
      : name_(std::move(name)), role_(role), dims_(dims), flags_(flags) {}

  // The cut axis consists of n equal units that stay whole. With a period, unit u goes where unit u mod period goes.
  WeightDecl& heads(int64_t n, int64_t period = 0) {
    const int64_t axis = role_ == TENON_ROLE_ROW ? dims_.cols : dims_.rows;
    return segments({{axis, static_cast<uint32_t>(axis / n), static_cast<uint32_t>(period)}});
  }
  // Parts of the cut axis that are cut one by one, in order.
  WeightDecl& segments(std::vector<tenon_segment> parts) {
    segments_ = std::move(parts);
    return *this;
  }
  WeightDecl& tied_to(std::string_view canonical) {
    tied_to_ = canonical;
    return *this;
  }
  WeightDecl& optional() { return flag(TENON_DECL_OPTIONAL); }
  WeightDecl& keep_float() { return flag(TENON_DECL_KEEP_FLOAT); }
  WeightDecl& repeat_if_short() { return flag(TENON_DECL_REPEAT_IF_SHORT); }
  WeightDecl& experts(int64_t n) {
    n_expert_ = static_cast<uint32_t>(n);
    return *this;
  }
  // Said in the message when the file's shape differs: "query and gate fused".
  WeightDecl& note(std::string_view why) {
    note_ = why;
    return *this;
  }

  const std::string& name() const { return name_; }
  const std::string& note() const { return note_; }
  Dims dims() const { return dims_; }
  uint32_t n_expert() const { return n_expert_; }
  bool may_be_absent() const { return (flags_ & TENON_DECL_OPTIONAL) != 0 || !tied_to_.empty(); }
  // May be absent only as the embedding's table serves as head too.
  bool is_tied_head() const { return (flags_ & TENON_DECL_OPTIONAL) == 0 && tied_to_ == "token_embd.weight"; }
  // Borrows this object.
  tenon_weight_decl table() const {
    return {.struct_size = sizeof(tenon_weight_decl),
            .role = role_,
            .name = to_str(name_),
            .rows = dims_.rows,
            .cols = dims_.cols,
            .n_expert = n_expert_,
            .parts = 0,
            .flags = flags_,
            .n_segment = static_cast<uint32_t>(segments_.size()),
            .segment = segments_.data(),
            .tied_to = to_str(tied_to_),
            .target = {}};
  }

 private:
  WeightDecl& flag(uint32_t bits) {
    flags_ |= bits;
    return *this;
  }
  std::string name_, tied_to_, note_;
  uint32_t role_;
  Dims dims_;
  uint32_t flags_ = 0, n_expert_ = 0;
  std::vector<tenon_segment> segments_;
};

class Weights;

// Declares under a prefix: "" or "blk.3.".
class WeightScope {
 public:
  WeightScope(Weights& weights, std::string prefix, uint32_t flags = 0)
      : weights_(&weights), prefix_(std::move(prefix)), flags_(flags) {}

  // The same, for weights that the file may lack. An entry that uses one all the same is refused when it is built.
  WeightScope optional() const { return WeightScope(*weights_, prefix_, flags_ | TENON_DECL_OPTIONAL); }

  WeightDecl& vocab(std::string_view name, Dims dims) const { return add(name, TENON_ROLE_VOCAB, dims, 0); }
  WeightDecl& column(std::string_view name, Dims dims) const { return add(name, TENON_ROLE_COLUMN, dims, 0); }
  WeightDecl& row(std::string_view name, Dims dims) const { return add(name, TENON_ROLE_ROW, dims, 0); }
  WeightDecl& replicated(std::string_view name, Dims dims) const { return add(name, TENON_ROLE_REPLICATED, dims, 0); }
  WeightDecl& expert(std::string_view name, Dims dims, int64_t n) const {
    return add(name, TENON_ROLE_EXPERT, dims, 0).experts(n);
  }
  WeightDecl& norm(std::string_view name, int64_t width) const {
    return add(name, TENON_ROLE_REPLICATED, {1, width}, TENON_DECL_NORM | TENON_DECL_KEEP_FLOAT);
  }
  WeightDecl& router(std::string_view name, Dims dims) const {
    return add(name, TENON_ROLE_REPLICATED, dims, TENON_DECL_ROUTER | TENON_DECL_KEEP_FLOAT);
  }

 private:
  inline WeightDecl& add(std::string_view name, uint32_t role, Dims dims, uint32_t flags) const;
  Weights* weights_;
  std::string prefix_;
  uint32_t flags_;  // of every declaration
};

// All declarations of a model. Addresses are stable.
class Weights : public WeightScope {
 public:
  Weights() : WeightScope(*this, "") {}
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;

  WeightScope block(int64_t i) { return WeightScope(*this, block_prefix(i)); }
  static std::string block_prefix(int64_t i) { return "blk." + std::to_string(i) + "."; }

  const std::deque<WeightDecl>& all() const { return all_; }
  const WeightDecl& at(std::string_view name) const {
    const auto found = by_name_.find(name);
    if (found == by_name_.end())
      throw Error(TENON_INTERNAL, "the graph uses weight " + std::string(name) + ", which declare() does not know");
    return *found->second;
  }

 private:
  friend class WeightScope;
  WeightDecl& insert(std::string name, uint32_t role, Dims dims, uint32_t flags) {
    WeightDecl& decl = all_.emplace_back(std::move(name), role, dims, flags);
    if (!by_name_.emplace(decl.name(), &decl).second)
      throw Error(TENON_INTERNAL, "weight " + decl.name() + " is declared twice");
    return decl;
  }
  std::deque<WeightDecl> all_;
  std::map<std::string_view, WeightDecl*, std::less<>> by_name_;
};

inline WeightDecl& WeightScope::add(std::string_view name, uint32_t role, Dims dims, uint32_t flags) const {
  return weights_->insert(prefix_ + std::string(name), role, dims, flags | flags_);
}

// Rules from a container's names to the canonical ones. `{i}` stands for one number.
class NameRules {
 public:
  NameRules(std::string scheme, const Metadata* meta) : scheme_(std::move(scheme)), meta_(meta) {}
  NameRules(const NameRules&) = delete;
  NameRules& operator=(const NameRules&) = delete;

  const std::string& scheme() const { return scheme_; }

  void rule(std::string_view canonical, std::string_view source) { add(canonical, source, TENON_TRANSFORM_NONE, 0, 0); }
  // The stored values lack the 1 that the norm multiplies by.
  void add_one(std::string_view canonical, std::string_view source) {
    add(canonical, source, TENON_TRANSFORM_ADD_ONE, 0, 0);
  }
  void minus_exp(std::string_view canonical, std::string_view source) {
    add(canonical, source, TENON_TRANSFORM_MINUS_EXP, 0, 0);
  }
  void reshape(std::string_view canonical, std::string_view source, Dims dims) {
    add(canonical, source, TENON_TRANSFORM_RESHAPE, dims.rows, dims.cols);
  }
  // One tensor an expert; `{e}` in the source's name numbers them from 0.
  void stack_experts(std::string_view canonical, std::string_view source) {
    add(canonical, source, TENON_TRANSFORM_STACK_EXPERTS, 0, 0);
  }
  // Rows first … end - 1 of every `group` rows: one of several weights that the source keeps as one.
  void slice_rows(std::string_view canonical, std::string_view source, int64_t first, int64_t end, int64_t group) {
    add(canonical, source, TENON_TRANSFORM_SLICE_ROWS, first, end);
    rules_.back().axis = static_cast<uint32_t>(group);
  }
  // Several tensors of one width and dtype whose rows lie behind one another.
  void join_rows(std::string_view canonical, std::initializer_list<std::string_view> sources) {
    std::string all;
    for (const std::string_view source : sources) all.append(all.empty() ? "" : " ").append(source);
    add(canonical, all, TENON_TRANSFORM_JOIN_ROWS, 0, 0);
  }
  // A float matrix, its columns as rows.
  void transpose(std::string_view canonical, std::string_view source) {
    add(canonical, source, TENON_TRANSFORM_TRANSPOSE, 0, 0);
  }
  // The same of rows first … end - 1 of `group` rows.
  void transpose_rows(std::string_view canonical, std::string_view source, int64_t first, int64_t end, int64_t group) {
    add(canonical, source, TENON_TRANSFORM_TRANSPOSE, first, end);
    rules_.back().axis = static_cast<uint32_t>(group);
  }
  // Every tensor of the source whose name begins so is known and left alone. Answers how many there are.
  size_t unused(std::string_view source_prefix) {
    if (!meta_ || meta_->scheme() != scheme_) return 0;
    size_t n = 0;
    meta_->each_tensor([&](std::string_view name) {
      if (name.substr(0, source_prefix.size()) != source_prefix) return;
      add("", name, TENON_TRANSFORM_UNUSED, 0, 0);
      ++n;
    });
    return n;
  }
  // True if the source of this scheme has that tensor.
  bool has(std::string_view source_name) const {
    return meta_ && meta_->scheme() == scheme_ && meta_->tensor(source_name).has_value();
  }
  // One rule for each declared weight, under its canonical name.
  void same_names(const Weights& weights) {
    for (const WeightDecl& decl : weights.all()) {
      const std::string pattern = as_pattern(decl.name());
      if (seen_.insert(pattern).second) rule(pattern, pattern);
    }
  }

  const std::vector<tenon_name_rule>& table() const { return rules_; }
  // The metadata handle goes away with configure().
  void forget_source() { meta_ = nullptr; }

  // The source's name and transform of a canonical weight; the first rule that fits. Null name: no rule.
  const tenon_name_rule* match(std::string_view canonical, std::string* source) const {
    for (const tenon_name_rule& rule : rules_) {
      std::string number;
      if (rule.transform == TENON_TRANSFORM_UNUSED || !fits(to_view(rule.canonical), canonical, &number)) continue;
      *source = to_view(rule.source);
      for (size_t at; (at = source->find("{i}")) != std::string::npos;) source->replace(at, 3, number);
      return &rule;
    }
    return nullptr;
  }

 private:
  void add(std::string_view canonical, std::string_view source, uint32_t transform, int64_t a, int64_t b) {
    const std::string& c = text_.emplace_back(canonical);
    const std::string& s = text_.emplace_back(source);
    rules_.push_back({to_str(c), to_str(s), transform, 0, a, b});
  }
  static bool digit(char c) { return c >= '0' && c <= '9'; }
  // "blk.7.x" -> "blk.{i}.x"
  static std::string as_pattern(const std::string& name) {
    if (name.substr(0, 4) != "blk.") return name;
    size_t end = 4;
    while (end < name.size() && digit(name[end])) ++end;
    return end == 4 ? name : "blk.{i}" + name.substr(end);
  }
  static bool fits(std::string_view pattern, std::string_view name, std::string* number) {
    const size_t hole = pattern.find("{i}");
    if (hole == std::string_view::npos) return pattern == name;
    const std::string_view tail = pattern.substr(hole + 3);
    if (name.size() <= hole + tail.size() || name.substr(0, hole) != pattern.substr(0, hole)) return false;
    if (name.substr(name.size() - tail.size()) != tail) return false;
    const std::string_view middle = name.substr(hole, name.size() - hole - tail.size());
    for (char c : middle)
      if (!digit(c)) return false;
    *number = middle;
    return true;
  }

  std::string scheme_;
  const Metadata* meta_;
  std::deque<std::string> text_;
  std::vector<tenon_name_rule> rules_;
  std::set<std::string> seen_;
};

namespace detail {

// The tensors of the source that a rule needs: each part of a joined one; of a stack of experts none if any expert is
// there, since the host counts those.
inline std::vector<std::string> absent_sources(const tenon_name_rule& rule, std::string_view source, uint32_t n_expert,
                                               const Metadata& meta) {
  std::vector<std::string> out;
  if (rule.transform == TENON_TRANSFORM_STACK_EXPERTS) {
    for (uint32_t e = 0; e < n_expert; ++e) {
      std::string name(source);
      if (const size_t hole = name.find("{e}"); hole != std::string::npos) name.replace(hole, 3, std::to_string(e));
      if (meta.tensor(name)) return {};
    }
    return {std::string(source)};
  }
  while (!source.empty()) {
    const size_t end =
        rule.transform == TENON_TRANSFORM_JOIN_ROWS ? std::min(source.find(' '), source.size()) : source.size();
    if (const std::string_view name = source.substr(0, end); !meta.tensor(name)) out.emplace_back(name);
    source.remove_prefix(std::min(end + 1, source.size()));
  }
  return out;
}

inline std::string missing_text(const std::string& architecture,
                                const std::vector<std::pair<std::string, std::string>>& missing) {
  const auto& [name, shape] = missing.front();
  if (missing.size() == 1)
    return "tensor " + name + ": missing, but " + architecture + " expects it" +
           (shape.empty() ? "" : " with shape " + shape);
  std::string text = std::to_string(missing.size()) + " tensors are missing, which " + architecture + " expects: ";
  for (const auto& [each, its_shape] : missing)
    text += (&each == &name ? "" : ", ") + each + (its_shape.empty() ? "" : " " + its_shape);
  return text;
}

}  // namespace detail

// Compares declared shapes with the source's tensors. Throws CORRUPT naming every tensor that is missing, or the first
// of another shape, and what `architecture` expects.
inline void check_tensors(const std::string& architecture, const Weights& weights, const NameRules& rules,
                          const Metadata& meta) {
  std::vector<std::pair<std::string, std::string>> missing;  // name and shape, which what is cut or joined has not
  std::set<std::string> counted;
  std::string misshapen;
  const bool unties = meta.unties_head();
  for (const WeightDecl& decl : weights.all()) {
    std::string source;
    const tenon_name_rule* rule = rules.match(decl.name(), &source);
    if (!rule) {
      if (decl.may_be_absent()) continue;
      throw Error(TENON_INTERNAL,
                  architecture + " has no name rule for weight " + decl.name() + " in scheme " + rules.scheme());
    }
    const uint32_t transform = rule->transform;
    const bool is_whole = transform == TENON_TRANSFORM_NONE || transform == TENON_TRANSFORM_ADD_ONE ||
                          transform == TENON_TRANSFORM_MINUS_EXP || transform == TENON_TRANSFORM_RESHAPE;
    const auto [rows, cols] = decl.dims();
    Shape expected{{cols}};
    if (rows != 1 || decl.n_expert()) expected.dim.push_back(rows);
    if (decl.n_expert()) expected.dim.push_back(decl.n_expert());
    if (const auto absent = detail::absent_sources(*rule, source, decl.n_expert(), meta); !absent.empty()) {
      if (decl.may_be_absent() && !(unties && decl.is_tied_head())) continue;
      for (const std::string& name : absent)
        if (counted.insert(name).second) missing.emplace_back(name, is_whole ? expected.text() : "");
      continue;
    }
    if (!is_whole || !misshapen.empty()) continue;  // shapes of what is cut or joined are checked by the host
    const auto found = meta.tensor(source);
    const bool same = transform == TENON_TRANSFORM_RESHAPE
                          ? found->count() == expected.count()
                          : found->cols() == expected.cols() && found->count() == expected.count() &&
                                found->rows() == expected.rows() && found->experts() == expected.experts();
    if (!same)
      misshapen = "tensor " + source + ": shape " + found->text() + ", but " + architecture + " expects " +
                  expected.text() + (decl.note().empty() ? "" : " (" + decl.note() + ")");
  }
  if (!missing.empty()) throw Error(TENON_CORRUPT, detail::missing_text(architecture, missing));
  if (!misshapen.empty()) throw Error(TENON_CORRUPT, misshapen);
}

}  // namespace tenon::sdk
