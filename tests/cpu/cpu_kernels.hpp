// What tests of the CPU kernels share: the variants that this machine can run, and the checks that hold for every op.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "op_harness.hpp"

namespace tenon::testing {

inline void load_plugins() {
  Kit::instance().load(TENON_PLUGIN_DIR "/libtenon_cpu.so");
  Kit::instance().load(TENON_PLUGIN_DIR "/libtenon_reference.so");
}

inline bool machine_has(tenon_str wanted) {
  uint32_t n = 0;
  const tenon_device* const* devices = nullptr;
  const tenon_backend& backend = Kit::instance().backend("cpu");
  if (backend.devices(backend.self, &n, &devices) != TENON_OK || n != 1) return false;
  std::string rest(wanted.data, wanted.size);
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(' '), rest.size());
    bool found = false;
    for (uint32_t i = 0; i < devices[0]->n_feature; ++i)
      found = found || rest.substr(0, end) == std::string(devices[0]->features[i].data, devices[0]->features[i].size);
    if (!found) return false;
    rest.erase(0, end + 1);
  }
  return true;
}

// Kernels of an op ("norm", "linear.f32") in every instruction set that the machine has.
inline std::vector<const tenon_kernel*> variants(const std::string& op) {
  load_plugins();
  std::vector<const tenon_kernel*> out;
  for (const char* isa : {"portable", "avx2", "avx512"}) {
    const tenon_kernel& kernel = Kit::instance().kernel("cpu." + op + "." + isa);
    if (machine_has(kernel.feature)) out.push_back(&kernel);
  }
  return out;
}
inline std::string name_of(const tenon_kernel& kernel) { return {kernel.name.data, size_t(kernel.name.size)}; }

// `rows` rows of numbers; row r is the same in every case, so that cases of different sizes can be compared.
inline std::vector<float> rows_of(uint32_t rows, int64_t cols, uint64_t seed, float scale = 1) {
  std::vector<float> out;
  for (uint32_t r = 0; r < rows; ++r) {
    const std::vector<float> row = Random(seed * 1000 + r).normals(size_t(cols), scale);
    out.insert(out.end(), row.begin(), row.end());
  }
  return out;
}

using MakeCase = std::function<OpCase(uint32_t rows)>;

// For each variant and each row count: within `tolerance` (relative root mean square) of the reference, the same bits
// for 1, 2, 3 and 7 workers, and each row's bits independent of the number of rows.
inline void check_op(const std::string& op, const MakeCase& make, double tolerance,
                     const std::vector<uint32_t>& row_counts = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
                                                                17},
                     const std::vector<uint32_t>& phases = {TENON_PHASE_DECODE, TENON_PHASE_PREFILL}) {
  for (const tenon_kernel* kernel : variants(op)) {
    for (const uint32_t phase : phases) {
      std::vector<std::vector<float>> largest;  // outputs for the largest count
      for (auto rows = row_counts.rbegin(); rows != row_counts.rend(); ++rows) {
        SCOPED_TRACE(name_of(*kernel) + ", phase " + std::to_string(phase) + ", rows " + std::to_string(*rows));
        OpCase c = make(*rows);
        c.phase(phase);
        RunResult first;
        for (const uint32_t workers : {1u, 2u, 3u, 7u}) {
          const RunResult got = run_op(*kernel, c, {.workers = workers});
          ASSERT_TRUE(got.accepted) << got.why_not;
          if (workers == 1) {
            const RunResult want = run_reference(c, got);
            for (size_t i = 0; i < got.out.size(); ++i) {
              const Difference d = compare(got.out[i], want.out[i]);
              EXPECT_TRUE(d.comparable && d.relative_rms <= tolerance) << "output " << i << ": " << d.text();
            }
            first = got;
            continue;
          }
          for (size_t i = 0; i < got.out.size(); ++i)
            EXPECT_TRUE(equal_bits(got.out[i], first.out[i])) << workers << " workers differ in output " << i;
        }
        if (largest.empty()) {
          largest = first.out;
          continue;
        }
        for (size_t i = 0; i < first.out.size(); ++i) {
          const std::span<const float> begin(largest[i].data(), first.out[i].size());
          EXPECT_TRUE(equal_bits(first.out[i], begin)) << "rows depend on the number of rows in output " << i;
        }
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

// All variants give one variant's bits.
inline void check_equal_variants(const std::string& op, const OpCase& c) {
  std::vector<std::vector<float>> first;
  for (const tenon_kernel* kernel : variants(op)) {
    const RunResult got = run_op(*kernel, c);
    ASSERT_TRUE(got.accepted) << got.why_not;
    if (first.empty()) first = got.out;
    for (size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(equal_bits(got.out[i], first[i])) << name_of(*kernel);
  }
}

}  // namespace tenon::testing
