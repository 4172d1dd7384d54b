#include <tenon/engine.hpp>

#include "inspect.hpp"
#include "loaded.hpp"
#include "model_impl.hpp"
#include "naming.hpp"
#include "plan_options.hpp"
#include "plugin/plugin_host.hpp"
#include "plugin/report.hpp"
#include "processes.hpp"
#include "quantize/quantize.hpp"
#include "ranks.hpp"

#include <tenon/error.hpp>

#include <fmt/format.h>

#include <mutex>

namespace tenon {

struct Engine::Impl {
  explicit Impl(const EngineOptions& options) : plugins({options.plugin_path, options.use_default_path}) {}
  plugin::PluginHost plugins;
};

Engine::Engine(EngineOptions options) : impl_(std::make_unique<Impl>(options)) {}
Engine::~Engine() = default;

std::unique_ptr<Model> Engine::load(const ModelOptions& options) {
  return engine::naming(options.path, [&] {
    if (!options.collective.empty() && engine::has_processes(engine::find_collective(impl_->plugins, options.collective)))
      return load_processes(options);
    if (parallel::count_ranks(engine::plan_options(options)) > 1) return load_ranks(options);
    auto parts = std::make_unique<engine::Loaded>(impl_->plugins, options);
    parts->prepare();
    return std::unique_ptr<Model>(new Model(std::make_unique<Model::Impl>(std::move(parts))));
  });
}

std::unique_ptr<Model> Engine::load_ranks(const ModelOptions& options) {
  engine::RankPlace place = engine::first_place(impl_->plugins, options);
  const uint32_t n = place.n_ranks;
  // One after the other, as plugins open meanwhile; what takes time comes then, on all ranks at once.
  std::vector<std::unique_ptr<engine::Loaded>> parts;
  const auto reports = std::make_shared<std::mutex>();  // one at a time
  for (; place.rank < n; ++place.rank) {
    ModelOptions own = options;
    if (options.progress)
      own.progress = [reports, rank = place.rank, report = options.progress](Progress progress) {
        const std::lock_guard lock(*reports);
        progress.rank = rank;
        report(progress);
      };
    parts.push_back(std::make_unique<engine::Loaded>(impl_->plugins, own, place));
  }
  std::vector<const parallel::Communicator*> communicators;
  for (const auto& part : parts) communicators.push_back(part->communicator());
  std::vector<std::unique_ptr<Model>> models(n);
  auto threads = std::make_unique<parallel::RankThreads>(n, [communicators] { for (const auto* one : communicators) one->abort(); },
                                                         [communicators](uint32_t rank) { return communicators[rank]->was_cancelled(); });
  threads->run([&](uint32_t rank) {
    parts[rank]->prepare();
    models[rank].reset(new Model(std::make_unique<Model::Impl>(std::move(parts[rank]))));
  });
  ModelInfo& info = models[0]->impl_->info;
  info.n_ranks = n;
  for (uint32_t rank = 1; rank < n; ++rank) {
    const ModelInfo& other = models[rank]->info();
    info.weight_bytes += other.weight_bytes, info.packed_bytes += other.packed_bytes, info.decode_weight_bytes += other.decode_weight_bytes;
    info.arena_bytes += other.arena_bytes, info.store_bytes += other.store_bytes, info.threads += other.threads;
  }
  std::vector<std::unique_ptr<engine::Follower>> followers;
  for (uint32_t rank = 1; rank < n; ++rank) followers.push_back(std::make_unique<engine::Follower>(std::move(models[rank]), rank));
  models[0]->impl_->ranks = std::make_unique<engine::ThreadRanks>(std::move(followers), std::move(threads));
  return std::move(models[0]);
}

std::unique_ptr<Model> Engine::load_processes(const ModelOptions& options) {
  engine::FirstProcess ranks(engine::find_collective(impl_->plugins, options.collective), options,
                             parallel::count_ranks(engine::plan_options(options)));
  try {
    auto parts = std::make_unique<engine::Loaded>(impl_->plugins, ranks.options(), ranks.place());
    parts->prepare();
    const parallel::Communicator* values = parts->communicator();
    std::unique_ptr<Model> model(new Model(std::make_unique<Model::Impl>(std::move(parts))));
    if (!values) return model;
    model->impl_->ranks = ranks.complete(*values, model->impl_->info);
    engine::Command probe;
    probe.kind = engine::Command::Kind::kProbe;
    model->impl_->everywhere(std::move(probe), [&](const CancelCallback&) { model->impl_->loaded->probe(); });
    return model;
  } catch (...) {
    ranks.rethrow_other();
    throw;
  }
}

FollowReport Engine::follow(const FollowOptions& options) {
  return engine::follow(impl_->plugins, options, [](std::unique_ptr<engine::Loaded> parts) {
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
