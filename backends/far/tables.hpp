// tables.hpp: the tables of a launch with all that they point to on the host, for as long as the launch has to wait;
// and the same with pointers in place of the device's addresses, when it runs.
#pragma once

#include <deque>
#include <tenon/sdk/kernel.hpp>
#include <vector>

#include "memory.hpp"

namespace tenon::far {

// A weight's layout beside 0: what pack() copied row by row, the file's own bytes.
constexpr uint32_t kPackedRows = 1;

// Its tables point into it.
class Tables {
 public:
  // A copy that leaves addresses alone.
  Tables(const tenon_args& args, const tenon_exec& exec) : Tables(args, exec, 0, nullptr) {}
  // A copy for host memory, as long as `near` lives. Throws INVALID_ARGUMENT naming the operand whose address is in no
  // block of the device.
  Tables(const tenon_args& args, const tenon_exec& exec, uint64_t workspace_bytes, Near* near);
  Tables(const Tables&) = delete;
  Tables& operator=(const Tables&) = delete;
  const tenon_args& args() const { return args_; }
  const tenon_exec& exec() const { return exec_; }

  // With pointers: rows of the launch become those of the domain that the step record says are live. Throws
  // INVALID_ARGUMENT when there are more.
  void keep_live_rows(uint32_t domain);

 private:
  tenon_addr map(tenon_addr address, uint64_t bytes, const char* what) const {
    return near_ ? near_->address(address, bytes, what) : address;
  }
  tenon_view map(tenon_view view, const char* what) const;
  tenon_weight map(const tenon_weight& weight);
  const tenon_bank* map(const tenon_bank& bank);
  tenon_store map(tenon_store store) const;
  void map_step();

  Near* near_;
  tenon_args args_;
  tenon_exec exec_;
  tenon_step step_ = {};
  std::vector<tenon_view> in_, out_;
  std::vector<tenon_weight> weights_;
  std::vector<tenon_store> stores_;
  std::deque<tenon_bank> banks_;
  std::deque<std::vector<tenon_weight>> kinds_;
  std::deque<std::vector<uint64_t>> addresses_;
};

}  // namespace tenon::far
