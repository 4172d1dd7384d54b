// write_tensors.hpp: brings the values of a file's tensors into their dtypes, slice by slice on several threads.
#pragma once

#include "model_file.hpp"

#include <tenon/engine.hpp>

#include <vector>

namespace tenon::quantize {

// Bytes of a tensor in its dtype. Throws Error(kFile) where they pass 2^63.
uint64_t tensor_bytes(const FileTensor& tensor, const plugin::Registry& registry);

// Writes every tensor at its place. Holds a slice of values a thread at a time; source pages go back when a tensor is
// done. Throws Error(kFile) for values that are not finite or too large for the dtype, Error(kInterrupted) when asked to
// stop, and what the sink throws.
void write_tensors(const std::vector<FileTensor>& tensors, const std::vector<uint64_t>& offsets, const source::ModelSource& source,
                   const plugin::Registry& registry, const QuantizeOptions& options, const QuantizeSink& sink);

}  // namespace tenon::quantize
