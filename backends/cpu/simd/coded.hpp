// coded.hpp: what a family of coded weights with f32 activations tells its instruction sets, and their memory. Included
// by sources that are built once an instruction set.
//
// Weights are packed in panels of sixteen output rows; a lane of a vector is a row. docs/ops.md defines the products.
#pragma once

#include "expert_sizes.hpp"

namespace tenon::cpu {

constexpr int64_t kPanelRows = 16;

// Columns whose codes are decoded at once for many rows, and panels together at most: 128 KiB, so that it stays in the
// second-level cache.
constexpr int64_t kCodedSlab = 512, kCodedVectors = 4;
constexpr int64_t kCodedLeastGroup = 16;  // columns under one scale
// Rows of the last panel, if it is short, that go through a buffer together.
constexpr int64_t kCodedTailRows = 64;

constexpr int64_t kCodedSlabBytes = kCodedSlab * kCodedVectors * kPanelRows * 4;
constexpr int64_t kCodedScaleBytes = kCodedSlab / kCodedLeastGroup * kCodedVectors * kPanelRows * 4;
constexpr int64_t kCodedTailBytes = kCodedTailRows * kPanelRows * 4;
// A worker's scratch of a product, before the rows of a strided input.
constexpr int64_t kCodedScratch = kCodedSlabBytes + kCodedScaleBytes + kCodedTailBytes;

// Made by plan(), immutable afterwards.
struct CodedExpertPlan {
  tenon_expert_ffn_attr attr;
  int64_t max_rows;
};

// A family's functions of one instruction set.
struct CodedTable {
  void (*linear)(const tenon_args*, const tenon_exec*);
  tenon_status (*experts)(const CodedExpertPlan*, const tenon_args*, const tenon_exec*);
};

}  // namespace tenon::cpu
