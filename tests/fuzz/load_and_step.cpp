// Loads models and runs a step of each phase, one model after another in one process. Standard input: for each model a
// letter that says how ('c' the cpu backend, 'r' the reference), its size as 4 bytes, lowest first, and its bytes.
// Standard output: for each a line "WHAT <milliseconds> <peak bytes> <message>", WHAT being ran, or the kind of the
// error.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <tenon/engine.hpp>
#include <vector>

#include "allocation_watch.hpp"
#include "memory_file.hpp"

namespace {

using tenon::fuzz::AllocationWatch;

bool read_exactly(void* out, size_t n) { return std::fread(out, 1, n, stdin) == n; }

const char* name_of(tenon::ErrorKind kind) {
  switch (kind) {
    case tenon::ErrorKind::kUsage:
      return "usage";
    case tenon::ErrorKind::kFile:
      return "file";
    case tenon::ErrorKind::kCapacity:
      return "capacity";
    case tenon::ErrorKind::kInterrupted:
      return "interrupted";
    case tenon::ErrorKind::kRuntime:
      break;
  }
  return "runtime";
}

void load_and_step(tenon::Engine& engine, const std::string& path, char how) {
  tenon::ModelOptions options;
  options.path = path, options.backend = how == 'r' ? "reference" : "cpu", options.threads = 2;
  options.context = 128, options.prefill_chunk = 64;
  const auto model = engine.load(options);
  tenon::Sequence sequence = model->sequence();
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < 20; ++i) tokens.push_back(int32_t(i * 7 % model->info().vocab));
  model->forward(sequence, tokens);                           // prefill
  model->forward(sequence, std::span(tokens).subspan(0, 3));  // decode
  // A vocabulary is asked for by whoever generates text.
  try {
    model->tokenizer().decode(model->tokenizer().encode("Hello world\n12"));
  } catch (const tenon::Error& error) {
    if (error.kind() != tenon::ErrorKind::kFile) throw;
  }
}

std::string one_line(std::string text) {
  for (char& c : text)
    if (uint8_t(c) < 0x20) c = ' ';
  return text.substr(0, 200);
}

}  // namespace

int main() {
  tenon::set_log_level("off");
  AllocationWatch::install();
  tenon::Engine engine({{TENON_TEST_PLUGINS}, false});
  tenon::fuzz::MemoryFile file;
  std::vector<uint8_t> bytes;
  for (char how = 0; read_exactly(&how, 1);) {
    uint8_t size[4];
    if (!read_exactly(size, 4)) return 2;
    bytes.resize(size_t(size[0]) | size_t(size[1]) << 8 | size_t(size[2]) << 16 | size_t(size[3]) << 24);
    if (!read_exactly(bytes.data(), bytes.size())) return 2;
    file.set(bytes.data(), bytes.size());
    const auto begin = std::chrono::steady_clock::now();
    AllocationWatch::begin();
    std::string what = "ran", message = "-";
    try {
      load_and_step(engine, file.path(), how);
    } catch (const tenon::Error& error) {
      what = name_of(error.kind()), message = one_line(error.what());
    }
    const uint64_t peak = AllocationWatch::peak_bytes();
    const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - begin;
    std::printf("%s %.0f %llu %s\n", what.c_str(), spent.count(), static_cast<unsigned long long>(peak),
                message.c_str());
    std::fflush(stdout);
  }
  return 0;
}
