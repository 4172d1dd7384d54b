// anywhere.hpp: run_op() for kernels of any backend: those of `device`'s backend run on it, others on host memory.
#pragma once

#include "device_run.hpp"

namespace tenon::gpu_test {

// The device for run_anywhere(). Set before it is called.
void set_device(const Device& device);

}  // namespace tenon::gpu_test

namespace tenon::kit {

// core/src/kit/transactions.cpp is compiled here once more with run_op named so.
RunResult run_anywhere(const tenon_kernel& kernel, const OpCase& op_case, const RunOptions& options);

}  // namespace tenon::kit
