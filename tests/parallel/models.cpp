#include "models.hpp"

#include <tenon/error.hpp>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <span>

namespace tenon::parallel_test {

Places& places() {
  static Places& all = *std::make_unique<Places>(Places{{TENON_TEST_PLUGINS, TENON_TEST_FIXTURES}, TENON_TEST_DATA}).release();
  return all;
}

Engine& engine() {
  static Engine& one = *std::make_unique<Engine>(EngineOptions{places().plugins, false}).release();
  return one;
}

std::string model_path(const std::string& architecture) {
  for (const auto& entry : std::filesystem::directory_iterator(places().data + "/models/" + architecture))
    if (entry.path().extension() == ".gguf") return entry.path();
  return "";
}

namespace {

// Files that go with the process.
struct Made {
  std::map<std::string, std::string> path;
  ~Made() {
    for (const auto& [name, file] : path) std::remove(file.c_str());
  }
};

}  // namespace

std::string cuttable(const std::string& architecture, const std::string& type) {
  static Made made;
  std::string& path = made.path[architecture + "-" + type];
  if (!path.empty()) return path;
  path = testing::TempDir() + "parallel-" + std::to_string(getpid()) + "-" + architecture + "-" + type + ".gguf";
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (!file) throw Error(ErrorKind::kRuntime, path + " cannot be written");
  std::mutex mutex;
  QuantizeOptions options;
  options.path = model_path(architecture), options.out_path = path, options.type = type, options.threads = 2;
  engine().quantize(options, [&](uint64_t offset, std::span<const uint8_t> bytes) {
    const std::lock_guard lock(mutex);
    if (std::fseek(file, static_cast<long>(offset), SEEK_SET) || std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size())
      throw Error(ErrorKind::kRuntime, path + " cannot be written");
  });
  std::fclose(file);
  return path;
}

ModelOptions options_for(const std::string& path) {
  ModelOptions options;
  options.path = path, options.threads = 2, options.context = 256, options.prefill_chunk = 64, options.max_sequences = 2;
  return options;
}

std::vector<int32_t> tokens(uint32_t seed, size_t n, const Model& model) {
  std::vector<int32_t> out;
  for (size_t i = 0; i < n; ++i) out.push_back(static_cast<int32_t>((seed = seed * 1664525u + 1013904223u) % static_cast<uint32_t>(model.info().vocab)));
  return out;
}

size_t n_different(const std::vector<float>& found, const std::vector<float>& expected) {
  size_t n = found.size() == expected.size() ? 0 : found.size() + expected.size();
  for (size_t i = 0; !n && i < found.size(); ++i) n += std::memcmp(&found[i], &expected[i], sizeof(float)) != 0;
  return n;
}

double relative_error(const std::vector<float>& found, const std::vector<float>& expected) {
  EXPECT_EQ(found.size(), expected.size());
  double error = 0, size = 0;
  for (size_t i = 0; i < expected.size(); ++i) error += std::pow(double(found.at(i)) - expected[i], 2), size += std::pow(double(expected[i]), 2);
  return std::sqrt(error / size);
}

std::vector<float> trace(Model& model) {
  std::vector<float> out;
  const auto feed = [&](Sequence& sequence, uint32_t seed, size_t n) {
    const Output logits = model.forward(sequence, tokens(seed, n, model), /*all_rows=*/true);
    out.insert(out.end(), logits.logits.begin(), logits.logits.end());
  };
  Sequence sequence = model.sequence();
  feed(sequence, 1, 150);
  feed(sequence, 2, 3);
  sequence.begin();
  feed(sequence, 3, 6);
  sequence.commit(4);
  feed(sequence, 4, 1);
  Sequence copy = sequence.fork();
  feed(copy, 5, 2);
  sequence.begin();
  feed(sequence, 6, 2);
  sequence.rollback();
  copy.restore(sequence.save());
  feed(copy, 7, 20);
  return out;
}

}  // namespace tenon::parallel_test
