// probe.hpp: whether bytes arrive as they were sent, before a model relies on it.
#pragma once

#include "communicator.hpp"

#include <chrono>
#include <cstdint>

namespace tenon::parallel {

// Sends patterns of several sizes from every rank to every other, and looks at each word that arrives: some machines promise
// that devices reach each other, and lose or change what passes. All ranks of the group at the same time; a few milliseconds
// on host memory; none is waited for longer than `limit`. Throws Error(kRuntime) naming both ranks, the bytes and the number of wrong words.
void probe(const Communicator& communicator, std::chrono::milliseconds limit);

// Word i of what `from` sends to `to`.
constexpr uint32_t probe_word(uint32_t i, uint32_t from, uint32_t to) { return i * 0x9e3779b9u + (from << 16 | to); }

}  // namespace tenon::parallel
