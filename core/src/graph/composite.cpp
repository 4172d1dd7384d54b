#include "composite.hpp"

#include "ops.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

namespace tenon::graph {
namespace {

std::string_view trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\n") - begin + 1);
}

// Parts of `text` between separators that stand outside brackets.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '(') ++depth;
    if (i < text.size() && text[i] == ')') --depth;
    if (i == text.size() || (text[i] == separator && depth == 0)) {
      parts.push_back(trim(text.substr(begin, i - begin)));
      begin = i + 1;
    }
  }
  return parts;
}

std::vector<std::string> names(std::string_view text, std::string_view whole) {
  std::vector<std::string> out;
  if (trim(text).empty()) return out;
  for (std::string_view part : split(text, ',')) {
    const bool good = !part.empty() && std::all_of(part.begin(), part.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
    });
    if (!good) throw std::invalid_argument(fmt::format("\"{}\" is no name in composite \"{}\"", part, whole));
    out.emplace_back(part);
  }
  return out;
}

Pattern::Statement parse_statement(std::string_view text, std::string_view whole) {
  const size_t equal = text.find('='), open = text.find('(');
  if (open == std::string_view::npos || text.back() != ')')
    throw std::invalid_argument(fmt::format("\"{}\" is no statement in composite \"{}\"", text, whole));
  Pattern::Statement out;
  if (equal != std::string_view::npos && equal < open) out.out = names(text.substr(0, equal), whole);
  const size_t begin = equal != std::string_view::npos && equal < open ? equal + 1 : 0;
  const std::string_view op = trim(text.substr(begin, open - begin));
  const OpInfo* info = op_info(op);
  if (!info) throw std::invalid_argument(fmt::format("\"{}\" is no op in composite \"{}\"", op, whole));
  out.op = info->op;
  const auto groups = split(text.substr(open + 1, text.size() - open - 2), ';');
  if (groups.size() > 3) throw std::invalid_argument(fmt::format("too many operand lists in composite \"{}\"", whole));
  out.in = names(groups[0], whole);
  if (groups.size() > 1) out.weight = names(groups[1], whole);
  if (groups.size() > 2) out.store = names(groups[2], whole);
  return out;
}

void add_once(std::vector<std::string>& list, const std::string& name) {
  if (std::find(list.begin(), list.end(), name) == list.end()) list.push_back(name);
}

// What pattern names stand for while matching.
struct Bound {
  std::map<std::string, int32_t> value, weight, store;
  bool bind(std::map<std::string, int32_t>& table, const std::string& name, int32_t id) {
    const auto [it, fresh] = table.emplace(name, id);
    return fresh || it->second == id;
  }
  bool bind_all(const Pattern::Statement& s, const Node& n) {
    if (s.op != n.op || s.in.size() != n.in.size() || s.weight.size() != n.weight.size() ||
        s.store.size() != n.store.size() || s.out.size() != n.out.size())
      return false;
    for (size_t i = 0; i < s.in.size(); ++i)
      if (!bind(value, s.in[i], n.in[i])) return false;
    for (size_t i = 0; i < s.weight.size(); ++i)
      if (!bind(weight, s.weight[i], n.weight[i])) return false;
    for (size_t i = 0; i < s.store.size(); ++i)
      if (!bind(store, s.store[i], n.store[i])) return false;
    for (size_t i = 0; i < s.out.size(); ++i)
      if (!bind(value, s.out[i], n.out[i])) return false;
    return true;
  }
};

bool hangs_on(const std::map<std::string, int32_t>& bound, const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return bound.contains(name); });
}

// Could be moved to the last node's place: nothing between reads what the group gives, or gives what it reads late.
bool can_gather(std::span<const Node> nodes, const Match& match, const Graph& graph) {
  std::set<size_t> members(match.nodes.begin(), match.nodes.end());
  std::set<int32_t> given, stores;
  for (size_t i : match.nodes) {
    for (int32_t v : nodes[i].out) given.insert(v);
    for (int32_t s : nodes[i].store) stores.insert(s);
  }
  for (size_t i = *members.begin(); i < *members.rbegin(); ++i) {
    if (members.contains(i)) continue;
    for (int32_t v : nodes[i].in)
      if (given.contains(graph.base_of(v))) return false;
    for (int32_t s : nodes[i].store)
      if (stores.contains(s)) return false;
  }
  return true;
}

}  // namespace

Pattern parse_pattern(std::string_view text) {
  Pattern out;
  const size_t arrow = text.find("->");
  if (arrow == std::string_view::npos) throw std::invalid_argument(fmt::format("composite \"{}\" has no ->", text));
  std::set<std::string> given;
  for (std::string_view part : split(text.substr(0, arrow), ';')) {
    if (part.empty()) throw std::invalid_argument(fmt::format("empty statement in composite \"{}\"", text));
    auto statement = parse_statement(part, text);
    for (const std::string& name : statement.in)
      if (!given.contains(name)) add_once(out.in, name);
    for (const std::string& name : statement.weight) add_once(out.weight, name);
    for (const std::string& name : statement.store) add_once(out.store, name);
    for (const std::string& name : statement.out)
      if (std::find(out.in.begin(), out.in.end(), name) != out.in.end())
        throw std::invalid_argument(fmt::format("\"{}\" is used before it is given in composite \"{}\"", name, text));
      else if (!given.insert(name).second)
        throw std::invalid_argument(fmt::format("\"{}\" is given twice in composite \"{}\"", name, text));
    out.statements.push_back(std::move(statement));
  }
  out.out = names(text.substr(arrow + 2), text);
  for (const std::string& name : out.out)
    if (!given.contains(name))
      throw std::invalid_argument(fmt::format("\"{}\" is not given in composite \"{}\"", name, text));
  if (out.statements.size() < 2) throw std::invalid_argument(fmt::format("composite \"{}\" has one op only", text));
  return out;
}

std::optional<Match> match_pattern(const Pattern& pattern, std::span<const Node> nodes, size_t first, const Graph& graph,
                                   bool (*is_kept)(const void*, int32_t), const void* context) {
  Bound bound;
  Match match;
  if (!bound.bind_all(pattern.statements[0], nodes[first])) return std::nullopt;
  match.nodes.push_back(first);
  // How far a later statement may stand from the first: enough for any layer, and it bounds the search.
  const size_t end = std::min(nodes.size(), first + 64);
  size_t from = first + 1;
  for (size_t s = 1; s < pattern.statements.size(); ++s) {
    bool found = false;
    for (size_t i = from; i < end && !found; ++i) {
      // A statement hangs on the group by a name that is bound already, or by its layer (a query's norm beside a key's): else
      // two unrelated nodes would be joined.
      const Pattern::Statement& statement = pattern.statements[s];
      const bool is_tied = hangs_on(bound.value, statement.in) || hangs_on(bound.store, statement.store);
      if (!is_tied && (nodes[first].layer == kNoLayer || nodes[i].layer != nodes[first].layer)) continue;
      Bound trial = bound;
      if (!trial.bind_all(statement, nodes[i])) continue;
      bound = std::move(trial);
      match.nodes.push_back(i);
      from = i + 1;
      found = true;
    }
    if (!found) return std::nullopt;
  }
  std::set<size_t> members(match.nodes.begin(), match.nodes.end());
  std::set<int32_t> outputs, inner;
  for (const std::string& name : pattern.out) outputs.insert(bound.value.at(name));
  for (size_t i : match.nodes)
    for (int32_t v : nodes[i].out)
      if (!outputs.contains(v)) inner.insert(v);
  for (int32_t v : inner) {
    if (is_kept(context, v)) return std::nullopt;
    for (size_t i = first; i < nodes.size(); ++i)
      if (!members.contains(i))
        for (int32_t used : nodes[i].in)
          if (graph.base_of(used) == v) return std::nullopt;
  }
  // An operand of the group must come from outside; a name could have been bound to what another member gives.
  for (const std::string& name : pattern.in)
    for (size_t i : match.nodes)
      for (int32_t v : nodes[i].out)
        if (graph.base_of(bound.value.at(name)) == v) return std::nullopt;
  if (!can_gather(nodes, match, graph)) return std::nullopt;
  Node& group = match.group;
  group.op = TENON_OP_COMPOSITE;
  group.layer = nodes[match.nodes.back()].layer;
  group.name = nodes[match.nodes.back()].name;
  for (const std::string& name : pattern.in) group.in.push_back(bound.value.at(name));
  for (const std::string& name : pattern.weight) group.weight.push_back(bound.weight.at(name));
  for (const std::string& name : pattern.store) group.store.push_back(bound.store.at(name));
  for (const std::string& name : pattern.out) group.out.push_back(bound.value.at(name));
  return match;
}

}  // namespace tenon::graph
