// bench_run.hpp: times a kernel on a case: a graph of launches that go through copies of the weights and stores, replayed.
#pragma once

#include "bench_case.hpp"
#include "image.hpp"

namespace tenon::gpu_bench {

struct BenchOptions {
  double seconds = 0.1;               // of device time for a measurement, about
  uint64_t cold_bytes = 256u << 20;   // touched before a copy comes again, so that no cache holds it
};

struct BenchResult {
  std::string why_not;   // set when the kernel refused
  double seconds = 0;    // a launch, the median
  uint64_t bytes = 0;    // that a launch has to move
  uint32_t launches = 0, copies = 0;
};

// What the kernel answers; empty: it accepts.
std::string refusal(const gpu_test::Device& device, const tenon_kernel& kernel, const BenchCase& bench_case);
// Throws std::runtime_error with the message of the call that failed.
BenchResult measure(const gpu_test::Device& device, const tenon_kernel& kernel, const BenchCase& bench_case,
                    const BenchOptions& options);

}  // namespace tenon::gpu_bench
