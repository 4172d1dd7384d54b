// names.hpp: from canonical weight names to the tensors of a file, by the architecture's rules for its naming scheme.
#pragma once

#include "source/model_source.hpp"

#include <tenon/abi.h>

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tenon::graph {

// Where a weight comes from.
struct Binding {
  const source::Tensor* tensor = nullptr;  // STACK_EXPERTS, JOIN_ROWS: any of them
  uint32_t transform = TENON_TRANSFORM_NONE;
  int64_t a = 0, b = 0, group = 0;
  std::map<int64_t, const source::Tensor*> experts = {};  // STACK_EXPERTS: by number
  std::vector<const source::Tensor*> joined = {};         // JOIN_ROWS: in order, null where the files lack one
  std::vector<std::string> joined_names = {};

  // Rows a … b - 1 of `group` are meant.
  bool cuts_rows() const { return transform == TENON_TRANSFORM_SLICE_ROWS || (transform == TENON_TRANSFORM_TRANSPOSE && group); }
  // Every tensor that it reads.
  std::vector<const source::Tensor*> tensors() const;
};

// Borrows the source. Immutable.
class NameMap {
 public:
  // Rules may be empty: then canonical names are the file's. Throws Error(kFile) for a rule that is malformed.
  NameMap(const source::ModelSource& source, std::span<const tenon_name_rule> rules);

  const Binding* find(std::string_view canonical) const;  // null when the files lack it
  // Names of tensors that are neither in `used` (canonical names) nor known to be unused.
  std::vector<std::string> unused(std::span<const std::string> used) const;
  const source::ModelSource& source() const { return source_; }

 private:
  const source::ModelSource& source_;
  std::unordered_map<std::string, Binding> bindings_;
  std::vector<std::string> known_unused_;  // the files' own names
};

// Matches `pattern`, in which {i} and {e} stand for digits, against text; the digits go to *number and *expert (-1 where
// the pattern has none).
bool match_numbered(std::string_view pattern, std::string_view text, int64_t* number, int64_t* expert);

}  // namespace tenon::graph
