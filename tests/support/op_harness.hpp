// Runs any kernel on host memory as the executor would; core/src/kit/harness.hpp describes it. Here are the plugins: a
// fake host opens them, so that tests of kernels need no core.
//
//   Kit::instance().load(TENON_PLUGIN_DIR "/libtenon_reference.so");
//   RunResult got = run_op(Kit::instance().kernel("cpu.norm"), c, {.workers = 3});
#pragma once

#include "kit/harness.hpp"
#include "op_harness_kit.hpp"
