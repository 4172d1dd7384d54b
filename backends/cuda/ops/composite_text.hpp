// composite_text.hpp: what a composite's text says, in numbers. The core matches by the same text; a kernel needs it to know
// which of its operands goes where, since a node's parts have no names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tenon::cuda {

// Values are numbered: the group's inputs in the order in which the text names them, then what each statement gives.
struct CompositeText {
  struct Statement {
    std::string op;
    std::vector<int> in, weight;
    int out = -1;  // -1: gives nothing
  };
  std::vector<Statement> statements;
  int n_in = 0, n_values = 0;
  std::vector<int> out;  // of the group
  // Statement that gives a value; -1: an input.
  int giver(int value) const;
  // Whether a statement after `statement` reads the value.
  bool is_read_after(int value, int statement) const;
};
CompositeText read_composite(std::string_view text);

}  // namespace tenon::cuda
