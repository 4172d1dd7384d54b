#include "convert.hpp"

#include "bound_rows.hpp"
#include "tokenizer_keys.hpp"

#include "engine/loaded.hpp"
#include "graph/builder.hpp"

#include <tenon/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <span>

namespace tenon::quantize {
namespace {

std::string_view view(tenon_str text) { return {text.data, size_t(text.size)}; }

// The folder or file that holds the model, without its ending.
std::string model_name(const source::ModelSource& source) {
  const std::filesystem::path first = source.file_paths().at(0);
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::absolute(first, error).parent_path().filename();
  return folder.empty() ? first.stem() : folder;
}

}  // namespace

struct Conversion::Impl {
  Impl(plugin::PluginHost& plugins, const source::ModelSource& source, std::string_view scheme)
      : source(source), configured(source, plugins), written(read_written(scheme)), names(make_names()),
        graph(graph::build_graph(configured.architecture(), configured.model(), "main", *names)) {}

  tenon_written read_written(std::string_view scheme) {
    const tenon_architecture& architecture = configured.architecture();
    tenon_written out = {};
    const tenon_status status =
        architecture.written ? architecture.written(configured.model(), {scheme.data(), scheme.size()}, &out) : TENON_NOT_FOUND;
    if (status == TENON_NOT_FOUND)
      throw Error(ErrorKind::kFile, fmt::format("models of {} cannot be written in the scheme {} yet; give a model of that scheme",
                                                configured.name(), scheme));
    plugin::check_status(status, configured.name());
    return out;
  }

  std::unique_ptr<graph::NameMap> make_names() {
    const tenon_name_rule* rules = nullptr;
    uint32_t n = 0;
    const std::string scheme(source.scheme());
    plugin::check_status(configured.architecture().names(configured.model(), {scheme.data(), scheme.size()}, &rules, &n),
                         fmt::format("{}: names of scheme {}", configured.name(), scheme));
    return std::make_unique<graph::NameMap>(source, std::span(rules, n));
  }

  // The order in which the scheme has the rows or columns of a weight; null: as they are.
  const tenon_reorder* reorder_of(const std::string& canonical, uint32_t axis) const {
    for (const tenon_reorder& reorder : std::span(written.reorder, written.n_reorder)) {
      int64_t number = 0, expert = 0;
      if (reorder.axis == axis && graph::match_numbered(view(reorder.canonical), canonical, &number, &expert)) return &reorder;
    }
    return nullptr;
  }

  void add_weight(const graph::Weight& weight, const plugin::Registry& registry, FileContents& out) const {
    const graph::Binding& binding = *names->find(weight.name);
    FileTensor& added = out.tensors.emplace_back();
    added.name = weight.name, added.dim = {weight.cols};
    if (weight.rows != 1 || weight.n_expert) added.dim.push_back(weight.rows);
    if (weight.n_expert) added.dim.push_back(weight.n_expert);
    added.rows = bound_rows(source, binding, weight, registry);
    const tenon_reorder* orders[] = {reorder_of(weight.name, 0), reorder_of(weight.name, 1)};
    for (const tenon_reorder* order : orders)
      if (order) added.rows = reordered_rows(std::move(added.rows), *order, weight);
    const bool is_plain = binding.transform == TENON_TRANSFORM_NONE || binding.transform == TENON_TRANSFORM_RESHAPE;
    if (is_plain && !orders[0] && !orders[1] && binding.tensor->planes.size() == 1) added.whole = binding.tensor;
  }

  void add_constants(FileContents& out) const {
    for (const tenon_constant& constant : std::span(written.constant, written.n_constant)) {
      FileTensor& added = out.tensors.emplace_back();
      added.name = view(constant.name), added.dim = {constant.cols};
      if (constant.rows != 1) added.dim.push_back(constant.rows);
      added.rows = constant_rows(constant);
    }
  }

  const source::ModelSource& source;
  engine::Configured configured;
  tenon_written written;
  std::unique_ptr<graph::NameMap> names;
  graph::Graph graph;
  std::unique_ptr<TokenizerKeys> tokenizer;
  uint64_t n_left_out = 0;
};

Conversion::Conversion(plugin::PluginHost& plugins, const source::ModelSource& source, std::string_view scheme, FileContents& out)
    : impl_(std::make_unique<Impl>(plugins, source, scheme)) {
  const auto entries = std::span(impl_->written.entry, impl_->written.n_entry);
  for (const tenon_entry& entry : entries)
    if (view(entry.key) == "general.architecture") out.keys.copy(view(entry.key), entry.value);
  out.keys.set_string("general.type", "model");
  out.keys.set_string("general.name", model_name(source));
  for (const tenon_entry& entry : entries) out.keys.copy(view(entry.key), entry.value);
  impl_->tokenizer = std::make_unique<TokenizerKeys>(source.metadata(), out.keys);

  std::vector<std::string> used;
  for (const graph::Weight& weight : impl_->graph.weights) {
    if (weight.is_constant || !impl_->names->find(weight.name)) continue;
    impl_->add_weight(weight, plugins.registry(), out);
    used.push_back(weight.name);
  }
  impl_->add_constants(out);
  std::set<const source::Tensor*> taken;
  for (const std::string& name : used)
    for (const source::Tensor* tensor : impl_->names->find(name)->tensors()) taken.insert(tensor);
  impl_->n_left_out = source.tensors().size() - taken.size();
}

Conversion::~Conversion() = default;

uint64_t Conversion::n_left_out() const { return impl_->n_left_out; }

}  // namespace tenon::quantize
