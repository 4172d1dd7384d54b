// models.hpp: test models over ranks, and what they compute.
#pragma once

#include <tenon/engine.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace tenon::parallel_test {

// Where things are; to be changed before the first use.
struct Places {
  std::vector<std::string> plugins;  // of the build tree, and the tests' own
  std::string data;
};
Places& places();
Engine& engine();

// The first GGUF of <data>/models/<architecture>; and written again in a type whose blocks are short enough for the cuts
// of so small a model: once a process.
std::string model_path(const std::string& architecture);
std::string cuttable(const std::string& architecture, const std::string& type = "Q8_0");

ModelOptions options_for(const std::string& path);  // 2 threads, 2 sequences of 256 tokens, chunks of 64
std::vector<int32_t> tokens(uint32_t seed, size_t n, const Model& model);

size_t n_different(const std::vector<float>& found, const std::vector<float>& expected);  // values, in any bit
double relative_error(const std::vector<float>& found, const std::vector<float>& expected);

// Logits of two prefill chunks and more, of plain steps, of a transaction that is kept in part, of a fork and of what comes
// back from a save.
std::vector<float> trace(Model& model);

}  // namespace tenon::parallel_test
