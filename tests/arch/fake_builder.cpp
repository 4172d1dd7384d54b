#include "fake_builder.hpp"

namespace tenon::test {
namespace {

std::string_view view(tenon_str s) { return {s.data, static_cast<size_t>(s.size)}; }

tenon_status refuse(const std::string& message) {
  const tenon_host* host = fake_host();
  return host->fail(host->self, TENON_INVALID_ARGUMENT, {message.data(), message.size()});
}

const char* op_name(uint32_t op) {
  static const char* const names[] = {"none",   "composite", "embed",    "encode",     "norm",   "linear",
                                      "glu",    "gate",      "add",      "mul",        "scale",  "softcap",
                                      "concat", "rope",      "kv_write", "attention",  "latent", "conv",
                                      "delta",  "route",     "expert",   "fold_slots", "select", "tail"};
  return op < std::size(names) ? names[op] : "unknown";
}

size_t attr_size(uint32_t op) {
  switch (op) {
    case TENON_OP_EMBED:
      return sizeof(tenon_embed_attr);
    case TENON_OP_NORM:
      return sizeof(tenon_norm_attr);
    case TENON_OP_LINEAR:
      return sizeof(tenon_linear_attr);
    case TENON_OP_GLU:
      return sizeof(tenon_glu_attr);
    case TENON_OP_GATE:
      return sizeof(tenon_gate_attr);
    case TENON_OP_SCALE:
      return sizeof(tenon_scale_attr);
    case TENON_OP_ROPE:
      return sizeof(tenon_rope_attr);
    case TENON_OP_KV_WRITE:
      return sizeof(tenon_kv_write_attr);
    case TENON_OP_ATTENTION:
      return sizeof(tenon_attention_attr);
    case TENON_OP_SHORT_CONV:
      return sizeof(tenon_short_conv_attr);
    case TENON_OP_GATED_DELTA_RULE:
      return sizeof(tenon_gated_delta_rule_attr);
    case TENON_OP_ROUTE:
      return sizeof(tenon_route_attr);
    case TENON_OP_EXPERT_FFN:
      return sizeof(tenon_expert_ffn_attr);
    default:
      return 0;
  }
}

}  // namespace

FakeBuilder::FakeBuilder(const tenon_meta* meta) : meta_(meta) {
  table_.struct_size = sizeof table_, table_.abi_minor = TENON_ABI_MINOR, table_.self = this;
  table_.layer = [](void* self, uint32_t index) noexcept -> int32_t {
    return of(self).layer_ = static_cast<int>(index);
  };
  table_.weight = [](void* self, const tenon_weight_decl* decl) noexcept -> int32_t {
    FakeBuilder& b = of(self);
    const bool theirs = decl->target.size > 0;
    const std::string name = (theirs ? "target:" : "") + std::string(view(theirs ? decl->target : decl->name));
    for (size_t i = 0; i < b.weights.size(); ++i)
      if (b.weights[i].name == name) return static_cast<int32_t>(i);
    tenon_weight_decl known = *decl;
    if (theirs) {
      const auto dims = b.target_weights.find(std::string(view(decl->target)));
      if (dims == b.target_weights.end()) return -refuse(name + " does not exist");
      known.rows = dims->second.first, known.cols = dims->second.second;
    }
    b.weights.push_back(
        {known, name, std::string(view(decl->tied_to)), {decl->segment, decl->segment + decl->n_segment}, {}});
    return static_cast<int32_t>(b.weights.size() - 1);
  };
  table_.has_weight = [](void* self, tenon_str name) noexcept -> int32_t {
    return of(self).meta_->tensors.count(view(name)) != 0;
  };
  table_.constant = [](void* self, tenon_str name, const float* values, int64_t rows,
                       int64_t cols) noexcept -> int32_t {
    FakeBuilder& b = of(self);
    if (b.find(std::string(view(name)))) return -refuse("constant twice");
    tenon_weight_decl decl = {};
    decl.rows = rows, decl.cols = cols;
    b.weights.push_back({decl, std::string(view(name)), "", {}, {values, values + rows * cols}});
    return static_cast<int32_t>(b.weights.size() - 1);
  };
  table_.store = [](void* self, const tenon_store_decl* decl) noexcept -> int32_t {
    of(self).stores.push_back(*decl);
    return static_cast<int32_t>(of(self).stores.size() - 1);
  };
  table_.input = [](void* self, uint32_t what) noexcept -> int32_t {
    FakeBuilder& b = of(self);
    if (what != TENON_INPUT_OVERLAY) return b.add_value(what == TENON_INPUT_HIDDEN ? b.hidden_width : 1);
    return b.overlay = b.add_value(0);
  };
  table_.id_map = [](void* self, tenon_str name) noexcept -> tenon_status {
    of(self).id_map = view(name);
    return TENON_OK;
  };
  table_.view = [](void* self, int32_t value, int64_t col0, int64_t cols, int64_t groups,
                   int64_t step) noexcept -> int32_t {
    FakeBuilder& b = of(self);
    if (value < 0 || value >= static_cast<int32_t>(b.values.size())) return -refuse("view of an unknown value");
    if (groups < 1 || cols % groups || col0 + (groups - 1) * step + cols / groups > b.values[size_t(value)].cols)
      return -refuse("view leaves its value");
    const int32_t id = b.add_value(cols);
    b.values[size_t(id)] = {cols, value, col0, groups, step};
    return id;
  };
  table_.op = [](void* self, uint32_t op, const void* attr, const int32_t* in, uint32_t n_in, const int32_t* weight,
                 uint32_t n_weight, const int32_t* store, uint32_t n_store, int32_t* out, uint32_t n_out) noexcept {
    FakeBuilder& b = of(self);
    Recorded node{op, b.layer_, op_name(op), {in, in + n_in}, {}, {}, {store, store + n_store}, {}};
    if (b.refuse_op_at == static_cast<int>(b.nodes.size())) return refuse("refused by the test");
    for (uint32_t i = 0; i < n_in; ++i)
      if (in[i] < 0 || in[i] >= static_cast<int32_t>(b.values.size())) return refuse("unknown value in " + node.name);
    for (uint32_t i = 0; i < n_weight; ++i) node.weights.push_back(b.weights.at(size_t(weight[i])).name);
    const size_t size = attr_size(op);
    if (size) {
      node.attr.resize(size);
      std::memcpy(node.attr.data(), attr, size);
      if (node.as<uint32_t>() != size) return refuse("struct_size of " + node.name);
    } else if (attr) {
      return refuse(node.name + " has no attributes");
    }
    if (!b.infer(node, n_out)) return refuse("operands of " + node.name + " " + (n_weight ? node.weights[0] : ""));
    for (uint32_t i = 0; i < n_out; ++i) out[i] = node.out[i];
    b.nodes.push_back(node);
    return tenon_status{TENON_OK};
  };
  table_.tap = [](void* self, int32_t value, tenon_str name) noexcept -> tenon_status {
    return of(self).taps.emplace(view(name), value).second ? TENON_OK : refuse("tap twice");
  };
  table_.logits = [](void* self, int32_t value, float softcap, const int32_t* never,
                     uint32_t n) noexcept -> tenon_status {
    FakeBuilder& b = of(self);
    b.logits_value = value, b.softcap = softcap, b.never.assign(never, never + n);
    return TENON_OK;
  };
}

int32_t FakeBuilder::add_value(int64_t cols) {
  values.push_back({cols});
  return static_cast<int32_t>(values.size() - 1);
}

// Checks operand counts and widths and adds the outputs.
bool FakeBuilder::infer(Recorded& node, uint32_t n_out) {
  std::vector<int64_t> in, out;
  for (int32_t id : node.in) in.push_back(values[size_t(id)].cols);
  std::vector<tenon_weight_decl> w;
  for (const std::string& name : node.weights) w.push_back(find(name)->decl);
  const auto counts = [&](size_t n_in, size_t n_weight, size_t n_store) {
    return in.size() == n_in && w.size() == n_weight && node.stores.size() == n_store;
  };
  const auto vector_of = [&](size_t i, int64_t n) { return w[i].rows == 1 && w[i].cols == n; };
  bool good = false;
  switch (node.op) {
    case TENON_OP_EMBED:
      good = counts(1, 1, 0) || (counts(2, 1, 0) && node.in[1] == overlay), out = {w[0].cols};
      break;
    case TENON_OP_NORM: {
      const auto a = node.as<tenon_norm_attr>();
      const int64_t group = a.group ? a.group : in[0];
      good = in.size() == 1 && in[0] % group == 0 && a.eps > 0 && (w.empty() || (w.size() == 1 && vector_of(0, group)));
      out = {in[0]};
      break;
    }
    case TENON_OP_LINEAR:
      good = in.size() == 1 && !w.empty() && w.size() <= 4;
      for (const auto& weight : w) good = good && weight.cols == in[0], out.push_back(weight.rows);
      break;
    case TENON_OP_GLU:
      good = counts(2, 0, 0) && in[0] == in[1], out = {in[0]};
      break;
    case TENON_OP_ADD:
      good = (counts(2, 0, 0) && in[0] == in[1]) || (counts(1, 1, 0) && vector_of(0, in[0])), out = {in[0]};
      break;
    case TENON_OP_GATE: {
      const auto a = node.as<tenon_gate_attr>();
      good = counts(2, 0, 0) && a.group && in[0] == in[1] * a.group;
      out = {in[0]};
      break;
    }
    case TENON_OP_ROPE: {
      const auto a = node.as<tenon_rope_attr>();
      good = in.size() == 1 && (w.size() == 1 || (w.size() == 2 && w[1].rows == 1 && w[1].cols >= a.n_rot / 2)) &&
             in[0] % a.head_dim == 0 && a.n_rot <= a.head_dim && vector_of(0, a.n_rot / 2);
      out = {in[0]};
      break;
    }
    case TENON_OP_KV_WRITE: {
      const auto a = node.as<tenon_kv_write_attr>();
      const auto& s = stores.at(size_t(node.stores.at(0)));
      good = counts(2, 0, 1) && in[0] == s.cols_k && in[1] == s.cols_v && in[0] == int64_t{a.kv_heads} * a.head_dim &&
             in[1] == int64_t{a.kv_heads} * a.head_dim_v && s.heads == a.kv_heads;
      break;
    }
    case TENON_OP_ATTENTION: {
      const auto a = node.as<tenon_attention_attr>();
      const auto& s = stores.at(size_t(node.stores.at(0)));
      good = counts(1, 0, 1) && in[0] == int64_t{a.heads} * a.head_dim &&
             s.cols_k == int64_t{a.kv_heads} * a.head_dim && s.window == a.window && a.heads % a.kv_heads == 0;
      out = {int64_t{a.heads} * a.head_dim_v};
      break;
    }
    case TENON_OP_SHORT_CONV: {
      const auto a = node.as<tenon_short_conv_attr>();
      const auto& s = stores.at(size_t(node.stores.at(0)));
      good = counts(1, 1, 1) && w[0].rows == in[0] && w[0].cols == a.taps && s.cols_k == in[0] &&
             s.cols_v == a.taps - 1 && s.tape_cols == in[0];
      out = {in[0]};
      break;
    }
    case TENON_OP_GATED_DELTA_RULE: {
      const auto a = node.as<tenon_gated_delta_rule_attr>();
      const int64_t nk = a.key_heads, nv = a.value_heads, dk = a.key_dim, dv = a.value_dim;
      const auto& s = stores.at(size_t(node.stores.at(0)));
      good = counts(5, 2, 1) && in[0] == nk * dk && in[1] == nk * dk && in[2] == nv * dv && in[3] == nv &&
             in[4] == nv && vector_of(0, nv) && vector_of(1, nv) && s.heads == nv && s.cols_k == nv * dk &&
             s.cols_v == dv && s.tape_cols == nk * dk + nv * dv + 2 * nv;
      out = {nv * dv};
      break;
    }
    case TENON_OP_ROUTE: {
      const auto a = node.as<tenon_route_attr>();
      good = in.size() == 1 && a.top_k >= 1 && a.top_k <= in[0];
      for (size_t i = 0; i < w.size(); ++i) good = good && vector_of(i, in[0]);
      out = {a.top_k, a.top_k};
      break;
    }
    case TENON_OP_EXPERT_FFN: {
      const auto a = node.as<tenon_expert_ffn_attr>();
      good = counts(3, 3, 0) && in[1] == a.top_k && in[2] == a.top_k && w[0].cols == in[0] && w[1].cols == in[0] &&
             w[0].rows == w[2].cols && w[1].rows == w[2].cols;
      for (const auto& weight : w) good = good && weight.n_expert > 0 && weight.n_expert == w[0].n_expert;
      out = {w[2].rows};
      break;
    }
    case TENON_OP_MUL:
      good = (counts(2, 0, 0) && in[0] == in[1]) || (counts(1, 1, 0) && (vector_of(0, in[0]) || vector_of(0, 1)));
      out = {in[0]};
      break;
    case TENON_OP_SCALE:
      good = counts(1, 0, 0), out = {in[0]};
      break;
    case TENON_OP_CONCAT:
      good = counts(2, 0, 0), out = {in[0] + (in.size() > 1 ? in[1] : 0)};
      break;
    case TENON_OP_SELECT_ROWS:
      good = counts(1, 0, 0), out = {in[0]};
      break;
    default:
      return false;
  }
  if (!good || out.size() != n_out) return false;
  for (int64_t cols : out) node.out.push_back(add_value(cols));
  return true;
}

std::string FakeBuilder::ops(int layer) const {
  std::string text;
  for (const Recorded& node : nodes) {
    if (node.layer != layer) continue;
    text += (text.empty() ? "" : " ") + node.name;
    if (node.op == TENON_OP_LINEAR && node.weights.size() > 1) text += std::to_string(node.weights.size());
  }
  return text;
}

const RecordedWeight* FakeBuilder::find(const std::string& name) const {
  for (const RecordedWeight& weight : weights)
    if (weight.name == name) return &weight;
  return nullptr;
}

const Recorded* FakeBuilder::producer(int32_t value) const {
  for (const Recorded& node : nodes)
    for (int32_t id : node.out)
      if (id == value) return &node;
  return nullptr;
}

const Recorded* FakeBuilder::user(const std::string& weight) const {
  for (const Recorded& node : nodes)
    for (const std::string& name : node.weights)
      if (name == weight) return &node;
  return nullptr;
}

}  // namespace tenon::test
