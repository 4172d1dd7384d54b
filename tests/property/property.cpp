#include "property.hpp"

#include "mla_model.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <set>

namespace tenon::property {
namespace {

namespace fs = std::filesystem;

// GGUF files of folder/<architecture>, in the order of their names.
std::vector<fs::path> models_in(const fs::path& folder, const std::string& architecture) {
  std::vector<fs::path> out;
  std::error_code absent;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder / architecture, absent))
    if (entry.path().extension() == ".gguf") out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

// Architectures of the test models, and when they are tested. Three have every kind of store and window, and experts;
// what others add is their geometry. Where more models are asked for, all are tested with everything but the far device,
// whose matter is where and when work is done.
enum class When { kWithEverything, kOnCpuAtDefault, kOnDemand };
struct Tested {
  const char* architecture;
  When when;
};
constexpr Tested kTested[] = {
    {"gemma3", When::kWithEverything}, {"qwen35", When::kWithEverything},  {"qwen35moe", When::kWithEverything},
    {"gemma4", When::kOnCpuAtDefault}, {"gemma4e", When::kOnCpuAtDefault}, {"llama", When::kOnCpuAtDefault},
    {"step35", When::kOnCpuAtDefault}, {"gemma4moe", When::kOnDemand},     {"qwen3", When::kOnDemand}};

bool is_tested(When when, const std::string& backend, Precision precision) {
  if (when == When::kWithEverything) return true;
  return when == When::kOnCpuAtDefault && backend == "cpu" && precision == Precision::kDefault;
}

std::string word(const std::string& text) {
  std::string out = text;
  for (char& c : out)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return out;
}

template <typename T>
::testing::AssertionResult same_bytes(std::span<const T> found, std::span<const T> expected) {
  if (found.size() != expected.size())
    return ::testing::AssertionFailure() << found.size() << " values, expected " << expected.size();
  if (std::memcmp(found.data(), expected.data(), found.size_bytes()) == 0) return ::testing::AssertionSuccess();
  size_t first = 0, n = 0;
  for (size_t i = found.size(); i-- > 0;)
    if (std::memcmp(&found[i], &expected[i], sizeof(T))) first = i, ++n;
  return ::testing::AssertionFailure() << n << " of " << found.size() << " values differ, the first at " << first
                                       << ": " << +found[first] << ", expected " << +expected[first];
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

namespace {

// A store that no architecture of the test models has yet.
void add_latent_cases(std::vector<Case>& out) {
  for (const std::string backend : {"reference", "cpu", "far"})
    for (const Precision precision : {Precision::kExact, Precision::kDefault})
      if (backend != "far" || precision == Precision::kExact)
        out.push_back({"mla_" + backend + (precision == Precision::kExact ? "_exact" : "_default"), mla_model(), backend, precision});
}

}  // namespace

std::vector<Case> all_cases() {
  std::vector<fs::path> folders = {fs::path(TENON_TEST_DATA) / "models"};
  if (const char* more = std::getenv("TENON_PROPERTY_MODELS"); more && *more) folders.emplace_back(more);
  std::vector<Case> out;
  std::set<std::pair<std::string, uintmax_t>> known;  // the other folder may hold the same files
  for (size_t f = 0; f < folders.size(); ++f)
    for (const Tested& tested : kTested)
      for (const fs::path& path : models_in(folders[f], tested.architecture)) {
        if (f && std::string_view(tested.architecture) == "qwen35moe") continue;  // the same layers as in tests/data
        if (!known.emplace(path.filename(), fs::file_size(path)).second) continue;
        for (const std::string backend : {"reference", "cpu", "far"})
          for (const Precision precision : {Precision::kExact, Precision::kDefault}) {
            if (backend == "far" && (tested.when != When::kWithEverything || precision == Precision::kDefault)) continue;
            if (folders.size() < 2 && !is_tested(tested.when, backend, precision)) continue;
            const std::string name = word(path.stem().string()) + (f ? "_more_" : "_") + backend;
            out.push_back(
                {name + (precision == Precision::kExact ? "_exact" : "_default"), path.string(), backend, precision});
          }
      }
  add_latent_cases(out);
  return out;
}

std::vector<Case> most_cases() {
  std::vector<Case> out = all_cases();
  std::erase_if(out, [](const Case& c) { return c.is_slow() && c.precision == Precision::kDefault; });
  return out;
}

std::string case_name(const ::testing::TestParamInfo<Case>& info) { return info.param.name; }

std::string data_model(const std::string& architecture) {
  return models_in(fs::path(TENON_TEST_DATA) / "models", architecture).at(0).string();
}

bool has_plugin(const std::string& name) {
  return fs::exists(fs::path(TENON_TEST_PLUGINS) / ("libtenon_" + name + ".so"));
}

Engine& engine() {
  static Engine one({{TENON_TEST_PLUGINS, TENON_TEST_MLA}, false});
  return one;
}

void PropertyTest::SetUp() {
  if (!has_plugin(GetParam().backend))
    GTEST_SKIP() << "the plugin of backend " << GetParam().backend << " is not built";
}

std::unique_ptr<Model> PropertyTest::load(const std::function<void(ModelOptions&)>& change) const {
  ModelOptions options;
  options.path = GetParam().path, options.backend = GetParam().backend, options.precision = GetParam().precision;
  options.threads = 2, options.context = 640, options.max_sequences = 20, options.prefill_chunk = 512;
  options.max_decode_rows = 64;
  if (change) change(options);
  return engine().load(options);
}

Tokens random_tokens(uint32_t seed, size_t n, const Model& model) {
  std::mt19937 random(seed);
  Tokens out(n);
  for (int32_t& token : out) token = int32_t(random() % uint32_t(model.info().vocab));
  return out;
}

std::span<const int32_t> part(const Tokens& tokens, size_t begin, size_t n) {
  return std::span(tokens).subspan(begin, n);
}

std::vector<float> feed(Model& model, Sequence& sequence, std::span<const int32_t> tokens,
                        const ForwardOptions& options) {
  std::vector<int32_t> rows(tokens.size());
  std::iota(rows.begin(), rows.end(), 0);
  const Feed one = {&sequence, tokens, rows};
  const Output out = model.forward({&one, 1}, options);
  return {out.logits.begin(), out.logits.end()};
}

std::vector<float> feed_singly(Model& model, Sequence& sequence, std::span<const int32_t> tokens) {
  ForwardOptions options;
  options.decode_step = 1;
  return feed(model, sequence, tokens, options);
}

Trace trace(Model& model, bool is_slow) {
  const size_t prompt = is_slow ? 70 : 150;
  const Tokens tokens = random_tokens(1, prompt + 40, model);
  Sequence sequence = model.sequence();
  Trace out;
  size_t at = 0;
  const auto append = [&](size_t n) {
    const std::vector<float> rows = feed(model, sequence, part(tokens, at, n));
    out.logits.insert(out.logits.end(), rows.begin(), rows.end());
    at += n;
  };
  append(prompt);
  for (size_t n : {1, 1, 15, 6}) append(n);
  sequence.begin();
  append(7);
  sequence.commit(4);
  append(2);
  out.saved = sequence.save();
  return out;
}

::testing::AssertionResult same(std::span<const float> found, std::span<const float> expected) {
  return same_bytes(found, expected);
}

::testing::AssertionResult same(const std::vector<uint8_t>& found, const std::vector<uint8_t>& expected) {
  return same_bytes<uint8_t>(found, expected);
}

bool all_finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

}  // namespace tenon::property
