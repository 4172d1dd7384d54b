// property.hpp: cases and helpers of the exactness tests. Equal means: the same bytes.
#pragma once

#include <gtest/gtest.h>
#include <tenon/abi.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <tenon/engine.hpp>
#include <vector>

namespace tenon::property {

using Tokens = std::vector<int32_t>;

// A model on a backend at a precision.
struct Case {
  std::string name, path, backend;
  Precision precision;
  // The reference is a scalar oracle, and the far device runs its kernels: tests give them less to do.
  bool is_slow() const { return backend == "reference" || backend == "far"; }
};
std::ostream& operator<<(std::ostream& out, const Case& c);

// The models of tests/data, one with latent attention that is made when the tests run, and those of TENON_PROPERTY_MODELS, on every backend of this machine's own; the far device
// has a few, at exact precision.
std::vector<Case> all_cases();
// The same without the reference at default precision, which differs from exact in the rounding of K/V only.
std::vector<Case> most_cases();
std::string case_name(const ::testing::TestParamInfo<Case>& info);
std::string data_model(const std::string& architecture);  // path of the first model in tests/data/models/<architecture>
bool has_plugin(const std::string& name);

Engine& engine();  // of all tests; plugins from the build tree only

class PropertyTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override;  // skips where the backend's plugin is not built
  // The case's model: 2 threads, 20 sequences of 640 tokens, chunks of 512, 64 decode rows; `change` may alter that.
  std::unique_ptr<Model> load(const std::function<void(ModelOptions&)>& change = {}) const;
};

Tokens random_tokens(uint32_t seed, size_t n, const Model& model);
std::span<const int32_t> part(const Tokens& tokens, size_t begin, size_t n);

// Appends the tokens in one call; logits of every row.
std::vector<float> feed(Model& model, Sequence& sequence, std::span<const int32_t> tokens,
                        const ForwardOptions& options = {});
// The same, one plain decode step a token.
std::vector<float> feed_singly(Model& model, Sequence& sequence, std::span<const int32_t> tokens);

// A prompt, single steps, wide steps, a transaction of which a part stays, and the state that is left.
struct Trace {
  std::vector<float> logits;
  std::vector<uint8_t> saved;
};
Trace trace(Model& model, bool is_slow);

::testing::AssertionResult same(std::span<const float> found, std::span<const float> expected);
::testing::AssertionResult same(const std::vector<uint8_t>& found, const std::vector<uint8_t>& expected);
bool all_finite(std::span<const float> values);

}  // namespace tenon::property
