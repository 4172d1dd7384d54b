// A product and a sum that a compiler may fuse unless it is told not to; as a scalar and as a loop for the vectorizer.
#ifndef TENON_ISA
#define TENON_ISA plain
#endif

namespace TENON_ISA {

float multiply_add(float a, float b, float c) { return a * b + c; }

void multiply_add_rows(float* out, const float* a, const float* b, int n) {
  for (int i = 0; i < n; ++i) out[i] = a[i] * b[i] + out[i];
}

}  // namespace TENON_ISA
