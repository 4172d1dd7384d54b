// bench_cuda_kernels: how long the kernels of the cuda backend take for the shapes of real models, as a table.
//
//   bench_cuda_kernels [--plugins DIR] [--cuda LIBRARY] [--device N] [--only TEXT] [--all] [--list] [--seconds N] [--small]
//
// --list: nothing is measured, only which kernel takes which case. --only: cases whose line contains TEXT, such as "linear" or "27b"; --all: every kernel that accepts a case, not only the
// one that is chosen; --seconds: all together, preset 80; --small: little cases, whose times say nothing: for the emulator.
//
// Status 0: all was measured; 1: a kernel failed; 77: there is no device.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "bench_read.hpp"
#include "bench_run.hpp"

namespace tenon::gpu_bench {
namespace {

constexpr int kSkipped = 77;

struct Options {
  std::string plugins = TENON_PLUGIN_DIR, cuda, only;
  uint32_t device = 0;
  double seconds = 80;
  bool is_small = false, all = false, lists = false;
};

bool parse(int count, char** words, Options& options) {
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto value = [&](std::string& into) { return ++i < count ? (into = words[i], true) : false; };
    std::string number;
    if (word == "--small") {
      options.is_small = true;
    } else if (word == "--all") {
      options.all = true;
    } else if (word == "--list") {
      options.lists = true;
    } else if (word == "--device" && value(number)) {
      options.device = uint32_t(std::stoul(number));
    } else if (word == "--seconds" && value(number)) {
      options.seconds = std::stod(number);
    } else if (!(word == "--plugins" && value(options.plugins)) && !(word == "--cuda" && value(options.cuda)) &&
               !(word == "--only" && value(options.only))) {
      return false;
    }
  }
  if (options.cuda.empty()) options.cuda = options.plugins + "/libtenon_cuda.so";
  return true;
}

std::string text(tenon_str s) { return {s.data, size_t(s.size)}; }

// Those that accept, in the core's order: priority, numeric class, name.
std::vector<const tenon_kernel*> candidates(const gpu_test::Device& device, const BenchCase& c) {
  std::vector<const tenon_kernel*> out;
  for (const tenon_kernel* kernel : testing::Kit::instance().all_kernels())
    if (text(kernel->backend) == "cuda" && text(kernel->pattern) == c.pattern && (kernel->phases & c.phase) &&
        refusal(device, *kernel, c).empty())
      out.push_back(kernel);
  std::stable_sort(out.begin(), out.end(), [](const tenon_kernel* a, const tenon_kernel* b) {
    if (a->priority != b->priority) return a->priority > b->priority;
    const std::string one = text(a->numeric_class), other = text(b->numeric_class);
    return one != other ? one < other : text(a->name) < text(b->name);
  });
  return out;
}

struct Limits {
  double bytes_per_second = 0;  // reading; 0: not measured
};

void print_line(const std::string& kernel, const BenchCase& c, const BenchResult& got, const Limits& limits) {
  const double rate = double(got.bytes) / got.seconds;
  char share[16] = "-";
  if (limits.bytes_per_second > 0) std::snprintf(share, sizeof share, "%.0f", 100 * rate / limits.bytes_per_second);
  std::printf("%-48s %-46s %-10s %5u %10.2f %8.0f %5s %8.2f %6.1f\n", kernel.c_str(), c.name.c_str(), c.dtypes().c_str(), c.rows(),
              got.seconds * 1e6, rate / 1e9, share, c.flops / got.seconds / 1e12, double(got.bytes) / 1e6);
}

int run(const Options& options) {
  testing::Kit& kit = testing::Kit::instance();
  for (const char* library : {"/libtenon_gguf.so", "/libtenon_safetensors.so"}) kit.load(options.plugins + library);
  kit.load(options.cuda);
  const tenon_backend& backend = kit.backend("cuda");
  uint32_t n = 0;
  const tenon_device* const* list = nullptr;
  if (backend.devices(backend.self, &n, &list) != TENON_OK) {
    std::printf("no device: %s\n", kit.error().c_str());
    return kSkipped;
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto spent = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  const gpu_test::Device device(backend, options.device, options.is_small || options.lists ? uint64_t(64) << 20 : uint64_t(8) << 30);
  BenchOptions how;
  if (options.is_small) how.seconds = 1e-6, how.cold_bytes = 64 << 10;
  Limits limits;
  if (!options.is_small && !options.lists) limits.bytes_per_second = read_bandwidth(options.device, device.memory(), uint64_t(4) << 30);
  std::printf("device %u: %.*s, reads %.0f GB/s\n", options.device, int(device.table().name.size), device.table().name.data,
              limits.bytes_per_second / 1e9);
  std::printf("%-48s %-46s %-10s %5s %10s %8s %5s %8s %6s\n", "kernel", "case", "dtype", "rows", "us", "GB/s", "%", "TFLOP/s", "MB");
  int failed = 0, measured = 0, late = 0;
  for (const BenchCase& c : bench_cases(options.is_small)) {
    std::vector<const tenon_kernel*> kernels = candidates(device, c);
    if (!options.all && kernels.size() > 1) kernels.erase(kernels.begin() + 1, kernels.end());
    for (const tenon_kernel* kernel : kernels) {
      const std::string name = text(kernel->name), line = name + " " + c.name + " " + c.dtypes() + " " + c.pattern;
      if (!options.only.empty() && line.find(options.only) == std::string::npos) continue;
      if (options.lists) {
        std::printf("%-48s %-46s %-10s %5u\n", name.c_str(), c.name.c_str(), c.dtypes().c_str(), c.rows());
        ++measured;
        continue;
      }
      if (spent() > options.seconds) {
        ++late;
        continue;
      }
      try {
        print_line(name, c, measure(device, *kernel, c, how), limits);
        ++measured;
      } catch (const std::exception& error) {
        std::printf("%-48s %-46s %-10s %5u FAILED: %s\n", name.c_str(), c.name.c_str(), c.dtypes().c_str(), c.rows(), error.what());
        ++failed;
      }
      std::fflush(stdout);
    }
    if (kernels.empty() && c.parts.empty() && (options.only.empty() || c.name.find(options.only) != std::string::npos))
      std::printf("%-48s %-46s %-10s %5u no kernel takes it as one launch\n", c.pattern.c_str(), c.name.c_str(), c.dtypes().c_str(), c.rows());
  }
  std::printf("%d %s, %d failed, %d left out for want of time; %.1f s\n", measured, options.lists ? "listed" : "measured", failed, late, spent());
  return failed || !measured ? 1 : 0;
}

}  // namespace
}  // namespace tenon::gpu_bench

int main(int count, char** words) {
  tenon::gpu_bench::Options options;
  try {
    if (!tenon::gpu_bench::parse(count, words, options)) {
      std::fprintf(stderr, "usage: %s [--plugins DIR] [--cuda LIBRARY] [--device N] [--only TEXT] [--all] [--list] [--seconds N] [--small]\n", words[0]);
      return 2;
    }
    return tenon::gpu_bench::run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
