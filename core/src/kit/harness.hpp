// Runs any kernel on host memory as the executor would: accept, pack, plan, launch by W workers. What a kernel must not
// read is NaN (padding rows, gaps of strided views, outputs, workspace, scratch), and what it must not write is
// guarded.
//
//   OpCase c(TENON_OP_NORM, tenon_norm_attr{sizeof(tenon_norm_attr), TENON_NORM_RMS, 1e-6f, 0}, Step::plain(5));
//   c.input(5, 640, Random(1).normals(5 * 640)).weight("f32", 1, 640, Random(2).normals(640)).output(640);
//   RunResult got = run_op(kernel, c, {.workers = 3});
//   RunResult want = run_reference(c, got);   // same encoded operands, reference.norm
//   EXPECT_LT(compare(got.out[0], want.out[0]).relative_rms, 1e-6);
#pragma once

#include <tenon/abi.h>

#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "numeric.hpp"
#include "records.hpp"
#include "step.hpp"

namespace tenon::kit {

// An input: [rows, cols] f32, encoded as the kernel asks. With groups > 1 (or lead, gap) it is laid out as a strided
// view: `lead` foreign columns, then groups of cols / groups columns with `gap` foreign columns after each.
struct Input {
  std::vector<float> data;
  int64_t rows = 0, cols = 0, groups = 1, lead = 0, gap = 0;
  uint32_t domain = TENON_DOMAIN_TOKENS;
  bool ids = false;  // i32
};

// A weight in its file layout. Plane 1 … 3 only for dtypes that have them. Of n_expert matrices, each begins
// expert_stride bytes after the one before, in every plane. Nothing can be read behind a plane.
struct Weight {
  std::string dtype;
  int64_t rows = 0, cols = 0, row_bytes = 0;
  BorderBytes plane[4];
  uint32_t n_expert = 0, flags = 0, parts = 0;
  int64_t expert_stride = 0;

  static Weight encoded(const std::string& dtype, int64_t rows, int64_t cols, const std::vector<float>& values);
  static Weight raw(const std::string& dtype, int64_t rows, int64_t cols, const void* bytes, size_t n);
  std::vector<float> decoded() const;  // [rows × max(1, n_expert), cols] by the dtype's decoder
  // The planes' addresses of a plain weight or of one expert; 0 for a plane that is not there.
  std::array<tenon_addr, 4> planes(uint32_t expert = 0) const;
};

// Matrices of one shape and dtype as a stack: every plane of an expert lies as far from the first expert's as plane 0
// does, and at least `gap` bytes behind each belong to none.
Weight stacked(const std::vector<Weight>& experts, int64_t gap = 0);

struct Output {
  int64_t cols;
  uint32_t domain = TENON_DOMAIN_TOKENS;
  uint32_t encoding = TENON_ENC_F32;  // of the node, before the kernel is asked
};

// A plain op inside of a composite. Numbers are of values (the composite's inputs first), of its weights and of its stores.
struct Part {
  uint32_t op = TENON_OP_NONE;
  std::vector<uint8_t> attr;
  std::vector<size_t> in, out, weight, store = {};
};

struct OpCase {
  template <typename Attr>
  OpCase(uint32_t op_id, const Attr& a, Step s) : op(op_id), attr(sizeof a), step(std::move(s)) {
    std::memcpy(attr.data(), &a, sizeof a);
  }
  OpCase(uint32_t op_id, Step s) : op(op_id), step(std::move(s)) {}

  OpCase& input(int64_t rows, int64_t cols, std::vector<float> values);
  OpCase& strided(int64_t rows, int64_t cols, std::vector<float> values, int64_t groups, int64_t lead, int64_t gap);
  OpCase& ids(int64_t rows, int64_t cols, const std::vector<int32_t>& values);
  OpCase& weight(const std::string& dtype, int64_t rows, int64_t cols, const std::vector<float>& values);
  OpCase& weight(Weight w);
  OpCase& store(Store s);
  OpCase& output(int64_t cols, uint32_t domain = TENON_DOMAIN_TOKENS);
  OpCase& phase(uint32_t which);
  OpCase& domain(uint32_t which);  // of the inputs added so far; preset: tokens

  uint32_t op, phases = TENON_PHASE_DECODE, layer = 0;
  std::vector<uint8_t> attr;
  Step step;
  std::vector<Input> in;
  std::vector<Weight> weights;
  std::vector<Store> stores;
  std::vector<Output> out;
  std::vector<Part> parts;           // of a composite whose values all have the columns of its first input
  std::vector<size_t> part_outputs;  // the values that are its outputs
  std::vector<float> macro;          // of experts: factors of gate, up and down, [3][n_expert]; empty = none
  std::vector<uint32_t> absent;      // experts that are on other devices
};

// When the workers of a launch run. In turns, one runs until it reaches a barrier or its end, then the next one: what a
// worker takes from another without a barrier between them is not there yet in one of the two orders.
enum class Turns { kNone, kAscending, kDescending };

// Told by every worker's thread when its launch begins and ends.
class LaunchWatch {
 public:
  virtual ~LaunchWatch() = default;
  virtual void begin() = 0;
  virtual void end() = 0;
};

struct RunOptions {
  uint32_t workers = 1;
  std::vector<uint32_t> in_encoding = {};  // forced encoding of each input; empty = what the offer asks
  uint32_t max_rows = 0;                   // for plan(); 0 = the step's
  int64_t max_context = 4096;
  uint32_t repeats = 1;                  // launches; `seconds` is the fastest. Stores change with each.
  const tenon_device* device = nullptr;  // null = one with this machine's features
  uint8_t poison = 0xff;                 // every byte of what must not be read; 0xff is NaN in all floats
  LaunchWatch* watch = nullptr;
  int64_t pack_rows = 64;       // rows of a slice, a multiple of 64
  bool pack_backwards = false;  // slices in descending order
  Turns turns = Turns::kNone;
  int64_t row_gap = 0;  // bytes behind every row of an input or output that can be a view, a multiple of 64
};

struct RunResult {
  bool accepted = false;
  std::string why_not;                  // set when refused
  std::vector<std::vector<float>> out;  // live rows, decoded to f32
  std::vector<uint32_t> in_encoding, out_encoding;
  std::vector<Store> stores;     // after the run
  std::vector<uint32_t> status;  // step.status after the run
  tenon_offer offer = {};
  tenon_plan plan = {};
  double seconds = 0;
  std::vector<Bytes> packed;  // what pack() made, of each weight that was packed
};

// Throws with the kernel's message when a call fails, and when memory that is not the kernel's was written. The case is
// not changed: stores of the result are copies.
RunResult run_op(const tenon_kernel& kernel, const OpCase& op_case, const RunOptions& options = {});
// The reference's kernel of the same op on the operands as `like` had them encoded. Needs the reference plugin loaded.
RunResult run_reference(const OpCase& op_case, const RunResult& like);
RunResult run_reference(const OpCase& op_case);
// True if the machine has all of the features, separated by spaces and named as backends/cpu names them. A kernel that
// needs one that is not there is refused.
bool machine_has(const std::string& features);
// accept() alone.
RunResult offer_of(const tenon_kernel& kernel, const OpCase& op_case, const RunOptions& options = {});
// "" if each worker, launched by itself, writes those elements of the outputs that the plan's partition gives it and no
// others; else which. Says nothing about kernels that wait at barriers or claim units.
std::string share_fault(const tenon_kernel& kernel, const OpCase& op_case, const RunOptions& options);

}  // namespace tenon::kit
