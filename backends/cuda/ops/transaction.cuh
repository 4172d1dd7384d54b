// transaction.cuh: a sequence's part of a step on a conv or recurrent store, as tenon_step in abi.h orders it.
#pragma once

#include "device.cuh"

namespace tenon::cuda {

struct StepSeqs {
  const uint32_t* n_seqs;
  const int32_t *row_start, *accepted, *replay, *tape, *tape_start, *half;
};
inline StepSeqs seqs_of(const tenon_step& step) {
  return {array<uint32_t>(step.n_seqs), array<int32_t>(step.row_start), array<int32_t>(step.accepted),
          array<int32_t>(step.replay),  array<int32_t>(step.tape),      array<int32_t>(step.tape_start),
          array<int32_t>(step.half)};
}

struct Transaction {
  int32_t row0, rows, accepted, replay, tape, tape_start;
  __device__ bool is_taped() const { return tape >= 0; }
  // Rows of the open transaction that lie on the tape already.
  __device__ int32_t earlier() const { return tape >= 0 ? tape_start : 0; }
  // False: numbers that no step may have; nothing is read or written then.
  __device__ bool holds() const {
    const bool replay_fits = accepted == 0 || replay == 0 || replay == 1;
    const bool tape_fits = tape < 0 || (tape <= 1 && tape_start >= 0 && tape_start + rows <= TENON_DECODE_MAX_TOKENS);
    return rows >= 0 && accepted >= 0 && accepted <= TENON_DECODE_MAX_TOKENS && replay_fits && tape_fits &&
           !(accepted > 0 && tape >= 0 && tape == replay);
  }
};
__device__ inline Transaction transaction_of(const StepSeqs& step, int32_t s) {
  return {step.row_start[s], step.row_start[s + 1] - step.row_start[s], step.accepted[s], step.replay[s], step.tape[s],
          step.tape_start[s]};
}

}  // namespace tenon::cuda
