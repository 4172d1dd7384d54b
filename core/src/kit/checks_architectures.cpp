// Architectures: parameters are checked, the graph is the same each time, and a model built from it keeps what the
// engine promises of every model.
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <tenon/error.hpp>

#include "graph/builder.hpp"
#include "model_checks.hpp"
#include "plugin/host_files.hpp"
#include "source/model_source.hpp"
#include "subject.hpp"

namespace tenon::kit {
namespace {

// Metadata of a source with one key changed or left out, or none at all.
class ChangedMeta final : public tenon_meta {
 public:
  explicit ChangedMeta(const tenon_meta* base, std::string scheme = "gguf") : base_(base), scheme_(std::move(scheme)) {}
  void leave_out(std::string_view key) { key_ = key, is_out_ = true; }
  void change(std::string_view key, const tenon_value& value) { key_ = key, is_out_ = false, value_ = value; }

  const tenon_value* find(std::string_view key) const override {
    if (!base_) return nullptr;
    if (key != key_) return base_->find(key);
    return is_out_ ? nullptr : &value_;
  }
  size_t size() const override { return base_ ? base_->size() : 0; }
  std::string_view key_at(size_t i) const override {
    const std::string_view key = base_->key_at(i);
    return key == key_ && is_out_ ? std::string_view("left.out") : key;
  }
  const tenon_value& value_at(size_t i) const override {
    return base_->key_at(i) == key_ && !is_out_ ? value_ : base_->value_at(i);
  }
  bool tensor(std::string_view name, tenon_tensor* out) const override { return base_ && base_->tensor(name, out); }
  bool tensor_at(uint64_t i, tenon_tensor* out) const override { return base_ && base_->tensor_at(i, out); }
  std::string_view scheme() const override { return base_ ? base_->scheme() : std::string_view(scheme_); }

 private:
  const tenon_meta* base_;
  std::string scheme_, key_;
  bool is_out_ = false;
  tenon_value value_ = {};
};

// A configured model, dropped with its scope. `fault`: what configure() must not do, whatever it is given.
class Attempt {
 public:
  Attempt(const tenon_architecture& a, const tenon_meta& meta) : architecture_(a) {
    void* const untouched = this;
    model_ = untouched;
    plugin::PluginHost::take_message();
    status = a.configure(a.self, &meta, &model_);
    message = plugin::PluginHost::take_message();
    if (status == TENON_OK) return;
    if (message.empty()) fault = "configure() failed without a message";
    if (model_ != untouched) fault = "configure() failed and changed its output";
    model_ = nullptr;
  }
  ~Attempt() {
    if (model_) architecture_.drop(model_);
  }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;
  void* model() const { return model_; }

  tenon_status status = TENON_OK;
  std::string message, fault;

 private:
  const tenon_architecture& architecture_;
  void* model_ = nullptr;
};

uint32_t score_of(const tenon_architecture& a, const tenon_meta& meta) {
  uint32_t scores[2] = {};
  for (uint32_t& score : scores)
    if (a.score(a.self, &meta, &score) != TENON_OK)
      throw std::runtime_error("score() failed: " + plugin::PluginHost::take_message());
  if (scores[0] != scores[1]) throw std::runtime_error("score() answered another score the second time");
  if (scores[0] > 100)
    throw std::runtime_error("score() answered " + std::to_string(scores[0]) + ", expected at most 100");
  return scores[0];
}

std::string nothing_fault(const tenon_architecture& a) {
  const ChangedMeta nothing(nullptr);
  if (score_of(a, nothing) != 0) return "score() takes a source without metadata";
  const Attempt attempt(a, nothing);
  if (attempt.status == TENON_OK) return "configure() takes a source without metadata";
  return attempt.fault;
}

// Rules of a scheme; the status decides whether there are any.
std::vector<tenon_name_rule> rules_of(const tenon_architecture& a, void* model, std::string_view scheme) {
  const tenon_name_rule* rules = nullptr;
  uint32_t n = 0;
  const tenon_status status = a.names(model, str(scheme), &rules, &n);
  if (status == TENON_NOT_FOUND) return {};
  if (status != TENON_OK) throw std::runtime_error("names() failed: " + plugin::PluginHost::take_message());
  return {rules, rules + n};
}

bool has_main(const tenon_limits& limits) {
  for (uint32_t i = 0; i < limits.n_entry; ++i)
    if (view(limits.entries[i]) == "main") return true;
  return false;
}

// A model file whose entries are all drafts: there is nothing to run without the model that they are for.
bool holds_drafts_alone(const tenon_architecture& a, const source::ModelSource& source) {
  const Attempt attempt(a, *source.meta_handle());
  tenon_limits limits = {};
  limits.struct_size = sizeof limits;
  if (attempt.status != TENON_OK || a.limits(attempt.model(), &limits) != TENON_OK) return false;
  return limits.n_entry > 0 && !has_main(limits) && view(limits.entries[0]).starts_with("draft.");
}

std::string configure_fault(const tenon_architecture& a, const source::ModelSource& source) {
  const Attempt attempt(a, *source.meta_handle());
  if (attempt.status != TENON_OK) return "configure() failed: " + attempt.message;
  tenon_limits limits = {};
  limits.struct_size = sizeof limits;
  if (a.limits(attempt.model(), &limits) != TENON_OK) return "limits() failed: " + plugin::PluginHost::take_message();
  if (limits.width <= 0 || limits.vocab <= 0 || limits.context < 0 || limits.n_layer == 0)
    return "limits() says width " + std::to_string(limits.width) + ", vocabulary " + std::to_string(limits.vocab) +
           ", " + std::to_string(limits.n_layer) + " layers, context " + std::to_string(limits.context);
  if (limits.chunk_grid % TENON_PAGE_TOKENS) return "limits() says chunk_grid " + std::to_string(limits.chunk_grid);
  if (!has_main(limits)) return "limits() lists no entry \"main\"";
  const tenon_name_rule* rules = nullptr;
  uint32_t n = 0;
  if (a.names(attempt.model(), str("a scheme that nobody has"), &rules, &n) != TENON_NOT_FOUND)
    return "names() knows a scheme that nobody has; expected NOT_FOUND";
  return "";
}

graph::Graph build(const tenon_architecture& a, void* model, const source::ModelSource& source) {
  const std::vector<tenon_name_rule> rules = rules_of(a, model, source.scheme());
  const graph::NameMap names(source, rules);
  return graph::build_graph(a, model, "main", names);
}

std::string build_fault(const tenon_architecture& a, const source::ModelSource& source) {
  const Attempt one(a, *source.meta_handle()), two(a, *source.meta_handle());
  if (one.status != TENON_OK || two.status != TENON_OK) return "configure() failed: " + one.message + two.message;
  const std::string first = graph_text(build(a, one.model(), source));
  if (graph_text(build(a, one.model(), source)) != first) return "build() gave another graph the second time";
  if (graph_text(build(a, two.model(), source)) != first) return "build() gave another graph for the same metadata";
  plugin::PluginHost::take_message();
  try {
    const graph::NameMap names(source, {});
    graph::build_graph(a, one.model(), "an entry that nobody has", names);
  } catch (const Error&) {
    return "";
  }
  return "build() takes an entry that limits() does not list";
}

// Values that a parameter may have in a broken file.
std::vector<std::pair<std::string, tenon_value>> odd_values(const tenon_value& was) {
  std::vector<std::pair<std::string, tenon_value>> out;
  const auto add = [&](std::string what, uint32_t type, int64_t integer, double real) {
    tenon_value value = {};
    value.struct_size = sizeof value, value.type = type, value.integer = integer, value.real = real;
    out.emplace_back(std::move(what), value);
  };
  if (was.type >= TENON_VALUE_U8 && was.type <= TENON_VALUE_I64)
    for (const int64_t n : {int64_t(0), int64_t(-1), int64_t(1), int64_t(INT32_MAX), INT64_MAX, INT64_MIN})
      add("is " + std::to_string(n), TENON_VALUE_I64, n, 0);
  if (was.type == TENON_VALUE_F32 || was.type == TENON_VALUE_F64)
    for (const double x :
         {0.0, -1.0, 1e300, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
      add("is " + std::to_string(x), TENON_VALUE_F64, 0, x);
  add("is a truth value", TENON_VALUE_BOOL, 1, 0);
  tenon_value text = {};
  text.struct_size = sizeof text, text.type = TENON_VALUE_STRING, text.string = {"odd", 3};
  out.emplace_back("is a text", text);
  tenon_value list = {};
  list.struct_size = sizeof list, list.type = TENON_VALUE_ARRAY, list.element = TENON_VALUE_F32;
  out.emplace_back("is an empty list", list);
  return out;
}

std::string odd_fault(const tenon_architecture& a, const source::ModelSource& source) {
  const tenon_meta& meta = *source.meta_handle();
  const auto tried = [&](const ChangedMeta& changed, const std::string& what) -> std::string {
    uint32_t score = 0;
    plugin::PluginHost::take_message();
    if (a.score(a.self, &changed, &score) != TENON_OK && plugin::PluginHost::take_message().empty())
      return what + ": score() failed without a message";
    const Attempt attempt(a, changed);
    if (!attempt.fault.empty()) return what + ": " + attempt.fault;
    if (attempt.status != TENON_OK) return "";
    try {
      build(a, attempt.model(), source);
    } catch (const Error&) {
      // Refused while building: the host has a message, and nothing else happened.
    }
    return "";
  };
  for (size_t i = 0; i < meta.size(); ++i) {
    const std::string key(meta.key_at(i));
    if (key.starts_with("tokenizer.")) continue;
    ChangedMeta changed(&meta);
    changed.leave_out(key);
    std::string fault = tried(changed, "without " + key);
    for (const auto& [what, value] : odd_values(meta.value_at(i))) {
      if (!fault.empty()) return fault;
      changed.change(key, value);
      fault = tried(changed, key + " " + what);
    }
    if (!fault.empty()) return fault;
  }
  return "";
}

void check_architecture(Session& session, Opened& opened, const tenon_architecture& a) {
  const std::string title = "architecture " + text_of(a.name) + ": ";
  session.check(title + "refuses a source that says nothing", "P10 P11 P20", [&] { return outcome(nothing_fault(a)); });
  const std::string& path = session.options().model;
  std::unique_ptr<source::ModelSource> source;
  std::string missing = path.empty() ? "no model was given with --model" : "";
  const auto add = [&](const char* what, const char* duties,
                       std::string (*fault)(const tenon_architecture&, const source::ModelSource&)) {
    session.check(title + what, duties, [&] {
      if (!missing.empty()) return skip(missing);
      if (!source) source = source::ModelSource::open(path, opened.host());
      if (score_of(a, *source->meta_handle()) == 0) {
        missing = "the model of --model is of another architecture";
        return skip(missing);
      }
      if (holds_drafts_alone(a, *source)) {
        missing = "the file of --model holds drafts alone";
        return skip(missing);
      }
      return outcome(fault(a, *source));
    });
  };
  add("configures the model", "P20", configure_fault);
  add("builds the same graph each time", "P21", build_fault);
  add("refuses odd parameters, or works with them", "P10 P13 P20", odd_fault);
}

}  // namespace

Group architecture_checks(const Subject& subject) {
  return {"architectures", [&subject](Session& session) {
            Opened opened(subject, session.options());
            if (!opened.fault().empty() || opened.contents().architectures.empty()) return;
            for (const tenon_architecture* a : opened.contents().architectures) check_architecture(session, opened, *a);
            if (!session.options().model.empty()) check_model(session, opened);
          }};
}

}  // namespace tenon::kit
