// encode_k.cpp: encoders of the K types and of the types with a codebook of 16 levels. A super-block's groups are fitted
// one by one; their scales (and minimums) become whole numbers of one f16 step; then scales one step off are tried, the
// step itself is fitted to the codes, and the codes are chosen for what is really stored.
#include <iterator>

#include "blocks.hpp"
#include "fit.hpp"
#include "half.hpp"

namespace tenon::gguf {
namespace {

constexpr float kLargestHalf = 65504;

float as_half(float v) { return half_to_float(float_to_half(std::clamp(v, -kLargestHalf, kLargestHalf))); }

bool is_too_large(float step) { return !(std::fabs(step) <= kLargestHalf); }

// A step that an f16 cannot hold is stored as infinite, which check() finds; the codes beside it mean nothing.
uint16_t stored_step(float step, bool too_large) { return too_large ? uint16_t(0x7c00) : float_to_half(step); }

// The levels of iq4_nl. Between two whole numbers lies one border between levels at most.
struct NonLinearTable {
  constexpr NonLinearTable() : border(), first() {
    for (int i = 0; i < 15; ++i) border[i] = 0.5f * float(kNonLinear4[i] + kNonLinear4[i + 1]);
    border[15] = 1000;
    for (int cell = 0; cell < 256; ++cell) {
      int level = 0;
      while (level < 15 && border[level] <= float(cell - 128)) ++level;
      first[cell] = uint8_t(level);
    }
  }
  float border[16];   // above level i
  uint8_t first[256];  // the level nearest to the begin of a cell
};
constexpr NonLinearTable kNonLinearTable;

struct NonLinearLevels {
  static constexpr float kLow = -127, kHigh = 113;
  static float nearest(float v) { return float(kNonLinear4[index(v)]); }
  static int index(float v) {
    const float cut = std::clamp(v, kLow, kHigh);
    const int first = kNonLinearTable.first[int(cut + 128.0f)];
    return first + (cut > kNonLinearTable.border[first]);
  }
};

// ---------------------------------------------------------------------------------------------------------------------
// Groups with a signed scale: q3_k, q6_k, iq4_xs.

template <typename Levels, int N, int LowScale>
struct SignedBlock {
  static constexpr int kGroups = 256 / N;
  float step = 0;  // what an f16 holds
  bool too_large = false;
  int scale[kGroups] = {};
  float level[256] = {};

  explicit SignedBlock(const float* x) {
    float ideal[kGroups], extreme = 0;
    for (int g = 0; g < kGroups; ++g) {
      ideal[g] = fit_scale<Levels, N>(x + N * g);
      if (std::fabs(ideal[g]) > std::fabs(extreme)) extreme = ideal[g];
    }
    step = as_half(extreme / float(LowScale));
    too_large = is_too_large(extreme / float(LowScale));
    if (step == 0) return;
    for (int g = 0; g < kGroups; ++g) scale[g] = nearest_scale(x + N * g, ideal[g]);
    const float before = choose(x), fitted = fitted_step(x);
    const SignedBlock kept = *this;
    step = fitted;
    if (!(choose(x) < before)) *this = kept;
  }

 private:
  int nearest_scale(const float* x, float ideal) const {
    const int middle = int(nearest_whole(std::clamp(ideal / step, float(LowScale), float(-LowScale - 1))));
    int best = middle;
    float least = INFINITY;
    for (const int candidate : {middle, middle - 1, middle + 1}) {
      if (candidate < LowScale || candidate >= -LowScale) continue;
      const float error = scale_error<Levels, N>(x, step * float(candidate));
      if (error < least) least = error, best = candidate;
    }
    return best;
  }
  float choose(const float* x) {
    float error = 0;
    for (int g = 0; g < kGroups; ++g)
      error += scale_error<Levels, N>(x + N * g, step * float(scale[g]), level + N * g);
    return error;
  }
  float fitted_step(const float* x) const {
    float products = 0, squares = 0;
    for (int i = 0; i < 256; ++i) {
      const float unit = float(scale[i / N]) * level[i];
      products += x[i] * unit, squares += unit * unit;
    }
    return squares > 0 ? as_half(products / squares) : step;
  }
};

// ---------------------------------------------------------------------------------------------------------------------
// Groups with a scale and a minimum: q2_k, q4_k, q5_k.

template <int Top, int N, int TopScale>
struct AffineBlock {
  static constexpr int kGroups = 256 / N;
  float step = 0, min_step = 0;  // what f16 hold
  bool too_large = false;
  int scale[kGroups] = {}, min[kGroups] = {};
  float code[256] = {};

  explicit AffineBlock(const float* x) {
    AffineFit ideal[kGroups];
    float largest = 0, deepest = 0;
    for (int g = 0; g < kGroups; ++g) {
      ideal[g] = fit_affine<Top, N>(x + N * g);
      largest = std::max(largest, ideal[g].scale), deepest = std::max(deepest, ideal[g].min);
    }
    step = as_half(largest / float(TopScale)), min_step = as_half(deepest / float(TopScale));
    too_large = is_too_large(largest / float(TopScale)) || is_too_large(deepest / float(TopScale));
    for (int g = 0; g < kGroups; ++g) place(x + N * g, ideal[g], g);
    const float before = choose(x);
    const AffineBlock kept = *this;
    fit_steps(x);
    if (!(choose(x) < before)) *this = kept;
  }

 private:
  static int whole(float v, float step) {
    return step > 0 ? int(nearest_whole(std::clamp(v / step, 0.0f, float(TopScale)))) : 0;
  }
  // The pair of whole numbers around the ideal one that has the least error.
  void place(const float* x, const AffineFit& ideal, int g) {
    const int middle = whole(ideal.scale, step), middle_min = whole(ideal.min, min_step);
    float least = INFINITY;
    for (int s = std::max(middle - 1, 0); s <= std::min(middle + 1, TopScale); ++s) {
      for (int m = std::max(middle_min - 1, 0); m <= std::min(middle_min + 1, TopScale); ++m) {
        const float error = affine_error<Top, N>(x, step * float(s), min_step * float(m));
        if (error < least) least = error, scale[g] = s, min[g] = m;
      }
    }
  }
  float choose(const float* x) {
    float error = 0;
    for (int g = 0; g < kGroups; ++g)
      error += affine_error<Top, N>(x + N * g, step * float(scale[g]), min_step * float(min[g]), code + N * g);
    return error;
  }
  // Least squares of x ≈ step × (scale × code) − min_step × min over the super-block.
  void fit_steps(const float* x) {
    double uu = 0, um = 0, mm = 0, xu = 0, xm = 0;
    for (int i = 0; i < 256; ++i) {
      const double u = double(scale[i / N]) * code[i], m = min[i / N];
      uu += u * u, um += u * m, mm += m * m, xu += x[i] * u, xm += x[i] * m;
    }
    const double determinant = uu * mm - um * um;
    if (determinant > 0) {
      const double s = (xu * mm - xm * um) / determinant, m = (xu * um - xm * uu) / determinant;
      if (s > 0 && m >= 0) step = as_half(float(s)), min_step = as_half(float(m));
    } else if (mm == 0 && uu > 0) {
      step = as_half(float(xu / uu));
    }
  }
};

// The layout that blocks_k.cpp's scale_min() reads.
void pack_scale_min(const int* scale, const int* min, uint8_t* packed) {
  for (int g = 0; g < 4; ++g) {
    packed[g] = uint8_t(scale[g] | (scale[g + 4] >> 4) << 6);
    packed[g + 4] = uint8_t(min[g] | (min[g + 4] >> 4) << 6);
    packed[g + 8] = uint8_t((scale[g + 4] & 15) | (min[g + 4] & 15) << 4);
  }
}

int as_code(float level, int offset) { return int(level) + offset; }

}  // namespace

void encode_q2_k(const float* x, uint8_t* block) {
  const AffineBlock<3, 16, 15> fit(x);
  std::fill(block + 16, block + 80, uint8_t(0));
  for (int g = 0; g < 16; ++g) block[g] = uint8_t(fit.scale[g] | fit.min[g] << 4);
  for (int i = 0; i < 256; ++i)
    block[16 + i / 128 * 32 + i % 32] |= uint8_t(as_code(fit.code[i], 0) << i % 128 / 32 * 2);
  store(block + 80, stored_step(fit.step, fit.too_large)), store(block + 82, stored_step(fit.min_step, fit.too_large));
}

void encode_q3_k(const float* x, uint8_t* block) {
  const SignedBlock<WholeLevels<-4, 3>, 16, -32> fit(x);
  uint8_t *high = block, *codes = block + 32, *scales = block + 96;
  std::fill(block, block + 108, uint8_t(0));
  for (int i = 0; i < 256; ++i) {
    const int code = as_code(fit.level[i], 4);
    codes[i / 128 * 32 + i % 32] |= uint8_t((code & 3) << i % 128 / 32 * 2);
    high[i % 32] |= uint8_t((code >> 2) << i / 32);
  }
  for (int g = 0; g < 16; ++g) {
    const int scale = fit.scale[g] + 32;
    scales[g % 8] |= uint8_t((scale & 15) << (g < 8 ? 0 : 4));
    scales[8 + g % 4] |= uint8_t((scale >> 4) << g / 4 * 2);
  }
  store(block + 108, stored_step(fit.step, fit.too_large));
}

void encode_q4_k(const float* x, uint8_t* block) {
  const AffineBlock<15, 32, 63> fit(x);
  store(block, stored_step(fit.step, fit.too_large)), store(block + 2, stored_step(fit.min_step, fit.too_large));
  pack_scale_min(fit.scale, fit.min, block + 4);
  for (int i = 0; i < 128; ++i) {
    const float* pair = fit.code + i / 32 * 64 + i % 32;
    block[16 + i] = uint8_t(as_code(pair[0], 0) | as_code(pair[32], 0) << 4);
  }
}

void encode_q5_k(const float* x, uint8_t* block) {
  const AffineBlock<31, 32, 63> fit(x);
  store(block, stored_step(fit.step, fit.too_large)), store(block + 2, stored_step(fit.min_step, fit.too_large));
  pack_scale_min(fit.scale, fit.min, block + 4);
  std::fill(block + 16, block + 176, uint8_t(0));
  for (int i = 0; i < 256; ++i) {
    const int code = as_code(fit.code[i], 0), group = i / 32;
    block[16 + i % 32] |= uint8_t((code >> 4) << group);
    block[48 + group / 2 * 32 + i % 32] |= uint8_t((code & 15) << group % 2 * 4);
  }
}

void encode_q6_k(const float* x, uint8_t* block) {
  const SignedBlock<WholeLevels<-32, 31>, 16, -128> fit(x);
  uint8_t *low = block, *high = block + 128, *scales = block + 192;
  std::fill(block, block + 192, uint8_t(0));
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, quarter = i % 128 / 32, lane = i % 32, code = as_code(fit.level[i], 32);
    low[64 * half + 32 * (quarter & 1) + lane] |= uint8_t((code & 15) << (quarter >> 1) * 4);
    high[32 * half + lane] |= uint8_t((code >> 4) << 2 * quarter);
  }
  for (int g = 0; g < 16; ++g) scales[g] = uint8_t(int8_t(fit.scale[g]));
  store(block + 208, stored_step(fit.step, fit.too_large));
}

void encode_iq4_xs(const float* x, uint8_t* block) {
  const SignedBlock<NonLinearLevels, 32, -32> fit(x);
  std::fill(block, block + 136, uint8_t(0));
  uint16_t high = 0;
  for (int g = 0; g < 8; ++g) {
    const int scale = fit.scale[g] + 32;
    high = uint16_t(high | (scale >> 4) << 2 * g);
    block[4 + g / 2] |= uint8_t((scale & 15) << g % 2 * 4);
    for (int i = 0; i < 32; ++i)
      block[8 + 16 * g + i % 16] |= uint8_t(NonLinearLevels::index(fit.level[32 * g + i]) << (i < 16 ? 0 : 4));
  }
  store(block, stored_step(fit.step, fit.too_large)), store(block + 2, high);
}

void encode_iq4_nl(const float* x, uint8_t* block) {
  const float ideal = fit_scale<NonLinearLevels, 32>(x), scale = as_half(ideal);
  float level[32];
  scale_error<NonLinearLevels, 32>(x, scale, level);
  store(block, stored_step(scale, is_too_large(ideal)));
  for (int i = 0; i < 16; ++i)
    block[2 + i] = uint8_t(NonLinearLevels::index(level[i]) | NonLinearLevels::index(level[i + 16]) << 4);
}

}  // namespace tenon::gguf
