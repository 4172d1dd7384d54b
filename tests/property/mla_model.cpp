#include "mla_model.hpp"

#include <bit>
#include <cmath>
#include <fstream>
#include <functional>
#include <random>
#include <vector>

#include "../source/temp_folder.hpp"
#include "gguf_builder.hpp"

namespace tenon::property {
namespace {

using Gguf = test::GgufBuilder;

constexpr uint32_t kF32 = 0, kBf16 = 30;  // GGUF's numbers
using M = MlaFile;

std::string bytes_of(const std::vector<float>& values, uint32_t type) {
  std::string out;
  for (const float v : values)
    out += type == kF32 ? Gguf::bytes_of(v) : Gguf::bytes_of(uint16_t(std::bit_cast<uint32_t>(v) >> 16));
  return out;
}

class Writer {
 public:
  // Products of unit rows with it are about `gain`.
  void matrix(const std::string& name, int64_t rows, int64_t cols, float gain = 1, uint32_t type = kF32) {
    add(name, {cols, rows}, type, numbers(name, rows * cols, gain / std::sqrt(float(cols))));
  }
  void norm(const std::string& name, int64_t n) {
    std::vector<float> values = numbers(name, n, 0.1f);
    for (float& v : values) v += 1;
    add(name, {n}, kF32, values);
  }
  void add(const std::string& name, std::vector<int64_t> dims, uint32_t type, const std::vector<float>& values) {
    gguf.tensor({name, type, std::move(dims), bytes_of(values, type)});
  }
  static std::vector<float> numbers(const std::string& name, int64_t n, float scale) {
    uint32_t seed = 2166136261u;
    for (const char c : name) seed = (seed ^ uint8_t(c)) * 16777619u;
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, scale);
    std::vector<float> out(static_cast<size_t>(n));
    for (float& v : out) v = normal(random);
    return out;
  }

  Gguf gguf;
};

// Head after head the rows of keys, then of values. Stacked, those of keys are turned.
void add_heads(Writer& w, const std::string& prefix, bool has_stacks) {
  constexpr int64_t kStep = M::kNope + M::kValue;
  const std::string name = prefix + "attn_kv_b.weight";
  if (!has_stacks) return w.matrix(name, M::kHeads * kStep, M::kRank, 1, kBf16);
  const std::vector<float> all = Writer::numbers(name, M::kHeads * kStep * M::kRank, 1 / std::sqrt(float(M::kRank)));
  std::vector<float> keys, values;
  for (int64_t h = 0; h < M::kHeads; ++h) {
    const auto head = all.begin() + h * kStep * M::kRank;
    for (int64_t r = 0; r < M::kRank; ++r)
      for (int64_t c = 0; c < M::kNope; ++c) keys.push_back(head[c * M::kRank + r]);
    values.insert(values.end(), head + M::kNope * M::kRank, head + kStep * M::kRank);
  }
  w.add(prefix + "attn_k_b.weight", {M::kNope, M::kRank, M::kHeads}, kBf16, keys);
  w.add(prefix + "attn_v_b.weight", {M::kRank, M::kValue, M::kHeads}, kBf16, values);
}

}  // namespace

std::string write_mla(const std::string& folder, const MlaFile& file) {
  Writer w;
  const auto number = [&](const std::string& key, int64_t value) { w.gguf.add("mla." + key, Gguf::kU32, uint32_t(value)); };
  w.gguf.add_string("general.architecture", "mla");
  w.gguf.add_string("mla.form", file.is_absorbed ? "absorbed" : "naive");
  number("block_count", M::kLayers), number("vocab_size", M::kVocab), number("embedding_length", M::kWidth);
  number("attention.head_count", M::kHeads), number("attention.kv_lora_rank", M::kRank);
  number("attention.q_lora_rank", file.query_rank), number("rope.dimension_count", M::kRope);
  number("attention.key_length", M::kNope + M::kRope), number("attention.value_length", M::kValue);
  if (file.scale > 0) w.gguf.add("mla.attention.scale", Gguf::kF32, file.scale);
  w.matrix("token_embd.weight", M::kVocab, M::kWidth, 8);
  w.norm("output_norm.weight", M::kWidth);
  for (int64_t i = 0; i < M::kLayers; ++i) {
    const std::string prefix = "blk." + std::to_string(i) + ".";
    const auto matrix = [&](const char* name, int64_t rows, int64_t cols, float gain = 1) {
      w.matrix(prefix + name + ".weight", rows, cols, gain);
    };
    for (const char* norm : {"attn_norm.weight", "ffn_norm.weight"}) w.norm(prefix + norm, M::kWidth);
    const int64_t queries = M::kHeads * (M::kNope + M::kRope);
    if (file.query_rank) {
      matrix("attn_q_a", file.query_rank, M::kWidth);
      w.norm(prefix + "attn_q_a_norm.weight", file.query_rank);
      matrix("attn_q_b", queries, file.query_rank, 2);
    } else {
      matrix("attn_q", queries, M::kWidth, 2);
    }
    matrix("attn_kv_a", M::kRank, M::kWidth), matrix("attn_k_pe", M::kRope, M::kWidth);
    w.norm(prefix + "attn_kv_a_norm.weight", M::kRank);
    add_heads(w, prefix, file.has_stacks);
    matrix("attn_output", M::kWidth, M::kHeads * M::kValue, 4);
    matrix("ffn_gate", 2 * M::kWidth, M::kWidth), matrix("ffn_up", 2 * M::kWidth, M::kWidth);
    matrix("ffn_down", M::kWidth, 2 * M::kWidth, 2);
  }
  std::string path = folder + "/mla-" + std::to_string(std::hash<std::string>()(w.gguf.build())) + ".gguf";
  std::ofstream(path, std::ios::binary) << w.gguf.build();
  return path;
}

const std::string& mla_model() {
  static const test::TempFolder folder;
  static const std::string path = write_mla(folder.path(), {});
  return path;
}

}  // namespace tenon::property
