// recurrent.hpp: the ops whose store is a state, short_conv and gated_delta_rule, and the functions that each
// instruction set gives them.
//
// Included by sources that are built once an instruction set: plain structures, nothing of the standard library.
#pragma once

#include <stdint.h>
#include <tenon/abi.h>

namespace tenon::sdk {
class Registrar;
}

namespace tenon::cpu {

// Registers the kernels of every instruction set.
void register_recurrent(sdk::Registrar& registrar);

// A sequence's part of a step (tenon_step in abi.h).
struct Transaction {
  int64_t row0, rows;  // of the step
  int64_t slot;        // in the store
  int32_t accepted, replay, tape, tape_start, half;
};

// False if the numbers break the rules of a transaction.
static inline bool read_transaction(const tenon_step* step, const tenon_store* store, uint32_t s, Transaction* t) {
  const auto entry = [s](tenon_addr array) { return reinterpret_cast<const int32_t*>(array)[s]; };
  const int32_t* starts = reinterpret_cast<const int32_t*>(step->row_start);
  t->row0 = starts[s], t->rows = starts[s + 1] - starts[s], t->slot = entry(store->table);
  t->accepted = entry(step->accepted), t->replay = entry(step->replay), t->tape = entry(step->tape);
  t->tape_start = entry(step->tape_start), t->half = entry(step->half);
  if (t->rows < 0 || t->slot < 0 || t->accepted < 0 || t->accepted > TENON_DECODE_MAX_TOKENS || t->tape > 1)
    return false;
  if (t->accepted > 0 && (t->replay < 0 || t->replay > 1 || t->replay == t->tape)) return false;
  return t->tape < 0 || (t->tape_start >= 0 && t->tape_start + t->rows <= TENON_DECODE_MAX_TOKENS);
}

// Made by plan(), immutable afterwards.
struct ConvPlan {
  int64_t channels, taps;
  uint32_t activation;
};

struct DeltaPlan {
  int64_t key_heads, value_heads, key_dim, value_dim;
  uint32_t head_map;
  float scale;
  int64_t max_rows;
  const tenon_dtype* dtype[2];  // of A and dt
};

// The packed weight of short_conv: f32 [taps][channels rounded up to 16].
constexpr uint32_t kConvLayout = 0x636f6e76;
static inline int64_t conv_stride(int64_t channels) { return (channels + 15) / 16 * 16; }

// Scratch of a worker, in f32 numbers.
int64_t conv_scratch(const ConvPlan& plan);
int64_t delta_sequential_scratch(const DeltaPlan& plan);
int64_t delta_chunked_scratch(const DeltaPlan& plan);

// Functions of one instruction set. TENON_OK, or INVALID_ARGUMENT for a transaction that breaks the rules.
struct RecurrentTable {
  tenon_status (*conv)(const ConvPlan*, const tenon_args*, const tenon_exec*);
  tenon_status (*delta_sequential)(const DeltaPlan*, const tenon_args*, const tenon_exec*);
  tenon_status (*delta_chunked)(const DeltaPlan*, const tenon_args*, const tenon_exec*);
};
namespace portable {
extern const RecurrentTable kRecurrent;
}
namespace avx2 {
extern const RecurrentTable kRecurrent;
}
namespace avx512 {
extern const RecurrentTable kRecurrent;
}

}  // namespace tenon::cpu
