// blocks_ternary.cpp: tq1_0 and tq2_0, super-blocks of 256 codes −1, 0, 1 and one scale.
#include <initializer_list>

#include "blocks.hpp"
#include "half.hpp"

namespace tenon::gguf {
namespace {

// A byte holds up to five base-3 digits as a fraction of 256: multiplying by a power of three brings digit `place` to
// the front, where times three, shifted by eight, reads it.
int ternary_digit(uint8_t packed, int place) {
  static constexpr uint8_t kPower[5] = {1, 3, 9, 27, 81};
  return int(uint8_t(packed * kPower[place])) * 3 >> 8;
}

}  // namespace

// 32 bytes of five digits, 16 bytes of five digits, 4 bytes of four digits; digits of one place lie side by side.
void decode_tq1_0(const uint8_t* block, float* y) {
  struct Run {
    int bytes, digits;
  };
  const float d = load_half(block + 52);
  for (const Run run : {Run{32, 5}, Run{16, 5}, Run{4, 4}}) {
    for (int place = 0; place < run.digits; ++place) {
      for (int i = 0; i < run.bytes; ++i) *y++ = d * float(ternary_digit(block[i], place) - 1);
    }
    block += run.bytes;
  }
}

void decode_tq2_0(const uint8_t* block, float* y) {
  const float d = load_half(block + 64);
  for (int i = 0; i < 256; ++i) {
    y[i] = d * float((block[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3) - 1);
  }
}

}  // namespace tenon::gguf
