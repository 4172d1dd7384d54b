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

// A name in a rule's source; rules that join have several.
struct SourceName {
  const tenon_name_rule* rule;
  std::string_view text;
  size_t part = 0;
};

std::vector<SourceName> source_names(const tenon_name_rule& rule) {
  if (rule.transform != TENON_TRANSFORM_JOIN_ROWS) return {{&rule, view(rule.source)}};
  std::vector<SourceName> out;
  for (std::string_view rest = view(rule.source); !rest.empty();) {
    const size_t end = std::min(rest.find(' '), rest.size());
    if (end) out.push_back({&rule, rest.substr(0, end), out.size()});
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return out;
}

Binding joined_by(const tenon_name_rule& rule, int64_t number) {
  Binding out;
  out.transform = rule.transform;
  for (const SourceName& name : source_names(rule)) out.joined_names.push_back(with_number(name.text, number));
  out.joined.resize(out.joined_names.size(), nullptr);
  return out;
}

}  // namespace

std::vector<const source::Tensor*> Binding::tensors() const {
  std::vector<const source::Tensor*> out;
  for (const auto& [number, expert] : experts) out.push_back(expert);
  for (const source::Tensor* part : joined)
    if (part) out.push_back(part);
  if (out.empty()) out.push_back(tensor);
  return out;
}

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
  std::vector<SourceName> numbered;
  std::unordered_map<std::string_view, std::vector<SourceName>> plain;
  for (const tenon_name_rule& rule : rules)
    for (const SourceName& name : source_names(rule)) {
      if (name.text.find("{i}") == std::string_view::npos && name.text.find("{e}") == std::string_view::npos)
        plain[name.text].push_back(name);
      else
        numbered.push_back(name);
    }
  for (const source::Tensor& tensor : source.tensors()) {
    bool ruled = false;
    const auto apply = [&](const SourceName& name, int64_t number, int64_t expert) {
      const tenon_name_rule& rule = *name.rule;
      ruled = true;
      if (rule.transform == TENON_TRANSFORM_UNUSED) {
        known_unused_.push_back(tensor.name);
        return;
      }
      if (rule.transform > TENON_TRANSFORM_UNUSED)
        throw Error(ErrorKind::kFile, fmt::format("tensor {}: its name rule needs transform {}, which this build does not serve",
                                                  tensor.name, rule.transform));
      Binding& binding = bindings_[with_number(view(rule.canonical), number)];
      if (rule.transform == TENON_TRANSFORM_STACK_EXPERTS) {
        binding.tensor = &tensor, binding.transform = rule.transform;
        binding.experts[expert] = &tensor;
      } else if (rule.transform == TENON_TRANSFORM_JOIN_ROWS) {
        if (binding.joined.empty()) binding = joined_by(rule, number);
        binding.tensor = binding.joined[name.part] = &tensor;
      } else {
        binding = {&tensor, rule.transform, rule.a, rule.b, rule.axis};
      }
    };
    if (const auto found = plain.find(tensor.name); found != plain.end())
      for (const SourceName& name : found->second) apply(name, -1, -1);
    for (const SourceName& name : numbered)
      if (int64_t number, expert; match_numbered(name.text, tensor.name, &number, &expert)) apply(name, number, expert);
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
    if (const Binding* binding = find(name))
      for (const source::Tensor* tensor : binding->tensors()) taken.insert(tensor);
  std::unordered_set<std::string_view> known(known_unused_.begin(), known_unused_.end());
  std::vector<std::string> rest;
  for (const source::Tensor& tensor : source_.tensors())
    if (!taken.contains(&tensor) && !known.contains(tensor.name)) rest.push_back(tensor.name);
  return rest;
}

}  // namespace tenon::graph
