#include "eval_output.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "interrupt.hpp"

namespace tenon::launcher {

std::vector<TapArray> tap_arrays(const Taps& taps, const std::vector<std::string>& asked, int64_t n_tokens) {
  std::vector<TapArray> arrays;
  std::set<std::string> taken;
  if (std::find(asked.begin(), asked.end(), "hidden") != asked.end()) {
    TapArray hidden{"hidden", {}, true, 0};
    for (int64_t layer = 0; taps.count("hidden." + std::to_string(layer)); ++layer) {
      hidden.parts.push_back("hidden." + std::to_string(layer));
      taken.insert(hidden.parts.back());
    }
    if (!hidden.parts.empty()) arrays.push_back(std::move(hidden));
  }
  for (const auto& [name, values] : taps)
    if (!taken.count(name)) arrays.push_back({name, {name}, false, 0});
  for (TapArray& array : arrays) {
    const size_t n_values = taps.at(array.parts.front()).size();
    array.cols = static_cast<int64_t>(n_values) / n_tokens;
    for (const std::string& part : array.parts)
      if (taps.at(part).size() != n_values || n_values % static_cast<size_t>(n_tokens) != 0)
        throw Error(ErrorKind::kRuntime, "tap " + part + ": " + std::to_string(taps.at(part).size()) + " values for " +
                                             std::to_string(n_tokens) + " tokens, unlike " + array.parts.front());
  }
  return arrays;
}

EvalOutput::EvalOutput(const std::vector<int64_t>& rows, SafetensorsFile& file)
    : n_rows_(static_cast<int64_t>(rows.size())), file_(file) {
  std::map<int64_t, std::vector<int64_t>> places;
  for (int64_t place = 0; place < n_rows_; ++place) places[rows[static_cast<size_t>(place)]].push_back(place);
  for (auto& [position, list] : places) {
    wanted_.push_back(static_cast<int32_t>(position));
    places_.push_back(std::move(list));
  }
}

void EvalOutput::define(const EntryInfo& entry, const std::vector<TapArray>& arrays) {
  std::vector<ArraySpec> specs = {{"logits", {n_rows_, entry.vocab}}};
  if (!entry.ids.empty()) specs.push_back({"ids", {entry.vocab}, true});
  for (const TapArray& array : arrays) {
    specs.push_back({array.name, {n_rows_, array.cols}});
    if (array.joined) specs.back().shape.insert(specs.back().shape.begin(), static_cast<int64_t>(array.parts.size()));
  }
  file_.define(specs);
  if (!entry.ids.empty()) file_.write("ids", 0, entry.ids);
}

void EvalOutput::write_logits(int64_t row, std::span<const float> logits) {
  const auto finite = [](float value) { return std::isfinite(value); };
  if (broken_ < 0 && !std::all_of(logits.begin(), logits.end(), finite)) broken_ = wanted_[static_cast<size_t>(row)];
  for (int64_t place : places_[static_cast<size_t>(row)])
    file_.write("logits", place * static_cast<int64_t>(logits.size()), logits);
}

void EvalOutput::write_tap(const TapArray& array, const Taps& taps) {
  for (size_t part = 0; part < array.parts.size(); ++part) {
    const std::span<const float> values = taps.at(array.parts[part]);
    for (size_t row = 0; row < wanted_.size(); ++row)
      for (int64_t place : places_[row])
        file_.write(array.name, (static_cast<int64_t>(part) * n_rows_ + place) * array.cols,
                    values.subspan(static_cast<size_t>(wanted_[row] * array.cols), static_cast<size_t>(array.cols)));
  }
}

ForwardOptions forward_options(const Arguments& arguments) {
  ForwardOptions options;
  options.chunk = static_cast<uint32_t>(arguments.integer("chunk", 0));
  options.decode_step = static_cast<uint32_t>(arguments.integer("step", 0));
  options.cancelled = interrupted;
  return options;
}

}  // namespace tenon::launcher
