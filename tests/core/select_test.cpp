// Kernel choice with kernels and files made up by the test.
#include "program/select.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <tenon/error.hpp>

#include "fakes.hpp"

namespace tenon::program {
namespace {

using core_test::Builder;
using core_test::FakeDevice;
using core_test::FakeKernel;
using core_test::FakeSource;
using core_test::Kernels;
using core_test::view;

// Reads q8_32 and, where a layout is given, packs every weight.
FakeKernel::Accept quantized(uint32_t layout = 0, uint32_t only_dtype = 0) {
  return [=](const tenon_node& node, tenon_offer& offer) -> const char* {
    for (uint32_t i = 0; i < node.n_weight; ++i) {
      if (only_dtype && node.weight[i].dtype != only_dtype) return "another dtype";
      offer.pack_layout[i] = layout;
    }
    offer.in_encoding[0] = TENON_ENC_Q8_32;
    return nullptr;
  };
}
FakeKernel::Accept packing(uint32_t layout, uint32_t only_dtype = 0) {
  return [=](const tenon_node& node, tenon_offer& offer) -> const char* {
    for (uint32_t i = 0; i < node.n_weight; ++i) {
      if (only_dtype && node.weight[i].dtype != only_dtype) return "another dtype";
      offer.pack_layout[i] = layout;
    }
    return nullptr;
  };
}
FakeKernel::Accept costing(double us) {
  return [=](const tenon_node&, tenon_offer& offer) -> const char* { return offer.fixed_us = us, nullptr; };
}

class SelectTest : public ::testing::Test {
 protected:
  SelectTest() {
    source_.add("table", 64, 32);
    source_.add("norm", 1, 32);
    for (const char* name : {"a", "b", "c", "d"}) source_.add(name, 32, 32);
    source_.add("half", 32, 32, TENON_DTYPE_F16);
    source_.add("half2", 32, 32, TENON_DTYPE_F16);
    source_.add("odd", 8, 20);
    source_.add("router", 4, 32);
    source_.add("out", 64, 32);
    kernels_.add_plain({"embed", "encode", "norm", "linear", "glu", "add", "mul", "select_rows", "softcap"});
  }
  void make(const std::function<int32_t(const Builder&, int32_t)>& body, float softcap = 0, bool tied = false) {
    names_ = std::make_unique<graph::NameMap>(source_, std::span<const tenon_name_rule>());
    graph_ = core_test::build(*names_, [&](const Builder& b) {
      const int32_t table = b.weight("table", 64, 32);
      const int32_t y = body(b, b.embed(table));
      b.logits(b.linear(b.select(y), {tied ? table : b.weight("out", 64, 32)})[0], softcap);
    });
  }
  void make_chain(bool tied = false) {
    make([](const Builder& b,
            int32_t x) { return b.linear(b.norm(x, b.weight("norm", 1, 32)), {b.weight("a", 32, 32)})[0]; },
         0, tied);
  }
  Selection& select(bool reversed = false) {
    registry_ = std::make_unique<plugin::Registry>(kernels_.registry(reversed));
    weights_ = std::make_unique<WeightSet>(graph_, *names_, *registry_, device_.device());
    selection_ =
        std::make_unique<Selection>(select_kernels(graph_, *registry_, device_.device(), *weights_, {}, options_));
    return *selection_;
  }
  std::string kernel_of(std::string_view node, std::string_view op = "linear") const {
    for (const Choice& choice : selection_->choices)
      if (choice.node == node && choice.op == op) return choice.kernel;
    return "none";
  }
  std::string refusal(std::string_view node, std::string_view kernel) const {
    for (const Choice& choice : selection_->choices)
      if (choice.node == node)
        for (const Refusal& refusal : choice.refusals)
          if (refusal.kernel == kernel) return refusal.reason;
    return "none";
  }
  size_t count(uint32_t op) const {
    return size_t(std::count_if(selection_->nodes.begin(), selection_->nodes.end(),
                                [&](const auto& n) { return n->node.op == op; }));
  }
  // Each node reads what earlier ones or the step gave, in the encoding its kernel asked for.
  void expect_sound() const {
    std::vector<bool> there(selection_->graph.values.size(), false);
    for (size_t v = 0; v < there.size(); ++v) there[v] = selection_->graph.values[v].input != 0;
    for (const auto& one : selection_->nodes) {
      for (size_t i = 0; i < one->node.in.size(); ++i) {
        const int32_t v = one->node.in[i];
        EXPECT_TRUE(there[size_t(selection_->graph.base_of(v))])
            << one->node.name << " reads value " << v << " too early";
        EXPECT_EQ(selection_->graph.values[size_t(v)].encoding, one->offer.in_encoding[i]) << one->node.name;
        EXPECT_EQ(one->table->get()->in[i].encoding, one->offer.in_encoding[i]) << one->node.name;
      }
      for (int32_t v : one->node.out) there[size_t(v)] = true;
    }
    EXPECT_TRUE(there[size_t(selection_->graph.logits)]);
  }

  FakeSource source_;
  FakeDevice device_;
  Kernels kernels_;
  SelectOptions options_;
  std::unique_ptr<graph::NameMap> names_;
  graph::Graph graph_;
  std::unique_ptr<plugin::Registry> registry_;
  std::unique_ptr<WeightSet> weights_;
  std::unique_ptr<Selection> selection_;
};

TEST_F(SelectTest, TheHigherPriorityComesFirst) {
  kernels_.add("high", "linear").priority(5);
  kernels_.add("low", "linear").priority(-5);
  make_chain();
  select();
  EXPECT_EQ(kernel_of("a"), "high");
  EXPECT_EQ(refusal("a", "low"), "high comes first");
  expect_sound();
}

// Experts of a layer that other ranks own: only kernels that pass over them can be asked.
TEST_F(SelectTest, AKernelThatNeedsAllExpertsServesNoPartOfThem) {
  for (const char* name : {"gate", "up", "down"}) source_.add_stack(name, 4, 32, 32);
  kernels_.add_plain({"route"});
  kernels_.add("whole", "expert_ffn").priority(5);
  kernels_.add("partial", "expert_ffn", [](const tenon_node&, tenon_offer& offer) -> const char* {
    return offer.flags |= TENON_OFFER_PARTIAL_BANK, nullptr;
  });
  make([](const Builder& b, int32_t x) {
    const tenon_route_attr route = {sizeof route, 2, 0, 1, 1.0f, 0};
    const auto routed = b.op(TENON_OP_ROUTE, &route, {b.linear(x, {b.weight("router", 4, 32)})[0]}, {}, {}, 2);
    const tenon_expert_ffn_attr ffn = {sizeof ffn, TENON_ACT_SILU, 0, 0, 0, 2};
    return b.op(TENON_OP_EXPERT_FFN, &ffn, {x, routed[0], routed[1]},
                {b.stack("gate", 32, 32, 4), b.stack("up", 32, 32, 4), b.stack("down", 32, 32, 4)})[0];
  });
  const auto kernel = [&] {
    for (const auto& one : select().nodes)
      if (one->node.op == TENON_OP_EXPERT_FFN) return std::string(view(one->kernel->name));
    return std::string("none");
  };
  EXPECT_EQ(kernel(), "whole");
  graph_.weights[size_t(graph_.weight_ids.at({0, "up"}))].kept_experts = {{1, 3}};
  EXPECT_EQ(kernel(), "partial");
  const auto choice = std::find_if(selection_->choices.begin(), selection_->choices.end(),
                                   [](const Choice& one) { return one.op == "expert_ffn"; });
  ASSERT_EQ(choice->refusals.size(), 1u);
  EXPECT_EQ(choice->refusals[0].reason, "needs all experts, of which this rank owns some");
}

TEST_F(SelectTest, TheUsersPreferenceComesBeforePriority) {
  kernels_.add("fancy.linear", "linear").priority(5);
  kernels_.add("slow.linear", "linear").priority(-5);
  make_chain();
  options_.prefer = {"slow."};
  select();
  EXPECT_EQ(kernel_of("a"), "slow.linear");
  options_.prefer = {}, options_.forbid = {"fancy.", "plain.linear"};
  select();
  EXPECT_EQ(kernel_of("a"), "slow.linear");
  EXPECT_EQ(refusal("a", "fancy.linear"), "forbidden by the user");
  options_.prefer = {""};
  select();
  EXPECT_EQ(kernel_of("a"), "slow.linear") << "an empty preference prefers nothing";
}

TEST_F(SelectTest, CostDecidesInsideAClassOnly) {
  kernels_.add("k.dear", "linear", costing(9)).numeric_class("same").priority(1);
  kernels_.add("k.fair", "linear", costing(2)).numeric_class("same").priority(1);
  make_chain();
  select();
  EXPECT_EQ(kernel_of("a"), "k.fair");
  kernels_.add("k.free", "linear", costing(0)).numeric_class("zz.other").priority(1);
  select();
  EXPECT_EQ(kernel_of("a"), "k.fair") << "cost says nothing about another class";
}

TEST_F(SelectTest, TheOrderOfRegistrationDecidesNothing) {
  // Taken in pairs, costs and names would turn in a circle here.
  kernels_.add("c", "linear", costing(1)).numeric_class("x").priority(1);
  kernels_.add("b", "linear", costing(5)).numeric_class("y").priority(1);
  kernels_.add("a", "linear", costing(2)).numeric_class("x").priority(1);
  make_chain();
  select();
  const std::string forwards = kernel_of("a");
  select(true);
  EXPECT_EQ(kernel_of("a"), forwards);
  EXPECT_EQ(forwards, "c");
}

TEST_F(SelectTest, RefusalsAreKeptWithTheirReasons) {
  kernels_.add("needy", "linear").feature("fast wide").priority(9);
  kernels_.add("able", "linear").feature("fast").priority(1);
  kernels_.add("picky", "linear", [](const tenon_node&, tenon_offer&) { return "rows are no multiple of 7"; })
      .priority(9);
  kernels_.add("silent", "linear", [](const tenon_node&, tenon_offer&) { return ""; }).priority(9);
  kernels_.add("late", "linear").phases(TENON_PHASE_PREFILL).priority(9);
  kernels_
      .add("emitting", "linear",
           [](const tenon_node&, tenon_offer& o) -> const char* { return o.out_encoding[0] = TENON_ENC_BF16, nullptr; })
      .priority(9);
  kernels_
      .add("private", "linear",
           [](const tenon_node&, tenon_offer& o) -> const char* { return o.in_encoding[0] = 1234, nullptr; })
      .priority(9);
  make_chain();
  select();
  EXPECT_EQ(kernel_of("a"), "able");
  EXPECT_EQ(refusal("a", "needy"), "needs wide");
  EXPECT_EQ(refusal("a", "picky"), "rows are no multiple of 7");
  EXPECT_EQ(refusal("a", "silent"), "refused without a reason");
  EXPECT_EQ(refusal("a", "late"), "serves prefill only");
  EXPECT_EQ(refusal("a", "emitting"), "emits bf16 where f32 is wanted");
  EXPECT_NE(refusal("a", "private"), "none");
  options_.phase = TENON_PHASE_PREFILL;
  select();
  EXPECT_EQ(kernel_of("a"), "late");
}

TEST_F(SelectTest, WithoutAKernelEveryRefusalIsListed) {
  kernels_.add("picky", "linear", [](const tenon_node&, tenon_offer&) { return "not on Sundays"; });
  options_.forbid = {"plain.linear"};
  make_chain();
  try {
    select();
    FAIL() << "a graph without a kernel for linear was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage) << "the user took one away";
    for (const char* part :
         {"a (linear)", "backend fake", "picky: not on Sundays", "plain.linear: forbidden by the user"})
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST_F(SelectTest, KernelsOfOtherBackendsAreNotAsked) {
  FakeKernel& foreign = kernels_.add("foreign", "linear").priority(99);
  foreign.table.backend = core_test::str("elsewhere");
  make_chain();
  select();
  EXPECT_EQ(kernel_of("a"), "plain.linear");
  EXPECT_EQ(refusal("a", "foreign"), "none");
}

TEST_F(SelectTest, ExactPrecisionTakesNoEncoding) {
  kernels_.add("q8", "linear", quantized()).priority(9);
  make_chain();
  select();
  EXPECT_EQ(kernel_of("a"), "q8");
  EXPECT_GT(count(TENON_OP_ENCODE), 0u);
  options_.precision = Precision::kExact;
  select();
  EXPECT_EQ(kernel_of("a"), "plain.linear");
  EXPECT_EQ(refusal("a", "q8"), "reads q8_32, but the precision is exact");
  EXPECT_EQ(count(TENON_OP_ENCODE), 0u);
}

TEST_F(SelectTest, ReadersOfAValueShareOneEncode) {
  kernels_.add("q8", "linear", quantized()).priority(9);
  make([](const Builder& b, int32_t x) {
    const int32_t n = b.norm(x, b.weight("norm", 1, 32));
    const auto qk = b.linear(n, {b.weight("a", 32, 32), b.weight("b", 32, 32)});
    const int32_t late = b.linear(n, {b.weight("c", 32, 32)})[0];
    return b.add(b.add(qk[0], qk[1]), b.add(late, n));
  });
  select();
  expect_sound();
  EXPECT_EQ(count(TENON_OP_ENCODE), 2u) << "one for the norm's rows, one for the head";
  // The norm itself still gives f32 to the add.
  for (const auto& one : selection_->nodes)
    if (one->node.op == TENON_OP_ADD) {
      EXPECT_EQ(one->table->get()->in[1].encoding, uint32_t(TENON_ENC_F32));
    }
}

TEST_F(SelectTest, EachEncodingOfAValueIsMadeOnce) {
  kernels_.add("q8", "linear", quantized(0, TENON_DTYPE_F32)).priority(9);
  kernels_
      .add("bf16", "linear",
           [](const tenon_node& node, tenon_offer& o) -> const char* {
             if (node.weight[0].dtype != TENON_DTYPE_F16) return "another dtype";
             return o.in_encoding[0] = TENON_ENC_BF16, nullptr;
           })
      .priority(9);
  make([](const Builder& b, int32_t x) {
    const auto y = b.linear(x, {b.weight("a", 32, 32), b.weight("half", 32, 32)});
    const auto z = b.linear(x, {b.weight("half2", 32, 32), b.weight("c", 32, 32)});
    return b.add(b.add(y[0], y[1]), b.add(z[0], z[1]));
  });
  select();
  expect_sound();
  EXPECT_EQ(count(TENON_OP_ENCODE), 3u) << "x as q8_32 and as bf16, and the head's input";
}

TEST_F(SelectTest, ColumnsMustFitTheBlocksOfAnEncoding) {
  kernels_.add("q8", "linear", quantized()).priority(9);
  make([](const Builder& b, int32_t x) {
    const int32_t y = b.linear(b.view(x, 0, 20), {b.weight("odd", 8, 20)})[0];
    return b.add(x, b.view(b.linear(x, {b.weight("a", 32, 32)})[0], 0, 32)) + 0 * y;
  });
  select();
  EXPECT_EQ(kernel_of("odd"), "plain.linear");
  EXPECT_EQ(refusal("odd", "q8"), "20 columns do not fit q8_32");
  EXPECT_EQ(kernel_of("a"), "q8");
}

TEST_F(SelectTest, ALinearIsSplitByTheKernelThatWins) {
  kernels_.add("f16only", "linear", packing(0, TENON_DTYPE_F16)).priority(9);
  make([](const Builder& b, int32_t x) {
    const auto y = b.linear(
        x, {b.weight("a", 32, 32), b.weight("half", 32, 32), b.weight("b", 32, 32), b.weight("half2", 32, 32)});
    return b.add(b.add(y[0], y[1]), b.add(y[2], y[3]));
  });
  select();
  expect_sound();
  std::vector<std::pair<std::string, size_t>> parts;
  for (const auto& one : selection_->nodes)
    if (one->node.op == TENON_OP_LINEAR && one->node.weight.size() > 1)
      parts.emplace_back(view(one->kernel->name), one->node.weight.size());
  EXPECT_EQ(parts, (std::vector<std::pair<std::string, size_t>>{{"plain.linear", 2}, {"f16only", 2}}));
  // Outputs go with their weights.
  for (const auto& one : selection_->nodes)
    for (size_t i = 0; one->node.op == TENON_OP_LINEAR && i < one->node.weight.size(); ++i)
      for (const graph::Node& whole : graph_.nodes)
        for (size_t k = 0; whole.op == TENON_OP_LINEAR && k < whole.weight.size(); ++k)
          if (whole.weight[k] == one->node.weight[i]) {
            EXPECT_EQ(one->node.out[i], whole.out[k]);
          }
}

TEST_F(SelectTest, AKernelThatTakesOneWeightGetsThemSingly) {
  kernels_
      .add("single", "linear",
           [](const tenon_node& node, tenon_offer&) { return node.n_weight > 1 ? "one weight at a time" : nullptr; })
      .priority(9);
  make([](const Builder& b, int32_t x) {
    const auto y = b.linear(x, {b.weight("a", 32, 32), b.weight("b", 32, 32), b.weight("c", 32, 32)});
    return b.add(b.add(y[0], y[1]), y[2]);
  });
  select();
  expect_sound();
  size_t n = 0;
  for (const auto& one : selection_->nodes) n += one->node.op == TENON_OP_LINEAR && view(one->kernel->name) == "single";
  EXPECT_EQ(n, 4u);
}

TEST_F(SelectTest, ATiedTableIsPackedOnceAndGatheredPacked) {
  FakeKernel& linear = kernels_.add("pack.linear", "linear", packing(7)).priority(9);
  FakeKernel& embed = kernels_
                          .add("pack.embed", "embed",
                               [](const tenon_node& node, tenon_offer& offer) -> const char* {
                                 if (node.weight[0].layout != 7) return "reads layout 7";
                                 return offer.pack_layout[0] = 7, nullptr;
                               })
                          .priority(9);
  make_chain(true);
  select();
  EXPECT_EQ(kernel_of("table", "embed"), "pack.embed");
  weights_->pack(2, {}, {});
  EXPECT_EQ(linear.n_pack_sizes + embed.n_pack_sizes, 2) << "the table and weight a, each once";
  const uint64_t packed = (64 + 32) * 64;
  EXPECT_EQ(weights_->packed_bytes(), packed);
  const tenon_weight table = weights_->resolved(graph_.nodes[0].weight[0], 7);
  EXPECT_EQ(table.layout, 7u);
  EXPECT_EQ(*reinterpret_cast<const uint8_t*>(table.plane[0] + 64 * 64 - 1), 7) << "its last row was packed";
  EXPECT_GT(source_.n_dropped, 0) << "nobody reads the file's bytes any more";
}

TEST_F(SelectTest, AnEmbedThatReadsTheFileKeepsItsBytes) {
  kernels_.add("pack.linear", "linear", packing(7)).priority(9);
  options_.forbid = {"plain.embed"};
  kernels_.add("file.embed", "embed", [](const tenon_node& node, tenon_offer&) {
    return node.weight[0].layout ? "reads the file's layout" : nullptr;
  });
  source_.n_dropped = 0;
  make([](const Builder&, int32_t x) { return x; }, 0, true);
  select();
  EXPECT_EQ(kernel_of("table", "embed"), "file.embed");
  weights_->pack(1, {}, {});
  EXPECT_EQ(weights_->packed_bytes(), 64u * 64);
  EXPECT_EQ(source_.n_dropped, 0) << "the table is still gathered from the file";
  EXPECT_NE(weights_->resolved(graph_.nodes[0].weight[0], 0).plane[0], 0u);
}

TEST_F(SelectTest, AWeightHasOnePackedForm) {
  kernels_
      .add("pack.a", "linear",
           [](const tenon_node& node, tenon_offer& o) -> const char* {
             return o.pack_layout[0] = 3 + node.layer, nullptr;
           })
      .priority(9);
  make([](const Builder& b, int32_t x) {
    b.layer(0);
    const int32_t y = b.linear(x, {b.weight("a", 32, 32)})[0];
    b.layer(1);
    return b.linear(y, {b.weight("a", 32, 32)})[0];
  });
  EXPECT_THROW(select(), Error);
}

TEST_F(SelectTest, APackThatFailsLeavesTheDeviceEmpty) {
  kernels_.add("pack.linear", "linear", packing(7)).priority(9);
  make_chain();
  select();
  device_.limit_bytes = 5000;
  EXPECT_THROW(weights_->pack(1, {}, {}), Error);
  selection_.reset(), weights_.reset();
  EXPECT_EQ(device_.n_allocations(), 0u);
}

TEST_F(SelectTest, LoadingCanBeInterruptedAndReportsItsProgress) {
  kernels_.add("pack.linear", "linear", packing(7)).priority(9);
  make_chain();
  select();
  uint64_t last = 0, total = 0;
  const auto report = [&](const Progress& p) {
    EXPECT_GE(p.done_bytes, last);
    last = p.done_bytes, total = p.total_bytes;
  };
  weights_->pack(2, report, {});
  EXPECT_EQ(last, total);
  EXPECT_EQ(total, uint64_t(32 + 64) * 32 * 4);
  select();
  try {
    weights_->pack(1, {}, [] { return true; });
    FAIL() << "a cancelled pack went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInterrupted);
  }
}

TEST_F(SelectTest, ASoftcapIsANodeBehindTheLogits) {
  make([](const Builder&, int32_t x) { return x; }, 30.0f);
  select();
  ASSERT_EQ(count(TENON_OP_SOFTCAP), 1u);
  const Selected& last = *selection_->nodes.back();
  EXPECT_EQ(last.node.op, uint32_t(TENON_OP_SOFTCAP));
  EXPECT_EQ(last.node.out[0], selection_->graph.logits);
  EXPECT_NE(selection_->graph.logits, graph_.logits);
  EXPECT_EQ(last.node.attr_as<tenon_scale_attr>().factor, 30.0f);
}

constexpr const char* kAddNorm = "a = add(x, r); n = norm(a; w) -> a, n";

int32_t residual(const Builder& b, int32_t x) {
  const int32_t a = b.add(x, b.linear(x, {b.weight("a", 32, 32)})[0]);
  return b.add(a, b.linear(b.norm(a, b.weight("norm", 1, 32)), {b.weight("b", 32, 32)})[0]);
}

TEST_F(SelectTest, AGroupIsServedByItsComposite) {
  const tenon_node* seen = nullptr;
  kernels_.add("fused", kAddNorm, [&](const tenon_node& node, tenon_offer&) -> const char* {
    EXPECT_EQ(node.op, uint32_t(TENON_OP_COMPOSITE));
    EXPECT_EQ(node.n_part, 2u);
    EXPECT_EQ(node.part[1].op, uint32_t(TENON_OP_NORM));
    EXPECT_EQ(static_cast<const tenon_norm_attr*>(node.part[1].attr)->eps, 1e-6f);
    EXPECT_EQ(node.n_weight, 1u);
    return seen = &node, nullptr;
  });
  make(residual);
  select();
  EXPECT_TRUE(seen);
  EXPECT_EQ(count(TENON_OP_COMPOSITE), 1u);
  EXPECT_EQ(count(TENON_OP_ADD), 1u);
  EXPECT_EQ(count(TENON_OP_NORM), 0u);
  expect_sound();
  options_.composites = false;
  select();
  EXPECT_EQ(count(TENON_OP_COMPOSITE), 0u);
}

TEST_F(SelectTest, ARefusedCompositeLeavesItsParts) {
  kernels_.add("fused", kAddNorm, [](const tenon_node&, tenon_offer&) { return "not today"; });
  make(residual);
  select();
  EXPECT_EQ(count(TENON_OP_COMPOSITE), 0u);
  EXPECT_EQ(count(TENON_OP_NORM), 1u);
  expect_sound();
}

TEST_F(SelectTest, TheLargestCompositeIsTriedFirst) {
  kernels_.add("small", kAddNorm);
  kernels_.add("large", "a = add(x, r); n = norm(a; w); y = linear(n; m) -> a, y");
  make(residual);
  select();
  ASSERT_EQ(count(TENON_OP_COMPOSITE), 1u);
  for (const auto& one : selection_->nodes)
    if (one->node.op == TENON_OP_COMPOSITE) {
      EXPECT_EQ(view(one->kernel->name), "large");
    }
  expect_sound();
}

TEST_F(SelectTest, ACompositeMayHoldTheEncode) {
  kernels_.add("q8", "linear", quantized()).priority(9);
  kernels_.add("fused", "a = add(x, r); n = norm(a; w); e = encode(n) -> a, e");
  make(residual);
  select();
  EXPECT_EQ(count(TENON_OP_COMPOSITE), 1u);
  for (const auto& one : selection_->nodes)
    if (one->node.op == TENON_OP_COMPOSITE) {
      EXPECT_EQ(one->table->get()->out[1].encoding, uint32_t(TENON_ENC_Q8_32));
    }
}

TEST_F(SelectTest, ATappedValueIsNotFusedAway) {
  kernels_.add("fused", "a = add(x, r); n = norm(a; w) -> n");
  for (const bool tapped : {false, true}) {
    make([&](const Builder& b, int32_t x) {
      const int32_t a = b.add(x, x);
      if (tapped) b.tap(a, "hidden.0");
      return b.norm(a, b.weight("norm", 1, 32));
    });
    select();
    EXPECT_EQ(count(TENON_OP_COMPOSITE), tapped ? 0u : 1u);
  }
}

TEST_F(SelectTest, ACompositeThatMakesNoSenseIsPassedOver) {
  set_log_level("off");
  kernels_.add("broken", "a = fly(x); -> a");
  kernels_.add("fused", kAddNorm);
  make(residual);
  select();
  set_log_level("warning");
  EXPECT_EQ(count(TENON_OP_COMPOSITE), 1u);
}

}  // namespace
}  // namespace tenon::program
