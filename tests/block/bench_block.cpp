// bench_block: decode as GB/s of packed weights and share of the measured read bandwidth, prefill as GOP/s, packing as
// GB/s.
//   bench_block [kernel] [workers] [dtype …]
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <thread>

#include "blocks.hpp"
#include "driver.hpp"

namespace tenon::block_test {
namespace {

// Fastest of several rounds of body(worker) on all workers at once; a round takes what its slowest worker takes.
template <typename Body>
double fastest(uint32_t workers, int rounds, Body body) {
  std::atomic<uint32_t> arrived{0};
  std::vector<double> taken(workers);
  double best = 1e30;
  const auto sync = [&](uint32_t round) {
    arrived.fetch_add(1);
    while (arrived.load() < round * workers) std::this_thread::yield();
  };
  const auto loop = [&](uint32_t w) {
    for (uint32_t round = 0; round < static_cast<uint32_t>(rounds); ++round) {
      sync(3 * round + 1);
      const double begin = thread_seconds();
      body(w);
      taken[w] = thread_seconds() - begin;
      sync(3 * round + 2);
      if (w == 0) best = std::min(best, *std::max_element(taken.begin(), taken.end()));
      sync(3 * round + 3);
    }
  };
  std::vector<std::thread> threads;
  for (uint32_t w = 1; w < workers; ++w) threads.emplace_back(loop, w);
  loop(0);
  for (std::thread& t : threads) t.join();
  return best;
}

double read_bandwidth(uint32_t workers) {
  std::vector<uint64_t> memory(size_t{32} << 20);  // 256 MiB
  std::iota(memory.begin(), memory.end(), 0);
  std::atomic<uint64_t> sink{0};
  const size_t part = memory.size() / workers;
  const double s = fastest(workers, 8, [&](uint32_t w) {
    uint64_t a[32] = {};
    const uint64_t* p = memory.data() + w * part;
    for (size_t i = 0; i + 32 <= part; i += 32)
      for (size_t j = 0; j < 32; ++j) a[j] += p[i + j];
    sink += std::accumulate(a, a + 32, uint64_t{0});
  });
  return static_cast<double>(memory.size()) * 8 / s / 1e9;
}

void bench(const tenon_kernel& kernel, const std::string& dtype, int64_t n, int64_t k, uint32_t workers,
           double bandwidth) {
  Random random(1);
  // Enough copies that a round does not fit the caches.
  const auto weight_bytes = static_cast<double>(random_weight(dtype, 16, k, random).plane[0].size()) / 16 * n;
  const int copies = std::clamp(static_cast<int>(256e6 / weight_bytes), 1, 128);
  const Weight w = random_weight(dtype, n, k, random);
  std::printf("%-7s %7ld x %4ld ", dtype.c_str(), static_cast<long>(n), static_cast<long>(k));
  const auto run = [&](int64_t rows, uint32_t phase, int count) {
    std::vector<LinearRun> runs;
    runs.reserve(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
      runs.emplace_back(kernel, std::vector<Weight>{w}, rows, phase, workers);
      runs.back().x().encode(random.normals(static_cast<size_t>(rows * k)));
    }
    const double s = fastest(workers, 8, [&](uint32_t worker) {
      for (LinearRun& r : runs) r.launch(worker);
    });
    if (rows == 1) std::printf(" pack %5.2f GB/s ", weight_bytes / runs[0].pack_seconds() / 1e9);
    return std::pair(s / count, static_cast<double>(runs[0].packed_bytes()));
  };
  if (kernel.phases & TENON_PHASE_DECODE) {
    for (const int64_t rows : {1, 4, 8, 15}) {
      const auto [s, bytes] = run(rows, TENON_PHASE_DECODE, copies);
      std::printf(" | %2ld rows %5.1f GB/s %3.0f%%", static_cast<long>(rows), bytes / s / 1e9,
                  100 * bytes / s / 1e9 / bandwidth);
    }
  }
  for (const int64_t rows : {64, 512}) {
    if (n > 10000) continue;
    const auto [s, bytes] = run(rows, TENON_PHASE_PREFILL, 2);
    std::printf(" | %3ld rows %5.0f GOP/s", static_cast<long>(rows), 2e-9 * static_cast<double>(rows * n * k) / s);
  }
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace
}  // namespace tenon::block_test

int main(int argc, char** argv) {
  using namespace tenon::block_test;
  kit();
  const std::string name = argc > 1 ? argv[1] : linear_kernels().back();
  const uint32_t workers = argc > 2 ? static_cast<uint32_t>(std::atoi(argv[2])) : 2;
  std::vector<std::string> types(argv + std::min(argc, 3), argv + argc);
  if (types.empty()) types = dtypes();
  const double bandwidth = read_bandwidth(workers);
  std::printf("%s, %u workers, read bandwidth %.1f GB/s\n", name.c_str(), workers, bandwidth);
  for (const std::string& dtype : types) {
    const int64_t block = kit().dtype(dtype).block_cols;
    const int64_t k = 640 / block * block;
    bench(kit().kernel(name), dtype, 2048, k, workers, bandwidth);
    bench(kit().kernel(name), dtype, 640, 2048, workers, bandwidth);
    bench(kit().kernel(name), dtype, 65536, k, workers, bandwidth);
  }
  return 0;
}
