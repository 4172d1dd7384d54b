// sequence_state.hpp: what the host knows of a sequence's stores: lengths, pages, slot, and the open transaction.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tenon::store {

// Plain data; owned by one Sequence, changed by Stores.
struct SequenceState {
  uint32_t slot = 0;
  int64_t length = 0;     // tokens in the stores, those of the open transaction included
  int64_t base = 0;       // length when the transaction opened
  bool is_open = false;
  int64_t exact = 0;      // leading tokens that a cold prefill would have left bit for bit: written by prefill steps on the grid
  std::vector<std::vector<int32_t>> pages;  // by page group, then by page number; -1 = given back
  // Tape of the recurrent stores. Rows accepted from slot `replay` wait for the next step to replay them.
  int32_t accepted = 0, replay = 0;
  int32_t tape = -1, tape_rows = 0;  // the open transaction's slot and its rows so far
  int32_t half = 0;
  std::string fault;  // why the sequence can go no further; "" = sound
};

}  // namespace tenon::store
