// architecture.hpp: architectures as C++ classes. Derive from Architecture, construct from Metadata, register with
// register_architecture<T>(registrar, {"id"}).
//
// An object is made by configure() and is immutable from then on; build() may be called once an entry, from one thread
// at a time. Shapes are compared with the file's tensors before the host sees the model.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <tenon/sdk/graph.hpp>
#include <tenon/sdk/latent.hpp>
#include <tenon/sdk/layers.hpp>
#include <tenon/sdk/metadata.hpp>
#include <tenon/sdk/plugin.hpp>
#include <tenon/sdk/weights.hpp>
#include <tenon/sdk/written.hpp>
#include <utility>
#include <vector>

namespace tenon::sdk {

struct Limits {
  int64_t n_layers = 0, width = 0, vocab = 0;
  int64_t context = 0;          // trained length in tokens; 0 = unknown
  int64_t n_draft_unused = 0;   // draft blocks in the file that no entry uses
  int64_t n_draft_absent = 0;   // draft blocks that the file announces and leaves to another
  std::string drafts_for = {};  // architecture that the drafts are for; empty = this one
};

class Architecture {
 public:
  virtual ~Architecture() = default;
  virtual Limits limits() const = 0;
  // Every weight that build() may use.
  virtual void declare(Weights&) const = 0;
  // Rules for rules.scheme(); false = scheme unknown. "gguf" gets the canonical names by itself, after what this adds.
  virtual bool names(NameRules& rules) const { return rules.scheme() == "gguf"; }
  // Names of the graphs that the files hold: "main", and drafts as "draft.0", "draft.1" …; a file may hold drafts
  // alone.
  virtual std::vector<std::string> entries() const { return {"main"}; }
  virtual void build(const Graph&, std::string_view entry) const = 0;
  // What a file of this model would say in that scheme; false = it is not written so. Weights go under their canonical names.
  virtual bool written(std::string_view /*scheme*/, Written&) const { return false; }
};

// An id and the `model_type` values of Hugging Face configs that mean it.
struct ArchitectureId {
  ArchitectureId(const char* name, std::initializer_list<const char*> types = {})
      : id(name), model_types(types.begin(), types.end()) {}
  std::string id;
  std::vector<std::string> model_types;
};

namespace detail {

// What crosses as `void* model`.
class Model {
 public:
  Model(std::string id, std::unique_ptr<Architecture> architecture, const Metadata& meta)
      : id_(std::move(id)), architecture_(std::move(architecture)), gguf_("gguf", &meta), hf_("hf", &meta) {
    architecture_->declare(weights_);
    has_gguf_ = architecture_->names(gguf_);
    has_hf_ = architecture_->names(hf_);
    if (has_gguf_) gguf_.same_names(weights_);
    const NameRules* rules = names(meta.scheme());
    if (!rules) throw Error(TENON_UNSUPPORTED, id_ + " knows no tensor names of scheme " + meta.scheme());
    check_tensors(id_, weights_, *rules, meta);
    gguf_.forget_source(), hf_.forget_source();
    limits_ = architecture_->limits();
    entries_ = architecture_->entries();
    for (const std::string& entry : entries_) entry_names_.push_back(to_str(entry));
  }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const NameRules* names(std::string_view scheme) const {
    if (scheme == "gguf" && has_gguf_) return &gguf_;
    if (scheme == "hf" && has_hf_) return &hf_;
    return nullptr;
  }
  void limits(tenon_limits* out) const {
    const Limits& l = limits_;
    *out = {};
    out->struct_size = sizeof *out;
    out->n_layer = static_cast<uint32_t>(l.n_layers), out->width = l.width, out->vocab = l.vocab,
    out->context = l.context;
    out->n_entry = static_cast<uint32_t>(entry_names_.size()), out->entries = entry_names_.data();
    out->n_draft_unused = static_cast<uint32_t>(l.n_draft_unused);
    out->n_draft_absent = static_cast<uint32_t>(l.n_draft_absent);
    out->drafts_for = to_str(l.drafts_for);
  }
  // Null: not written in that scheme. One thread; what it answers lives until the next call.
  const Written* written(std::string_view scheme) {
    written_ = std::make_unique<Written>(id_);
    written_->global_text("general.architecture", id_);
    if (!architecture_->written(scheme, *written_)) written_.reset();
    return written_.get();
  }
  void build(std::string_view entry, const tenon_builder* builder) const {
    std::string known;
    for (const std::string& name : entries_) {
      if (name == entry) return architecture_->build(Graph(builder, &weights_), entry);
      known += (known.empty() ? "" : ", ") + name;
    }
    throw Error(TENON_NOT_FOUND, id_ + " has no entry '" + std::string(entry) + "'; it has: " + known);
  }

 private:
  std::string id_;
  std::unique_ptr<Architecture> architecture_;
  Weights weights_;
  NameRules gguf_, hf_;
  bool has_gguf_ = false, has_hf_ = false;
  std::unique_ptr<Written> written_;
  Limits limits_;
  std::vector<std::string> entries_;
  std::vector<tenon_str> entry_names_;
};

using MakeArchitecture = std::unique_ptr<Architecture> (*)(const Metadata&, const std::string& id);

class ArchitectureRecord {
 public:
  ArchitectureRecord(ArchitectureId id, MakeArchitecture make) : id_(std::move(id)), make_(make) {
    table_ = {};
    table_.struct_size = sizeof table_;
    table_.name = to_str(id_.id);
    table_.self = this;
    table_.score = [](void* self, const tenon_meta* meta, uint32_t* score) noexcept {
      return guard([&] { *score = of(self).score(Metadata(meta)); });
    };
    table_.configure = [](void* self, const tenon_meta* handle, void** model) noexcept {
      return guard([&] {
        const auto& record = of(self);
        const Metadata meta(handle);
        *model = std::make_unique<Model>(record.id_.id, record.make_(meta, record.id_.id), meta).release();
      });
    };
    table_.names = [](void* model, tenon_str scheme, const tenon_name_rule** rules, uint32_t* n) noexcept {
      return guard([&] {
        const NameRules* found = static_cast<const Model*>(model)->names(to_view(scheme));
        if (!found) throw Error(TENON_NOT_FOUND, "no tensor names of scheme " + std::string(to_view(scheme)));
        *rules = found->table().data(), *n = static_cast<uint32_t>(found->table().size());
      });
    };
    table_.limits = [](void* model, tenon_limits* out) noexcept {
      return guard([&] { static_cast<const Model*>(model)->limits(out); });
    };
    table_.build = [](void* model, tenon_str entry, const tenon_builder* builder) noexcept {
      return guard([&] { static_cast<const Model*>(model)->build(to_view(entry), builder); });
    };
    table_.drop = [](void* model) noexcept { std::unique_ptr<Model>(static_cast<Model*>(model)); };
    table_.written = [](void* model, tenon_str scheme, tenon_written* out) noexcept {
      return guard([&] {
        const Written* found = static_cast<Model*>(model)->written(to_view(scheme));
        if (!found) throw Error(TENON_NOT_FOUND, "its files are not written in scheme " + std::string(to_view(scheme)));
        *out = found->table();
      });
    };
  }
  ArchitectureRecord(const ArchitectureRecord&) = delete;
  ArchitectureRecord& operator=(const ArchitectureRecord&) = delete;
  const tenon_architecture* table() const { return &table_; }

 private:
  static const ArchitectureRecord& of(const void* self) { return *static_cast<const ArchitectureRecord*>(self); }
  // A config may be of a model around the text model, whose own type then counts less.
  uint32_t score(const Metadata& meta) const {
    if (meta.is_gguf()) return meta.architecture() == id_.id ? 100 : 0;
    for (const auto& [key, score] :
         {std::pair<const char*, uint32_t>{"model_type", 100}, {"text_config.model_type", 90}})
      if (const auto type = meta.find(key))
        if (std::find(id_.model_types.begin(), id_.model_types.end(), type->as<std::string>()) != id_.model_types.end())
          return score;
    return 0;
  }
  ArchitectureId id_;
  MakeArchitecture make_;
  tenon_architecture table_;
};

inline std::vector<std::unique_ptr<ArchitectureRecord>>& kept_architectures() {
  // Lives as long as the library: never destroyed, since the host may hold the records until the process ends.
  static auto* const kept = std::make_unique<std::vector<std::unique_ptr<ArchitectureRecord>>>().release();
  return *kept;
}

}  // namespace detail

// Registers T under each id. T is constructible from (const Metadata&, const std::string& id).
template <typename T>
void register_architecture(Registrar& registrar, std::initializer_list<ArchitectureId> ids) {
  for (const ArchitectureId& id : ids) {
    auto record = std::make_unique<detail::ArchitectureRecord>(
        id, [](const Metadata& meta, const std::string& name) -> std::unique_ptr<Architecture> {
          return std::make_unique<T>(meta, name);
        });
    registrar.architecture(record->table());
    detail::kept_architectures().push_back(std::move(record));
  }
}

}  // namespace tenon::sdk
