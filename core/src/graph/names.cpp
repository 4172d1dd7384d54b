#include "names.hpp"

#include <tenon/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <unordered_map>
#include <unordered_set>

namespace tenon::graph {
namespace {

std::string_view view(tenon_str text) { return {text.data, size_t(text.size)}; }

std::string with_number(std::string_view pattern, int64_t number) {
  const size_t at = pattern.find("{i}");
  if (at == std::string_view::npos) return std::string(pattern);
  return fmt::format("{}{}{}", pattern.substr(0, at), number, pattern.substr(at + 3));
}

bool is_served(uint32_t transform) {
  return transform == TENON_TRANSFORM_NONE || transform == TENON_TRANSFORM_RESHAPE ||
         transform == TENON_TRANSFORM_ADD_ONE || transform == TENON_TRANSFORM_MINUS_EXP;
}

}  // namespace

bool match_numbered(std::string_view pattern, std::string_view text, int64_t* number) {
  *number = -1;
  const size_t at = pattern.find("{i}");
  if (at == std::string_view::npos) return pattern == text;
  const std::string_view before = pattern.substr(0, at), after = pattern.substr(at + 3);
  if (text.size() <= before.size() + after.size() || !text.starts_with(before) || !text.ends_with(after)) return false;
  const std::string_view digits = text.substr(before.size(), text.size() - before.size() - after.size());
  if (digits.size() > 1 && digits[0] == '0') return false;
  const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), *number);
  return fault == std::errc() && end == digits.data() + digits.size() && *number >= 0;
}

NameMap::NameMap(const source::ModelSource& source, std::span<const tenon_name_rule> rules) : source_(source) {
  // Rules without a number are looked up: there may be one for each of many tensors that are known to be unused.
  std::vector<const tenon_name_rule*> numbered;
  std::unordered_map<std::string_view, std::vector<const tenon_name_rule*>> plain;
  for (const tenon_name_rule& rule : rules) {
    if (view(rule.source).find("{i}") == std::string_view::npos)
      plain[view(rule.source)].push_back(&rule);
    else
      numbered.push_back(&rule);
  }
  for (const source::Tensor& tensor : source.tensors()) {
    bool ruled = false;
    const auto apply = [&](const tenon_name_rule& rule, int64_t number) {
      ruled = true;
      if (rule.transform == TENON_TRANSFORM_UNUSED) {
        known_unused_.push_back(tensor.name);
        return;
      }
      if (!is_served(rule.transform))
        throw Error(ErrorKind::kFile, fmt::format("tensor {}: its name rule needs transform {}, which this build does not serve",
                                                  tensor.name, rule.transform));
      bindings_[with_number(view(rule.canonical), number)] = {&tensor, rule.transform, rule.a, rule.b};
    };
    if (const auto found = plain.find(tensor.name); found != plain.end())
      for (const tenon_name_rule* rule : found->second) apply(*rule, -1);
    for (const tenon_name_rule* rule : numbered)
      if (int64_t number = -1; match_numbered(view(rule->source), tensor.name, &number)) apply(*rule, number);
    if (!ruled) bindings_.try_emplace(tensor.name, Binding{&tensor, TENON_TRANSFORM_NONE, 0, 0});
  }
}

const Binding* NameMap::find(std::string_view canonical) const {
  const auto it = bindings_.find(std::string(canonical));
  return it == bindings_.end() ? nullptr : &it->second;
}

std::vector<std::string> NameMap::unused(std::span<const std::string> used) const {
  std::unordered_set<const source::Tensor*> taken;
  for (const std::string& name : used)
    if (const Binding* binding = find(name)) taken.insert(binding->tensor);
  std::unordered_set<std::string_view> known(known_unused_.begin(), known_unused_.end());
  std::vector<std::string> rest;
  for (const source::Tensor& tensor : source_.tensors())
    if (!taken.contains(&tensor) && !known.contains(tensor.name)) rest.push_back(tensor.name);
  return rest;
}

}  // namespace tenon::graph
