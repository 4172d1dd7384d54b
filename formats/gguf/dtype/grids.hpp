// grids.hpp: the codebooks of the IQ types: constants of the format. Each is a set of short vectors, stored as a bit
// map over all vectors (bit n: vector n belongs to the set) and listed in ascending order of n.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tenon::gguf {

template <size_t Entries, size_t Width>
using Grid = std::array<std::array<int8_t, Width>, Entries>;

// Vector n of eight values is n in base 3, lowest digit first; of four values, in base 8.
const Grid<2048, 8>& iq1_grid();     // −1, 0, 1
const Grid<256, 8>& iq2_xxs_grid();  // 8, 25, 43
const Grid<512, 8>& iq2_xs_grid();   // 8, 25, 43
const Grid<1024, 8>& iq2_s_grid();   // 8, 25, 43
const Grid<256, 4>& iq3_xxs_grid();  // 4, 12, 20, 28, 36, 44, 52, 62
const Grid<512, 4>& iq3_s_grid();    // 1, 3, 5, 7, 9, 11, 13, 15

}  // namespace tenon::gguf
