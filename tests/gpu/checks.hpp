// checks.hpp: what every kernel is held to, and the line of the table that says how it went.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "device_run.hpp"
#include "kit/transactions.hpp"

namespace tenon::gpu_test {

struct Line {
  std::string name;
  int cases = 0, exact_rows = 0, replays = 0;
  double worst = 0, bound = 0;      // relative RMS against the reference
  std::vector<std::string> faults;  // empty = passed
};

// Checks of one kernel on one device. One thread.
class Checks {
 public:
  // `bound`: the largest relative RMS that an output may be off. 0 = every bit must be equal.
  Checks(const Device& device, const std::string& kernel, double bound, bool is_small);
  bool is_small() const { return is_small_; }
  const tenon_kernel& kernel() const { return kernel_; }
  const Device& device() const { return device_; }
  Line& line() { return line_; }

  // Against the reference in every output, store and status word; then captured, for more rows than are live, and
  // replayed: equal bits; then replayed without live rows: nothing is written.
  void against_reference(const OpCase& op_case, const std::string& what);
  // The same for a composite, against the kernels of its parts one by one: every bit is equal.
  void against_parts(const OpCase& op_case, const std::string& what);
  // Rows of `full` alone, in groups of 1 … 17, 33, 64 and backwards: bits as in the whole.
  void row_exact(const OpCase& full, const std::string& what);
  void refused(const OpCase& op_case, const std::string& what);
  void expect(bool holds, const std::string& message);
  // Runs `body` and turns what it throws into a fault.
  void guarded(const std::string& what, const std::function<void()>& body);

 private:
  // Replayed as `got`, and without a live row nothing is written.
  void replays(const OpCase& op_case, const RunResult& got, const std::string& what);
  const Device& device_;
  const tenon_kernel& kernel_;
  bool is_small_;
  Line line_;
};

// Some rows of a case in the given order. Ops with a store: every row must be a sequence of its own.
OpCase take_rows(const OpCase& full, const std::vector<uint32_t>& rows);

// Sequences in every state that a transaction can be in.
std::vector<SeqRows> every_transaction();
// A step of such sequences over random states and tapes.
OpCase state_case(const StateOp& op, const std::vector<SeqRows>& parts, uint32_t phase, uint64_t seed);

// Random codes with scales as in models, so that all values are finite; floats: normal numbers.
Weight random_weight(const std::string& dtype, int64_t rows, int64_t cols, uint64_t seed);
const std::vector<std::string>& float_dtypes();
const std::vector<std::string>& block_dtypes_32();
const std::vector<std::string>& block_dtypes_256();
// Those that no kernel is built for on its own, and the planes of scales that some have.
const std::vector<std::string>& other_dtypes();
const std::vector<std::string>& all_dtypes();

// The suites, each adding its lines.
void check_backend(const Device& device, std::vector<Line>& lines);
void check_elementwise(const Device& device, bool is_small, std::vector<Line>& lines);
void check_rows(const Device& device, bool is_small, std::vector<Line>& lines);
void check_linear(const Device& device, bool is_small, std::vector<Line>& lines);
void check_experts(const Device& device, bool is_small, std::vector<Line>& lines);
void check_attention(const Device& device, bool is_small, std::vector<Line>& lines);
void check_composites(const Device& device, bool is_small, std::vector<Line>& lines);
void check_recurrent(const Device& device, bool is_small, std::vector<Line>& lines);

}  // namespace tenon::gpu_test
