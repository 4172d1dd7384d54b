// convert.hpp: a model whose files follow another naming scheme, said in that of the file to be written.
#pragma once

#include "model_file.hpp"
#include "plugin/plugin_host.hpp"

#include <memory>

namespace tenon::quantize {

// What FileContents borrow from after a conversion: the configured architecture, its graph and names.
class Conversion {
 public:
  // Names and keys as the architecture says that files of `scheme` have them, weights with their transforms applied and in
  // that scheme's order, the tokenizer's keys. Throws Error(kFile) where the model cannot be said so.
  Conversion(plugin::PluginHost& plugins, const source::ModelSource& source, std::string_view scheme, FileContents& out);
  ~Conversion();
  Conversion(const Conversion&) = delete;
  Conversion& operator=(const Conversion&) = delete;

  // Tensors of the source that the file will not have: they are in no graph, such as draft blocks and vision towers.
  uint64_t n_left_out() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenon::quantize
