// write_fake IN.gguf OUT.fake DTYPE|same DIRECTORY…: writes a qwen3 model as the container of fake_format/format.cpp,
// under the names of Hugging Face files. DTYPE is what matrices are encoded to, by the encoder of a plugin in the
// directories; the values must come back within 0.6 of a step of 6-bit codes.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "plugin/plugin_host.hpp"
#include "source/model_source.hpp"

namespace {

using tenon::source::Tensor;

const std::pair<const char*, const char*> kNames[] = {{"token_embd.", "model.embed_tokens."},
                                                      {"output_norm.", "model.norm."},
                                                      {"blk.", "model.layers."},
                                                      {"attn_norm.", "input_layernorm."},
                                                      {"attn_q.", "self_attn.q_proj."},
                                                      {"attn_k.", "self_attn.k_proj."},
                                                      {"attn_v.", "self_attn.v_proj."},
                                                      {"attn_q_norm.", "self_attn.q_norm."},
                                                      {"attn_k_norm.", "self_attn.k_norm."},
                                                      {"attn_output.", "self_attn.o_proj."},
                                                      {"ffn_norm.", "post_attention_layernorm."},
                                                      {"ffn_gate.", "mlp.gate_proj."},
                                                      {"ffn_up.", "mlp.up_proj."},
                                                      {"ffn_down.", "mlp.down_proj."}};

// GGUF key without its prefix, key of the config.
const std::pair<const char*, const char*> kIntegers[] = {{"block_count", "num_hidden_layers"},
                                                         {"embedding_length", "hidden_size"},
                                                         {"feed_forward_length", "intermediate_size"},
                                                         {"context_length", "max_position_embeddings"},
                                                         {"attention.head_count", "num_attention_heads"},
                                                         {"attention.head_count_kv", "num_key_value_heads"},
                                                         {"attention.key_length", "head_dim"}};
const std::pair<const char*, const char*> kReals[] = {{"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
                                                      {"rope.freq_base", "rope_theta"}};

std::string hf_name(const std::string& gguf) {
  std::string name = "." + gguf;
  for (const auto& [from, to] : kNames)
    if (const size_t at = name.find(std::string(".") + from); at != std::string::npos)
      name.replace(at + 1, std::strlen(from), to);
  return name.substr(1);
}

std::string_view view(tenon_str text) { return {text.data, size_t(text.size)}; }

class Writer {
 public:
  Writer(const tenon::source::ModelSource& source, const tenon::plugin::Registry& registry, uint32_t dtype)
      : source_(source), registry_(registry), dtype_(dtype) {}

  void write(const std::string& path) {
    std::string text = "meta model_type string qwen3\n";
    const auto line = [&](const char* key, const char* type, const std::string& value) {
      text += std::string("meta ") + key + " " + type + " " + value + "\n";
    };
    for (const auto& [from, to] : kIntegers) line(to, "integer", std::to_string(value(from).integer));
    for (const auto& [from, to] : kReals) {
      char number[32];
      std::snprintf(number, sizeof number, "%.17g", value(from).real);
      line(to, "real", number);
    }
    uint64_t vocab = 0;
    std::string data;
    std::vector<std::pair<std::string, uint64_t>> entries;  // text up to the offset, bytes
    std::vector<uint64_t> offsets;
    for (const Tensor& tensor : source_.tensors()) {
      if (tensor.name == "token_embd.weight") vocab = uint64_t(tensor.rows());
      const bool vector = tensor.dim.size() < 2;
      const uint32_t dtype = vector || dtype_ == TENON_DTYPE_NONE ? tensor.dtype : dtype_;
      data.resize((data.size() + 63) / 64 * 64);
      offsets.push_back(data.size());
      const std::string bytes = dtype == tensor.dtype ? raw(tensor) : encoded(tensor, *registry_.dtype(dtype));
      data += bytes;
      entries.emplace_back("tensor " + hf_name(tensor.name) + " " + std::string(view(registry_.dtype(dtype)->name)) +
                               " " + std::to_string(tensor.cols()) + " " + std::to_string(vector ? 0 : tensor.rows()) +
                               " ",
                           bytes.size());
    }
    line("vocab_size", "integer", std::to_string(vocab));
    constexpr uint64_t kData = 16384;  // where the tensors begin; the text is shorter
    for (size_t i = 0; i < entries.size(); ++i)
      text += entries[i].first + std::to_string(kData + offsets[i]) + " " + std::to_string(entries[i].second) + "\n";
    if (text.size() + 8 > kData) throw std::runtime_error("the text is too long");
    const auto length = uint32_t(text.size());
    text.insert(0, reinterpret_cast<const char*>(&length), sizeof length);
    text.insert(0, "FAKE");
    text.resize(kData);
    std::ofstream out(path, std::ios::binary);
    out << text << data;
    if (!out.flush()) throw std::runtime_error(path + " cannot be written");
  }

 private:
  const tenon_value& value(const char* key) const {
    const tenon_value* found = source_.metadata().find(std::string("qwen3.") + key);
    if (!found) throw std::runtime_error(std::string("no key ") + key);
    return *found;
  }

  std::string raw(const Tensor& tensor) const {
    const auto& plane = tensor.planes[0];
    return {reinterpret_cast<const char*>(source_.data(plane)), size_t(plane.bytes)};
  }

  static tenon_weight weight_of(const Tensor& tensor, const tenon_dtype& dtype, const void* data) {
    tenon_weight weight = {};
    weight.struct_size = sizeof weight;
    weight.plane[0] = reinterpret_cast<tenon_addr>(data);
    weight.rows = tensor.rows(), weight.cols = tensor.cols();
    weight.row_bytes = tensor.cols() / dtype.block_cols * dtype.block_bytes;
    return weight;
  }

  std::string encoded(const Tensor& tensor, const tenon_dtype& to) const {
    const tenon_dtype& from = *registry_.dtype(tensor.dtype);
    const std::string name(view(to.name));
    const int64_t rows = tensor.rows(), cols = tensor.cols();
    if (!to.encode) throw std::runtime_error(name + " has no encoder");
    if (cols % to.block_cols) throw std::runtime_error(tensor.name + ": columns do not fit " + name);
    std::vector<float> values(size_t(rows * cols)), back(values.size());
    const tenon_weight source = weight_of(tensor, from, source_.data(tensor.planes[0]));
    if (from.decode(&source, 0, rows, values.data()) != TENON_OK) throw std::runtime_error("decode of " + tensor.name);
    std::string bytes(size_t(rows * (cols / to.block_cols) * to.block_bytes), '\0');
    const tenon_weight target = weight_of(tensor, to, bytes.data());
    if (to.encode(values.data(), rows, cols, &target) != TENON_OK) throw std::runtime_error("encode of " + tensor.name);
    if (to.check && to.check(&target, 0, rows) != TENON_OK) throw std::runtime_error("check of " + tensor.name);
    if (to.decode(&target, 0, rows, back.data()) != TENON_OK) throw std::runtime_error("decode of " + name);
    for (size_t begin = 0; begin < values.size(); begin += to.block_cols) {
      float most = 0, off = 0;
      for (size_t i = begin; i < begin + to.block_cols; ++i) {
        most = std::max(most, std::fabs(values[i]));
        off = std::max(off, std::fabs(values[i] - back[i]));
      }
      if (!(off <= 0.6f * most / 31)) throw std::runtime_error(tensor.name + ": a value of " + name + " is off");
    }
    return bytes;
  }

  const tenon::source::ModelSource& source_;
  const tenon::plugin::Registry& registry_;
  uint32_t dtype_;
};

}  // namespace

int main(int n, char** arguments) {
  try {
    if (n < 5) throw std::runtime_error("usage: write_fake IN OUT DTYPE|same DIRECTORY…");
    tenon::plugin::PluginHostOptions options;
    options.use_default_path = false;
    options.plugin_path.assign(arguments + 4, arguments + n);
    tenon::plugin::PluginHost plugins(options);
    const auto source = tenon::source::ModelSource::open(arguments[1], plugins);
    uint32_t dtype = TENON_DTYPE_NONE;
    if (std::string_view(arguments[3]) != "same") {
      plugins.open_dtype(arguments[3]);
      dtype = plugins.registry().dtype_id(arguments[3]);
      if (dtype == TENON_DTYPE_NONE) throw std::runtime_error("no plugin registers that dtype\n" + plugins.refusals());
    }
    Writer(*source, plugins.registry(), dtype).write(arguments[2]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "write_fake: %s\n", error.what());
    return 1;
  }
}
