// pack.cuh: from a file's rows to the packed form, on the device.
#pragma once

#include "packed.cuh"

namespace tenon::cuda {

// The code of column k as the file has it, without offset.
template <Codec codec>
__device__ inline uint32_t file_code(const uint8_t* row, int32_t k) {
  if constexpr (codec == Codec::kQ8_0) {
    return row[k / 32 * 34 + 2 + k % 32];
  } else if constexpr (codec == Codec::kQ4_0 || codec == Codec::kIq4Nl) {
    return row[k / 32 * 18 + 2 + k % 16] >> nibble_shift(k) & 15;
  } else if constexpr (codec == Codec::kQ4_1) {
    return row[k / 32 * 20 + 4 + k % 16] >> nibble_shift(k) & 15;
  } else if constexpr (codec == Codec::kQ5_0 || codec == Codec::kQ5_1) {
    constexpr int head = codec == Codec::kQ5_0 ? 2 : 4;
    const uint8_t* block = row + k / 32 * (20 + head);
    const uint32_t high = load32(block + head) >> k % 32 & 1;
    return (block[head + 4 + k % 16] >> nibble_shift(k) & 15) | high << 4;
  } else {
    const int c = k % 256;
    if constexpr (codec == Codec::kIq4Xs) {
      return row[k / 256 * 136 + 8 + c / 32 * 16 + c % 16] >> nibble_shift(k) & 15;
    } else if constexpr (codec == Codec::kQ2K) {
      return row[k / 256 * 84 + 16 + c / 128 * 32 + c % 32] >> c % 128 / 32 * 2 & 3;
    } else if constexpr (codec == Codec::kQ3K) {
      const uint8_t* block = row + k / 256 * 110;
      return (block[32 + c / 128 * 32 + c % 32] >> c % 128 / 32 * 2 & 3) | (block[c % 32] >> c / 32 & 1) << 2;
    } else if constexpr (codec == Codec::kQ4K) {
      return row[k / 256 * 144 + 16 + c / 64 * 32 + c % 32] >> c / 32 % 2 * 4 & 15;
    } else if constexpr (codec == Codec::kQ5K) {
      const uint8_t* block = row + k / 256 * 176;
      return (block[48 + c / 64 * 32 + c % 32] >> c / 32 % 2 * 4 & 15) | (block[16 + c % 32] >> c / 32 & 1) << 4;
    } else {
      const uint8_t* block = row + k / 256 * 210;
      const int half = c / 128, quarter = c % 128 / 32, lane = c % 32;
      return (block[64 * half + 32 * (quarter & 1) + lane] >> (quarter >> 1) * 4 & 15) |
             (block[128 + 32 * half + lane] >> 2 * quarter & 3) << 4;
    }
  }
}

// The scales of one row of a chunk that begins at column k and has n columns.
template <Codec codec>
__device__ inline void pack_scales(const uint8_t* row, int32_t k, int32_t n, int r, uint8_t* chunk) {
  constexpr PackedForm form = packed_form(codec);
  uint16_t* halves = reinterpret_cast<uint16_t*>(chunk);
  if constexpr (form.scales == ScaleKind::kHalf || form.scales == ScaleKind::kHalfMin) {
    constexpr int kBlock = codec == Codec::kQ8_0 ? 34 : codec == Codec::kQ4_1 ? 20 : codec == Codec::kQ5_0 ? 22
                         : codec == Codec::kQ5_1 ? 24 : 18;
    for (int g = 0; g < 8; ++g) {
      const uint8_t* block = row + int64_t(k / 32 + g) * kBlock;
      halves[r * 8 + g] = uint16_t(32 * g < n ? load16(block) : 0);
      if (form.scales == ScaleKind::kHalfMin) halves[128 + r * 8 + g] = uint16_t(32 * g < n ? load16(block + 2) : 0);
    }
  } else if constexpr (form.scales == ScaleKind::kSuper) {
    const uint8_t* block = row + k / 256 * (codec == Codec::kQ4K ? 144 : 176);
    for (int i = 0; i < 8; ++i) halves[r * 8 + i] = uint16_t(load16(block + 2 * i));
  } else if constexpr (codec == Codec::kQ2K) {
    const uint8_t* block = row + k / 256 * 84;
    for (int i = 0; i < 16; ++i) chunk[r * 16 + i] = block[i];
    halves[128 + 2 * r] = uint16_t(load16(block + 80)), halves[129 + 2 * r] = uint16_t(load16(block + 82));
  } else if constexpr (codec == Codec::kQ3K) {
    const uint8_t* block = row + k / 256 * 110;
    for (int g = 0; g < 16; ++g) {
      const uint32_t low = block[96 + g % 8] >> (g < 8 ? 0 : 4) & 15, top = block[104 + g % 4] >> g / 4 * 2 & 3;
      chunk[r * 16 + g] = uint8_t(int(low | top << 4) - 32);
    }
    halves[128 + r] = uint16_t(load16(block + 108));
  } else if constexpr (codec == Codec::kQ6K) {
    const uint8_t* block = row + k / 256 * 210;
    for (int i = 0; i < 16; ++i) chunk[r * 16 + i] = block[192 + i];
    halves[128 + r] = uint16_t(load16(block + 208));
  } else {
    const uint8_t* block = row + k / 256 * 136;
    for (int g = 0; g < 8; ++g) {
      const uint32_t low = block[4 + g / 2] >> g % 2 * 4 & 15, high = load16(block + 2) >> 2 * g & 3;
      chunk[r * 8 + g] = uint8_t(int(low | high << 4) - 32);
    }
    halves[64 + r] = uint16_t(load16(block));
  }
}

// Rows of a matrix in the file's form, beginning with row 0 of the packed tiles at `out`. A block has a chunk of a tile:
// grid (chunks, tiles).
template <Codec codec>
__global__ void pack_rows(const uint8_t* rows, int64_t row_bytes, PackedShape shape, uint8_t* out) {
  constexpr PackedForm form = packed_form(codec);
  const int32_t index = int32_t(blockIdx.x), tile = int32_t(blockIdx.y), k0 = index * kChunkCols;
  const int32_t left = shape.cols - k0, n = left < kChunkCols ? left : kChunkCols;
  uint8_t* chunk = out + tile * shape.tile_bytes + int64_t(index) * shape.chunk_bytes;
  const auto code = [&](int r, int c) -> uint32_t {
    const int32_t row = tile * kTileRows + r;
    return row < shape.rows && c < n ? file_code<codec>(rows + row * row_bytes, k0 + c) ^ uint32_t(form.offset) : 0;
  };
  // Four codes of register i of group j, each shifted right by `drop` and cut to a mask.
  const auto word = [&](int lane, int j, int i, int drop, uint32_t mask) {
    uint32_t codes = 0;
    for (int byte = 0; byte < 4; ++byte)
      codes |= (code(lane / 4 + 8 * (i % 2), 32 * j + form.column(lane % 4, i) + byte) >> drop & mask) << 8 * byte;
    return codes;
  };
  const int thread = int(threadIdx.x), threads = int(blockDim.x);
  for (int i = thread; i < form.scale_bytes() / 4; i += threads) reinterpret_cast<uint32_t*>(chunk)[i] = 0;
  __syncthreads();
  for (int r = thread; r < kTileRows && tile * kTileRows + r < shape.rows; r += threads)
    pack_scales<codec>(rows + int64_t(tile * kTileRows + r) * row_bytes, k0, n, r, chunk);
  uint32_t* ones = reinterpret_cast<uint32_t*>(chunk + form.planes_at());
  for (int at = thread; form.ones && at < 32 * 4; at += threads) {
    const int lane = at / 4, pair = at % 4;
    uint32_t bits = 0;
    for (int i = 0; i < 8; ++i) bits |= word(lane, 2 * pair + i / 4, i % 4, form.step_bits + 2 * form.twos, 1) << i;
    ones[lane * 4 + pair] = bits;
  }
  uint32_t* twos = ones + form.ones * (kVectorBytes / 4);
  for (int at = thread; form.twos && at < 32 * 8; at += threads) {
    const int lane = at % 32, j = at / 32;
    uint32_t bits = 0;
    for (int i = 0; i < 4; ++i) bits |= word(lane, j, i, form.step_bits, 3) << 2 * i;
    twos[j / 4 * (kVectorBytes / 4) + lane * 4 + j % 4] = bits;
  }
  uint32_t* steps = reinterpret_cast<uint32_t*>(chunk + form.steps_at());
  const int words = shape.steps(index) * form.step_vectors() * (kVectorBytes / 4);
  for (int at = thread; at < words; at += threads) {
    const int lane = at / 4 % 32, number = at / (kVectorBytes / 4) * 4 + at % 4;  // of this lane's words
    if (form.step_bits == 8) {
      steps[at] = word(lane, number / 4, number % 4, 0, 0xff);
    } else {
      const int j = number / 4 * 2, i = number % 4;
      steps[at] = word(lane, j, i, 0, 15) | word(lane, j + 1, i, 0, 15) << 4;
    }
  }
}

}  // namespace tenon::cuda
