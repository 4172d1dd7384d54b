// drafts.cpp: which entries a model has, and the graphs of those that are wanted. A draft shares weights and stores with
// main; it comes from the model's own files or from others.
#include "graph/builder.hpp"
#include "loaded.hpp"
#include "naming.hpp"
#include "plugin/log.hpp"

#include <tenon/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

namespace tenon::engine {
namespace {

constexpr const char* kMain = "main";

std::string_view view(tenon_str text) { return {text.data, size_t(text.size)}; }

bool holds(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Canonical names of a graph's weights that come from those files.
void add_names(const graph::Graph& graph, uint32_t source, std::vector<std::string>& names) {
  for (const graph::Weight& weight : graph.weights)
    if (weight.source == source) names.push_back(weight.name);
  if (!graph.id_map.empty()) names.push_back(graph.id_map);
}

}  // namespace

void Loaded::build_entries() {
  known_entries_ = files_.entries();
  if (!holds(known_entries_, kMain))
    throw Error(ErrorKind::kFile, fmt::format("the file holds draft blocks alone ({} of {}), no model: give it with --draft beside "
                                              "the model that it drafts for", fmt::join(known_entries_, ", "), configured().name()));
  if (!options_.draft_path.empty()) {
    naming(options_.draft_path, "draft file", [&] {
      draft_files_ = std::make_unique<Files>(options_.draft_path, plugins_);
      check_draft_file();
    });
    known_entries_ = draft_files_->entries();
    std::erase(known_entries_, kMain);
    known_entries_.insert(known_entries_.begin(), kMain);
  }
  for (const std::string& name : options_.entries)
    if (!holds(known_entries_, name))
      throw Error(ErrorKind::kUsage, fmt::format("there is no entry {}; there are {}", name, fmt::join(known_entries_, ", ")));
  entries_.push_back(std::make_unique<Entry>());
  entries_[0]->name = kMain;
  entries_[0]->take(graph::build_graph(configured().architecture(), configured().model(), kMain, *files_.names, nullptr, options_.overlay));
  if (options_.overlay && main().graph.overlay < 0)
    throw Error(ErrorKind::kUsage, fmt::format("this {} model takes no overlay rows in place of embeddings", configured().name()));
  std::vector<std::string> used;
  add_names(main().graph, 0, used);
  const Files& from = draft_files_ ? *draft_files_ : files_;
  const uint32_t number = draft_files_ ? 1 : 0;
  for (const std::string& name : known_entries_) {
    if (name == kMain) continue;
    const graph::DraftFor draft = {main().graph, entries_.back()->graph, configured().limits().width, files_.names.get(), number};
    auto entry = std::make_unique<Entry>();
    entry->name = name, entry->main = &main();
    const bool wanted = holds(options_.entries, name);
    try {
      naming(draft_files_ ? options_.draft_path : options_.path, draft_files_ ? "draft file" : "model file", [&] {
        entry->take(graph::build_graph(from.configured->architecture(), from.configured->model(), name, *from.names, &draft));
        entry->ids = draft_ids(entry->graph, from);
      });
    } catch (const Error& error) {
      if (wanted) throw;
      log(TENON_LOG_WARNING, fmt::format("entry {} cannot be used: {}", name, error.what()));
      continue;
    }
    add_names(entry->graph, 0, used);
    if (wanted) entries_.push_back(std::move(entry));
  }
  warn_about_unused(std::move(used));
}

void Loaded::warn_about_unused(std::vector<std::string> used) {
  unused_ = files_.names->unused(used);
  if (unused_.empty()) return;
  log(TENON_LOG_WARNING,
      fmt::format("{} tensors of the file are not used: {}{}", unused_.size(),
                  fmt::join(unused_.begin(), unused_.begin() + std::min<ptrdiff_t>(4, ptrdiff_t(unused_.size())), ", "),
                  unused_.size() > 4 ? " …" : ""));
}

// Whether the draft was made for this model, as far as its files say.
void Loaded::check_draft_file() const {
  const tenon_limits &draft = draft_files_->configured->limits(), &model = configured().limits();
  const std::string own = draft_files_->configured->name();
  const bool is_for_another = TENON_HAS(&draft, drafts_for) && draft.drafts_for.size;
  const std::string target = is_for_another ? std::string(view(draft.drafts_for)) : own;
  if (target != configured().name())
    throw Error(ErrorKind::kFile, fmt::format("its architecture {} drafts for {}, but the model is {}", own, target, configured().name()));
  if (draft.width != model.width)
    throw Error(ErrorKind::kFile, fmt::format("it reads hidden rows of {} columns, but the model's have {}", draft.width, model.width));
  if (draft.vocab && draft.vocab != model.vocab)
    throw Error(ErrorKind::kFile, fmt::format("it is for a vocabulary of {} tokens, but the model's has {}", draft.vocab, model.vocab));
  const std::vector<std::string> names = draft_files_->entries();
  if (std::none_of(names.begin(), names.end(), [](const std::string& name) { return name != kMain; }))
    throw Error(ErrorKind::kFile, "it holds no draft blocks");
}

// The tokens that a draft's logits stand for, checked against the model's vocabulary.
std::vector<int32_t> Loaded::draft_ids(const graph::Graph& graph, const Files& files) const {
  const int64_t n = graph.values[size_t(graph.logits)].cols;
  if (graph.id_map.empty()) {
    if (n == main().vocab) return {};
    throw Error(ErrorKind::kFile, fmt::format("its head gives {} logits for a vocabulary of {}, and no id map says of which tokens", n,
                                              main().vocab));
  }
  const source::Tensor& tensor = *files.names->find(graph.id_map)->tensor;
  const source::Plane* plane = tensor.plane(TENON_PLANE_CODES);
  const bool is_long = tensor.dtype == TENON_DTYPE_I64;
  if ((tensor.dtype != TENON_DTYPE_I32 && !is_long) || !plane)
    throw Error(ErrorKind::kFile, fmt::format("tensor {}: expected i32 or i64, since it maps logits to tokens", tensor.name));
  const int64_t size = is_long ? 8 : 4;
  if (int64_t(plane->bytes) != n * size)
    throw Error(ErrorKind::kFile, fmt::format("tensor {}: {} ids, but the draft has {} logits", tensor.name, int64_t(plane->bytes) / size, n));
  const uint8_t* bytes = files.source->data(*plane);
  std::vector<int32_t> out;
  for (int64_t i = 0; i < n; ++i) {
    int64_t id = 0;
    int32_t narrow = 0;
    std::memcpy(is_long ? static_cast<void*>(&id) : &narrow, bytes + i * size, size_t(size));
    if (!is_long) id = narrow;
    if (id < 0 || id >= main().vocab)
      throw Error(ErrorKind::kFile, fmt::format("tensor {}: entry {} is {}, expected a token from 0 to {}", tensor.name, i, id, main().vocab - 1));
    out.push_back(int32_t(id));
  }
  return out;
}

Entry& Loaded::entry(std::string_view name) {
  for (const auto& entry : entries_)
    if (entry->name == name) return *entry;
  throw Error(ErrorKind::kUsage, fmt::format("entry {} was not asked for when the model was loaded", name));
}

}  // namespace tenon::engine
