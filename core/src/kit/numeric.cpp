#include "numeric.hpp"

#include <sys/mman.h>
#include <tenon/abi.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

namespace tenon::kit {

namespace {

size_t page_bytes() { return size_t(sysconf(_SC_PAGESIZE)); }
size_t whole_pages(size_t bytes) { return (bytes + page_bytes() - 1) / page_bytes() * page_bytes(); }

}  // namespace

void* allocate_at_border(size_t bytes) {
  const size_t used = whole_pages(bytes);
  void* begin = mmap(nullptr, used + page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (begin == MAP_FAILED) throw std::bad_alloc();
  auto* border = static_cast<uint8_t*>(begin) + used;
  if (mprotect(border, page_bytes(), PROT_NONE) != 0) {
    munmap(begin, used + page_bytes());
    throw std::bad_alloc();
  }
  return border - bytes;
}

void free_at_border(void* memory, size_t bytes) {
  const size_t used = whole_pages(bytes);
  munmap(static_cast<uint8_t*>(memory) + bytes - used, used + page_bytes());
}

uint16_t to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return uint16_t((bits >> 16) | 0x40);
  return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float from_bf16(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

uint16_t to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = uint16_t((bits >> 16) & 0x8000);
  if (std::isnan(value)) return uint16_t(sign | 0x7e00);
  const double magnitude = std::fabs(double(value));
  if (magnitude >= 65520.0) return uint16_t(sign | 0x7c00);
  if (magnitude < 0x1p-14) return uint16_t(sign | uint16_t(std::nearbyint(magnitude * 0x1p24)));
  int exponent = 0;
  const double fraction = std::frexp(magnitude, &exponent);           // in [0.5, 1)
  const auto mantissa = uint32_t(std::nearbyint(fraction * 2048.0));  // in [1024, 2048]
  return uint16_t(sign | ((uint32_t(exponent + 13) << 10) + mantissa));
}

float from_f16(uint16_t bits) {
  const double sign = bits & 0x8000 ? -1.0 : 1.0;
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  if (exponent == 31) {
    const float value = mantissa ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
    return bits & 0x8000 ? -value : value;
  }
  if (exponent == 0) return float(sign * std::ldexp(mantissa, -24));
  return float(sign * std::ldexp(1024 + mantissa, exponent - 25));
}

void encode_q8_32(const float* values, int64_t cols, void* row) {
  auto* code = static_cast<int8_t*>(row);
  auto* scale = reinterpret_cast<float*>(code + tenon_q8_32_scale_offset(cols));
  auto* sum = reinterpret_cast<int16_t*>(code + tenon_q8_32_sum_offset(cols));
  for (int64_t b = 0; b < cols / 32; ++b) {
    const float* x = values + b * 32;
    float amax = 0;
    bool finite = true;
    for (int i = 0; i < 32; ++i) {
      finite = finite && std::isfinite(x[i]);
      amax = std::fmax(amax, std::fabs(x[i]));
    }
    const bool empty = !finite || amax == 0;
    scale[b] = !finite ? std::numeric_limits<float>::quiet_NaN() : amax / 127.0f;
    const float inverse = empty ? 0.0f : 127.0f / amax;
    for (int half = 0; half < 2; ++half) {
      int total = 0;
      for (int i = half * 16; i < half * 16 + 16; ++i) {
        const float scaled = empty ? 0.0f : std::nearbyint(x[i] * inverse);
        const int q = int(std::fmin(127.0f, std::fmax(-127.0f, scaled)));
        code[b * 32 + i] = int8_t(q);
        total += q;
      }
      sum[b * 2 + half] = int16_t(total);
    }
  }
}

void encode_row(uint32_t encoding, const float* values, int64_t cols, void* row) {
  switch (encoding) {
    case TENON_ENC_F32:
      std::memcpy(row, values, size_t(cols) * 4);
      break;
    case TENON_ENC_I32:
      for (int64_t c = 0; c < cols; ++c) static_cast<int32_t*>(row)[c] = int32_t(values[c]);
      break;
    case TENON_ENC_BF16:
      for (int64_t c = 0; c < cols; ++c) static_cast<uint16_t*>(row)[c] = to_bf16(values[c]);
      break;
    case TENON_ENC_F16:
      for (int64_t c = 0; c < cols; ++c) static_cast<uint16_t*>(row)[c] = to_f16(values[c]);
      break;
    case TENON_ENC_Q8_32:
      encode_q8_32(values, cols, row);
      break;
    default:
      throw std::runtime_error("encode_row: encoding " + std::to_string(encoding) + " is not served");
  }
}

void decode_row(uint32_t encoding, const void* row, int64_t cols, float* values) {
  switch (encoding) {
    case TENON_ENC_F32:
      std::memcpy(values, row, size_t(cols) * 4);
      break;
    case TENON_ENC_I32:
      for (int64_t c = 0; c < cols; ++c) values[c] = float(static_cast<const int32_t*>(row)[c]);
      break;
    case TENON_ENC_BF16:
      for (int64_t c = 0; c < cols; ++c) values[c] = from_bf16(static_cast<const uint16_t*>(row)[c]);
      break;
    case TENON_ENC_F16:
      for (int64_t c = 0; c < cols; ++c) values[c] = from_f16(static_cast<const uint16_t*>(row)[c]);
      break;
    case TENON_ENC_Q8_32: {
      const auto* code = static_cast<const int8_t*>(row);
      const auto* scale = reinterpret_cast<const float*>(code + tenon_q8_32_scale_offset(cols));
      for (int64_t c = 0; c < cols; ++c) values[c] = float(code[c]) * scale[c / 32];
      break;
    }
    default:
      throw std::runtime_error("decode_row: encoding " + std::to_string(encoding) + " is not served");
  }
}

uint64_t Random::bits() {
  state_ += 0x9e3779b97f4a7c15ull;  // splitmix64
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}
float Random::uniform() { return float(double(bits() >> 40) * 0x1p-23 - 1.0); }
float Random::normal() {
  double sum = 0;
  for (int i = 0; i < 6; ++i) sum += uniform();
  return float(sum / 1.41421356);
}
std::vector<float> Random::normals(size_t n, float scale) {
  std::vector<float> out(n);
  for (float& x : out) x = normal() * scale;
  return out;
}

Difference compare(std::span<const float> got, std::span<const float> want) {
  Difference out;
  if (got.size() != want.size()) {
    out.comparable = false;
    return out;
  }
  double error = 0, energy = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (!std::isfinite(got[i]) || !std::isfinite(want[i])) {
      const bool same = (std::isnan(got[i]) && std::isnan(want[i])) || got[i] == want[i];
      if (!same && out.comparable) out.comparable = false, out.at = i;
      continue;
    }
    const double d = std::fabs(double(got[i]) - want[i]);
    if (out.comparable && d > out.max_abs) out.max_abs = d, out.at = i;
    error += d * d, energy += double(want[i]) * want[i];
  }
  out.relative_rms = error == 0 ? 0 : std::sqrt(error / (energy > 0 ? energy : 1e-300));
  return out;
}

std::string Difference::text() const {
  char buffer[160];
  std::snprintf(buffer, sizeof buffer, "%s, relative RMS %.3g, largest difference %.3g at element %zu",
                comparable ? "comparable" : "NOT comparable", relative_rms, max_abs, at);
  return buffer;
}

bool equal_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

}  // namespace tenon::kit
