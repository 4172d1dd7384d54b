#include "step_record.hpp"

namespace tenon::program {

StepRecord::StepRecord(const Device& device, const StepLimits& limits) : device_(device), limits_(limits) {
  const uint64_t rows = limits.max_rows, seqs = limits.max_seqs, outputs = limits.max_outputs;
  uint64_t counts[kFieldCount] = {};
  counts[kCounts] = 16;
  for (Field f : {kToken, kIndex, kSeq, kSpan, kOverlay}) counts[f] = rows;
  counts[kPosition] = rows * 4;
  counts[kRowStart] = seqs + 1;
  for (Field f : {kKvLen, kSeqEnd, kAccepted, kReplay, kTape, kTapeStart, kHalf, kSlots}) counts[f] = seqs;
  counts[kOutRow] = counts[kStatus] = outputs;
  counts[kPageTables] = uint64_t(limits.n_groups) * seqs * limits.table_stride;
  for (int f = 0; f < kFieldCount; ++f) offset_[f + 1] = offset_[f] + ((counts[f] + 15) & ~uint64_t(15));
  host_.assign(offset_[kFieldCount], 0);
  buffer_ = Buffer(device, host_.size() * 4, "the step record");
  const auto at = [&](Field f) { return buffer_.address() + offset_[f] * 4; };
  table_.struct_size = sizeof table_;
  table_.max_rows = limits.max_rows, table_.max_seqs = limits.max_seqs, table_.max_pages = limits.table_stride;
  table_.n_rows = at(kCounts), table_.n_seqs = at(kCounts) + 4, table_.n_outputs = at(kCounts) + 8;
  table_.token = at(kToken), table_.position = at(kPosition), table_.index = at(kIndex), table_.seq = at(kSeq);
  table_.row_start = at(kRowStart), table_.kv_len = at(kKvLen), table_.seq_end = at(kSeqEnd);
  table_.accepted = at(kAccepted), table_.replay = at(kReplay), table_.tape = at(kTape);
  table_.tape_start = at(kTapeStart), table_.half = at(kHalf);
  table_.span = at(kSpan), table_.overlay = at(kOverlay), table_.out_row = at(kOutRow), table_.status = at(kStatus);
}

tenon_addr StepRecord::page_table(uint32_t group) const {
  return buffer_.address() + (offset_[kPageTables] + uint64_t(group) * limits_.max_seqs * limits_.table_stride) * 4;
}

tenon_addr StepRecord::slot_table() const { return buffer_.address() + offset_[kSlots] * 4; }

std::span<int32_t> StepRecord::host(Field field) {
  return {host_.data() + offset_[field], size_t(offset_[field + 1] - offset_[field])};
}

std::span<int32_t> StepRecord::host_page_table(uint32_t group, uint32_t seq) {
  const uint64_t at = offset_[kPageTables] + (uint64_t(group) * limits_.max_seqs + seq) * limits_.table_stride;
  return {host_.data() + at, limits_.table_stride};
}

void StepRecord::upload() { device_.upload(buffer_.address(), host_.data(), host_.size() * 4); }

}  // namespace tenon::program
