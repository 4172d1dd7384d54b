// The shapes of the models that docs/performance.md speaks of.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "bench_case.hpp"
#include "ops/composite_text.hpp"

namespace tenon::gpu_bench {
namespace {

template <typename Attr>
std::vector<uint8_t> bytes_of(const Attr& attr) {
  std::vector<uint8_t> out(sizeof attr);
  std::memcpy(out.data(), &attr, sizeof attr);
  return out;
}

// Rows as the two phases have them: sequences of one new token each, or a prompt.
std::vector<SeqRows> sequences_of(uint32_t rows, bool is_prompt, int32_t past) {
  if (is_prompt) return {SeqRows{past, int32_t(rows)}};
  return std::vector<SeqRows>(rows, SeqRows{past, 1});
}

class Cases {
 public:
  explicit Cases(bool is_small) : is_small_(is_small) {}
  std::vector<BenchCase> take() { return std::move(all_); }
  const std::vector<uint32_t>& decode_rows() const { return is_small_ ? small_rows_ : decode_rows_; }
  uint32_t prompt() const { return is_small_ ? 20 : 4096; }

  void linear(const std::string& name, std::vector<BenchWeight> weights, bool is_prompt, uint32_t domain = TENON_DOMAIN_TOKENS) {
    for (const uint32_t rows : is_prompt ? std::vector<uint32_t>{prompt()} : decode_rows()) {
      BenchCase c = make(name, "linear", TENON_OP_LINEAR, rows, is_prompt);
      c.attr = bytes_of(tenon_linear_attr{sizeof(tenon_linear_attr), 0});
      c.in = {{weights[0].cols}}, c.weights = weights, c.domain = domain;
      for (const BenchWeight& w : weights) {
        c.out_cols.push_back(w.rows);
        c.flops += 2.0 * rows * double(w.rows * w.cols);
      }
      all_.push_back(std::move(c));
    }
  }

  void attention(const std::string& name, uint32_t heads, uint32_t kv_heads, uint32_t dim, int32_t window,
                 std::vector<int32_t> lengths, bool is_prompt, const std::string& dtype = "f16") {
    for (const int32_t keys : lengths)
      for (const uint32_t rows : is_prompt ? std::vector<uint32_t>{uint32_t(keys)} : std::vector<uint32_t>{1, 8}) {
        BenchCase c = make(name + ", " + std::to_string(keys) + " keys", "attention", TENON_OP_ATTENTION, rows, is_prompt,
                           is_prompt ? 0 : keys - 1);
        c.attr = bytes_of(tenon_attention_attr{sizeof(tenon_attention_attr), heads, kv_heads, dim, dim, window,
                                               1 / std::sqrt(float(dim)), 0, 0, 0});
        c.in = {{int64_t(heads) * dim}}, c.out_cols = {int64_t(heads) * dim};
        c.stores = {store_of(Store::paged(kv_heads, dim, dim, dtype, dtype, 1, 64, window))};
        const double reach = window ? std::min(window, keys) : keys;
        double pairs = double(rows) * reach;
        if (is_prompt) pairs = reach * reach / 2 + (keys - reach) * reach;
        c.flops = 4.0 * pairs * heads * dim;
        c.read_keys = is_prompt ? uint64_t(keys) : uint64_t(rows * reach);
        all_.push_back(std::move(c));
      }
  }

  void delta(const std::string& name, uint32_t key_heads, uint32_t value_heads, uint32_t dim, bool is_prompt) {
    for (const uint32_t rows : is_prompt ? std::vector<uint32_t>{prompt()} : decode_rows()) {
      BenchCase c = make(name, "gated_delta_rule", TENON_OP_GATED_DELTA_RULE, rows, is_prompt, 64);
      c.attr = bytes_of(tenon_gated_delta_rule_attr{sizeof(tenon_gated_delta_rule_attr), key_heads, value_heads, dim, dim,
                                                    TENON_HEAD_MAP_MOD, 1 / std::sqrt(float(dim)), 0});
      const int64_t keys = int64_t(key_heads) * dim, values = int64_t(value_heads) * dim;
      c.in = {{keys}, {keys}, {values}, {value_heads}, {value_heads}}, c.out_cols = {values};
      c.weights = {{"f32", 1, value_heads}, {"f32", 1, value_heads}};
      c.stores = {store_of(Store::recurrent(key_heads, value_heads, dim, dim, 1))};
      c.flops = 7.0 * rows * value_heads * dim * dim;
      all_.push_back(std::move(c));
    }
  }

  void conv(const std::string& name, int64_t channels, bool is_prompt) {
    for (const uint32_t rows : is_prompt ? std::vector<uint32_t>{prompt()} : decode_rows()) {
      BenchCase c = make(name, "short_conv", TENON_OP_SHORT_CONV, rows, is_prompt, 64);
      c.attr = bytes_of(tenon_short_conv_attr{sizeof(tenon_short_conv_attr), 4, TENON_ACT_SILU, 0});
      c.in = {{channels}}, c.out_cols = {channels}, c.weights = {{"f32", channels, 4}};
      c.stores = {store_of(Store::conv(uint32_t(channels), 4, 1))};
      all_.push_back(std::move(c));
    }
  }

  void experts(const std::string& name, uint32_t n, uint32_t top_k, int64_t width, int64_t hidden, const std::string& dtype,
               const std::string& down, uint32_t activation, bool is_prompt) {
    for (const uint32_t rows : is_prompt ? std::vector<uint32_t>{prompt()} : decode_rows()) {
      BenchCase c = make(name, "expert_ffn", TENON_OP_EXPERT_FFN, rows, is_prompt);
      c.attr = bytes_of(tenon_expert_ffn_attr{sizeof(tenon_expert_ffn_attr), activation, 0, 0, 0, top_k});
      c.in = {{width}, {top_k, n}, {top_k}}, c.out_cols = {width};
      c.weights = {{dtype, hidden, width, n}, {dtype, hidden, width, n}, {down, width, hidden, n}};
      c.flops = 6.0 * rows * top_k * double(width * hidden);
      all_.push_back(std::move(c));
    }
  }

  void route(const std::string& name, int64_t n, uint32_t top_k) {
    for (const uint32_t rows : decode_rows()) {
      BenchCase c = make(name, "route", TENON_OP_ROUTE, rows, false);
      c.attr = bytes_of(tenon_route_attr{sizeof(tenon_route_attr), top_k, 0, 1, 1, 0});
      c.in = {{n}}, c.out_cols = {top_k, top_k};
      all_.push_back(std::move(c));
    }
  }

  void norm(const std::string& name, int64_t cols, uint32_t group, bool is_prompt) {
    for (const uint32_t rows : is_prompt ? std::vector<uint32_t>{prompt()} : std::vector<uint32_t>{1}) {
      BenchCase c = make(name, "norm", TENON_OP_NORM, rows, is_prompt);
      c.attr = bytes_of(tenon_norm_attr{sizeof(tenon_norm_attr), TENON_NORM_RMS, 1e-6f, group});
      c.in = {{cols}}, c.out_cols = {cols}, c.weights = {{"f32", 1, group ? group : cols}};
      all_.push_back(std::move(c));
    }
  }

  void pair(const std::string& name, const char* pattern, uint32_t op, int64_t cols, bool is_prompt) {
    for (const uint32_t rows : is_prompt ? std::vector<uint32_t>{prompt()} : std::vector<uint32_t>{1}) {
      BenchCase c = make(name, pattern, op, rows, is_prompt);
      if (op == TENON_OP_GLU) c.attr = bytes_of(tenon_glu_attr{sizeof(tenon_glu_attr), TENON_ACT_SILU, 0, 0});
      if (op == TENON_OP_GATE) c.attr = bytes_of(tenon_gate_attr{sizeof(tenon_gate_attr), TENON_ACT_SIGMOID, 1, 0});
      c.in = {{cols}, {cols}}, c.out_cols = {cols};
      all_.push_back(std::move(c));
    }
  }

  void rope(const std::string& name, int64_t heads, uint32_t dim, uint32_t n_rot, bool is_prompt) {
    for (const uint32_t rows : is_prompt ? std::vector<uint32_t>{prompt()} : std::vector<uint32_t>{1}) {
      BenchCase c = make(name, "rope", TENON_OP_ROPE, rows, is_prompt, 100);
      c.attr = bytes_of(tenon_rope_attr{sizeof(tenon_rope_attr), TENON_ROPE_HALF, dim, n_rot, {0, 0, 0, 0}, 1, 0});
      c.in = {{heads * dim}}, c.out_cols = {heads * dim}, c.weights = {{"f32", 1, n_rot / 2}};
      all_.push_back(std::move(c));
    }
  }

  void kv_write(const std::string& name, uint32_t heads, uint32_t dim, bool is_prompt) {
    for (const uint32_t rows : is_prompt ? std::vector<uint32_t>{prompt()} : std::vector<uint32_t>{1}) {
      BenchCase c = make(name, "kv_write", TENON_OP_KV_WRITE, rows, is_prompt, 500);
      c.attr = bytes_of(tenon_kv_write_attr{sizeof(tenon_kv_write_attr), heads, dim, dim});
      c.in = {{int64_t(heads) * dim}, {int64_t(heads) * dim}};
      c.stores = {store_of(Store::paged(heads, dim, dim, "f16", "f16", 1, 64))};
      c.read_keys = rows;
      all_.push_back(std::move(c));
    }
  }

  void head(const std::string& name, const std::string& dtype, int64_t vocab, int64_t width) {
    linear(name, {{dtype, vocab, width}}, false, TENON_DOMAIN_OUTPUT_ROWS);
  }

  // Norms, rotations and new rows of the cache, between the projections and the attention.
  void heads(const std::string& name, uint32_t heads, uint32_t kv_heads, uint32_t dim, uint32_t n_rot, uint32_t rows) {
    BenchCase c = make(name, "", TENON_OP_COMPOSITE, rows, false, 500);
    const auto norm = bytes_of(tenon_norm_attr{sizeof(tenon_norm_attr), TENON_NORM_RMS, 1e-6f, dim});
    const auto rope = bytes_of(tenon_rope_attr{sizeof(tenon_rope_attr), TENON_ROPE_HALF, dim, n_rot, {0, 0, 0, 0}, 1, 0});
    const int64_t q = int64_t(heads) * dim, kv = int64_t(kv_heads) * dim;
    c.in = {{q}, {kv}, {kv}}, c.out_cols = {q};
    c.weights = {{"f32", 1, dim}, {"f32", 1, dim}, {"f32", 1, n_rot / 2}};
    c.stores = {store_of(Store::paged(kv_heads, dim, dim, "f16", "f16", 1, 64))}, c.read_keys = rows;
    fused(std::move(c), "cuda.fused.norm_rope_kv_write", {norm, norm, rope, rope, bytes_of(tenon_kv_write_attr{
          sizeof(tenon_kv_write_attr), kv_heads, dim, dim})});
  }

  // The gated delta rule between its norms, gate and encoding.
  void delta_chain(const std::string& name, uint32_t key_heads, uint32_t value_heads, uint32_t dim, uint32_t rows) {
    BenchCase c = make(name, "", TENON_OP_COMPOSITE, rows, false, 64);
    const int64_t keys = int64_t(key_heads) * dim, values = int64_t(value_heads) * dim;
    const auto norm = [&](uint32_t kind) { return bytes_of(tenon_norm_attr{sizeof(tenon_norm_attr), kind, 1e-6f, dim}); };
    c.in = {{keys}, {keys}, {values}, {value_heads}, {value_heads}, {values}}, c.out_cols = {values};
    c.weights = {{"f32", 1, value_heads}, {"f32", 1, value_heads}, {"f32", 1, dim}};
    c.stores = {store_of(Store::recurrent(key_heads, value_heads, dim, dim, 1))};
    c.flops = 7.0 * rows * value_heads * dim * dim;
    fused(std::move(c), "cuda.fused.norm_gated_delta_rule_norm_gate_encode",
          {norm(TENON_NORM_L2), norm(TENON_NORM_L2),
           bytes_of(tenon_gated_delta_rule_attr{sizeof(tenon_gated_delta_rule_attr), key_heads, value_heads, dim, dim,
                                                TENON_HEAD_MAP_MOD, 1 / std::sqrt(float(dim)), 0}),
           norm(TENON_NORM_RMS), bytes_of(tenon_gate_attr{sizeof(tenon_gate_attr), TENON_ACT_SILU, 1, 0}),
           bytes_of(tenon_encode_attr{sizeof(tenon_encode_attr), TENON_ENC_Q8_32})});
  }

  // Composites of row-wise ops, and of products where the text has them, for rows of `cols` numbers.
  void composites(const std::string& name, int64_t cols, int64_t other, const std::string& dtype, uint32_t rows, bool is_prompt) {
    for (const tenon_kernel* kernel : testing::Kit::instance().all_kernels()) {
      const std::string text(kernel->pattern.data, size_t(kernel->pattern.size));
      if (std::string_view(kernel->backend.data, size_t(kernel->backend.size)) != "cuda") continue;
      if (text.find("->") != std::string::npos) composite(name, text, cols, other, dtype, rows, is_prompt);
    }
  }

 private:
  BenchCase make(const std::string& name, const char* pattern, uint32_t op, uint32_t rows, bool is_prompt, int32_t past = 0) const {
    BenchCase c;
    c.name = name, c.pattern = pattern, c.op = op;
    c.phase = is_prompt ? TENON_PHASE_PREFILL : TENON_PHASE_DECODE;
    c.sequences = sequences_of(rows, is_prompt, past);
    return c;
  }

  static BenchStore store_of(const Store& s) {
    BenchStore out;
    out.type = s.type;
    out.page_bytes = s.page_bytes, out.value_offset = s.value_offset, out.aux_bytes = s.aux_bytes;
    out.token_bytes = s.page_tokens ? s.page_bytes / s.page_tokens : 0;
    return out;
  }

  // Inputs, weights and stores are in the order of the kernel's text; attributes are those of its statements.
  void fused(BenchCase c, const std::string& kernel, const std::vector<std::vector<uint8_t>>& attributes) {
    const tenon_kernel& record = testing::Kit::instance().kernel(kernel);
    c.pattern.assign(record.pattern.data, size_t(record.pattern.size));
    const cuda::CompositeText text = cuda::read_composite(c.pattern);
    c.value_cols.assign(size_t(text.n_values), 0);
    for (size_t i = 0; i < c.in.size(); ++i) c.value_cols[i] = c.in[i].cols;
    for (size_t i = 0; i < text.statements.size(); ++i) {
      const auto& s = text.statements[i];
      const bool is_state = s.op == "gated_delta_rule";
      Part part;
      part.op = s.op == "rope"       ? TENON_OP_ROPE
                : s.op == "kv_write" ? TENON_OP_KV_WRITE
                : s.op == "gate"     ? TENON_OP_GATE
                : s.op == "encode"   ? TENON_OP_ENCODE
                : is_state           ? TENON_OP_GATED_DELTA_RULE
                                     : TENON_OP_NORM;
      part.attr = attributes.at(i);
      part.in.assign(s.in.begin(), s.in.end()), part.weight.assign(s.weight.begin(), s.weight.end());
      if (s.op == "kv_write" || is_state) part.store = {0};
      if (s.out >= 0) {
        part.out = {size_t(s.out)};
        c.value_cols[size_t(s.out)] = c.value_cols[size_t(s.in[is_state ? 2 : 0])];
      }
      c.parts.push_back(std::move(part));
    }
    for (const int id : text.out) c.part_outputs.push_back(size_t(id));
    all_.push_back(std::move(c));
  }

  void composite(const std::string& name, const std::string& text, int64_t cols, int64_t other, const std::string& dtype,
                 uint32_t rows, bool is_prompt) {
    static constexpr struct {
      const char* name;
      uint32_t op;
    } kOps[] = {{"norm", TENON_OP_NORM}, {"add", TENON_OP_ADD},   {"mul", TENON_OP_MUL},       {"scale", TENON_OP_SCALE},
                {"glu", TENON_OP_GLU},   {"gate", TENON_OP_GATE}, {"encode", TENON_OP_ENCODE}, {"linear", TENON_OP_LINEAR}};
    cuda::CompositeText read;
    try {
      read = cuda::read_composite(text);
    } catch (const std::exception&) {
      return;  // a text that this reader does not know has cases of its own
    }
    BenchCase c = make(name, "", TENON_OP_COMPOSITE, rows, is_prompt);
    c.pattern = text;
    std::vector<int64_t>& width = c.value_cols;
    width.assign(size_t(read.n_values), 0);
    for (const auto& s : read.statements) {
      const auto op = std::find_if(std::begin(kOps), std::end(kOps), [&](const auto& one) { return one.name == s.op; });
      if (op == std::end(kOps) || s.out < 0) return;
      int64_t in = 0;
      for (const int id : s.in) in = std::max(in, width[size_t(id)]);
      if (!in) in = cols;
      for (const int id : s.in)
        if (!width[size_t(id)]) width[size_t(id)] = in;
      width[size_t(s.out)] = op->op == TENON_OP_LINEAR ? other : in;
      Part part;
      part.op = op->op, part.attr = attr_of(op->op);
      part.in.assign(s.in.begin(), s.in.end()), part.out = {size_t(s.out)};
      for (const int id : s.weight) {
        part.weight.push_back(size_t(id));
        if (c.weights.size() <= size_t(id)) c.weights.resize(size_t(id) + 1);
        if (op->op == TENON_OP_LINEAR) c.flops += 2.0 * rows * double(other * in);
        c.weights[size_t(id)] = op->op == TENON_OP_LINEAR ? BenchWeight{dtype, other, in}
                                : op->op == TENON_OP_MUL  ? BenchWeight{"f32", 1, 1}
                                                          : BenchWeight{"f32", 1, in};
      }
      c.parts.push_back(std::move(part));
    }
    for (int i = 0; i < read.n_in; ++i) c.in.push_back({width[size_t(i)] ? width[size_t(i)] : cols});
    for (const int id : read.out) c.out_cols.push_back(width[size_t(id)]), c.part_outputs.push_back(size_t(id));
    all_.push_back(std::move(c));
  }

  static std::vector<uint8_t> attr_of(uint32_t op) {
    switch (op) {
      case TENON_OP_NORM:
        return bytes_of(tenon_norm_attr{sizeof(tenon_norm_attr), TENON_NORM_RMS, 1e-6f, 0});
      case TENON_OP_SCALE:
        return bytes_of(tenon_scale_attr{sizeof(tenon_scale_attr), 0.5f});
      case TENON_OP_GLU:
        return bytes_of(tenon_glu_attr{sizeof(tenon_glu_attr), TENON_ACT_SILU, 0, 0});
      case TENON_OP_GATE:
        return bytes_of(tenon_gate_attr{sizeof(tenon_gate_attr), TENON_ACT_SIGMOID, 1, 0});
      case TENON_OP_ENCODE:
        return bytes_of(tenon_encode_attr{sizeof(tenon_encode_attr), TENON_ENC_Q8_32});
      case TENON_OP_LINEAR:
        return bytes_of(tenon_linear_attr{sizeof(tenon_linear_attr), 0});
      default:
        return {};
    }
  }

  bool is_small_;
  std::vector<uint32_t> decode_rows_ = {1, 8, 32}, small_rows_ = {2};
  std::vector<BenchCase> all_;
};

// A dense pair of products of a model, in both phases.
void products(Cases& cases, bool is_prompt) {
  cases.linear("qwen35-27b gate, up", {{"q4_k", 17408, 5120}, {"q4_k", 17408, 5120}}, is_prompt);
  cases.linear("qwen35-27b gate", {{"q4_k", 17408, 5120}}, is_prompt);
  cases.linear("qwen35-27b down", {{"q4_k", 5120, 17408}}, is_prompt);
  cases.linear("qwen35-27b down", {{"q6_k", 5120, 17408}}, is_prompt);
  cases.linear("qwen35-27b qkv, z", {{"q4_k", 10240, 5120}, {"q4_k", 6144, 5120}}, is_prompt);
  cases.linear("qwen35-27b out", {{"q4_k", 5120, 6144}}, is_prompt);
  cases.linear("qwen35-27b gate, up", {{"fp8_b128", 17408, 5120}, {"fp8_b128", 17408, 5120}}, is_prompt);
  cases.linear("qwen35-27b down", {{"fp8_b128", 5120, 17408}}, is_prompt);
  cases.linear("gemma4-31b gate, up", {{"q8_0", 21504, 5376}, {"q8_0", 21504, 5376}}, is_prompt);
  cases.linear("gemma4-31b down", {{"q8_0", 5376, 21504}}, is_prompt);
  cases.linear("gemma4-31b q, k, v", {{"q8_0", 8192, 5376}, {"q8_0", 4096, 5376}, {"q8_0", 4096, 5376}}, is_prompt);
  cases.linear("gemma4-26b-a4b q, k, v", {{"q8_0", 4096, 2816}, {"q8_0", 2048, 2816}, {"q8_0", 2048, 2816}}, is_prompt);
  cases.linear("gemma4-e4b gate, up", {{"q8_0", 10240, 2560}, {"q8_0", 10240, 2560}}, is_prompt);
  if (is_prompt) return;
  cases.linear("qwen35-27b alpha, beta", {{"f32", 48, 5120}, {"f32", 48, 5120}}, false);
  cases.linear("qwen35-27b attn q", {{"q4_k", 12288, 5120}}, false);
  cases.linear("qwen35-35b-a3b qkv, z", {{"q4_k", 8192, 2048}, {"q4_k", 4096, 2048}}, false);
  cases.linear("qwen35-35b-a3b shared", {{"q4_k", 512, 2048}, {"q4_k", 512, 2048}}, false);
  cases.linear("qwen35-35b-a3b router", {{"f32", 256, 2048}}, false);
  cases.linear("step35 q, k, v", {{"q4_k", 12288, 4096}, {"q4_k", 1024, 4096}, {"q4_k", 1024, 4096}}, false);
  cases.linear("gemma4-26b-a4b gate, up", {{"q8_0", 2112, 2816}, {"q8_0", 2112, 2816}}, false);
  cases.linear("gemma4-e4b per layer", {{"q8_0", 256, 2560}}, false);
  cases.head("qwen35-27b head", "q6_k", 248320, 5120);
  cases.head("gemma4-31b head", "q8_0", 262144, 5376);
  cases.head("qwen35-35b-a3b head", "q6_k", 248320, 2048);
}

void mixtures(Cases& cases, bool is_prompt) {
  cases.experts("qwen35-35b-a3b experts", 256, 8, 2048, 512, "q4_k", "q6_k", TENON_ACT_SILU, is_prompt);
  cases.experts("gemma4-26b-a4b experts", 128, 8, 2816, 704, "q8_0", "q8_0", TENON_ACT_GELU_TANH, is_prompt);
  cases.experts("step35 experts", 288, 8, 4096, 1280, "q4_k", "q4_k", TENON_ACT_SILU, is_prompt);
}

void sequences(Cases& cases, bool is_prompt) {
  const std::vector<int32_t> lengths = is_prompt ? std::vector<int32_t>{2048} : std::vector<int32_t>{512, 32768};
  const std::vector<int32_t> windowed = is_prompt ? lengths : std::vector<int32_t>{1024};
  cases.attention("qwen35-27b 24/4 of 256", 24, 4, 256, 0, lengths, is_prompt);
  cases.attention("qwen35-35b-a3b 16/2 of 256", 16, 2, 256, 0, lengths, is_prompt);
  cases.attention("gemma4-31b 32/4 of 512", 32, 4, 512, 0, lengths, is_prompt);
  cases.attention("gemma4-31b 32/16 of 256, window 1024", 32, 16, 256, 1024, windowed, is_prompt);
  cases.attention("gemma4-26b-a4b 16/2 of 512", 16, 2, 512, 0, lengths, is_prompt);
  cases.attention("step35 64/8 of 128", 64, 8, 128, 0, lengths, is_prompt);
  cases.attention("gemma4-e4b 8/2 of 512", 8, 2, 512, 0, lengths, is_prompt);
  cases.delta("qwen35-27b 16/48", 16, 48, 128, is_prompt);
  cases.delta("qwen35-35b-a3b 16/32", 16, 32, 128, is_prompt);
  cases.conv("qwen35-27b conv", 10240, is_prompt);
}

void small_ops(Cases& cases, bool is_prompt) {
  cases.norm("qwen35-27b norm", 5120, 0, is_prompt);
  cases.norm("qwen35-27b q norm", 24 * 256, 256, is_prompt);
  cases.pair("qwen35-27b residual", "add", TENON_OP_ADD, 5120, is_prompt);
  cases.pair("qwen35-27b glu", "glu", TENON_OP_GLU, 17408, is_prompt);
  cases.pair("qwen35-27b gate", "gate", TENON_OP_GATE, 6144, is_prompt);
  cases.rope("qwen35-27b rope", 24, 256, 64, is_prompt);
  cases.kv_write("qwen35-27b keys, values", 4, 256, is_prompt);
}

std::vector<BenchCase> small_cases() {
  Cases cases(true);
  cases.linear("small", {{"q4_k", 64, 256}, {"q8_0", 32, 256}}, false);
  cases.linear("small", {{"f32", 16, 256}}, false);
  cases.linear("small", {{"fp8_b128", 128, 256}}, false);
  cases.linear("small", {{"q6_k", 32, 256}}, true);
  cases.head("small head", "q6_k", 128, 256);
  cases.attention("small 4/2 of 64", 4, 2, 64, 0, {70}, false);
  cases.attention("small 4/2 of 64", 4, 2, 64, 0, {70}, true);
  cases.delta("small", 1, 2, 32, false);
  cases.conv("small", 64, false);
  cases.experts("small", 5, 2, 256, 256, "q4_k", "q8_0", TENON_ACT_SILU, false);
  cases.route("small", 32, 4);
  cases.norm("small", 256, 64, false);
  cases.pair("small", "add", TENON_OP_ADD, 256, false);
  cases.rope("small", 2, 64, 64, false);
  cases.kv_write("small", 2, 64, false);
  cases.heads("small", 2, 1, 64, 64, 2);
  cases.delta_chain("small", 1, 2, 32, 2);
  cases.composites("small", 256, 256, "q4_k", 1, false);
  return cases.take();
}

}  // namespace

std::string BenchCase::dtypes() const {
  std::string out;
  for (const BenchWeight& w : weights)
    if (out.find(w.dtype) == std::string::npos) out += (out.empty() ? "" : " ") + w.dtype;
  for (const BenchStore& s : stores) {
    if (s.type.kind != TENON_STORE_PAGED) continue;
    const tenon_str name = records().dtype_record(s.type.dtype_k)->name;
    out += std::string(name.data, size_t(name.size));
  }
  return out.empty() ? "f32" : out;
}

std::vector<BenchCase> bench_cases(bool is_small) {
  if (is_small) return small_cases();
  Cases cases(false);
  products(cases, false);
  mixtures(cases, false);
  sequences(cases, false);
  cases.route("qwen35-35b-a3b route", 256, 8);
  small_ops(cases, false);
  for (const uint32_t rows : cases.decode_rows()) {
    cases.heads("qwen35-27b heads", 24, 4, 256, 64, rows);
    cases.heads("gemma4-31b heads", 32, 16, 256, 256, rows);
    cases.delta_chain("qwen35-27b 16/48", 16, 48, 128, rows);
    cases.delta_chain("qwen35-35b-a3b 16/32", 16, 32, 128, rows);
  }
  cases.composites("qwen35-27b", 5120, 17408, "q4_k", 1, false);
  products(cases, true);
  mixtures(cases, true);
  sequences(cases, true);
  small_ops(cases, true);
  cases.composites("qwen35-27b", 5120, 17408, "q4_k", cases.prompt(), true);
  return cases.take();
}

}  // namespace tenon::gpu_bench
