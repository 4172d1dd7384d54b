// tensor_checks.hpp: what the core checks of a format's tensors again, so that a faulty format plugin cannot make it
// read outside a file.
#pragma once

#include <span>

#include "../plugin/registry.hpp"
#include "model_source.hpp"

namespace tenon::source {

struct FileExtent {
  std::string name;
  uint64_t size;
};

// Copies a format's record and checks it: name, dimensions, dtypes, sizes, ranges. Throws Error(kFile).
Tensor checked_tensor(const tenon_tensor& record, std::span<const FileExtent> files, const plugin::Registry& registry);

// Tensor names must differ, and no two tensors may share bytes.
void check_tensors_apart(const std::vector<Tensor>& tensors, std::span<const FileExtent> files);

}  // namespace tenon::source
