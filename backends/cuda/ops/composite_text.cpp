#include "composite_text.hpp"

#include <algorithm>

namespace tenon::cuda {
namespace {

using Names = std::vector<std::string>;

Names split(std::string_view text, char separator) {
  Names out;
  int depth = 0;
  std::string part;
  const auto take = [&] {
    if (!part.empty()) out.push_back(part);
    part.clear();
  };
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == separator && depth == 0) {
      take();
    } else if (c != ' ') {
      part += c;
    }
  }
  take();
  return out;
}

int place(Names& names, const std::string& name) {
  const auto at = std::find(names.begin(), names.end(), name);
  if (at != names.end()) return int(at - names.begin());
  names.push_back(name);
  return int(names.size()) - 1;
}

// "a = add(x, r)" as a, add, "x,r"; the first is empty where nothing is given.
struct Parts {
  std::string out, op, operands;
};
Parts parts_of(const std::string& statement) {
  const size_t open = statement.find('('), equal = std::min(statement.find('='), open);
  const bool gives = equal < open;
  const size_t op = gives ? equal + 1 : 0;
  return {gives ? statement.substr(0, equal) : "", statement.substr(op, open - op),
          statement.substr(open + 1, statement.size() - open - 2)};
}

}  // namespace

int CompositeText::giver(int value) const {
  for (size_t i = 0; i < statements.size(); ++i)
    if (statements[i].out == value) return int(i);
  return -1;
}

bool CompositeText::is_read_after(int value, int statement) const {
  for (size_t i = size_t(statement + 1); i < statements.size(); ++i)
    if (std::count(statements[i].in.begin(), statements[i].in.end(), value)) return true;
  return false;
}

CompositeText read_composite(std::string_view text) {
  CompositeText out;
  const size_t arrow = text.find("->");
  const Names lines = split(text.substr(0, arrow), ';');
  Names given, values, weights;
  for (const std::string& line : lines)
    if (const std::string name = parts_of(line).out; !name.empty()) given.push_back(name);
  const auto operands = [](const std::string& line, size_t list) {
    // Lists stand between semicolons; the first may be the only one.
    std::string lists = parts_of(line).operands;
    for (; list > 0; --list) {
      const size_t end = lists.find(';');
      if (end == std::string::npos) return Names();
      lists = lists.substr(end + 1);
    }
    return split(lists.substr(0, lists.find(';')), ',');
  };
  for (const std::string& line : lines)
    for (const std::string& name : operands(line, 0))
      if (std::find(given.begin(), given.end(), name) == given.end()) place(values, name);
  out.n_in = int(values.size());
  for (const std::string& line : lines) {
    const Parts parts = parts_of(line);
    CompositeText::Statement statement;
    statement.op = parts.op;
    for (const std::string& name : operands(line, 0)) statement.in.push_back(place(values, name));
    for (const std::string& name : operands(line, 1)) statement.weight.push_back(place(weights, name));
    if (!parts.out.empty()) statement.out = place(values, parts.out);
    out.statements.push_back(std::move(statement));
  }
  for (const std::string& name : split(text.substr(arrow + 2), ',')) out.out.push_back(place(values, name));
  out.n_values = int(values.size());
  return out;
}

}  // namespace tenon::cuda
