#include <tenon/engine.hpp>

#include "inspect.hpp"
#include "loaded.hpp"
#include "model_impl.hpp"
#include "naming.hpp"
#include "plugin/plugin_host.hpp"
#include "plugin/report.hpp"
#include "quantize/quantize.hpp"

namespace tenon {

struct Engine::Impl {
  explicit Impl(const EngineOptions& options) : plugins({options.plugin_path, options.use_default_path}) {}
  plugin::PluginHost plugins;
};

Engine::Engine(EngineOptions options) : impl_(std::make_unique<Impl>(options)) {}
Engine::~Engine() = default;

std::unique_ptr<Model> Engine::load(const ModelOptions& options) {
  return engine::naming(options.path, [&] {
    auto parts = std::make_unique<engine::Loaded>(impl_->plugins, options);
    parts->prepare();
    return std::unique_ptr<Model>(new Model(std::make_unique<Model::Impl>(std::move(parts))));
  });
}

std::shared_ptr<const Tokenizer> Engine::load_tokenizer(const std::string& path) {
  return engine::naming(path, [&] { return make_tokenizer(source::ModelSource::open(path, impl_->plugins)->metadata()); });
}

std::string Engine::load_chat_template(const std::string& path) {
  return engine::naming(path, [&] {
    const auto source = source::ModelSource::open(path, impl_->plugins);
    return std::string(source->metadata().string("tokenizer.chat_template").value_or(""));
  });
}

std::string Engine::inspect(const std::string& path, const InspectOptions& options) {
  return engine::naming(path, [&] { return engine::inspect(impl_->plugins, path, options); });
}

QuantizeReport Engine::quantize(const QuantizeOptions& options, const QuantizeSink& sink) {
  return engine::naming(options.path, [&] { return quantize::quantize(impl_->plugins, options, sink); });
}

std::string Engine::plugins_list(bool json) { return plugin::report_list(impl_->plugins, json); }

std::string Engine::plugins_verify(bool json, bool* all_good) { return plugin::report_verify(impl_->plugins, json, all_good); }

std::string Engine::plugins_info(const std::string& name, bool json) { return plugin::report_info(impl_->plugins, name, json); }

uint32_t Engine::n_opened_libraries() const { return impl_->plugins.n_opened_libraries(); }

}  // namespace tenon
