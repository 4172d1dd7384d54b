// eval_output.hpp: the file that `tenon eval` writes: logits of the wanted rows and the taps asked for.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tenon/engine.hpp>
#include <vector>

#include "arguments.hpp"
#include "safetensors_file.hpp"

namespace tenon::launcher {

using Taps = std::map<std::string, std::vector<float>>;

// One array of the file that comes from taps: NAME.0 … NAME.n joined along the first dimension, or one tap alone.
struct TapArray {
  std::string name;
  std::vector<std::string> parts;
  bool joined = false;
  int64_t cols = 0;
};

// hidden.<i> become one array, [layers + 1, rows, width]; every other tap is an array of its own, [rows, cols].
std::vector<TapArray> tap_arrays(const Taps& taps, const std::vector<std::string>& asked, int64_t n_tokens);

// Writes each wanted row to every place that asks for it. define() comes first.
class EvalOutput {
 public:
  // rows: positions in the order of the file, duplicates kept.
  EvalOutput(const std::vector<int64_t>& rows, SafetensorsFile& file);

  const std::vector<int32_t>& wanted() const { return wanted_; }  // ascending, each once
  int32_t broken() const { return broken_; }  // the first position whose logits are not all finite, or -1

  void define(const EntryInfo& entry, const std::vector<TapArray>& arrays = {});
  void write_logits(int64_t row, std::span<const float> logits);  // row: number among the wanted
  void write_tap(const TapArray& array, const Taps& taps);        // taps of all positions

 private:
  int64_t n_rows_;                            // of the file
  std::vector<int32_t> wanted_;               // their positions
  std::vector<std::vector<int64_t>> places_;  // of each wanted position: the rows of the file that want it
  int32_t broken_ = -1;
  SafetensorsFile& file_;
};

// What --chunk and --step mean for a forward pass.
ForwardOptions forward_options(const Arguments& arguments);

}  // namespace tenon::launcher
