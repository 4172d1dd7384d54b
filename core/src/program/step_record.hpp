// step_record.hpp: the step record in device memory, and its host copy that is filled before a run.
#pragma once

#include "device.hpp"

#include <tenon/abi.h>

#include <cstdint>
#include <span>
#include <vector>

namespace tenon::program {

struct StepLimits {
  uint32_t max_rows, max_seqs, max_outputs;
  uint32_t n_groups, table_stride;  // page tables
};

// Fixed device addresses for its life. One thread.
class StepRecord {
 public:
  StepRecord(const Device& device, const StepLimits& limits);
  StepRecord(const StepRecord&) = delete;
  StepRecord& operator=(const StepRecord&) = delete;

  const tenon_step* table() const { return &table_; }
  tenon_addr page_table(uint32_t group) const;
  tenon_addr slot_table() const;
  const StepLimits& limits() const { return limits_; }

  // Host side. Fields by name, then upload().
  enum Field { kCounts, kToken, kPosition, kIndex, kSeq, kRowStart, kKvLen, kSeqEnd, kAccepted, kReplay, kTape, kTapeStart,
               kHalf, kSpan, kOverlay, kOutRow, kStatus, kSlots, kPageTables, kFieldCount };
  std::span<int32_t> host(Field field);
  std::span<int32_t> host_page_table(uint32_t group, uint32_t seq);
  void upload();

 private:
  Device device_;
  StepLimits limits_;
  uint64_t offset_[kFieldCount + 1] = {};
  std::vector<int32_t> host_;
  Buffer buffer_;
  tenon_step table_ = {};
};

}  // namespace tenon::program
