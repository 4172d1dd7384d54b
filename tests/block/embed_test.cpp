// embed from a packed table: bit for bit the dtype's own decoder.
#include <gtest/gtest.h>

#include <cmath>

#include "blocks.hpp"
#include "driver.hpp"

namespace tenon::block_test {
namespace {

class EmbedTest : public ::testing::TestWithParam<std::string> {};

uint32_t layout_for(const Weight& w) {
  tenon_linear_attr attr = {sizeof(tenon_linear_attr), 0};
  testing::OpCase c(TENON_OP_LINEAR, attr, testing::Step::plain(1));
  c.input(1, w.cols, std::vector<float>(static_cast<size_t>(w.cols))).weight(w).output(w.rows);
  return testing::offer_of(kit().kernel("block.linear.portable"), c).offer.pack_layout[0];
}

// Runs embed for `tokens` as one of `workers`; rows of another worker stay poisoned.
Matrix embed(const Packed& table, const std::vector<int32_t>& tokens, float scale, uint32_t phase,
             const Matrix* overlay = nullptr, const std::vector<int32_t>& overlay_rows = {}) {
  const tenon_kernel& kernel = kit().kernel("block.embed");
  const auto rows = static_cast<int64_t>(tokens.size());
  tenon_embed_attr attr = {sizeof(tenon_embed_attr), scale};
  const tenon_type in[2] = {{TENON_ENC_I32, TENON_DOMAIN_TOKENS, 1, 1},
                            {TENON_ENC_F32, TENON_DOMAIN_TOKENS, table.table.cols, 1}};
  const tenon_type out = {TENON_ENC_F32, TENON_DOMAIN_TOKENS, table.table.cols, 1};
  tenon_node node = {};
  node.struct_size = sizeof node, node.op = TENON_OP_EMBED, node.phase = phase, node.attr = &attr;
  node.in = in, node.n_in = overlay ? 2 : 1, node.out = &out, node.n_out = 1;
  node.weight = &table.table, node.n_weight = 1;
  tenon_device device = {};
  device.struct_size = sizeof device;
  tenon_offer offer = {};
  offer.struct_size = sizeof offer;
  EXPECT_EQ(kernel.accept(&kernel, &node, &device, &offer), TENON_OK) << offer.why_not;
  EXPECT_EQ(offer.pack_layout[0], table.table.layout);
  tenon_plan plan = {};
  plan.struct_size = sizeof plan;
  EXPECT_EQ(kernel.plan(&kernel, &node, static_cast<uint32_t>(rows), 64, 3, &plan), TENON_OK);
  EXPECT_EQ(plan.partition,
            static_cast<uint32_t>(phase == TENON_PHASE_DECODE ? TENON_PART_REPLICATE : TENON_PART_ROWS));
  Matrix ids(TENON_ENC_I32, rows, 1);
  for (int64_t r = 0; r < rows; ++r)
    *reinterpret_cast<int32_t*>(ids.bytes.data() + r * ids.view.row_bytes) = tokens[static_cast<size_t>(r)];
  Matrix x(TENON_ENC_F32, rows, table.table.cols);
  tenon_step step = {};
  step.struct_size = sizeof step;
  step.overlay = overlay ? reinterpret_cast<tenon_addr>(overlay_rows.data()) : 0;
  const tenon_view views[2] = {ids.view, overlay ? overlay->view : ids.view};
  tenon_args args = {};
  args.struct_size = sizeof args, args.rows = static_cast<uint32_t>(rows), args.step = &step;
  args.in = views, args.n_in = node.n_in, args.out = &x.view, args.n_out = 1, args.weight = &table.table,
  args.n_weight = 1;
  const uint32_t workers = phase == TENON_PHASE_DECODE ? 1 : 3;
  for (uint32_t w = 0; w < workers; ++w) {
    tenon_exec exec = {};
    exec.struct_size = sizeof exec, exec.worker = w, exec.n_workers = workers;
    EXPECT_EQ(kernel.launch(&kernel, &plan, &args, &exec), TENON_OK);
  }
  if (kernel.drop) kernel.drop(&kernel, &plan);
  return x;
}

TEST_P(EmbedTest, IsBitEqualToTheDtypesDecoder) {
  kit();
  Random random(20);
  for (const Scales scales : {Scales::kUsual, Scales::kHostile}) {
    const Weight w = random_weight(GetParam(), 75, 512, random, scales);
    const std::vector<float> decoded = w.decoded();
    const Packed table = pack(kit().kernel("block.embed"), w, layout_for(w));
    std::vector<int32_t> tokens;
    for (int32_t t = 0; t < 75; ++t) tokens.push_back((t * 31) % 75);
    for (const float scale : {1.0f, 25.298222f}) {
      for (const uint32_t phase : {TENON_PHASE_DECODE, TENON_PHASE_PREFILL}) {
        const Matrix x = embed(table, tokens, scale, phase);
        for (size_t r = 0; r < tokens.size(); ++r) {
          std::vector<float> want(decoded.begin() + tokens[r] * 512, decoded.begin() + (tokens[r] + 1) * 512);
          for (float& value : want) value *= scale;
          EXPECT_TRUE(testing::equal_bits(std::span(x.row(static_cast<int64_t>(r)), 512), want))
              << "token " << tokens[r];
        }
      }
    }
  }
}

TEST_P(EmbedTest, PacksTheSameBytesInSlicesOfAnySizeAndDefinesEveryByte) {
  kit();
  Random random(21);
  const Weight w = random_weight(GetParam(), 150, 768, random);
  const uint32_t layout = layout_for(w);
  const tenon_kernel& kernel = kit().kernel("block.linear.portable");
  const Packed whole = pack(kernel, w, layout, 192), sliced = pack(kernel, w, layout, 64);
  EXPECT_EQ(whole.bytes, sliced.bytes);
  // pack() fills with 0xff first; a byte that was left out would differ after another fill.
  Packed again = whole;
  std::fill(again.bytes.begin(), again.bytes.end(), uint8_t{0});
  tenon_weight source = {};
  source.struct_size = sizeof source, source.dtype = kit().dtype_id(w.dtype), source.rows = w.rows,
  source.cols = w.cols;
  source.row_bytes = w.row_bytes, source.plane[0] = reinterpret_cast<tenon_addr>(w.plane[0].data());
  tenon_node node = {};
  tenon_pack request = {};
  request.struct_size = sizeof request, request.layout = layout, request.src = &source, request.rows = w.rows;
  request.dst = reinterpret_cast<tenon_addr>(again.bytes.data());
  ASSERT_EQ(kernel.pack(&kernel, &node, &request), TENON_OK) << kit().error();
  EXPECT_EQ(whole.bytes, again.bytes);
}

INSTANTIATE_TEST_SUITE_P(Block, EmbedTest, ::testing::ValuesIn(dtypes()), [](const auto& info) { return info.param; });

TEST(Embed, TakesOverlayRowsUnscaledAndMarksTokensOutsideTheTable) {
  kit();
  Random random(22);
  const Weight w = random_weight("q8_0", 20, 64, random);
  const Packed table = pack(kit().kernel("block.embed"), w, layout_for(w));
  Matrix overlay(TENON_ENC_F32, 2, 64);
  overlay.encode(random.normals(128));
  const Matrix x = embed(table, {3, 4, 20, -1}, 2.0f, TENON_PHASE_DECODE, &overlay, {-1, 1, -1, -1});
  const std::vector<float> decoded = w.decoded();
  for (int c = 0; c < 64; ++c) {
    EXPECT_EQ(x.row(0)[c], decoded[static_cast<size_t>(3 * 64 + c)] * 2.0f);
    EXPECT_EQ(x.row(1)[c], overlay.row(1)[c]);
    EXPECT_TRUE(std::isnan(x.row(2)[c]) && std::isnan(x.row(3)[c]));
  }
}

}  // namespace
}  // namespace tenon::block_test
