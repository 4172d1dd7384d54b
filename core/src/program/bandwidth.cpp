#include "bandwidth.hpp"

#include "plugin/plugin_host.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

namespace tenon::program {
namespace {

constexpr uint64_t kBytes = 256 << 20;
constexpr int kPasses = 4;  // the first meets memory that was just written

struct ReadJob {
  const uint8_t* data;
  std::atomic<uint64_t> sum = 0;  // so that the loop is not left out
};

void read_share(void* arg, const tenon_exec* exec) {
  ReadJob& job = *static_cast<ReadJob*>(arg);
  const uint64_t share = kBytes / exec->n_workers & ~uint64_t{63};
  const uint8_t* at = job.data + exec->worker * share;
  uint64_t sums[8] = {};
  for (const uint8_t* end = at + share; at < end; at += sizeof sums) {
    uint64_t words[8];
    std::memcpy(words, at, sizeof words);
    for (int i = 0; i < 8; ++i) sums[i] += words[i];
  }
  for (const uint64_t sum : sums) job.sum += sum;
}

}  // namespace

double read_bandwidth(const Device& device, uint32_t n_workers) {
  const Buffer memory(device, kBytes, "memory to read");
  device.fill(memory.address(), 1, kBytes);
  ReadJob job = {reinterpret_cast<const uint8_t*>(memory.address())};
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto begin = std::chrono::steady_clock::now();
    if (device.is_host_memory() && device.is_spmd())
      plugin::check_status(device.backend().team(device.backend().self, device.table().index, n_workers, read_share, &job), "reading memory");
    else
      device.copy(memory.address() + kBytes / 2, memory.address(), kBytes / 2);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    best = std::max(best, double(kBytes) / std::max(taken.count(), 1e-9));
  }
  return best;
}

}  // namespace tenon::program
