#include "whole_model.hpp"

#include <cstring>
#include <tenon/chat_template.hpp>
#include <tenon/engine.hpp>
#include <tenon/tokenizer.hpp>

#include "allocation_watch.hpp"
#include "engine/loaded.hpp"
#include "plugin/plugin_host.hpp"
#include "source/model_source.hpp"
#include "target.hpp"

namespace tenon::fuzz {
namespace {

// Bad input is the file's fault, and the message says what.
template <typename Call>
bool succeeds(const char* what, Call&& call) {
  try {
    call();
    return true;
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kFile || error.kind() == ErrorKind::kCapacity,
            std::string(what) + ": kind of: " + error.what());
    require(std::strlen(error.what()) > 8, std::string(what) + ": a message");
    return false;
  }
}

// Every byte that the source promises can be read.
void touch(const source::ModelSource& source) {
  uint64_t sum = 0;
  const Metadata& metadata = source.metadata();
  for (size_t i = 0; i < metadata.size(); ++i) {
    const tenon_value& value = metadata.value_at(i);
    if (value.type == TENON_VALUE_STRING)
      for (uint64_t k = 0; k < value.string.size; ++k) sum += uint8_t(value.string.data[k]);
    if (value.type != TENON_VALUE_ARRAY || value.element != TENON_VALUE_STRING) continue;
    for (uint64_t k = 0; k < value.count; ++k) {
      const tenon_str text = static_cast<const tenon_str*>(value.data)[k];
      if (text.size) sum += uint8_t(text.data[text.size - 1]);
    }
  }
  for (const source::Tensor& tensor : source.tensors())
    for (const source::Plane& plane : tensor.planes) {
      const uint8_t* data = source.data(plane);
      sum += data[0] + data[plane.bytes - 1];
    }
  [[maybe_unused]] static volatile uint64_t seen;
  seen = sum;
}

}  // namespace

WholeModel::WholeModel() : plugins_(plugin::PluginHostOptions{{TENON_TEST_PLUGINS}, false}) {
  set_log_level("off");
  AllocationWatch::install();
  for (const auto& plugin : plugins_.plugins())
    require(plugin.refusal.empty(), "plugin " + plugin.name + " is used: " + plugin.refusal);
}

void WholeModel::check(const std::string& path, uint64_t bytes) {
  AllocationWatch::begin();
  const bool opened = succeeds("open", [&] {
    const auto source = source::ModelSource::open(path, plugins_);
    touch(*source);
    succeeds("tokenizer", [&] {
      const auto tokenizer = make_tokenizer(source->metadata());
      tokenizer->decode(tokenizer->encode("Hello  wörld\n<eos> 123", {}));
    });
    succeeds("chat template", [&] {
      const auto text = source->metadata().string("tokenizer.chat_template");
      if (text) ChatTemplate::parse(*text);
    });
  });
  if (opened) {
    succeeds("load", [&] {
      ModelOptions options;
      options.path = path, options.backend = "reference", options.context = 128;
      const engine::Loaded loaded(plugins_, options);
      require(loaded.vocab() > 0, "a loaded model has a vocabulary");
    });
  }
  require(AllocationWatch::peak_bytes() <= bytes + kAllowedBytes, "at most " + std::to_string(kAllowedBytes) +
                                                                      " bytes beyond the file's, not " +
                                                                      std::to_string(AllocationWatch::peak_bytes()));
}

}  // namespace tenon::fuzz
