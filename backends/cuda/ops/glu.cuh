// glu.cuh: the gated activation, for every kernel that has one.
#pragma once

#include "device.cuh"

namespace tenon::cuda {

__device__ inline float glu_of(uint32_t activation, float limit, float alpha, float g, float u) {
  const bool is_oai = activation == TENON_ACT_SWIGLU_OAI;  // the one whose limit stands before the activation
  if (!is_oai) g = activate(activation, g);
  if (limit > 0) {
    if (g > limit) g = limit;
    if (u > limit) u = limit;
    if (u < -limit) u = -limit;
  }
  return is_oai ? g / (1.0f + expf(-alpha * g)) * (u + 1.0f) : g * u;
}

}  // namespace tenon::cuda
