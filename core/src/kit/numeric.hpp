// Scalar conversions and comparisons that tests of kernels share. All are definitions, none is fast.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace tenon::kit {

// Allocator for memory that kernels read with aligned vectors.
template <typename T>
struct Aligned64 {
  using value_type = T;
  Aligned64() = default;
  template <typename U>
  Aligned64(const Aligned64<U>&) {}  // NOLINT: allocators convert
  T* allocate(size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t(64))); }
  void deallocate(T* p, size_t) { ::operator delete(p, std::align_val_t(64)); }
  bool operator==(const Aligned64&) const { return true; }
};
using Bytes = std::vector<uint8_t, Aligned64<uint8_t>>;

// Allocator for memory that ends where unreadable memory begins, as a file may: reading past its end is a crash.
// Aligned as far as its size is. A vector's end is the border when it was made in one piece.
void* allocate_at_border(size_t bytes);  // throws std::bad_alloc
void free_at_border(void* memory, size_t bytes);
template <typename T>
struct AtBorder {
  using value_type = T;
  AtBorder() = default;
  template <typename U>
  AtBorder(const AtBorder<U>&) {}  // NOLINT: allocators convert
  T* allocate(size_t n) { return static_cast<T*>(allocate_at_border(n * sizeof(T))); }
  void deallocate(T* p, size_t n) { free_at_border(p, n * sizeof(T)); }
  bool operator==(const AtBorder&) const { return true; }
};
using BorderBytes = std::vector<uint8_t, AtBorder<uint8_t>>;

// Round to nearest, ties to even; NaN stays NaN.
uint16_t to_bf16(float value);
float from_bf16(uint16_t bits);
uint16_t to_f16(float value);
float from_f16(uint16_t bits);

// One row of `cols` f32 in the encoding, as abi.h defines it. `cols` is a multiple of 32 for q8_32.
void encode_row(uint32_t encoding, const float* values, int64_t cols, void* row);
void decode_row(uint32_t encoding, const void* row, int64_t cols, float* values);
void encode_q8_32(const float* values, int64_t cols, void* row);

// Repeatable numbers in [-1, 1) and roughly normal ones.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ull + 0x1234567) {}
  uint64_t bits();
  uint32_t below(uint32_t n) { return uint32_t(bits() % n); }
  float uniform();  // [-1, 1)
  float normal();   // sum of uniforms, variance 1
  std::vector<float> normals(size_t n, float scale = 1);

 private:
  uint64_t state_;
};

struct Difference {
  double relative_rms = 0;  // √(Σ(got − want)² / Σ want²)
  double max_abs = 0;
  size_t at = 0;           // of max_abs, or of the first element whose finiteness differs
  bool comparable = true;  // false: sizes differ, or one is finite (or the same infinity) where the other is not
  std::string text() const;
};
Difference compare(std::span<const float> got, std::span<const float> want);
bool equal_bits(std::span<const float> a, std::span<const float> b);

}  // namespace tenon::kit
