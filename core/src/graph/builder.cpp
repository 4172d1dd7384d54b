#include "builder.hpp"

#include "ops.hpp"
#include "plugin/plugin_host.hpp"

#include <tenon/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>

namespace tenon::graph {
namespace {

std::string_view view(tenon_str text) { return {text.data, size_t(text.size)}; }

// Bounds that no sane graph reaches, so that a plugin's mistake ends in a message and not in memory.
constexpr size_t kMaxNodes = 1 << 20, kMaxWeights = 1 << 18, kMaxStores = 1 << 14;
constexpr int64_t kMaxCols = int64_t(1) << 31;
constexpr uint32_t kMaxExperts = 1 << 16;

class Builder {
 public:
  Builder(std::string architecture, const NameMap& names, const DraftFor* draft, bool with_overlay)
      : architecture_(std::move(architecture)), names_(names), draft_(draft), with_overlay_(with_overlay),
        source_(draft ? draft->source : 0) {
    if (draft) graph_.weights = draft->before.weights, graph_.weight_ids = draft->before.weight_ids;
  }

  int32_t layer(uint32_t index) {
    if (index != graph_.n_layers) return refuse(fmt::format("layer({}) after {} layers", index, graph_.n_layers));
    graph_.n_layers++;
    return int32_t(index);
  }

  int32_t weight(const tenon_weight_decl& decl) {
    if (TENON_HAS(&decl, target) && decl.target.size) return weight_of_target(decl);
    const std::string name(view(decl.name));
    if (const auto known = find_weight(source_, name)) return *known;
    if (graph_.weights.size() >= kMaxWeights) return refuse("too many weights");
    if (decl.rows < 1 || decl.cols < 1 || decl.rows > kMaxCols || decl.cols > kMaxCols)
      return refuse(fmt::format("weight {} is declared with {} rows of {} columns", name, decl.rows, decl.cols));
    if (decl.n_expert > kMaxExperts)
      return refuse(fmt::format("weight {} is declared for {} experts, expected at most {}", name, decl.n_expert, kMaxExperts));
    const Binding* binding = names_.find(name);
    if (!binding && decl.tied_to.size) {
      const auto tied = find_weight(source_, std::string(view(decl.tied_to)));
      if (!tied) return refuse(fmt::format("weight {} is tied to {}, which is not declared", name, view(decl.tied_to)));
      graph_.weight_ids[{source_, name}] = *tied;
      return *tied;
    }
    if (!binding) missing_.push_back(name);
    if (binding) check_dtype(name, *binding), check_shape(name, decl, *binding);
    Weight out;
    out.name = name, out.role = decl.role, out.flags = decl.flags, out.parts = decl.parts, out.n_expert = decl.n_expert;
    out.rows = decl.rows, out.cols = decl.cols;
    out.segments.assign(decl.segment, decl.segment + decl.n_segment);
    return add_weight(std::move(out));
  }

  int32_t has_weight(tenon_str name) const { return names_.find(view(name)) ? 1 : 0; }

  int32_t constant(tenon_str name, const float* values, int64_t rows, int64_t cols) {
    if (rows <= 0 || cols <= 0 || rows > kMaxCols / cols) return refuse("a constant needs positive dimensions");
    const std::string text(view(name));
    // A draft may have the constants of the entries before it.
    if (const auto known = find_weight(source_, text)) {
      const Weight& same = graph_.weights[size_t(*known)];
      const bool equal = draft_ && same.rows == rows && same.cols == cols && same.constant.size() == size_t(rows * cols) &&
                         std::equal(same.constant.begin(), same.constant.end(), values);
      return equal ? *known : refuse(fmt::format("constant {} is declared twice", text));
    }
    Weight out;
    out.name = text, out.rows = rows, out.cols = cols, out.is_constant = true;
    out.constant.assign(values, values + rows * cols);
    return add_weight(std::move(out));
  }

  int32_t store(const tenon_store_decl& decl) {
    if (decl.alias >= 0) {
      if (size_t(decl.alias) >= graph_.stores.size()) return refuse(fmt::format("store alias {} does not exist", decl.alias));
      const Store& read = graph_.stores[size_t(decl.alias)];
      if (decl.kind != read.kind || decl.heads != read.heads || decl.cols_k != read.cols_k || decl.cols_v != read.cols_v ||
          decl.window != read.window)
        return refuse(fmt::format("an alias of {} heads, {} and {} columns, window {}, of store {}, which has {}, {} and {}, {}",
                                  decl.heads, decl.cols_k, decl.cols_v, decl.window, decl.alias, read.heads, read.cols_k,
                                  read.cols_v, read.window));
      return decl.alias;
    }
    if (decl.target.size) return store_of_target(decl);
    if (graph_.stores.size() >= kMaxStores) return refuse("too many stores");
    if (!is_paged(decl.kind) && decl.kind != TENON_STORE_CONV && decl.kind != TENON_STORE_RECURRENT)
      return refuse(fmt::format("store kind {} is not served by this build", decl.kind));
    const bool is_latent = decl.kind == TENON_STORE_LATENT;
    if (decl.cols_k <= 0 || decl.cols_v < 0 || (!is_latent && !decl.cols_v) || decl.cols_k > kMaxCols || decl.cols_v > kMaxCols ||
        decl.window < 0)
      return refuse("a store needs positive widths");
    if (is_latent && (decl.heads != 1 || decl.cols_v || decl.window))
      return refuse(fmt::format("a latent store of {} heads, {} columns of values, window {}; it has one row a token, and all of them",
                                decl.heads, decl.cols_v, decl.window));
    Store out;
    out.kind = decl.kind, out.heads = decl.heads, out.window = decl.window;
    out.cols_k = decl.cols_k, out.cols_v = decl.cols_v, out.tape_cols = decl.tape_cols;
    if (out.kind == TENON_STORE_CONV) out.tape_cols = decl.cols_k;
    out.cut = decl.cut, out.layer = current_layer();
    if (TENON_HAS(&decl, role)) out.role = view(decl.role);
    graph_.stores.push_back(out);
    return int32_t(graph_.stores.size()) - 1;
  }

  int32_t input(uint32_t what) {
    Value value;
    value.input = what;
    if (what == TENON_INPUT_TOKENS) {
      value.encoding = TENON_ENC_I32, value.cols = 1;
    } else if (what == TENON_INPUT_HIDDEN) {
      if (!draft_) return refuse("hidden rows are an input of drafts");
      value.cols = draft_->width;
    } else if (what == TENON_INPUT_OVERLAY) {
      if (draft_) return refuse("overlay rows are an input of main, not of drafts");
      if (graph_.overlay < 0) graph_.overlay = add_value(value);  // as wide as the table that it goes with
      return graph_.overlay;
    } else {
      return refuse(fmt::format("input {} is not served by this build", what));
    }
    return add_value(value);
  }

  int32_t view_of(int32_t id, int64_t col0, int64_t cols, int64_t groups, int64_t group_step) {
    if (!is_value(id)) return refuse(fmt::format("view of value {}, which does not exist", id));
    const Value base = graph_.values[size_t(id)];
    if (base.is_view()) return refuse("view of a view");
    if (groups < 1 || cols < 1 || cols % groups || col0 < 0 || group_step < 0 || cols > kMaxCols || groups > kMaxCols)
      return refuse(fmt::format("view of {} columns in {} groups", cols, groups));
    const int64_t width = cols / groups;
    if (group_step > kMaxCols || col0 > base.cols || (groups > 1 && group_step < width) ||
        col0 + (groups - 1) * group_step + width > base.cols)
      return refuse(fmt::format("view of {} columns from {} in steps of {} leaves the {} columns of its value", cols, col0,
                                group_step, base.cols));
    if (base.encoding != TENON_ENC_F32) return refuse("view of a value that is not f32");
    Value out = base;
    out.base = id, out.col0 = col0, out.cols = cols, out.groups = groups, out.group_step = group_step;
    return add_value(out);
  }

  tenon_status op(uint32_t op, const void* attr, const int32_t* in, uint32_t n_in, const int32_t* weight, uint32_t n_weight,
                  const int32_t* store, uint32_t n_store, int32_t* out, uint32_t n_out) {
    const OpInfo* info = op_info(op);
    if (!info || op == TENON_OP_ENCODE) return fail(fmt::format("op {} ({}) is not served by this build", op, op_name(op)));
    if (graph_.nodes.size() >= kMaxNodes) return fail("too many nodes");
    if (n_in < info->min_in || n_in > info->max_in || n_weight < info->min_weight || n_weight > info->max_weight ||
        n_store != info->n_store)
      return fail(fmt::format("{} takes no {} inputs, {} weights, {} stores", info->name, n_in, n_weight, n_store));
    Node node;
    Signature signature = {};
    for (uint32_t i = 0; i < n_in; ++i) {
      if (!is_value(in[i])) return fail(fmt::format("{}: input {} does not exist", info->name, i));
      node.in.push_back(in[i]);
    }
    if (op == TENON_OP_EMBED && n_in == 2 && n_weight == 1) set_overlay_width(in[1], weight[0]);
    for (uint32_t i = 0; i < n_weight; ++i) {
      if (weight[i] < 0 || size_t(weight[i]) >= graph_.weights.size())
        return fail(fmt::format("{}: weight {} does not exist", info->name, i));
      node.weight.push_back(weight[i]);
    }
    for (uint32_t i = 0; i < n_store; ++i) {
      if (store[i] < 0 || size_t(store[i]) >= graph_.stores.size())
        return fail(fmt::format("{}: store {} does not exist", info->name, i));
      node.store.push_back(store[i]);
    }
    if (info->attr_bytes) {
      if (!attr) return fail(fmt::format("{} needs its attributes", info->name));
      uint32_t size = 0;
      std::memcpy(&size, attr, sizeof size);
      if (size != info->attr_bytes)
        return fail(fmt::format("{}: attributes of {} bytes, expected {}", info->name, size, info->attr_bytes));
      node.attr.assign(static_cast<const uint8_t*>(attr), static_cast<const uint8_t*>(attr) + size);
    }
    for (int32_t id : node.in) signature.in.push_back(&graph_.values[size_t(id)]);
    for (int32_t id : node.weight) signature.weight.push_back(&graph_.weights[size_t(id)]);
    for (int32_t id : node.store) signature.store.push_back(&graph_.stores[size_t(id)]);
    signature.attr = node.attr_data();
    node.op = op, node.layer = current_layer();
    node.name = node_name(*info, node);
    if (const std::string fault = info->infer(signature); !fault.empty()) return fail(node.name + ": " + fault);
    if (signature.out.size() != n_out)
      return fail(fmt::format("{} gives {} values, {} asked for", node.name, signature.out.size(), n_out));
    if (op == TENON_OP_ROPE && n_weight == 2) node.weight = {divided(node.weight[0], node.weight[1])};
    for (uint32_t i = 0; i < n_out; ++i) {
      if (signature.out[i].cols > kMaxCols) return fail(node.name + ": too many columns");
      out[i] = add_value(signature.out[i]);
      node.out.push_back(out[i]);
    }
    graph_.nodes.push_back(std::move(node));
    if (op == TENON_OP_LINEAR || op == TENON_OP_EMBED)
      for (uint32_t i = 0; i < n_weight; ++i) out[i] = times_factor(out[i], graph_.weights[size_t(weight[i])]);
    return TENON_OK;
  }

  tenon_status tap(int32_t value, tenon_str name) {
    if (!is_value(value)) return fail(fmt::format("tap of value {}, which does not exist", value));
    if (!is_whole(value)) return fail(fmt::format("tap {} is of a view or an input", view(name)));
    if (!graph_.taps.emplace(std::string(view(name)), value).second)
      return fail(fmt::format("tap {} is named twice", view(name)));
    return TENON_OK;
  }

  tenon_status logits(int32_t value, float softcap, const int32_t* never, uint32_t n_never) {
    if (!is_value(value)) return fail("logits of a value that does not exist");
    if (!is_whole(value)) return fail("logits of a view or an input");
    if (graph_.logits >= 0) return fail("logits are given twice");
    if (!(softcap >= 0) || !std::isfinite(softcap)) return fail("the softcap is not a positive number");
    for (uint32_t i = 0; i < n_never; ++i)
      if (never[i] < 0 || never[i] >= graph_.values[size_t(value)].cols)
        return fail(fmt::format("id {} is never to be sampled, but the logits are of ids 0 to {}", never[i],
                                graph_.values[size_t(value)].cols - 1));
    graph_.logits = value, graph_.softcap = softcap;
    graph_.never.assign(never, never + n_never);
    return TENON_OK;
  }

  tenon_status id_map(tenon_str canonical) {
    if (!draft_) return fail("an id map is for drafts");
    if (!names_.find(view(canonical))) return fail(fmt::format("id map {}: the files have no such tensor", view(canonical)));
    graph_.id_map = view(canonical);
    return TENON_OK;
  }

  Graph take() {
    if (!missing_.empty())
      throw Error(ErrorKind::kFile, fmt::format("{}: {} tensors are missing: {}", architecture_, missing_.size(),
                                                fmt::join(missing_, ", ")));
    if (!shapes_.empty()) throw Error(ErrorKind::kFile, fmt::format("{}", fmt::join(shapes_, "; ")));
    if (graph_.logits < 0) throw Error(ErrorKind::kRuntime, architecture_ + ": the graph has no logits");
    if (graph_.values[size_t(graph_.logits)].domain != TENON_DOMAIN_OUTPUT_ROWS)
      throw Error(ErrorKind::kRuntime, architecture_ + ": logits must follow select_rows");
    settle_overlay();
    return std::move(graph_);
  }

 private:
  static tenon_status fail(const std::string& message) { return plugin::set_message(TENON_INVALID_ARGUMENT, message); }
  static int32_t refuse(const std::string& message) { return -fail(message); }
  // The files are at fault, not the architecture: a draft and a model that were not made for each other.
  static int32_t misfit(const std::string& message) { return -plugin::set_message(TENON_CORRUPT, message); }
  bool is_value(int32_t id) const { return id >= 0 && size_t(id) < graph_.values.size(); }
  // Computed and stored as it is, so that its rows can be read after a run.
  bool is_whole(int32_t id) const { return !graph_.values[size_t(id)].is_view() && !graph_.values[size_t(id)].input; }
  uint32_t current_layer() const { return graph_.n_layers ? graph_.n_layers - 1 : kNoLayer; }

  int32_t add_value(const Value& value) {
    graph_.values.push_back(value);
    return int32_t(graph_.values.size()) - 1;
  }
  void set_overlay_width(int32_t overlay, int32_t weight) {
    if (overlay != graph_.overlay || weight < 0 || size_t(weight) >= graph_.weights.size()) return;
    Value& value = graph_.values[size_t(overlay)];
    if (!value.cols) value.cols = graph_.weights[size_t(weight)].cols;
  }
  // Where nobody gives rows nothing is left of them: kernels are chosen as for a model that has never heard of images.
  void settle_overlay() {
    for (Node& node : graph_.nodes) {
      if (node.op == TENON_OP_EMBED && !with_overlay_) node.in.resize(1);
      if (node.op != TENON_OP_ATTENTION) continue;
      auto attr = node.attr_as<tenon_attention_attr>();
      if (!with_overlay_) attr.span_mask = 0;
      graph_.sees_spans = graph_.sees_spans || attr.span_mask;
      std::memcpy(node.attr.data(), &attr, sizeof attr);
    }
    if (!with_overlay_) graph_.overlay = -1;
  }
  std::optional<int32_t> find_weight(uint32_t source, const std::string& name) const {
    const auto found = graph_.weight_ids.find({source, name});
    return found == graph_.weight_ids.end() ? std::nullopt : std::optional(found->second);
  }
  int32_t weight_of_target(const tenon_weight_decl& decl) const {
    const std::string name(view(decl.target));
    const auto found = draft_ ? find_weight(0, name) : std::nullopt;
    if (!found) return misfit(fmt::format("weight {} of the model drafted for: it has none", name));
    const Weight& theirs = graph_.weights[size_t(*found)];
    if ((decl.rows && decl.rows != theirs.rows) || (decl.cols && decl.cols != theirs.cols))
      return misfit(fmt::format("weight {} of the model drafted for has {} rows of {} columns, but {} expects {} of {}", name,
                                theirs.rows, theirs.cols, architecture_, decl.rows, decl.cols));
    return *found;
  }
  int32_t store_of_target(const tenon_store_decl& decl) {
    const std::string role(view(decl.target));
    if (!draft_) return refuse(fmt::format("store {} of a model drafted for: this is no draft", role));
    int32_t target = -1;
    for (size_t i = 0; i < draft_->main.stores.size(); ++i)
      if (draft_->main.stores[i].role == role) target = int32_t(i);
    if (target < 0) return misfit(fmt::format("the model drafted for has no store \"{}\"", role));
    Store out = draft_->main.stores[size_t(target)];
    if (!is_paged(out.kind) || out.kind != decl.kind || out.heads != decl.heads || out.cols_k != decl.cols_k ||
        out.cols_v != decl.cols_v || out.window != decl.window)
      return misfit(fmt::format("store \"{}\" of the model drafted for has {} heads, {} and {} columns, window {}, but {} expects "
                                "{}, {} and {}, {}", role, out.heads, out.cols_k, out.cols_v, out.window, architecture_, decl.heads,
                                decl.cols_k, decl.cols_v, decl.window));
    out.target = target, out.layer = current_layer();
    graph_.stores.push_back(out);
    return int32_t(graph_.stores.size()) - 1;
  }
  int32_t add_weight(Weight weight) {
    const int32_t id = int32_t(graph_.weights.size());
    weight.source = source_;
    graph_.weight_ids[{source_, weight.name}] = id;
    graph_.weights.push_back(std::move(weight));
    return id;
  }

  // The constant divided by a tensor, as one weight of its own. Weights are loaded in order, the divisor before it.
  int32_t divided(int32_t constant, int32_t divisor) {
    const auto [known, fresh] = divided_.try_emplace({constant, divisor}, int32_t(graph_.weights.size()));
    if (fresh) {
      Weight out = graph_.weights[size_t(constant)];
      out.name += " / " + graph_.weights[size_t(divisor)].name, out.divisor = divisor;
      add_weight(std::move(out));
    }
    return known->second;
  }

  // Integers have values only together with scales, which are tensors that no format has joined to them.
  void check_dtype(const std::string& name, const Binding& binding) {
    for (const source::Tensor* t : binding.tensors())
      if (t->dtype >= TENON_DTYPE_I8 && t->dtype <= TENON_DTYPE_U8)
        return shapes_.push_back(fmt::format("tensor {}: holds plain integers, but {} expects a float or quantized type; scales beside "
                                             "integers are not served ({})", t->name, architecture_, name));
  }

  void check_shape(const std::string& name, const tenon_weight_decl& decl, const Binding& binding) {
    if (binding.transform == TENON_TRANSFORM_STACK_EXPERTS) return check_stack(name, decl, binding);
    if (binding.transform == TENON_TRANSFORM_JOIN_ROWS) return check_join(name, decl, binding);
    const source::Tensor& t = *binding.tensor;
    const bool reshaped = binding.transform == TENON_TRANSFORM_RESHAPE, turned = binding.transform == TENON_TRANSFORM_TRANSPOSE;
    const bool vector = (t.cols() == 1 || t.rows() == 1) && (decl.cols == 1 || decl.rows == 1);
    // The rows of a stack's matrices count through where one matrix is cut out of it.
    const int64_t matrices = binding.cuts_rows() && !decl.n_expert ? t.experts() : 1;
    const int64_t all = t.rows() * matrices, experts = (decl.n_expert ? decl.n_expert : 1) * matrices;
    int64_t rows = t.rows(), cols = t.cols();
    if (binding.cuts_rows()) {
      if (all != binding.group || binding.a < 0 || binding.b > binding.group || binding.a >= binding.b)
        return shapes_.push_back(fmt::format("tensor {}: {} rows, but {} expects {} and takes {} to {} of them ({})", t.name, all,
                                             architecture_, binding.group, binding.a, binding.b - 1, name));
      rows = binding.b - binding.a;
    }
    if (turned) std::swap(rows, cols);
    int64_t count = 1;
    for (const int64_t d : t.dim) count *= d;  // checked when the file was opened
    const bool fits = reshaped ? count == decl.cols * decl.rows * experts
                               : t.experts() == experts && ((cols == decl.cols && rows == decl.rows) ||
                                                            (vector && cols * rows == decl.cols * decl.rows));
    if (!fits || (turned && decl.n_expert))
      shapes_.push_back(fmt::format("tensor {}: shape [{}], but {} expects [{}, {}{}] ({}{})", t.name, fmt::join(t.dim, ", "),
                                    architecture_, turned ? decl.rows : decl.cols, turned ? decl.cols : decl.rows,
                                    decl.n_expert ? fmt::format(", {}", decl.n_expert) : "", name, turned ? ", turned" : ""));
  }

  // Tensors whose rows lie behind one another: all there, of one width and dtype, and as many rows as are declared. Of
  // vectors the entries do.
  void check_join(const std::string& name, const tenon_weight_decl& decl, const Binding& binding) {
    const bool vector = decl.rows == 1 && !decl.n_expert;
    int64_t total = 0;
    for (size_t i = 0; i < binding.joined.size(); ++i) {
      const source::Tensor* t = binding.joined[i];
      if (!t) return missing_.push_back(fmt::format("{} (to be joined into {})", binding.joined_names[i], name));
      const bool fits = !decl.n_expert && t->experts() == 1 && (vector ? t->rows() == 1 : t->cols() == decl.cols);
      if (!fits)
        return shapes_.push_back(fmt::format("tensor {}: shape [{}], but {} expects {} to be joined into {}", t->name,
                                             fmt::join(t->dim, ", "), architecture_,
                                             vector ? "a vector" : fmt::format("rows of {} columns", decl.cols), name));
      if (t->dtype != binding.tensor->dtype)
        return shapes_.push_back(fmt::format("tensor {}: another dtype than {}; what is joined must be alike ({})", t->name,
                                             binding.tensor->name, name));
      if (t->factors_apart)
        return shapes_.push_back(fmt::format("tensor {}: has a factor of its own, and cannot be joined ({})", t->name, name));
      total += vector ? t->cols() : t->rows();
    }
    if (const int64_t wanted = vector ? decl.cols : decl.rows; total != wanted)
      shapes_.push_back(fmt::format("tensors {}: {} {} together, but {} expects {} ({})", fmt::join(binding.joined_names, ", "), total,
                                    vector ? "entries" : "rows", architecture_, wanted, name));
  }

  // One tensor an expert: all there, all alike.
  void check_stack(const std::string& name, const tenon_weight_decl& decl, const Binding& binding) {
    int64_t first = 0;
    while (binding.experts.contains(first)) ++first;
    if (first < int64_t(decl.n_expert))
      shapes_.push_back(fmt::format("{}: {} of {} experts are there, number {} is missing beside {}", name, binding.experts.size(),
                                    decl.n_expert, first, binding.tensor->name));
    for (const auto& [number, tensor] : binding.experts) {
      if (number >= int64_t(decl.n_expert))
        shapes_.push_back(fmt::format("tensor {}: {} declares {} experts ({})", tensor->name, architecture_, decl.n_expert, name));
      else if (tensor->cols() != decl.cols || tensor->rows() != decl.rows || tensor->experts() != 1)
        shapes_.push_back(fmt::format("tensor {}: shape [{}], but {} expects [{}, {}] ({})", tensor->name, fmt::join(tensor->dim, ", "),
                                      architecture_, decl.cols, decl.rows, name));
      else if (tensor->dtype != binding.tensor->dtype)
        shapes_.push_back(fmt::format("tensor {}: another dtype than {}; the experts of a layer must be alike ({})", tensor->name,
                                      binding.tensor->name, name));
    }
  }

  // A product with a weight whose file keeps one factor of all its values beside it. No kernel needs to know of it.
  int32_t times_factor(int32_t id, const Weight& weight) {
    const NameMap& names = weight.source == source_ ? names_ : *draft_->names;
    const Binding* binding = weight.is_constant ? nullptr : names.find(weight.name);
    if (!binding || !binding->tensor->factors_apart) return id;
    tenon_scale_attr attr = {sizeof attr, 1.0f};
    std::memcpy(&attr.factor, names.source().data(*binding->tensor->plane(TENON_PLANE_MACRO)), sizeof attr.factor);
    if (attr.factor == 1.0f) return id;
    if (const Node& product = graph_.nodes.back(); product.op == TENON_OP_EMBED && product.in.size() == 2 && with_overlay_)
      shapes_.push_back(fmt::format("weight {} has a factor beside it, which would scale overlay rows too", weight.name));
    Node node;
    node.op = TENON_OP_SCALE, node.layer = current_layer(), node.name = weight.name + " factor";
    node.attr.assign(reinterpret_cast<const uint8_t*>(&attr), reinterpret_cast<const uint8_t*>(&attr) + sizeof attr);
    node.in = {id};
    const Value scaled = graph_.values[size_t(id)];
    node.out = {add_value(scaled)};
    graph_.nodes.push_back(std::move(node));
    return graph_.nodes.back().out[0];
  }

  std::string node_name(const OpInfo& info, const Node& node) const {
    if (!node.weight.empty()) return graph_.weights[size_t(node.weight[0])].name;
    const std::string layer = node.layer == kNoLayer ? "" : fmt::format("blk.{}.", node.layer);
    return fmt::format("{}{}", layer, info.name);
  }

  std::string architecture_;
  const NameMap& names_;
  const DraftFor* draft_;
  bool with_overlay_;
  uint32_t source_;
  Graph graph_;
  std::map<std::pair<int32_t, int32_t>, int32_t> divided_;
  std::vector<std::string> missing_, shapes_;
};

// Calls a member of the Builder that `self` points to; an exception becomes a negative id or a status.
template <auto member, typename Result, typename... Args>
Result call(void* self, Args... args) noexcept {
  try {
    return (static_cast<Builder*>(self)->*member)(args...);
  } catch (const std::exception& error) {
    const tenon_status status = plugin::set_message(TENON_INTERNAL, error.what());
    return std::is_same_v<Result, int32_t> ? -status : status;
  }
}

tenon_builder table_of(Builder& builder) {
  tenon_builder table = {};
  table.struct_size = sizeof table, table.abi_minor = TENON_ABI_MINOR, table.self = &builder;
  table.layer = [](void* s, uint32_t i) noexcept { return call<&Builder::layer, int32_t>(s, i); };
  table.weight = [](void* s, const tenon_weight_decl* d) noexcept {
    return call<&Builder::weight, int32_t, const tenon_weight_decl&>(s, *d);
  };
  table.has_weight = [](void* s, tenon_str n) noexcept { return call<&Builder::has_weight, int32_t>(s, n); };
  table.constant = [](void* s, tenon_str n, const float* v, int64_t r, int64_t c) noexcept {
    return call<&Builder::constant, int32_t>(s, n, v, r, c);
  };
  table.store = [](void* s, const tenon_store_decl* d) noexcept {
    return call<&Builder::store, int32_t, const tenon_store_decl&>(s, *d);
  };
  table.input = [](void* s, uint32_t what) noexcept { return call<&Builder::input, int32_t>(s, what); };
  table.view = [](void* s, int32_t v, int64_t c0, int64_t c, int64_t g, int64_t step) noexcept {
    return call<&Builder::view_of, int32_t>(s, v, c0, c, g, step);
  };
  table.op = [](void* s, uint32_t op, const void* a, const int32_t* in, uint32_t ni, const int32_t* w, uint32_t nw,
                const int32_t* st, uint32_t ns, int32_t* out, uint32_t no) noexcept {
    return call<&Builder::op, tenon_status>(s, op, a, in, ni, w, nw, st, ns, out, no);
  };
  table.tap = [](void* s, int32_t v, tenon_str n) noexcept { return call<&Builder::tap, tenon_status>(s, v, n); };
  table.id_map = [](void* s, tenon_str n) noexcept { return call<&Builder::id_map, tenon_status>(s, n); };
  table.logits = [](void* s, int32_t v, float cap, const int32_t* never, uint32_t n) noexcept {
    return call<&Builder::logits, tenon_status>(s, v, cap, never, n);
  };
  return table;
}

}  // namespace

Graph build_graph(const tenon_architecture& architecture, void* model, std::string_view entry, const NameMap& names,
                  const DraftFor* draft, bool with_overlay) {
  const std::string name(view(architecture.name));
  Builder builder(name, names, draft, with_overlay);
  const tenon_builder table = table_of(builder);
  plugin::check_status(architecture.build(model, {entry.data(), entry.size()}, &table),
                       fmt::format("{}: building entry \"{}\"", name, entry));
  return builder.take();
}

}  // namespace tenon::graph
