// graph.hpp: the host's builder as C++. A Graph writes one entry of a model; every call adds nodes and answers values.
//
// Weights are named; they come from the declarations. In a draft, "target:NAME" is weight NAME of the model drafted
// for, which need not be declared. A call that the host refuses throws HostFailure and keeps the host's message. Used
// on the thread of build() only.
#pragma once

#include <array>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tenon/sdk/rope.hpp>
#include <tenon/sdk/weights.hpp>
#include <vector>

namespace tenon::sdk {

struct Value {
  int32_t id = -1;
};
struct Store {
  int32_t id = -1;
};

struct AttentionOptions {
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  int64_t head_dim_v = 0;  // 0 = head_dim
  int64_t window = 0;      // tokens that a row sees, itself included; 0 = all before it
  float scale = 0.0f, softcap = 0.0f;
  bool span_mask = false;  // the rows of a span, such as an image's, see each other both ways
};
// Attention over a latent store: rows of `rank` columns, which are key and value of every head, and `rope_dim` more that
// are key alone.
struct LatentOptions {
  int64_t heads = 0, rank = 0, rope_dim = 0;
  float scale = 0.0f;
  int64_t row() const { return rank + rope_dim; }
};
struct DeltaRuleOptions {
  int64_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;
  uint32_t head_map = TENON_HEAD_MAP_DIV;
  float scale = 1.0f;  // on the query
};

enum class Gating : uint32_t { kSoftmax = 0, kSigmoid = 1 };
struct RouteOptions {
  int64_t n_expert = 0, top_k = 0;
  Gating gating = Gating::kSoftmax;
  bool normalize = true;  // the weights of the chosen experts sum to `scale`
  float scale = 1.0f;
  float floor = 0.0f;  // the least sum that is divided by
};
struct ExpertOptions {
  uint32_t activation = TENON_ACT_SILU;
  float limit = 0.0f, alpha = 0.0f;  // as of glu
};

// The tap of an entry whose rows are the hidden input of a draft for it.
inline constexpr const char* kDraftHidden = "draft.hidden";

namespace detail {

// What the nodes of one graph share.
struct GraphState {
  const tenon_builder* builder;
  const Weights* weights;
  std::map<std::string, int32_t, std::less<>> constants;  // the host takes each name once
};

// A negative id is an error; the host's are negated statuses. Its message stays in the slot.
inline int32_t need(int32_t id) {
  if (id < 0) throw HostFailure(id >= -TENON_INCOMPATIBLE ? -id : int32_t{TENON_INTERNAL});
  return id;
}

}  // namespace detail

// Nodes whose weights stand under one prefix. Borrows the graph's state.
class Nodes {
 public:
  Nodes(detail::GraphState* state, std::string prefix)
      : state_(state), builder_(state->builder), prefix_(std::move(prefix)) {}

  // True if the files hold that declared weight.
  bool has(std::string_view name) const {
    return detail::need(builder_->has_weight(builder_->self, to_str(full(name)))) != 0;
  }

  // RMS norm over groups of `group` columns (0 = the row); the weight has `group` entries.
  Value rms_norm(Value x, std::string_view name, float eps, int64_t group = 0) const {
    return norm(x, {weight(name)}, TENON_NORM_RMS, eps, group);
  }
  Value rms_norm(Value x, float eps, int64_t group = 0) const { return norm(x, {}, TENON_NORM_RMS, eps, group); }
  Value l2_norm(Value x, float eps, int64_t group) const { return norm(x, {}, TENON_NORM_L2, eps, group); }

  // One to four products with the same input; several are answered as an array, in order.
  template <typename... Names>
  auto linear(Value x, Names... names) const {
    static_assert(sizeof...(names) >= 1 && sizeof...(names) <= 4, "linear takes one to four weights");
    const std::array<int32_t, sizeof...(names)> ids{weight(names)...};
    std::array<Value, sizeof...(names)> out;
    const tenon_linear_attr attr{sizeof attr, 0};
    add_node(TENON_OP_LINEAR, &attr, {&x, 1}, ids, {}, out);
    if constexpr (sizeof...(names) == 1) {
      return out[0];
    } else {
      return out;
    }
  }
  // Products that choose experts: float, equal for every batch.
  Value router(Value x, std::string_view name) const {
    const tenon_linear_attr attr{sizeof attr, TENON_WEIGHT_ROUTER};
    return one(TENON_OP_LINEAR, &attr, {x}, {weight(name)});
  }

  struct Routed {
    Value ids, weights;
  };
  // The experts of each row and their weights. `bias` shifts the choice and not the weights, `scale` multiplies the
  // weight of each expert; either may be empty.
  Routed route(Value logits, const RouteOptions& o, std::string_view bias = {}, std::string_view scale = {}) const {
    const tenon_route_attr attr{
        sizeof attr, static_cast<uint32_t>(o.top_k), static_cast<uint32_t>(o.gating), o.normalize, o.scale, o.floor};
    std::array<int32_t, 2> operands;
    size_t n = 0;
    if (!bias.empty()) {
      operands[n++] = weight(bias);
    } else if (!scale.empty()) {  // the second operand needs a first
      operands[n++] = constant("route.no_bias", std::vector<float>(static_cast<size_t>(o.n_expert), 0.0f));
    }
    if (!scale.empty()) operands[n++] = weight(scale);
    std::array<Value, 2> out;
    add_node(TENON_OP_ROUTE, &attr, {&logits, 1}, {operands.data(), n}, {}, out);
    return {out[0], out[1]};
  }
  // Σ weight × down(act(gate x) × up x) over a row's experts. The names are of stacks of all experts.
  Value expert_ffn(Value x, const Routed& routed, std::string_view gate, std::string_view up, std::string_view down,
                   int64_t top_k, const ExpertOptions& o = {}) const {
    const tenon_expert_ffn_attr attr{sizeof attr, o.activation, o.limit, o.alpha, 0, static_cast<uint32_t>(top_k)};
    return one(TENON_OP_EXPERT_FFN, &attr, {x, routed.ids, routed.weights}, {weight(gate), weight(up), weight(down)});
  }

  Value glu(Value gate, Value up, uint32_t activation, float limit = 0.0f, float alpha = 0.0f) const {
    const tenon_glu_attr attr{sizeof attr, activation, limit, alpha};
    return one(TENON_OP_GLU, &attr, {gate, up});
  }
  // x × act(g); `group` columns of x share one of g.
  Value gate(Value x, Value g, uint32_t activation, int64_t group = 1) const {
    const tenon_gate_attr attr{sizeof attr, activation, static_cast<uint32_t>(group), 0};
    return one(TENON_OP_GATE, &attr, {x, g});
  }
  Value add(Value a, Value b) const { return one(TENON_OP_ADD, nullptr, {a, b}); }
  Value add_weight(Value a, std::string_view name) const { return one(TENON_OP_ADD, nullptr, {a}, {weight(name)}); }
  Value mul(Value a, Value b) const { return one(TENON_OP_MUL, nullptr, {a, b}); }
  Value mul_weight(Value a, std::string_view name) const { return one(TENON_OP_MUL, nullptr, {a}, {weight(name)}); }
  Value scale(Value x, float factor) const {
    const tenon_scale_attr attr{sizeof attr, factor};
    return one(TENON_OP_SCALE, &attr, {x});
  }
  Value softcap(Value x, float cap) const {
    const tenon_scale_attr attr{sizeof attr, cap};
    return one(TENON_OP_SOFTCAP, &attr, {x});
  }
  Value concat(Value a, Value b) const { return one(TENON_OP_CONCAT, nullptr, {a, b}); }
  // Any number, in pairs of pairs: each column is copied as often as the logarithm of their number.
  Value concat(std::span<const Value> parts) const {
    if (parts.empty()) throw Error(TENON_INTERNAL, "nothing to join");
    if (parts.size() == 1) return parts[0];
    const size_t half = parts.size() / 2;
    return concat(concat(parts.first(half)), concat(parts.subspan(half)));
  }

  // Columns col0 … col0 + cols - 1, read in place.
  Value columns(Value x, int64_t col0, int64_t cols) const { return strided(x, col0, cols, 1, cols); }
  // `groups` runs of `width` columns that begin at col0, col0 + step, …, read in place.
  Value strided(Value x, int64_t col0, int64_t width, int64_t groups, int64_t step) const {
    return {detail::need(builder_->view(builder_->self, x.id, col0, width * groups, groups, step))};
  }

  // Id of a vector that the architecture computed; the same name is the same vector.
  int32_t constant(const std::string& name, const std::vector<float>& values) const {
    if (const auto known = state_->constants.find(name); known != state_->constants.end()) return known->second;
    const auto n = static_cast<int64_t>(values.size());
    const int32_t id = detail::need(builder_->constant(builder_->self, to_str(name), values.data(), 1, n));
    state_->constants.emplace(name, id);
    return id;
  }

  Value rope(Value x, const Rope& rope) const {
    const int32_t table = constant(rope.name, rope.inv_freq);
    const tenon_rope_attr attr{sizeof attr,
                               rope.style,
                               static_cast<uint32_t>(rope.head_dim),
                               static_cast<uint32_t>(rope.n_rot),
                               {rope.sections[0], rope.sections[1], rope.sections[2], rope.sections[3]},
                               rope.magnitude,
                               0};
    const bool divided =
        !rope.divisor.empty() && detail::need(builder_->has_weight(builder_->self, to_str(rope.divisor))) != 0;
    if (!divided) return one(TENON_OP_ROPE, &attr, {x}, {table});
    const tenon_weight_decl divisor = state_->weights->at(rope.divisor).table();
    return one(TENON_OP_ROPE, &attr, {x}, {table, detail::need(builder_->weight(builder_->self, &divisor))});
  }

  // K and V pages of a layer, its own. Drafts find them by `role`, of equal ones the last.
  Store paged_store(const AttentionOptions& o, std::string_view role = {}) const {
    tenon_store_decl decl = paged_decl(o);
    decl.role = to_str(role);
    return add_store(decl);
  }
  // In a draft: the pages of that role of the model drafted for.
  Store store_of_target(std::string_view role, const AttentionOptions& o) const {
    tenon_store_decl decl = paged_decl(o);
    decl.target = to_str(role);
    return add_store(decl);
  }
  // The pages of an earlier layer, read by this one. Heads, widths and window are those of the layer that writes them.
  Store alias(Store written, const AttentionOptions& o) const {
    tenon_store_decl decl = paged_decl(o);
    decl.alias = written.id;
    return add_store(decl);
  }
  Store latent_store(const LatentOptions& o) const {
    tenon_store_decl decl = store_decl(TENON_STORE_LATENT, 1);
    decl.cols_k = o.row();
    return add_store(decl);
  }
  Store conv_store(int64_t channels, int64_t taps) const {
    tenon_store_decl decl = store_decl(TENON_STORE_CONV, 1);
    decl.cols_k = channels, decl.cols_v = taps - 1, decl.tape_cols = channels;
    return add_store(decl);
  }
  Store recurrent_store(const DeltaRuleOptions& o) const {
    tenon_store_decl decl = store_decl(TENON_STORE_RECURRENT, o.value_heads);
    decl.cols_k = o.value_heads * o.key_dim, decl.cols_v = o.value_dim;
    // A tape row: k of every key head, v, decay and beta of every value head.
    decl.tape_cols = o.key_heads * o.key_dim + o.value_heads * o.value_dim + 2 * o.value_heads;
    decl.cut = {o.value_heads, 1, static_cast<uint32_t>(o.head_map == TENON_HEAD_MAP_MOD ? o.key_heads : 0)};
    return add_store(decl);
  }

  void kv_write(Store store, Value k, Value v, const AttentionOptions& o) const {
    const tenon_kv_write_attr attr{sizeof attr, static_cast<uint32_t>(o.kv_heads), static_cast<uint32_t>(o.head_dim),
                                   static_cast<uint32_t>(value_dim(o))};
    const Value in[] = {k, v};
    add_node(TENON_OP_KV_WRITE, &attr, in, {}, {&store.id, 1}, {});
  }
  Value attention(Store store, Value q, const AttentionOptions& o) const {
    const tenon_attention_attr attr{sizeof attr,
                                    static_cast<uint32_t>(o.heads),
                                    static_cast<uint32_t>(o.kv_heads),
                                    static_cast<uint32_t>(o.head_dim),
                                    static_cast<uint32_t>(value_dim(o)),
                                    static_cast<int32_t>(o.window),
                                    o.scale,
                                    o.softcap,
                                    o.span_mask,
                                    0};
    return one(TENON_OP_ATTENTION, &attr, {q}, {}, {store.id});
  }
  // The rows of a latent store: what is key and value, then what is key alone.
  void latent_write(Store store, Value rows, const LatentOptions& o) const {
    const tenon_kv_write_attr attr{sizeof attr, 1, static_cast<uint32_t>(o.row()), 0};
    add_node(TENON_OP_KV_WRITE, &attr, {&rows, 1}, {}, {&store.id, 1}, {});
  }
  // q: heads of rank + rope_dim columns; answers heads of rank columns.
  Value latent_attention(Store store, Value q, const LatentOptions& o) const {
    const tenon_latent_attention_attr attr{sizeof attr, static_cast<uint32_t>(o.heads), static_cast<uint32_t>(o.rank),
                                           static_cast<uint32_t>(o.rope_dim), o.scale, 0};
    return one(TENON_OP_LATENT_ATTENTION, &attr, {q}, {}, {store.id});
  }
  // Causal convolution of each column over `taps` rows.
  Value short_conv(Store store, Value x, std::string_view name, int64_t taps, uint32_t activation) const {
    const tenon_short_conv_attr attr{sizeof attr, static_cast<uint32_t>(taps), activation, 0};
    return one(TENON_OP_SHORT_CONV, &attr, {x}, {weight(name)}, {store.id});
  }
  Value gated_delta_rule(Store store, Value q, Value k, Value v, Value b, Value a, std::string_view decay_name,
                         std::string_view dt_name, const DeltaRuleOptions& o) const {
    const tenon_gated_delta_rule_attr attr{sizeof attr,
                                           static_cast<uint32_t>(o.key_heads),
                                           static_cast<uint32_t>(o.value_heads),
                                           static_cast<uint32_t>(o.key_dim),
                                           static_cast<uint32_t>(o.value_dim),
                                           o.head_map,
                                           o.scale,
                                           0};
    return one(TENON_OP_GATED_DELTA_RULE, &attr, {q, k, v, b, a}, {weight(decay_name), weight(dt_name)}, {store.id});
  }

  void tap(Value x, const std::string& name) const { check(builder_->tap(builder_->self, x.id, to_str(name))); }

  // Id of a declared weight at the host.
  int32_t weight(std::string_view name) const {
    constexpr std::string_view kTarget = "target:";
    tenon_weight_decl decl = {};
    decl.struct_size = sizeof decl;
    if (name.substr(0, kTarget.size()) == kTarget) {
      decl.target = to_str(name.substr(kTarget.size()));
    } else {
      decl = state_->weights->at(full(name)).table();
    }
    return detail::need(builder_->weight(builder_->self, &decl));
  }

 protected:
  std::string full(std::string_view name) const { return prefix_ + std::string(name); }

  Value one(uint32_t op, const void* attr, std::initializer_list<Value> in, std::initializer_list<int32_t> weights = {},
            std::initializer_list<int32_t> stores = {}) const {
    Value out;
    add_node(op, attr, {in.begin(), in.size()}, {weights.begin(), weights.size()}, {stores.begin(), stores.size()},
             {&out, 1});
    return out;
  }
  void add_node(uint32_t op, const void* attr, std::span<const Value> in, std::span<const int32_t> weights,
                std::span<const int32_t> stores, std::span<Value> out) const {
    int32_t inputs[8], outputs[8];
    if (in.size() > 8 || out.size() > 8) throw Error(TENON_INTERNAL, "a node has at most 8 inputs and 8 outputs");
    for (size_t i = 0; i < in.size(); ++i) inputs[i] = in[i].id;
    check(builder_->op(builder_->self, op, attr, inputs, static_cast<uint32_t>(in.size()), weights.data(),
                       static_cast<uint32_t>(weights.size()), stores.data(), static_cast<uint32_t>(stores.size()),
                       outputs, static_cast<uint32_t>(out.size())));
    for (size_t i = 0; i < out.size(); ++i) out[i] = {outputs[i]};
  }

  detail::GraphState* state_;
  const tenon_builder* builder_;

 private:
  Value norm(Value x, std::initializer_list<int32_t> weights, uint32_t kind, float eps, int64_t group) const {
    const tenon_norm_attr attr{sizeof attr, kind, eps, static_cast<uint32_t>(group)};
    return one(TENON_OP_NORM, &attr, {x}, weights);
  }
  static int64_t value_dim(const AttentionOptions& o) { return o.head_dim_v ? o.head_dim_v : o.head_dim; }
  static tenon_store_decl store_decl(uint32_t kind, int64_t heads) {
    tenon_store_decl decl = {};
    decl.struct_size = sizeof decl, decl.kind = kind, decl.alias = -1, decl.heads = static_cast<uint32_t>(heads);
    return decl;
  }
  static tenon_store_decl paged_decl(const AttentionOptions& o) {
    tenon_store_decl decl = store_decl(TENON_STORE_PAGED, o.kv_heads);
    decl.window = static_cast<int32_t>(o.window);
    decl.cols_k = o.kv_heads * o.head_dim;
    decl.cols_v = o.kv_heads * value_dim(o);
    decl.cut = {o.kv_heads, 1, 0};
    return decl;
  }
  Store add_store(const tenon_store_decl& decl) const { return {detail::need(builder_->store(builder_->self, &decl))}; }

  std::string prefix_;
};

// Nodes of one layer; its weights stand under "blk.<i>.".
class Block : public Nodes {
 public:
  // `number`: of the block that the weights are of.
  Block(detail::GraphState* state, int64_t index, int64_t number)
      : Nodes(state, Weights::block_prefix(number)), index_(index) {}
  int64_t index() const { return index_; }

 private:
  int64_t index_;
};

class Graph : private detail::GraphState, public Nodes {
 public:
  Graph(const tenon_builder* builder, const Weights* weights)
      : detail::GraphState{builder, weights, {}}, Nodes(this, "") {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Rows of the table for the step's tokens, times `scale`.
  Value embed(std::string_view table, float scale = 1.0f) const {
    const Value tokens{detail::need(builder_->input(builder_->self, TENON_INPUT_TOKENS))};
    const tenon_embed_attr attr{sizeof attr, scale};
    return one(TENON_OP_EMBED, &attr, {tokens}, {weight(table)});
  }
  // The same where others, such as an image's, may be given in their place, as they are: not scaled. Not in a draft.
  Value embed_or_overlay(std::string_view table, float scale = 1.0f) const {
    const Value tokens{detail::need(builder_->input(builder_->self, TENON_INPUT_TOKENS))};
    const Value overlay{detail::need(builder_->input(builder_->self, TENON_INPUT_OVERLAY))};
    const tenon_embed_attr attr{sizeof attr, scale};
    return one(TENON_OP_EMBED, &attr, {tokens, overlay}, {weight(table)});
  }
  // In a draft: the rows of the model drafted for that come with the tokens.
  Value hidden() const { return {detail::need(builder_->input(builder_->self, TENON_INPUT_HIDDEN))}; }
  // Nodes outside of layers, with the weights of a block.
  Nodes block(int64_t number) const { return Nodes(state_, Weights::block_prefix(number)); }
  // Begins layer i, which x enters.
  Block layer(int64_t i, Value x) const { return layer(i, x, i); }
  // The same with the weights of another block.
  Block layer(int64_t i, Value x, int64_t number) const {
    detail::need(builder_->layer(builder_->self, static_cast<uint32_t>(i)));
    tap(x, "hidden." + std::to_string(i));
    return Block(state_, i, number);
  }
  // The rows whose logits are wanted.
  Value select_output_rows(Value x) const { return one(TENON_OP_SELECT_ROWS, nullptr, {x}); }
  // Ends the entry. softcap 0 = none; `never` are ids that must not be sampled.
  void logits(Value x, float softcap = 0.0f, std::span<const int32_t> never = {}) const {
    check(builder_->logits(builder_->self, x.id, softcap, never.data(), static_cast<uint32_t>(never.size())));
  }
  // In a draft: the logits are of the tokens that this tensor lists.
  void id_map(std::string_view name) const { check(builder_->id_map(builder_->self, to_str(name))); }
};

}  // namespace tenon::sdk
