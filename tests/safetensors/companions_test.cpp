// Quantized tensors and the scales beside them.
#include <gtest/gtest.h>

#include "fake_host.hpp"
#include "writer.hpp"

namespace tenon::test {
namespace {

std::string floats(size_t n) { return bytes_of(std::vector<float>(n, 1.0f)); }

struct Opened {
  explicit Opened(const Writer& writer) : set({{"model.safetensors", writer.build()}}) {
    EXPECT_EQ(set.status(), TENON_OK) << set.message();
  }
  void expect(const std::string& name, const char* dtype, const std::vector<int64_t>& dim,
              const std::vector<uint32_t>& roles) {
    tenon_tensor tensor = {};
    ASSERT_TRUE(set.tensor(name, &tensor)) << name;
    EXPECT_EQ(tensor.dtype, FakeHost::get().dtype_id(dtype)) << name;
    EXPECT_EQ(std::vector<int64_t>(tensor.dim, tensor.dim + tensor.n_dim), dim) << name;
    std::vector<uint32_t> found;
    for (uint32_t p = 0; p < tensor.n_plane; ++p) found.push_back(tensor.plane[p].role);
    EXPECT_EQ(found, roles) << name;
  }
  OpenedSet set;
};

void expect_refused(const Writer& writer, const std::string& what, tenon_status status = TENON_CORRUPT) {
  const OpenedSet set({{"model.safetensors", writer.build()}});
  EXPECT_EQ(set.status(), status) << set.message();
  EXPECT_NE(set.message().find(what), std::string::npos) << set.message();
}

TEST(Companions, Fp8FindsItsScaleByEnding) {
  const std::string codes(130 * 200, '\x38');
  Opened opened(Writer()
                    .tensor("a.weight", "F8_E4M3", {130, 200}, codes)
                    .tensor("a.weight_scale_inv", "F32", {2, 2}, floats(4))
                    .tensor("b.weight", "F8_E4M3", {130, 200}, codes)
                    .tensor("b.weight_scale_inv", "BF16", {2, 2}, std::string(8, '\1'))
                    .tensor("c.weight", "F8_E4M3", {130, 200}, codes)
                    .tensor("c.weight_scale", "F32", {130, 1}, floats(130))
                    .tensor("c.input_scale", "F32", {}, floats(1))
                    .tensor("d.weight", "F8_E4M3", {130, 200}, codes)
                    .tensor("d.weight_scale", "BF16", {}, std::string(2, '\1'))
                    .tensor("e.weight", "F8_E4M3", {130, 200}, codes)
                    .tensor("e.qscale_weight", "F32", {1}, floats(1)));
  opened.expect("a.weight", "fp8_b128", {200, 130}, {0, 1});
  opened.expect("b.weight", "fp8_b128_bf16", {200, 130}, {0, 1});
  opened.expect("c.weight", "fp8_row", {200, 130}, {0, 1});
  opened.expect("d.weight", "fp8_tensor_bf16", {200, 130}, {0, 3});
  opened.expect("e.weight", "fp8_tensor", {200, 130}, {0, 3});
  EXPECT_EQ(opened.set.tensors().size(), 5u);  // no scale is a tensor of the model
}

TEST(Companions, Nvfp4IsFoundInBothSpellings) {
  const std::string codes(4 * 16, '\x21'), scales(4 * 2, '\x38');
  Opened opened(Writer()
                    .tensor("a.weight", "U8", {4, 16}, codes)
                    .tensor("a.weight_scale", "F8_E4M3", {4, 2}, scales)
                    .tensor("a.weight_scale_2", "F32", {}, floats(1))
                    .tensor("a.input_scale", "F32", {}, floats(1))
                    .tensor("b.weight_packed", "U8", {4, 16}, codes)
                    .tensor("b.weight_scale", "F8_E4M3", {4, 2}, scales)
                    .tensor("b.weight_global_scale", "F32", {1}, floats(1))
                    .tensor("mask", "U8", {3}, "abc"));
  opened.expect("a.weight", "nvfp4_modelopt", {32, 4}, {0, 1, 3});
  opened.expect("b.weight", "nvfp4_ct", {32, 4}, {0, 1, 3});
  EXPECT_EQ(opened.set.tensors().size(), 3u);
}

TEST(Companions, StacksOfExpertsHaveStacksOfScales) {
  Opened opened(Writer()
                    .tensor("a.weight", "F8_E4M3", {3, 130, 16}, std::string(3 * 130 * 16, '\x38'))
                    .tensor("a.weight_scale_inv", "F32", {3, 2, 1}, floats(6))
                    .tensor("b.weight", "U8", {3, 4, 16}, std::string(3 * 4 * 16, '\x21'))
                    .tensor("b.weight_scale", "F8_E4M3", {3, 4, 2}, std::string(24, '\x38'))
                    .tensor("b.weight_scale_2", "F32", {3}, floats(3)));
  opened.expect("a.weight", "fp8_b128", {16, 130, 3}, {0, 1});
  opened.expect("b.weight", "nvfp4_modelopt", {32, 4, 3}, {0, 1, 3});
}

TEST(Companions, AllThatAreMissingAreNamedAtOnce) {
  expect_refused(Writer()
                     .tensor("a.weight", "F8_E4M3", {2, 16}, std::string(32, '\x38'))
                     .tensor("b.weight", "U8", {2, 8}, std::string(16, '\x38'))
                     .tensor("b.weight_scale", "F8_E4M3", {2, 1}, "ab"),
                 "2 companion tensors ('a.weight_scale_inv', 'b.weight_scale_2') missing: without its scale a "
                 "quantized tensor has no values");
}

TEST(Companions, AScaleThatDoesNotFitIsRefusedWithBothShapes) {
  expect_refused(Writer()
                     .tensor("a.weight", "F8_E4M3", {130, 200}, std::string(130 * 200, '\x38'))
                     .tensor("a.weight_scale_inv", "F32", {2, 3}, floats(6)),
                 "tensor 'a.weight_scale_inv' at byte");
  expect_refused(Writer()
                     .tensor("a.weight", "F8_E4M3", {130, 200}, std::string(130 * 200, '\x38'))
                     .tensor("a.weight_scale_inv", "F32", {2, 3}, floats(6)),
                 "shape [2, 3] does not fit the codes' [130, 200]: expected one scale, one a row, or a grid of 2 x 2");
  expect_refused(Writer()
                     .tensor("b.weight_packed", "I32", {4, 4}, std::string(64, 'x'))
                     .tensor("b.weight_scale", "BF16", {4, 1}, std::string(8, 'x')),
                 "packed codes of type I32 are not served", TENON_UNSUPPORTED);
}

}  // namespace
}  // namespace tenon::test
