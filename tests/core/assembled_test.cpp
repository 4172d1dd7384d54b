// Weights that are put together when they are loaded: rows of several tensors joined, matrices turned, and one matrix
// cut out of a stack.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <tenon/error.hpp>

#include "fakes.hpp"
#include "program/weights.hpp"
#include "quantize/bound_rows.hpp"

namespace tenon::core_test {
namespace {

std::vector<float> counting(int64_t n, float from = 0) {
  std::vector<float> out(static_cast<size_t>(n));
  std::iota(out.begin(), out.end(), from);
  return out;
}

class AssembledTest : public ::testing::Test {
 protected:
  AssembledTest() {
    source_.add("table", 16, 8);
    source_.add("out", 16, 8);
  }
  void rule(const char* canonical, const char* source, uint32_t transform, uint32_t axis = 0, int64_t a = 0,
            int64_t b = 0) {
    rules_.push_back({str(canonical), str(source), transform, axis, a, b});
  }
  // A graph with weight `name` as the operand of a product, or of a sum where it is a vector.
  graph::Graph make(const char* name, int64_t rows, int64_t cols) {
    names_ = std::make_unique<graph::NameMap>(source_, rules_);
    return build(*names_, [&](const Builder& b) {
      const int32_t x = b.embed(b.weight("table", 16, 8)), w = b.weight(name, rows, cols);
      if (rows == 1) {
        b.op(TENON_OP_ADD, nullptr, {b.view(x, 0, cols)}, {w});
      } else {
        b.linear(b.view(x, 0, cols), {w});
      }
      b.logits(b.linear(b.select(x), {b.weight("out", 16, 8)})[0]);
    });
  }
  std::string fault(const char* name, int64_t rows, int64_t cols) {
    try {
      load(make(name, rows, cols), name, 0);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kFile);
      return error.what();
    }
    return "";
  }
  // Packed where layout is not 0.
  tenon_weight load(const graph::Graph& graph, const char* name, uint32_t layout) {
    weights_ = std::make_unique<program::WeightSet>(graph, *names_, registry_, device_.device());
    const int32_t id = graph.weight_ids.at({0, name});
    weights_->request(id, layout, {&packer_.table, &packed_, 0});
    weights_->pack(1, {}, {});
    return weights_->resolved(id, layout);
  }
  // What a kernel reads, and what a file that is written again would hold.
  void expect_values(const char* name, int64_t rows, int64_t cols, const std::vector<float>& expected) {
    const graph::Graph graph = make(name, rows, cols);
    const tenon_weight w = load(graph, name, 0);
    std::vector<float> found(expected.size());
    ASSERT_EQ(registry_.dtype(w.dtype)->decode(&w, 0, w.rows, found.data()), TENON_OK);
    EXPECT_EQ(found, expected);
    const auto written = quantize::bound_rows(source_, *names_->find(name),
                                              graph.weights[size_t(graph.weight_ids.at({0, name}))], registry_);
    std::fill(found.begin(), found.end(), -1.0f);
    for (int64_t r = 0; r < rows; r += 2)  // slices that tensors' borders cut
      written->read(r, std::min<int64_t>(2, rows - r), found.data() + r * cols);
    EXPECT_EQ(found, expected) << "written again";
  }

  FakeSource source_;
  FakeDevice device_;
  FakeKernel packer_{"packer", "linear"};
  tenon_node packed_ = {};
  plugin::Registry registry_;
  std::vector<tenon_name_rule> rules_;
  std::unique_ptr<graph::NameMap> names_;
  std::unique_ptr<program::WeightSet> weights_;
};

TEST_F(AssembledTest, RowsOfSeveralTensorsAreJoinedInTheRulesOrder) {
  source_.add("blk.0.b", 1, 4, counting(4, 100));  // the file's order is another
  source_.add("blk.0.c", 2, 4, counting(8, 200));
  source_.add("blk.0.a", 3, 4, counting(12));
  rule("blk.{i}.abc", "blk.{i}.a blk.{i}.b  blk.{i}.c", TENON_TRANSFORM_JOIN_ROWS);
  std::vector<float> expected = counting(12);
  for (const auto& part : {counting(4, 100), counting(8, 200)}) expected.insert(expected.end(), part.begin(), part.end());
  expect_values("blk.0.abc", 6, 4, expected);
  EXPECT_TRUE(names_->unused(std::vector<std::string>{"table", "out", "blk.0.abc"}).empty());
}

TEST_F(AssembledTest, EntriesOfVectorsAreJoined) {
  source_.add("q", 1, 3, counting(3)), source_.add("k", 1, 2, counting(2, 7));
  rule("qk", "q k", TENON_TRANSFORM_JOIN_ROWS);
  expect_values("qk", 1, 5, {0, 1, 2, 7, 8});
}

TEST_F(AssembledTest, WhatIsJoinedIsThereAndAlike) {
  rule("ab", "a b", TENON_TRANSFORM_JOIN_ROWS);
  source_.add("a", 3, 4);
  expect_in(fault("ab", 5, 4), {"1 tensors are missing", "b (to be joined into ab)"});
  source_.add("b", 2, 5);
  expect_in(fault("ab", 5, 4), {"tensor b: shape [5, 2]", "rows of 4 columns", "ab"});
  rules_.clear(), rule("cd", "a c", TENON_TRANSFORM_JOIN_ROWS);
  source_.add("c", 2, 4, TENON_DTYPE_F16);
  expect_in(fault("cd", 5, 4), {"another dtype than", "cd"});
  rules_.clear(), rule("ad", "a d", TENON_TRANSFORM_JOIN_ROWS);
  source_.add("d", 1, 4);
  expect_in(fault("ad", 5, 4), {"tensors a, d: 4 rows together", "expects 5"});
  source_.add("e", 2, 4), source_.add_factors("e", {2.0f});
  rules_.clear(), rule("ae", "a e", TENON_TRANSFORM_JOIN_ROWS);
  expect_in(fault("ae", 5, 4), {"tensor e: has a factor of its own"});
}

TEST_F(AssembledTest, AMatrixIsTurnedInItsDtype) {
  const int64_t rows = 5, cols = 40;  // more than one square of 32
  source_.add("m", rows, cols, counting(rows * cols));
  rule("turned", "m", TENON_TRANSFORM_TRANSPOSE);
  std::vector<float> expected;
  for (int64_t c = 0; c < cols; ++c)
    for (int64_t r = 0; r < rows; ++r) expected.push_back(float(r * cols + c));
  expect_values("turned", cols, rows, expected);
  source_.add("half", 3, 2, TENON_DTYPE_F16);
  auto* bits = reinterpret_cast<uint16_t*>(const_cast<uint8_t*>(source_.data(source_.find("half")->planes[0])));
  for (uint16_t i = 0; i < 6; ++i) bits[i] = uint16_t(0x3c00 + i * 0x100);  // 1, 1.25, 1.5, 1.75, 2, 2.5
  rules_.clear(), rule("half turned", "half", TENON_TRANSFORM_TRANSPOSE);
  EXPECT_EQ(load(make("half turned", 2, 3), "half turned", 0).dtype, uint32_t(TENON_DTYPE_F16));
  expect_values("half turned", 2, 3, {1, 1.5f, 2, 1.25f, 1.75f, 2.5f});
}

// One head's part of a matrix with all heads: the rows of its keys turned, those of its values as they are.
TEST_F(AssembledTest, RowsOfAHeadAreCutOutAndTurned) {
  source_.add("kv_b", 6, 2, counting(12));
  rule("k.1", "kv_b", TENON_TRANSFORM_TRANSPOSE, 6, 3, 5);
  rule("v.1", "kv_b", TENON_TRANSFORM_SLICE_ROWS, 6, 5, 6);
  expect_values("k.1", 2, 2, {6, 8, 7, 9});
  EXPECT_TRUE(names_->unused(std::vector<std::string>{"table", "out", "k.1"}).empty());
  expect_in(fault("k.1", 2, 3), {"tensor kv_b: shape [2, 6]", "expects [2, 3] (k.1, turned)"});
  rules_.clear(), rule("k.1", "kv_b", TENON_TRANSFORM_TRANSPOSE, 7, 3, 5);
  expect_in(fault("k.1", 2, 2), {"tensor kv_b: 6 rows", "expects 7"});
}

// A file that keeps the heads' matrices as a stack.
TEST_F(AssembledTest, OneMatrixIsCutOutOfAStack) {
  source_.add("k_b", 6, 2, counting(12));
  const_cast<std::vector<int64_t>&>(source_.find("k_b")->dim) = {2, 3, 2};
  rule("k.1", "k_b", TENON_TRANSFORM_SLICE_ROWS, 6, 3, 6);
  expect_values("k.1", 3, 2, {6, 7, 8, 9, 10, 11});
  rules_.clear(), rule("turned", "k_b", TENON_TRANSFORM_TRANSPOSE, 6, 3, 6);
  expect_values("turned", 2, 3, {6, 8, 10, 7, 9, 11});
  rules_.clear(), rule("whole", "k_b", TENON_TRANSFORM_TRANSPOSE);
  expect_in(fault("whole", 2, 3), {"tensor k_b: shape [2, 3, 2]", "expects [2, 3] (whole, turned)"});
}

TEST_F(AssembledTest, OnlyFloatsAreTurned) {
  source_.add("wide", 3, 2, TENON_DTYPE_F64);
  rule("turned", "wide", TENON_TRANSFORM_TRANSPOSE);
  expect_in(fault("turned", 2, 3), {"tensor wide: f64 cannot be turned", "f32, f16 and bf16 can", "turned"});
}

// Scales lie on a grid: those of the joined matrix are the parts' behind one another where no tile is cut.
TEST_F(AssembledTest, ScalesAreJoinedUnlessRowsOfTwoTensorsShareThem) {
  tenon_dtype grid = *registry_.dtype(TENON_DTYPE_U8);
  grid.name = str("grid"), grid.n_plane = 2, grid.tile_rows = 2, grid.plane_bytes[1] = 4;
  const auto add = [&](const std::string& name, int64_t rows, float first_scale) {
    source_.add(name + " scales", 1, (rows + 1) / 2, counting((rows + 1) / 2, first_scale));
    source::Plane scales = source_.find(name + " scales")->planes[0];
    scales.role = TENON_PLANE_SCALES;
    source_.add(name, rows, 4, TENON_DTYPE_U8);
    const_cast<source::Tensor*>(source_.find(name))->planes.push_back(scales);
  };
  add("a", 4, 1), add("b", 3, 10);
  rule("ab", "a b", TENON_TRANSFORM_JOIN_ROWS), rule("ba", "b a", TENON_TRANSFORM_JOIN_ROWS);
  const graph::NameMap names(source_, rules_);
  program::check_assembled(*names.find("ab"), grid, "ab");
  const program::Planes planes = program::joined_rows(source_, *names.find("ab"));
  EXPECT_EQ(planes[TENON_PLANE_CODES].size(), 7u * 4);
  const std::vector<float> expected = {1, 2, 10, 11};
  ASSERT_EQ(planes[TENON_PLANE_SCALES].size(), expected.size() * 4);
  EXPECT_EQ(std::memcmp(planes[TENON_PLANE_SCALES].data(), expected.data(), expected.size() * 4), 0);

  const auto refusal = [&](const tenon_dtype& dtype) -> std::string {
    try {
      program::check_assembled(*names.find("ba"), dtype, "ba");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  expect_in(refusal(grid), {"tensor b: 3 rows of grid cannot be joined", "2 of them share scales", "ba"});
  grid.tile_rows = 0;
  expect_in(refusal(grid), {"tensor b", "a factor of their own"});
}

// What is packed is kept once; the files' pages are given back when they have been read.
TEST_F(AssembledTest, ThePartsArePackedTogether) {
  source_.add("a", 3, 4), source_.add("b", 2, 4);
  rule("ab", "a b", TENON_TRANSFORM_JOIN_ROWS);
  const graph::Graph graph = make("ab", 5, 4);
  load(graph, "ab", 9);
  EXPECT_EQ(packer_.n_pack_slices, 1);
  EXPECT_EQ(source_.n_dropped, 2);
  EXPECT_EQ(weights_->bytes_of(graph.weight_ids.at({0, "ab"}), 0), 5u * 4 * 4);
}

}  // namespace
}  // namespace tenon::core_test
