// overlay_file.hpp: the file of `tenon eval --overlay`: rows in place of embeddings, as a safetensors file of
//   rows       F32, F16 or BF16 [n, width], as an encoder of images gives them: the model does not scale them
//   positions  I32 or I64 [n], of --tokens, from 0, ascending
//   spans      I32 or I64 [n], may be left out: the span that each row is of, -1 = none; rows of a span follow one
//   another
#pragma once

#include <cstdint>
#include <string>
#include <tenon/engine.hpp>
#include <vector>

namespace tenon::launcher {

// A tensor of a safetensors file, its bytes checked against shape, dtype and file.
struct OverlayTensor {
  std::string dtype;
  std::vector<int64_t> shape;
  uint64_t begin = 0, bytes = 0;  // in the file
};

// Whatever the file says is checked before it is used. Throws Error(kFile) naming file, tensor and numbers.
class OverlayFile {
 public:
  // Reads positions and spans, for a text of so many tokens.
  OverlayFile(std::string path, int64_t n_tokens);
  int64_t longest_span() const { return longest_span_; }
  // Reads the rows, each of so many columns.
  void read_rows(int64_t width);
  Overlay overlay() const { return {rows_, positions_, spans_}; }  // borrows

 private:
  std::string path_;
  OverlayTensor row_tensor_;
  std::vector<float> rows_;
  std::vector<int32_t> positions_, spans_;
  int64_t longest_span_ = 0;
};

}  // namespace tenon::launcher
