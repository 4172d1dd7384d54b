// A GGUF file: the format plugin, the core's checks, the tokenizer, the chat template, the architecture's parameters,
// names, graph and the tables of its small weights. No kernel runs.
#include <tenon/abi.h>

#include <cstring>
#include <tenon/chat_template.hpp>
#include <tenon/engine.hpp>
#include <tenon/tokenizer.hpp>

#include "allocation_watch.hpp"
#include "engine/loaded.hpp"
#include "memory_file.hpp"
#include "plugin/plugin_host.hpp"
#include "source/model_source.hpp"
#include "target.hpp"

namespace {

using tenon::fuzz::AllocationWatch;
using tenon::fuzz::require;

struct World {
  tenon::fuzz::MemoryFile file;
  tenon::plugin::PluginHost plugins{{{TENON_TEST_PLUGINS}, false}};
  World() {
    tenon::set_log_level("off");
    AllocationWatch::install();
    for (const auto& plugin : plugins.plugins())
      require(plugin.refusal.empty(), "plugin " + plugin.name + " is used: " + plugin.refusal);
  }
};

// Bad input is the file's fault, and the message says what.
template <typename Call>
bool succeeds(const char* what, Call&& call) {
  try {
    call();
    return true;
  } catch (const tenon::Error& error) {
    require(error.kind() == tenon::ErrorKind::kFile || error.kind() == tenon::ErrorKind::kCapacity,
            std::string(what) + ": kind of: " + error.what());
    require(std::strlen(error.what()) > 8, std::string(what) + ": a message");
    return false;
  }
}

// Every byte that the source promises can be read.
void touch(const tenon::source::ModelSource& source) {
  uint64_t sum = 0;
  const tenon::Metadata& metadata = source.metadata();
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
  for (const tenon::source::Tensor& tensor : source.tensors())
    for (const tenon::source::Plane& plane : tensor.planes) {
      const uint8_t* data = source.data(plane);
      sum += data[0] + data[plane.bytes - 1];
    }
  [[maybe_unused]] static volatile uint64_t seen;
  seen = sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static World world;
  world.file.set(data, size);
  AllocationWatch::begin();
  bool opened = succeeds("open", [&] {
    const auto source = tenon::source::ModelSource::open(world.file.path(), world.plugins);
    touch(*source);
    succeeds("tokenizer", [&] {
      const auto tokenizer = tenon::make_tokenizer(source->metadata());
      tokenizer->decode(tokenizer->encode("Hello  wörld\n<eos> 123", {}));
    });
    succeeds("chat template", [&] {
      const auto text = source->metadata().string("tokenizer.chat_template");
      if (text) tenon::ChatTemplate::parse(*text);
    });
  });
  if (opened) {
    succeeds("load", [&] {
      tenon::ModelOptions options;
      options.path = world.file.path(), options.backend = "reference", options.context = 128;
      const tenon::engine::Loaded loaded(world.plugins, options);
      require(loaded.vocab() > 0, "a loaded model has a vocabulary");
    });
  }
  require(AllocationWatch::peak_bytes() <= size + tenon::fuzz::kAllowedBytes,
          "at most " + std::to_string(tenon::fuzz::kAllowedBytes) + " bytes beyond the file's, not " +
              std::to_string(AllocationWatch::peak_bytes()));
  return 0;
}
