// Launches on the far device: late, with the tables they were given, and only on its own memory.
#include <algorithm>

#include "far.hpp"

namespace tenon::far_test {
namespace {

// y = 2 x of two live rows of four columns, in a launch for up to three.
class LaunchTest : public FarTest {
 protected:
  LaunchTest() : kernel(kit.kernel("far.scale")) {
    node.struct_size = sizeof node, node.op = TENON_OP_SCALE, node.phase = TENON_PHASE_DECODE;
    node.name = {"the node", 8}, node.attr = &attr;
    node.in = node.out = &type, node.n_in = node.n_out = 1;
    plan.struct_size = sizeof plan;
    EXPECT_EQ(kernel.plan(&kernel, &node, 3, 16, 1, &plan), TENON_OK) << kit.error();
    x = alloc(3 * 64), y = alloc(3 * 64), workspace = alloc(std::max<uint64_t>(plan.workspace, 64));
    counts = alloc(12);
    set_rows(2);
    write(x, {1, 2, 3, 4}), write(x + 64, {5, 6, 7, 8}), write(x + 128, {9, 9, 9, 9});
    step.struct_size = sizeof step, step.max_rows = 3, step.max_seqs = 1;
    step.n_rows = counts, step.n_seqs = counts + 4, step.n_outputs = counts + 8;
    in = {x, 3, 4, 64, 1, 64, TENON_ENC_F32, 0}, out = {y, 3, 4, 64, 1, 64, TENON_ENC_F32, 0};
    args.struct_size = sizeof args, args.n_in = args.n_out = 1, args.rows = 3;
    args.in = &in, args.out = &out, args.step = &step;
    exec.struct_size = sizeof exec, exec.n_workers = 1, exec.workspace = workspace;
    exec.stream = b->native(b->self, TENON_HANDLE_STREAM, stream);
  }
  ~LaunchTest() override {
    if (plan.impl) kernel.drop(&kernel, &plan);
  }
  void set_rows(uint32_t n) {
    const uint32_t numbers[3] = {n, 1, 0};
    EXPECT_EQ(b->copy(b->self, nullptr, 0, counts, kHost, address_of(numbers), 12, 1, 12, 12), TENON_OK);
  }
  tenon_status launch() { return kernel.launch(&kernel, &plan, &args, &exec); }
  // What the wait for a launch says.
  std::string fault() {
    EXPECT_EQ(launch(), TENON_OK) << kit.error();
    return message(sync());
  }
  std::vector<float> row(int r) { return read(y + uint64_t(r) * 64, 4); }

  const tenon_kernel& kernel;
  tenon_scale_attr attr = {sizeof attr, 2.0f};
  tenon_type type = {TENON_ENC_F32, TENON_DOMAIN_TOKENS, 4, 1};
  tenon_node node = {};
  tenon_plan plan = {};
  tenon_step step = {};
  tenon_view in = {}, out = {};
  tenon_args args = {};
  tenon_exec exec = {};
  tenon_addr x = 0, y = 0, workspace = 0, counts = 0;
};

const std::vector<float> kNothing(4, 0.0f), kFirst = {2, 4, 6, 8}, kSecond = {10, 12, 14, 16}, kThird(4, 18.0f);

TEST_F(LaunchTest, RunsWhenItIsWaitedForOnLiveRowsOnly) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    ASSERT_EQ(b->fill(b->self, nullptr, 0, y, 0, 192), TENON_OK);
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_EQ(launch(), TENON_OK) << kit.error();
    const std::vector<float> seen = row(0);
    const bool in_time = std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(100);
    ASSERT_EQ(sync(), TENON_OK) << kit.error();
    EXPECT_EQ(row(0), kFirst);
    EXPECT_EQ(row(1), kSecond);
    EXPECT_EQ(row(2), kNothing) << "the third row is padding";
    if (!in_time) continue;  // too late for a look at what was there before
    EXPECT_EQ(seen, kNothing);
    return;
  }
  FAIL() << "the machine is too busy for this test";
}

TEST_F(LaunchTest, KeepsTheTablesThatItWasGiven) {
  ASSERT_EQ(launch(), TENON_OK);
  in = out = {}, args = {}, exec = {}, step = {};
  ASSERT_EQ(sync(), TENON_OK) << kit.error();
  EXPECT_EQ(row(0), kFirst);
}

TEST_F(LaunchTest, AReplayDiffersInTheStepsContentsOnly) {
  void* graph = nullptr;
  ASSERT_EQ(b->capture_begin(b->self, stream), TENON_OK);
  ASSERT_EQ(launch(), TENON_OK);
  ASSERT_EQ(b->capture_end(b->self, stream, &graph), TENON_OK);
  ASSERT_EQ(sync(), TENON_OK);
  EXPECT_EQ(row(0), kNothing) << "what is captured does not run";
  args.rows = 0, in.data = out.data = 0;
  set_rows(1);
  ASSERT_EQ(b->replay(b->self, graph, stream), TENON_OK);
  ASSERT_EQ(sync(), TENON_OK) << kit.error();
  EXPECT_EQ(row(0), kFirst);
  EXPECT_EQ(row(1), kNothing);
  set_rows(3);
  ASSERT_EQ(b->replay(b->self, graph, stream), TENON_OK);
  ASSERT_EQ(sync(), TENON_OK) << kit.error();
  EXPECT_EQ(row(2), kThird);
  b->destroy(b->self, TENON_HANDLE_GRAPH, graph);
}

TEST_F(LaunchTest, NamesAnOperandThatIsNotItsOwn) {
  std::vector<float> host(64, 1.0f);
  in.data = address_of(host.data());
  std::string said = fault();
  for (const char* part : {"the node", "far.scale", "an input", "of the host"})
    EXPECT_NE(said.find(part), std::string::npos) << said;
  in.data = x, out.rows = 4;
  said = fault();
  EXPECT_NE(said.find("an output"), std::string::npos) << said;
  out.rows = 3, exec.workspace = address_of(host.data());
  said = fault();
  EXPECT_NE(said.find("the workspace"), std::string::npos) << said;
  exec.workspace = workspace, step.n_rows = address_of(host.data());
  said = fault();
  EXPECT_NE(said.find("the step"), std::string::npos) << said;
  step.n_rows = counts;
  EXPECT_EQ(fault(), "");
}

TEST_F(LaunchTest, NamesMemoryAndPlansThatDidNotWaitForIt) {
  ASSERT_EQ(launch(), TENON_OK);
  release(x);
  std::string said = message(sync());
  EXPECT_NE(said.find("freed"), std::string::npos) << said;
  in.data = y;
  ASSERT_EQ(launch(), TENON_OK);
  kernel.drop(&kernel, &plan);
  said = message(sync());
  EXPECT_NE(said.find("dropped"), std::string::npos) << said;
}

TEST_F(LaunchTest, WantsTheNativeStreamAndRoomForItsRows) {
  exec.stream = stream;
  EXPECT_EQ(launch(), TENON_INVALID_ARGUMENT);
  exec.stream = nullptr;
  EXPECT_EQ(launch(), TENON_INVALID_ARGUMENT);
  exec.stream = b->native(b->self, TENON_HANDLE_STREAM, stream);
  args.rows = 1;
  const std::string said = fault();
  EXPECT_NE(said.find("2 rows are live"), std::string::npos) << said;
}

}  // namespace
}  // namespace tenon::far_test
