// device_run.hpp: runs a kernel of a device backend as the executor would. Everything that it must not read is NaN, and
// what it must not write is guarded or compared.
#pragma once

#include "image.hpp"
#include "op_harness.hpp"

namespace tenon::gpu_test {

using namespace testing;

struct DeviceOptions {
  uint32_t launch_rows = 0;  // rows that the launch is told; 0 = the live ones. More: a graph's bucket
  bool captured = false;     // captured while the device holds nothing, then replayed on the operands
  bool no_rows = false;      // the live numbers are 0: nothing may be written
  int64_t max_context = 4096;
};

// What a part of a composite gives, by what goes into it.
tenon_type output_of_part(const Part& part, const std::vector<tenon_type>& in);

// Throws with the kernel's message when a call fails, and when memory that is not the kernel's was written, rows beyond
// the live ones included. The case is not changed.
RunResult run_on_device(const Device& device, const tenon_kernel& kernel, const OpCase& op_case,
                        const DeviceOptions& options = {});

}  // namespace tenon::gpu_test
