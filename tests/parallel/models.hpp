// models.hpp: test models over ranks, and what they compute.
#pragma once

#include <tenon/engine.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace tenon::parallel_test {

Engine& engine();  // plugins of the build tree, and the tests' own collective

// The first GGUF of tests/data/models/<architecture>; and written again as Q8_0, whose blocks are short enough for the cuts
// of so small a model: once a process.
std::string model_path(const std::string& architecture);
std::string cuttable(const std::string& architecture);

ModelOptions options_for(const std::string& path);  // 2 threads, 2 sequences of 256 tokens, chunks of 64
std::vector<int32_t> tokens(uint32_t seed, size_t n, const Model& model);

// Logits of two prefill chunks and more, of plain steps, of a transaction that is kept in part, of a fork and of what comes
// back from a save.
std::vector<float> trace(Model& model);

}  // namespace tenon::parallel_test
