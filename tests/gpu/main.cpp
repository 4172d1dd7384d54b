// test_cuda_kernels: the kernels of a device backend against the reference, as a table.
//
//   test_cuda_kernels [--plugins DIR] [--cuda LIBRARY] [--device N] [--small] [--only TEXT] [--expect-no-device]
//
// Status 0: all passed; 1: something failed; 77: there is no device, and the plugin says so as it should.
#include <chrono>
#include <cstdio>
#include <cstring>

#include "anywhere.hpp"
#include "checks.hpp"

namespace tenon::gpu_test {
namespace {

constexpr uint64_t kDeviceBytes = uint64_t(256) << 20;
constexpr int kSkipped = 77;

struct Options {
  std::string plugins = TENON_PLUGIN_DIR, cuda, only;
  uint32_t device = 0;
  bool is_small = false, expects_none = false;
};

bool parse(int count, char** words, Options& options) {
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto value = [&](std::string& into) { return ++i < count ? (into = words[i], true) : false; };
    std::string number;
    if (word == "--small") {
      options.is_small = true;
    } else if (word == "--expect-no-device") {
      options.expects_none = true;
    } else if (word == "--device" && value(number)) {
      options.device = uint32_t(std::stoul(number));
    } else if (!(word == "--plugins" && value(options.plugins)) && !(word == "--cuda" && value(options.cuda)) &&
               !(word == "--only" && value(options.only))) {
      return false;
    }
  }
  if (options.cuda.empty()) options.cuda = options.plugins + "/libtenon_cuda.so";
  return true;
}

// A machine without a driver: devices() says why, and nothing else is touched.
int check_absence(const tenon_backend& backend, bool is_expected) {
  uint32_t n = 7;
  const tenon_device* const* list = nullptr;
  const tenon_status status = backend.devices(backend.self, &n, &list);
  if (status == TENON_OK) {
    std::printf("%u devices were found where none was expected\n", n);
    return 1;
  }
  const std::string reason = Kit::instance().error();
  const bool holds = status == TENON_UNSUPPORTED && !reason.empty() && n == 7;
  std::printf("no device: %s\n", reason.c_str());
  return !holds ? 1 : is_expected ? 0 : kSkipped;
}

int print(const std::vector<Line>& lines) {
  int failed = 0;
  std::printf("%-44s %6s %10s %10s %10s %8s  %s\n", "kernel", "cases", "worst", "bound", "exact rows", "replays", "");
  for (const Line& line : lines) {
    failed += !line.faults.empty();
    std::printf("%-44s %6d %10.2g %10.2g %10d %8d  %s\n", line.name.c_str(), line.cases, line.worst, line.bound,
                line.exact_rows, line.replays, line.faults.empty() ? "ok" : "FAILED");
  }
  for (const Line& line : lines) {
    size_t shown = 0;
    for (const std::string& fault : line.faults) {
      if (++shown > 6) break;
      std::printf("  %s: %s\n", line.name.c_str(), fault.c_str());
    }
    if (line.faults.size() > shown) std::printf("  %s: %zu more\n", line.name.c_str(), line.faults.size() - shown);
  }
  return failed;
}

int run(const Options& options) {
  Kit& kit = Kit::instance();
  for (const char* library : {"/libtenon_gguf.so", "/libtenon_safetensors.so", "/libtenon_reference.so"}) kit.load(options.plugins + library);
  kit.load(options.cuda);
  const tenon_backend& backend = kit.backend("cuda");
  uint32_t n = 0;
  const tenon_device* const* list = nullptr;
  if (options.expects_none || backend.devices(backend.self, &n, &list) != TENON_OK)
    return check_absence(backend, options.expects_none);
  const auto begin = std::chrono::steady_clock::now();
  const Device device(backend, options.device, kDeviceBytes);
  set_device(device);
  std::printf("device %u: %.*s\n", options.device, int(device.table().name.size), device.table().name.data);
  std::vector<Line> lines;
  const auto suite = [&](const char* name, const auto& body) {
    if (options.only.empty() || std::string(name).find(options.only) != std::string::npos) body();
  };
  suite("backend", [&] { check_backend(device, lines); });
  suite("elementwise", [&] { check_elementwise(device, options.is_small, lines); });
  suite("rows", [&] { check_rows(device, options.is_small, lines); });
  suite("linear", [&] { check_linear(device, options.is_small, lines); });
  suite("experts", [&] { check_experts(device, options.is_small, lines); });
  suite("attention", [&] { check_attention(device, options.is_small, lines); });
  suite("composites", [&] { check_composites(device, options.is_small, lines); });
  suite("recurrent", [&] { check_recurrent(device, options.is_small, lines); });
  const int failed = print(lines);
  std::printf("%d of %zu failed, %.1f s\n", failed, lines.size(),
              std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  return failed ? 1 : 0;
}

}  // namespace
}  // namespace tenon::gpu_test

int main(int count, char** words) {
  tenon::gpu_test::Options options;
  if (!tenon::gpu_test::parse(count, words, options)) {
    std::fprintf(stderr,
                 "usage: %s [--plugins DIR] [--cuda LIBRARY] [--device N] [--small] [--only TEXT] "
                 "[--expect-no-device]\n",
                 words[0]);
    return 2;
  }
  try {
    return tenon::gpu_test::run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
