// fit.hpp: least-squares fits of a group of values by few levels: x ≈ scale × level, and x ≈ scale × code − min.
//
// For given levels the best scale (and minimum) is the solution of the normal equations; for a given scale the best
// levels are the nearest ones. A fit begins with several scales around the one that just spans the group, takes the best,
// and alternates the two steps (Lloyd, "Least squares quantization in PCM", 1982) until nothing changes. Errors are sums
// of squares.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace tenon::gguf {

// Nearest whole number, ties to even, for |v| < 2^22: the addition shifts the fraction out.
inline float nearest_whole(float v) {
  constexpr float kShift = 12582912.0f;  // 1.5 × 2^23
  return (v + kShift) - kShift;
}

// Sums in eight lanes, so that the compiler may use vectors without changing the order of the sum.
class LaneSum {
 public:
  void add(int lane, float v) { lanes_[lane] += v; }
  float total() const {
    return ((lanes_[0] + lanes_[4]) + (lanes_[2] + lanes_[6])) + ((lanes_[1] + lanes_[5]) + (lanes_[3] + lanes_[7]));
  }

 private:
  float lanes_[8] = {};
};

// Codes Low … High that are their own levels.
template <int Low, int High>
struct WholeLevels {
  static constexpr float kLow = Low, kHigh = High;
  static float nearest(float v) { return nearest_whole(std::clamp(v, kLow, kHigh)); }
};

// Least squares of x ≈ scale × level for the levels nearest to x / start; `gain` is how much of Σx² the fit explains.
struct ScaleFit {
  float scale = 0, gain = 0;
};
template <typename Levels, int N>
ScaleFit improve_scale(const float* x, float start) {
  const float inverse = 1.0f / start;
  LaneSum products, squares;
  for (int i = 0; i < N; i += 8) {
    for (int lane = 0; lane < 8; ++lane) {
      const float level = Levels::nearest(x[i + lane] * inverse);
      products.add(lane, x[i + lane] * level), squares.add(lane, level * level);
    }
  }
  const float product = products.total(), square = squares.total();
  return square > 0 ? ScaleFit{product / square, product * product / square} : ScaleFit{};
}

// The scale for x[N]; 0 for zeros. May be negative: the side with more levels then serves the largest magnitude.
template <typename Levels, int N>
float fit_scale(const float* x) {
  float extreme = 0;
  for (int i = 0; i < N; ++i)
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  if (!(std::fabs(extreme) > 0x1p-100f)) return 0;  // what would be subnormal is 0 in every type
  ScaleFit best;
  for (const float end : {Levels::kLow, Levels::kHigh}) {
    const float step = 0.03125f * end;  // candidates from 3/4 to 9/8 of the whole range
    for (int k = -8; k <= 4; ++k) {
      const ScaleFit fit = improve_scale<Levels, N>(x, extreme / (end + step * float(k)));
      if (fit.gain > best.gain) best = fit;
    }
  }
  for (int round = 0; round < 4 && best.scale != 0; ++round) {
    const ScaleFit fit = improve_scale<Levels, N>(x, best.scale);
    if (!(fit.gain > best.gain)) break;
    best = fit;
  }
  return best.scale;
}

// Σ (x − scale × nearest level)²; the levels go to `level` if it is given.
template <typename Levels, int N>
float scale_error(const float* x, float scale, float* level = nullptr) {
  const float inverse = scale != 0 ? 1.0f / scale : 0.0f;
  LaneSum sum;
  for (int i = 0; i < N; i += 8) {
    for (int lane = 0; lane < 8; ++lane) {
      const float nearest = Levels::nearest(x[i + lane] * inverse);
      const float rest = x[i + lane] - scale * nearest;
      sum.add(lane, rest * rest);
      if (level) level[i + lane] = nearest;
    }
  }
  return sum.total();
}

// x ≈ scale × code − min with codes 0 … Top, scale ≥ 0 and min ≥ 0.
struct AffineFit {
  float scale = 0, min = 0, error = INFINITY;
};

// Σ (x − (scale × nearest code − min))²; the codes go to `code` if it is given.
template <int Top, int N>
float affine_error(const float* x, float scale, float min, float* code = nullptr) {
  const float inverse = scale > 0 ? 1.0f / scale : 0.0f;
  LaneSum sum;
  for (int i = 0; i < N; i += 8) {
    for (int lane = 0; lane < 8; ++lane) {
      const float nearest = WholeLevels<0, Top>::nearest((x[i + lane] + min) * inverse);
      const float rest = x[i + lane] - (scale * nearest - min);
      sum.add(lane, rest * rest);
      if (code) code[i + lane] = nearest;
    }
  }
  return sum.total();
}

// Least squares for the codes nearest to (x + min) / scale, with its error after the codes were chosen anew.
template <int Top, int N>
AffineFit improve_affine(const float* x, float scale, float min) {
  const float inverse = 1.0f / scale;
  LaneSum sum_x, sum_q, sum_qq, sum_xq;
  for (int i = 0; i < N; i += 8) {
    for (int lane = 0; lane < 8; ++lane) {
      const float q = WholeLevels<0, Top>::nearest((x[i + lane] + min) * inverse);
      sum_x.add(lane, x[i + lane]), sum_q.add(lane, q), sum_qq.add(lane, q * q), sum_xq.add(lane, x[i + lane] * q);
    }
  }
  const float xs = sum_x.total(), qs = sum_q.total(), qq = sum_qq.total(), xq = sum_xq.total();
  const float determinant = float(N) * qq - qs * qs;
  if (!(determinant > 0)) return {};
  AffineFit fit = {(float(N) * xq - xs * qs) / determinant, (qs * xq - xs * qq) / determinant};
  if (fit.min < 0) fit = {xq / qq, 0.0f};
  if (!(fit.scale > 0)) return {};
  fit.error = affine_error<Top, N>(x, fit.scale, fit.min);
  return fit;
}

template <int Top, int N>
AffineFit fit_affine(const float* x) {
  float low = 0, high = x[0];
  for (int i = 0; i < N; ++i) low = std::min(low, x[i]), high = std::max(high, x[i]);
  const float range = high - low;
  if (!(range > 0x1p-100f)) return {0.0f, -low, 0.0f};
  AffineFit best = {range / float(Top), -low, affine_error<Top, N>(x, range / float(Top), -low)};
  // Fewer levels than there are for the whole range leave some unused, more cut the ends off.
  for (int k = -5; k <= 10; ++k) {
    const AffineFit fit = improve_affine<Top, N>(x, range / (float(Top) + 0.1f * float(k)), -low);
    if (fit.error < best.error) best = fit;
  }
  for (int round = 0; round < 4; ++round) {
    const AffineFit fit = improve_affine<Top, N>(x, best.scale, best.min);
    if (!(fit.error < best.error)) break;
    best = fit;
  }
  return best;
}

}  // namespace tenon::gguf
