// The reference's paged K/V: where rows go, what a row sees, and that nothing else is read.
#include <gtest/gtest.h>

#include <cmath>

#include "conformance.hpp"

namespace tenon::testing {
namespace {

class ReferenceAttention : public ::testing::Test {
 protected:
  void SetUp() override { load_reference(); }
};

tenon_attention_attr attention(uint32_t heads, uint32_t kv_heads, uint32_t dk, uint32_t dv, int32_t window = 0) {
  tenon_attention_attr attr = {};
  attr.struct_size = sizeof attr, attr.heads = heads, attr.kv_heads = kv_heads, attr.head_dim = dk;
  attr.head_dim_v = dv, attr.window = window, attr.scale = 0.25f;
  return attr;
}

TEST_F(ReferenceAttention, KvWriteRoundsToTheStoreAndTouchesNoOtherRow) {
  for (const std::string dtype : {"f32", "f16", "bf16"}) {
    Store store = Store::paged(2, 4, 8, dtype, "f16", 2, 130);
    const Store before = store;
    OpCase c(TENON_OP_KV_WRITE, tenon_kv_write_attr{sizeof(tenon_kv_write_attr), 2, 4, 8},
             Step({SeqRows{63, 2}, SeqRows{128, 1}}));
    const auto k = Random(1).normals(3 * 8), v = Random(2).normals(3 * 16);
    c.input(3, 8, k).strided(3, 16, v, 2, 5, 3).store(store);
    RunResult got = run_reference(c);
    const int64_t where[3][2] = {{0, 63}, {0, 64}, {1, 128}};
    for (int r = 0; r < 3; ++r) {
      store.put(uint32_t(where[r][0]), where[r][1], k.data() + r * 8, v.data() + r * 16);
    }
    EXPECT_EQ(got.stores[0].base, store.base) << dtype;
    EXPECT_NE(store.base, before.base);
  }
}

// Attention over explicit key and value lists.
std::vector<float> direct(const tenon_attention_attr& a, const float* q, const std::vector<std::vector<float>>& k,
                          const std::vector<std::vector<float>>& v, const std::vector<int>& seen) {
  std::vector<float> out;
  for (uint32_t h = 0; h < a.heads; ++h) {
    const uint32_t kv = h / (a.heads / a.kv_heads);
    std::vector<double> weight;
    double total = 0;
    for (const int p : seen) {
      double s = 0;
      for (uint32_t c = 0; c < a.head_dim; ++c) s += double(q[h * a.head_dim + c]) * k[size_t(p)][kv * a.head_dim + c];
      s *= a.scale;
      if (a.softcap > 0) s = a.softcap * std::tanh(s / a.softcap);
      weight.push_back(std::exp(s)), total += weight.back();
    }
    for (uint32_t c = 0; c < a.head_dim_v; ++c) {
      double sum = 0;
      for (size_t i = 0; i < seen.size(); ++i) sum += weight[i] / total * v[size_t(seen[i])][kv * a.head_dim_v + c];
      out.push_back(float(sum));
    }
  }
  return out;
}

TEST_F(ReferenceAttention, RowsSeeTheirWindowAndNeverAnUnwrittenOrGivenBackRow) {
  for (const int window : {0, 1, 64, 70}) {
    tenon_attention_attr attr = attention(4, 2, 8, 4, window);
    attr.softcap = window == 70 ? 2.0f : 0.0f;
    const int past = 150, rows = 3;
    Store store = Store::paged(2, 8, 4, "f32", "f32", 1, past + rows, window);
    std::vector<std::vector<float>> k, v;
    Random random(3);
    for (int p = 0; p < past + rows; ++p) {
      k.push_back(random.normals(16)), v.push_back(random.normals(8));
      store.put(0, p, k.back().data(), v.back().data());
    }
    if (window == 70) store.give_back(0, 0);  // the lowest key seen is 81, in page 1
    if (window == 1) store.give_back(0, 0), store.give_back(0, 1);
    const auto q = random.normals(rows * 32);
    OpCase c(TENON_OP_ATTENTION, attr, Step({SeqRows{past, rows}}));
    c.input(rows, 32, q).store(store).output(16);
    const auto got = run_reference(c).out[0];
    for (int r = 0; r < rows; ++r) {
      std::vector<int> seen;
      for (int p = 0; p <= past + r; ++p)
        if (window == 0 || p > past + r - window) seen.push_back(p);
      const auto want = direct(attr, q.data() + r * 32, k, v, seen);
      EXPECT_LT(compare({got.data() + r * 16, 16}, want).relative_rms, 1e-6) << "window " << window << ", row " << r;
    }
  }
}

TEST_F(ReferenceAttention, ASpanSeesItselfInBothDirections) {
  tenon_attention_attr attr = attention(1, 1, 4, 4, 2);
  attr.span_mask = 1;
  Store store = Store::paged(1, 4, 4, "f32", "f32", 1, 6);
  std::vector<std::vector<float>> k, v;
  Random random(4);
  for (int p = 0; p < 6; ++p) {
    k.push_back(random.normals(4)), v.push_back(random.normals(4));
    store.put(0, p, k.back().data(), v.back().data());
  }
  Step step({SeqRows{0, 6}});
  for (size_t r = 1; r <= 4; ++r) step.span[r] = 7;
  const auto q = random.normals(24);
  OpCase c(TENON_OP_ATTENTION, attr, step);
  c.input(6, 4, q).store(store).output(4);
  const auto got = run_reference(c).out[0];
  const std::vector<std::vector<int>> seen = {{0}, {0, 1, 2, 3, 4}, {1, 2, 3, 4}, {1, 2, 3, 4}, {1, 2, 3, 4}, {4, 5}};
  for (size_t r = 0; r < 6; ++r)
    EXPECT_LT(compare({got.data() + r * 4, 4}, direct(attr, q.data() + r * 4, k, v, seen[r])).relative_rms, 1e-6) << r;
}

TEST_F(ReferenceAttention, SequencesDoNotMix) {
  const tenon_attention_attr attr = attention(2, 1, 8, 8);
  Store store = Store::paged(1, 8, 8, "f16", "bf16", 2, 70, 0, 9);
  Random random(5);
  for (uint32_t s = 0; s < 2; ++s)
    for (int p = 0; p < 70; ++p) store.put(s, p, random.normals(8).data(), random.normals(8).data());
  const auto q = random.normals(3 * 16);
  OpCase both(TENON_OP_ATTENTION, attr, Step({SeqRows{60, 2}, SeqRows{5, 1}}));
  both.input(3, 16, q).store(store).output(16);
  OpCase first(TENON_OP_ATTENTION, attr, Step({SeqRows{60, 2}}));
  first.input(2, 16, {q.begin(), q.begin() + 32}).store(store).output(16);
  const auto together = run_reference(both).out[0], alone = run_reference(first).out[0];
  EXPECT_TRUE(equal_bits({together.data(), 32}, alone));
  OpCase missing(TENON_OP_ATTENTION, attr, Step({SeqRows{69, 1}}));
  store.give_back(0, 0);
  missing.input(1, 16, {q.begin(), q.begin() + 16}).store(store).output(16);
  EXPECT_THROW(run_reference(missing), std::runtime_error);
}

}  // namespace
}  // namespace tenon::testing
