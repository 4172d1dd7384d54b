// whole_model.hpp: a model's files through everything before the first kernel.
#pragma once

#include <cstdint>
#include <string>

#include "plugin/plugin_host.hpp"

namespace tenon::fuzz {

// Keeps the plugins from one input to the next.
class WholeModel {
 public:
  WholeModel();
  // The format plugin, the core's checks, the tokenizer, the chat template, the architecture's parameters, names, graph
  // and the tables of its small weights. Stops the program where a fault of the files ends in anything but an error
  // that says so, or takes more memory than kAllowedBytes beyond `bytes`, the size of the files.
  void check(const std::string& path, uint64_t bytes);

 private:
  plugin::PluginHost plugins_;
};

}  // namespace tenon::fuzz
