// Programs of made-up kernels on a team of threads: what they compute must not depend on how they are divided.
#include "program/program.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <tenon/error.hpp>
#include <thread>

#include "fakes.hpp"
#include "plugin/message.hpp"

namespace tenon::program {
namespace {

using core_test::Builder;
using core_test::FakeDevice;
using core_test::FakeKernel;
using core_test::FakeSource;
using core_test::Kernels;

// A kernel's plan for a node, kept in impl.
struct Divided {
  uint32_t op;
  tenon_plan plan;
};

// How the nodes of the next Program are divided; answers a plan for a node that one phase of tests wants.
using Divide = std::function<void(const tenon_node&, tenon_plan&)>;
Divide divide;
std::atomic<bool> delays = false;
std::mutex failing_mutex;
std::string failing_node;
std::map<std::string, uint32_t> launch_flags;  // of the last launch of each kernel on a stream

const float* row_of(const tenon_view& v, int64_t r) {
  return reinterpret_cast<const float*>(v.data + uint64_t(r * v.row_bytes));
}
float get(const tenon_view& v, int64_t r, int64_t c) {
  const int64_t width = v.cols / v.groups;
  return reinterpret_cast<const float*>(v.data + uint64_t(r * v.row_bytes + c / width * v.group_bytes))[c % width];
}

// Small whole numbers, so that any order of additions gives the same; NaN where an operand is.
float element(uint32_t op, const tenon_args& args, uint32_t output, int64_t r, int64_t c) {
  const auto wrap = [](float x) { return std::isfinite(x) ? std::fmod(x, 251.0f) : x; };
  switch (op) {
    case TENON_OP_EMBED:
      return float((reinterpret_cast<const int32_t*>(args.in[0].data)[r] * 7 + c) % 31);
    case TENON_OP_ADD:
      return wrap(get(args.in[0], r, c) + 3 * get(args.in[1], r, c));
    case TENON_OP_SCALE:
      return wrap(get(args.in[0], r, c) * 2 + 1);
    case TENON_OP_SELECT_ROWS:
      return get(args.in[0], reinterpret_cast<const int32_t*>(args.step->out_row)[r], c);
    default:
      break;
  }
  float sum = float(output + c);
  for (int64_t i = 0; i < args.in[0].cols; ++i) sum += get(args.in[0], r, i) * float((i + c) % 5);
  return wrap(sum);
}

tenon_status plan_any(const tenon_kernel*, const tenon_node* node, uint32_t, int64_t, uint32_t,
                      tenon_plan* plan) noexcept {
  divide(*node, *plan);
  plan->impl = new Divided{node->op, *plan};
  return TENON_OK;
}
void drop_any(const tenon_kernel*, tenon_plan* plan) noexcept { delete static_cast<Divided*>(plan->impl); }

tenon_status launch_any(const tenon_kernel* kernel, const tenon_plan* plan, const tenon_args* args,
                        const tenon_exec* exec) noexcept {
  {
    const std::lock_guard lock(failing_mutex);
    if (!failing_node.empty() && core_test::view(kernel->name) == failing_node && exec->worker == 0)
      return plugin::set_message(TENON_INTERNAL, "made to fail");
  }
  if (exec->stream) {
    launch_flags[std::string(core_test::view(kernel->name))] = exec->flags;
    tenon_exec later = *exec;
    later.stream = nullptr;
    static_cast<core_test::FakeStream*>(exec->stream)->submit([=, args = *args] {
      launch_any(kernel, plan, &args, &later);
    });
    return TENON_OK;
  }
  const Divided& divided = *static_cast<const Divided*>(plan->impl);
  const uint32_t w = exec->worker, n = exec->n_workers;
  if (delays) std::this_thread::sleep_for(std::chrono::microseconds((w * 7919 + args->out[0].data / 64) % 97));
  for (uint32_t o = 0; o < args->n_out; ++o) {
    const tenon_view& out = args->out[o];
    int64_t r0 = 0, r1 = args->rows, c0 = 0, c1 = out.cols;
    if (plan->partition == TENON_PART_ROWS) r0 = TENON_SHARE(args->rows, w, n), r1 = TENON_SHARE(args->rows, w + 1, n);
    if (plan->partition == TENON_PART_OUT_COLS) {
      const int64_t units = (out.cols + plan->unit_cols - 1) / plan->unit_cols;
      c0 = TENON_SHARE(units, w, n) * plan->unit_cols,
      c1 = std::min(out.cols, TENON_SHARE(units, w + 1, n) * plan->unit_cols);
    }
    if (plan->partition == TENON_PART_HEADS) {
      const int64_t width = out.cols / plan->n_units;
      c0 = TENON_SHARE(plan->n_units, w, n) * width, c1 = TENON_SHARE(plan->n_units, w + 1, n) * width;
    }
    const auto compute = [&](int64_t r, int64_t begin, int64_t end) {
      float* to = const_cast<float*>(row_of(out, r));
      for (int64_t c = begin; c < end; ++c) to[c] = element(divided.op, *args, o, r, c);
    };
    if (plan->partition == TENON_PART_CLAIM) {
      // Units of four columns of a row.
      const int64_t per_row = out.cols / 4, units = args->rows * per_row;
      for (int64_t u = exec->claim(exec->counter, 1); u < units; u = exec->claim(exec->counter, 1))
        compute(u / per_row, u % per_row * 4, u % per_row * 4 + 4);
      continue;
    }
    for (int64_t r = r0; r < r1; ++r) compute(r, c0, c1);
  }
  if (plan->workspace) {
    uint8_t* mine = reinterpret_cast<uint8_t*>(exec->workspace);
    mine[w % plan->workspace] = uint8_t(w);
  }
  return TENON_OK;
}

class ProgramTest : public ::testing::Test {
 protected:
  ProgramTest() {
    source_.add("table", 64, 32);
    for (int64_t in : {16, 32, 64})
      for (int64_t out : {16, 32, 64}) source_.add(weight_name(in, out), out, in);
    for (const char* op : {"embed", "add", "scale", "linear", "select_rows"}) {
      FakeKernel& kernel = kernels_.add(std::string("k.") + op, op);
      kernel.table.plan = plan_any, kernel.table.launch = launch_any, kernel.table.drop = drop_any;
      by_op_[op] = &kernel;
    }
    failing_node.clear(), delays = false;
    divide = [](const tenon_node&, tenon_plan& plan) { plan.partition = TENON_PART_ONE; };
  }
  static std::string weight_name(int64_t in, int64_t out) {
    return "m" + std::to_string(in) + "." + std::to_string(out);
  }

  void make(const std::function<int32_t(const Builder&, int32_t)>& body) {
    names_ = std::make_unique<graph::NameMap>(source_, std::span<const tenon_name_rule>());
    graph_ =
        core_test::build(*names_, [&](const Builder& b) { b.logits(body(b, b.embed(b.weight("table", 64, 32)))); });
  }
  static int32_t linear(const Builder& b, int32_t x, int64_t in, int64_t out) {
    return b.linear(x, {b.weight(weight_name(in, out), out, in)})[0];
  }
  static int32_t scale(const Builder& b, int32_t x) {
    const tenon_scale_attr attr = {sizeof attr, 2.0f};
    return b.op(TENON_OP_SCALE, &attr, {x})[0];
  }

  // A Program and all that it borrows but the device.
  struct Compiled {
    std::unique_ptr<plugin::Registry> registry;
    std::unique_ptr<WeightSet> weights;
    std::unique_ptr<StepRecord> step;
    std::unique_ptr<Program> program;
    Program* operator->() const { return program.get(); }
  };
  Compiled compile(FakeDevice& device, uint32_t n_workers, uint32_t rows = kRows, uint32_t outputs = 4,
                   bool keep_taps = false, bool capture = false) {
    Compiled out;
    out.registry = std::make_unique<plugin::Registry>(kernels_.registry());
    out.weights = std::make_unique<WeightSet>(graph_, *names_, *out.registry, device.device());
    Selection selection = select_kernels(graph_, *out.registry, device.device(), *out.weights, {}, {});
    out.step = std::make_unique<StepRecord>(device.device(), StepLimits{rows, 2, outputs, 0, 1});
    for (uint32_t r = 0; r < rows; ++r) out.step->host(StepRecord::kToken)[r] = int32_t(r * 5 % 64);
    ProgramOptions options;
    options.max_rows = rows, options.max_outputs = outputs, options.n_workers = n_workers,
    options.keep_taps = keep_taps, options.capture = capture;
    out.program = std::make_unique<Program>(std::move(selection), device.device(), *out.weights,
                                            std::vector<tenon_store>{}, out.step->table(), options);
    return out;
  }
  // Logits of all rows, the tail run in slices.
  static std::vector<float> run(const Compiled& c, uint32_t rows = kRows, uint32_t outputs = 4) {
    std::vector<float> out;
    const int32_t logits = c->graph().logits;
    const size_t cols = size_t(c->graph().values[size_t(logits)].cols);
    for (uint32_t begin = 0; begin < rows; begin += outputs) {
      const uint32_t n = std::min(outputs, rows - begin);
      for (uint32_t i = 0; i < n; ++i) c.step->host(StepRecord::kOutRow)[i] = int32_t(begin + i);
      c.step->upload();
      if (begin == 0) c->poison();
      c->run(begin ? Segment::kTail : Segment::kAll, rows, n);
      const size_t at = out.size();
      out.resize(at + n * cols);
      for (uint32_t i = 0; i < n; ++i) c->read_row(logits, i, out.data() + at + i * cols);
    }
    return out;
  }

  static constexpr uint32_t kRows = 11;
  FakeSource source_;
  Kernels kernels_;
  std::map<std::string, FakeKernel*> by_op_;
  std::unique_ptr<graph::NameMap> names_;
  graph::Graph graph_;
};

// Random programs, their nodes divided at random, workers late at random: barriers and arena together.
TEST_F(ProgramTest, AnyDivisionOfAnyProgramComputesTheSame) {
  size_t n_barriers = 0, n_launches = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    make([&](const Builder& b, int32_t first) {
      struct Wide {
        int32_t id;
        int64_t cols;
      };
      std::vector<Wide> tokens = {{first, 32}};
      const auto grow = [&](std::vector<Wide>& list, uint32_t n) {
        for (uint32_t i = 0; i < n; ++i) {
          const Wide x = list[list.size() - 1 - random() % std::min<size_t>(list.size(), 5)];
          const uint32_t dice = random() % 5;
          if (dice == 0) {
            const int64_t a = 16 << random() % 3, c = 16 << random() % 3;
            if (a == c) {
              list.push_back({linear(b, x.id, x.cols, a), a});
            } else {
              const auto two = b.linear(
                  x.id, {b.weight(weight_name(x.cols, a), a, x.cols), b.weight(weight_name(x.cols, c), c, x.cols)});
              list.push_back({two[0], a}), list.push_back({two[1], c});
            }
          } else if (dice == 1 && x.cols == 64) {
            const int64_t col0 = random() % 2 ? 8 : 0;
            list.push_back({b.add(b.view(x.id, col0, 32, 4, 16), b.view(x.id, 8 - col0, 32, 4, 16)), 32});
          } else if (dice == 2) {
            list.push_back({scale(b, x.id), x.cols});
          } else {
            Wide y = x;
            for (const Wide& other : list)
              if (other.cols == x.cols && random() % 2) y = other;
            list.push_back({b.add(x.id, y.id), x.cols});
          }
        }
      };
      grow(tokens, 4 + random() % 25);
      const Wide last = tokens.back(), other = tokens[tokens.size() / 2];
      std::vector<Wide> outputs = {{b.select(last.id), last.cols}, {b.select(other.id), other.cols}};
      grow(outputs, 2 + random() % 6);
      const Wide end = outputs.back();
      return b.add(linear(b, end.id, end.cols, 64), linear(b, outputs[0].id, outputs[0].cols, 64));
    });
    FakeDevice lone(false);
    divide = [](const tenon_node&, tenon_plan& plan) { plan.partition = TENON_PART_ONE; };
    const std::vector<float> expected = run(compile(lone, 1));
    ASSERT_TRUE(std::all_of(expected.begin(), expected.end(), [](float v) { return std::isfinite(v); }))
        << "seed " << seed;
    for (const uint32_t n_workers : {2u, 3u, 5u}) {
      FakeDevice team(true);
      divide = [&](const tenon_node& node, tenon_plan& plan) {
        const uint32_t ways[] = {TENON_PART_ONE,   TENON_PART_OUT_COLS,  TENON_PART_ROWS,
                                 TENON_PART_HEADS, TENON_PART_REPLICATE, TENON_PART_CLAIM};
        plan.partition = ways[random() % (node.n_out > 1 ? 5 : 6)];  // a claimed node has one counter, for one output
        plan.unit_cols = 4 << random() % 3, plan.n_units = 1 << random() % 4;
        if (random() % 4 == 0) plan.workspace = 64 + random() % 300;
      };
      const auto program = compile(team, n_workers);
      n_barriers += program->n_barriers(), n_launches += program->n_launches();
      for (const bool slow : {false, true}) {
        delays = slow;
        ASSERT_EQ(run(program), expected) << "seed " << seed << ", " << n_workers << " workers\n"
                                          << program->describe();
      }
    }
    delays = false;
  }
  EXPECT_LT(n_barriers, n_launches) << "a barrier before every node would pass as well";
}

TEST_F(ProgramTest, WideBatchesAreSlicedForKernelsThatWantIt) {
  make([](const Builder& b, int32_t x) { return linear(b, b.select(scale(b, b.add(x, scale(b, x)))), 32, 16); });
  FakeDevice lone(false), team(true);
  const std::vector<float> expected = run(compile(lone, 1));
  by_op_["add"]->table.max_rows = 4;
  for (const uint32_t partition : {TENON_PART_ONE, TENON_PART_OUT_COLS, TENON_PART_ROWS, TENON_PART_HEADS,
                                   TENON_PART_REPLICATE, TENON_PART_CLAIM}) {
    divide = [&](const tenon_node& node, tenon_plan& plan) {
      plan.partition = node.op == TENON_OP_ADD || partition != TENON_PART_CLAIM ? partition : uint32_t(TENON_PART_ROWS);
      plan.unit_cols = 8, plan.n_units = 4, plan.workspace = 64;
    };
    const auto program = compile(team, 3);
    delays = true;
    EXPECT_EQ(run(program), expected) << "partition " << partition;
  }
}

TEST_F(ProgramTest, AKernelThatFailsEndsTheRunWithItsName) {
  make([](const Builder& b, int32_t x) { return linear(b, b.select(b.add(x, scale(b, x))), 32, 16); });
  FakeDevice team(true);
  divide = [](const tenon_node&, tenon_plan& plan) { plan.partition = TENON_PART_ROWS; };
  const auto program = compile(team, 3);
  const std::vector<float> good = run(program);
  failing_node = "k.scale";
  try {
    run(program);
    FAIL() << "the failure went unnoticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRuntime);
    for (const char* part : {"scale", "k.scale", "made to fail"})
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
  failing_node.clear();
  EXPECT_EQ(run(program), good) << "the next run is as good as new";
}

class StreamTest : public ProgramTest {
 protected:
  StreamTest() {
    for (auto& [op, kernel] : by_op_)
      kernel->accept = [](const tenon_node&, tenon_offer& offer) -> const char* {
        offer.flags |= TENON_OFFER_CAPTURABLE;
        return nullptr;
      };
    make([](const Builder& b, int32_t x) { return linear(b, b.select(b.add(x, scale(b, x))), 32, 16); });
    device_.add_stream();
  }
  FakeDevice device_;
};

TEST_F(StreamTest, LaunchedAndReplayedStepsComputeTheSame) {
  FakeDevice lone;
  const std::vector<float> expected = run(compile(lone, 1));
  EXPECT_EQ(run(compile(device_, 1)), expected);
  const auto replayed = compile(device_, 1, kRows, 4, false, true);
  ASSERT_TRUE(replayed->is_capturing());
  EXPECT_EQ(run(replayed), expected);
  EXPECT_EQ(device_.stream.graphs.size(), 3u) << "the body with a tail of 4, a tail of 4, one of 3";
  EXPECT_EQ(run(replayed), expected);
  EXPECT_EQ(device_.stream.graphs.size(), 3u);
}

// A launch may begin before its neighbour's end where both offer it, and there is a neighbour in its graph.
TEST_F(StreamTest, NeighboursThatOfferItOverlap) {
  for (const char* early : {"embed", "scale", "add"})
    by_op_[early]->accept = [](const tenon_node&, tenon_offer& offer) -> const char* {
      offer.flags |= TENON_OFFER_CAPTURABLE | TENON_OFFER_PDL;
      return nullptr;
    };
  run(compile(device_, 1, kRows, 4, false, true));
  EXPECT_EQ(launch_flags.at("k.embed"), 0u) << "the first";
  EXPECT_EQ(launch_flags.at("k.scale"), uint32_t(TENON_OFFER_PDL));
  EXPECT_EQ(launch_flags.at("k.add"), uint32_t(TENON_OFFER_PDL));
  EXPECT_EQ(launch_flags.at("k.select_rows"), 0u) << "offers nothing";
}

TEST_F(StreamTest, AFailedStepIsWaitedFor) {
  const auto launched = compile(device_, 1);
  const std::vector<float> good = run(launched);
  failing_node = "k.scale";
  EXPECT_THROW(run(launched), Error);
  EXPECT_TRUE(device_.stream.waiting.empty()) << "work is left over on memory that may be freed";
  failing_node.clear();
  EXPECT_EQ(run(launched), good);
}

TEST_F(StreamTest, AGraphThatLacksLaunchesIsNotKept) {
  const auto replayed = compile(device_, 1, kRows, 4, false, true);
  failing_node = "k.scale";
  EXPECT_THROW(run(replayed), Error);
  ASSERT_EQ(device_.stream.graphs.size(), 1u);
  EXPECT_EQ(device_.stream.graphs[0], nullptr);
  failing_node.clear();
  FakeDevice lone;
  EXPECT_EQ(run(replayed), run(compile(lone, 1)));
}

TEST_F(ProgramTest, TappedValuesSurviveWhereTheyAreKept) {
  int32_t tapped = -1;
  make([&](const Builder& b, int32_t x) {
    tapped = scale(b, x);
    b.tap(tapped, "hidden.0");
    int32_t y = tapped;
    for (int i = 0; i < 12; ++i) y = scale(b, y);
    return linear(b, b.select(y), 32, 16);
  });
  FakeDevice lone(false);
  const auto plain = compile(lone, 1);
  const uint64_t small = plain->arena_bytes();
  const auto keeping = compile(lone, 1, kRows, 4, true);
  EXPECT_GT(keeping->arena_bytes(), small);
  run(keeping);
  std::vector<float> row(32);
  for (uint32_t r = 0; r < kRows; ++r) {
    keeping->read_row(tapped, r, row.data());
    for (int c = 0; c < 32; ++c)
      ASSERT_EQ(row[size_t(c)], float((int(r * 5 % 64) * 7 + c) % 31 * 2 + 1)) << r << " " << c;
  }
}

TEST_F(ProgramTest, ItGivesBackAllThatItTook) {
  make([](const Builder& b, int32_t x) { return linear(b, b.select(x), 32, 16); });
  FakeDevice device(false);
  compile(device, 1);
  EXPECT_EQ(device.n_allocations(), 0u);
  device.limit_bytes = 3000;
  EXPECT_THROW(compile(device, 1, 600, 600), Error) << "the arena does not fit";
  EXPECT_EQ(device.n_allocations(), 0u);
}

}  // namespace
}  // namespace tenon::program
