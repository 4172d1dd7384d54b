#include <cstdint>

namespace TENON_ISA {

void scale(float* out, const float* in, int64_t n, float factor) {
  for (int64_t i = 0; i < n; ++i) out[i] = in[i] * factor;
}

}  // namespace TENON_ISA
