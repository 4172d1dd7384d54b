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
         transform == TENON_TRANSFORM_ADD_ONE || transform == TENON_TRANSFORM_MINUS_EXP ||
         transform == TENON_TRANSFORM_STACK_EXPERTS || transform == TENON_TRANSFORM_SLICE_ROWS;
}

}  // namespace

bool match_numbered(std::string_view pattern, std::string_view text, int64_t* number, int64_t* expert) {
  *number = *expert = -1;
  for (;;) {
    const size_t at = std::min(pattern.find("{i}"), pattern.find("{e}"));
    if (at == std::string_view::npos) return pattern == text;
    if (!text.starts_with(pattern.substr(0, at))) return false;
    int64_t& value = pattern[at + 1] == 'i' ? *number : *expert;
    text.remove_prefix(at);
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
    const size_t digits = size_t(end - text.data());
    if (fault != std::errc() || value < 0 || (digits > 1 && text[0] == '0')) return false;
    pattern.remove_prefix(at + 3), text.remove_prefix(digits);
  }
}

NameMap::NameMap(const source::ModelSource& source, std::span<const tenon_name_rule> rules) : source_(source) {
  // Rules without a number are looked up: there may be one for each of many tensors that are known to be unused.
  std::vector<const tenon_name_rule*> numbered;
  std::unordered_map<std::string_view, std::vector<const tenon_name_rule*>> plain;
  for (const tenon_name_rule& rule : rules) {
    if (view(rule.source).find("{i}") == std::string_view::npos && view(rule.source).find("{e}") == std::string_view::npos)
      plain[view(rule.source)].push_back(&rule);
    else
      numbered.push_back(&rule);
  }
  for (const source::Tensor& tensor : source.tensors()) {
    bool ruled = false;
    const auto apply = [&](const tenon_name_rule& rule, int64_t number, int64_t expert) {
      ruled = true;
      if (rule.transform == TENON_TRANSFORM_UNUSED) {
        known_unused_.push_back(tensor.name);
        return;
      }
      if (!is_served(rule.transform))
        throw Error(ErrorKind::kFile, fmt::format("tensor {}: its name rule needs transform {}, which this build does not serve",
                                                  tensor.name, rule.transform));
      Binding& binding = bindings_[with_number(view(rule.canonical), number)];
      if (rule.transform == TENON_TRANSFORM_STACK_EXPERTS) {
        binding.tensor = &tensor, binding.transform = rule.transform;
        binding.experts[expert] = &tensor;
      } else {
        binding = {&tensor, rule.transform, rule.a, rule.b, rule.axis};
      }
    };
    if (const auto found = plain.find(tensor.name); found != plain.end())
      for (const tenon_name_rule* rule : found->second) apply(*rule, -1, -1);
    for (const tenon_name_rule* rule : numbered)
      if (int64_t number, expert; match_numbered(view(rule->source), tensor.name, &number, &expert))
        apply(*rule, number, expert);
    if (!ruled) bindings_.try_emplace(tensor.name, Binding{.tensor = &tensor});
  }
}

const Binding* NameMap::find(std::string_view canonical) const {
  const auto it = bindings_.find(std::string(canonical));
  return it == bindings_.end() ? nullptr : &it->second;
}

std::vector<std::string> NameMap::unused(std::span<const std::string> used) const {
  std::unordered_set<const source::Tensor*> taken;
  for (const std::string& name : used)
    if (const Binding* binding = find(name)) {
      taken.insert(binding->tensor);
      for (const auto& [number, tensor] : binding->experts) taken.insert(tensor);
    }
  std::unordered_set<std::string_view> known(known_unused_.begin(), known_unused_.end());
  std::vector<std::string> rest;
  for (const source::Tensor& tensor : source_.tensors())
    if (!taken.contains(&tensor) && !known.contains(tensor.name)) rest.push_back(tensor.name);
  return rest;
}

}  // namespace tenon::graph
