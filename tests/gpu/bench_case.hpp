// bench_case.hpp: what bench_cuda_kernels measures: an op with the shapes that a model has. Numbers are made when it runs.
#pragma once

#include <string>
#include <vector>

#include "op_harness.hpp"

namespace tenon::gpu_bench {

using namespace kit;

struct BenchWeight {
  std::string dtype;
  int64_t rows, cols;
  uint32_t n_expert = 0;
};

struct BenchInput {
  int64_t cols;
  uint32_t ids_below = 0;  // not 0: different ids in each row
};

struct BenchStore {
  tenon_store_type type = {};
  int64_t page_bytes = 0, value_offset = 0, aux_bytes = 0;
  // Bytes of a token in a paged store that a row reads.
  int64_t token_bytes = 0;
};

struct BenchCase {
  std::string name;  // the model and the place
  std::string pattern;  // what its kernels serve
  uint32_t op = TENON_OP_NONE, phase = TENON_PHASE_DECODE, domain = TENON_DOMAIN_TOKENS;
  std::vector<uint8_t> attr;
  std::vector<SeqRows> sequences;
  std::vector<BenchInput> in;
  std::vector<BenchWeight> weights;
  std::vector<int64_t> out_cols;
  std::vector<BenchStore> stores;
  std::vector<Part> parts;  // of a composite
  std::vector<int64_t> value_cols;
  std::vector<size_t> part_outputs;
  double flops = 0;
  uint64_t read_keys = 0;  // tokens of the paged store that are read, over all rows; prefill: those of a sequence once

  uint32_t rows() const {
    uint32_t n = 0;
    for (const SeqRows& s : sequences) n += uint32_t(s.rows);
    return n;
  }
  std::string dtypes() const;
};

// The real shapes, the most important ones first; or one small case of each kind, for the emulator.
std::vector<BenchCase> bench_cases(bool is_small);

}  // namespace tenon::gpu_bench
