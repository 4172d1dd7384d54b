#include "model_checks.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>
#include <tenon/engine.hpp>
#include <tenon/error.hpp>

#include "numeric.hpp"

namespace tenon::kit {
namespace {

using Tokens = std::vector<int32_t>;

// f32 values between nodes differ where sums are cut otherwise; the reference itself folds in f64.
constexpr double kPhaseBound = 1e-5;

class ModelUnderTest {
 public:
  ModelUnderTest(const KitOptions& options, const std::string& directory)
      : engine_({.plugin_path = paths(options, directory), .use_default_path = options.use_default_path}) {
    ModelOptions how;
    how.path = options.model, how.backend = "reference", how.precision = Precision::kExact;
    how.context = 192, how.max_sequences = 6, how.prefill_chunk = 128, how.max_decode_rows = 32;
    model_ = engine_.load(how);
  }
  Model& model() { return *model_; }

  Tokens tokens(size_t n) const {
    Random random(7);
    Tokens out(n);
    for (int32_t& token : out) token = int32_t(random.below(uint32_t(model_->info().vocab)));
    return out;
  }
  std::vector<float> feed(Sequence& sequence, std::span<const int32_t> tokens, const ForwardOptions& options = {}) {
    std::vector<int32_t> rows(tokens.size());
    std::iota(rows.begin(), rows.end(), 0);
    const Feed one = {&sequence, tokens, rows};
    const Output out = model_->forward({&one, 1}, options);
    return {out.logits.begin(), out.logits.end()};
  }

 private:
  static std::vector<std::string> paths(const KitOptions& options, const std::string& directory) {
    std::vector<std::string> out = {directory};
    out.insert(out.end(), options.plugin_path.begin(), options.plugin_path.end());
    return out;
  }
  Engine engine_;
  std::unique_ptr<Model> model_;
};

std::string same_fault(std::span<const float> got, std::span<const float> want, const std::string& what) {
  return equal_bits(got, want) ? "" : what + " gives other logits: " + compare(got, want).text();
}

std::string repeat_fault(ModelUnderTest& m) {
  const Tokens tokens = m.tokens(40);
  Sequence a = m.model().sequence(), b = m.model().sequence();
  const auto first = m.feed(a, tokens), second = m.feed(b, tokens);
  if (std::any_of(first.begin(), first.end(), [](float v) { return v != v; })) return "its logits are NaN";
  if (std::string fault = same_fault(second, first, "a second run"); !fault.empty()) return fault;
  return a.save() == b.save() ? "" : "a second run leaves another state";
}

std::string chunk_fault(ModelUnderTest& m) {
  const Tokens tokens = m.tokens(150);
  Sequence whole = m.model().sequence(), cut = m.model().sequence();
  ForwardOptions options;
  options.chunk = 64;
  const auto want = m.feed(whole, tokens);
  if (std::string fault = same_fault(m.feed(cut, tokens, options), want, "a prompt in chunks of 64"); !fault.empty())
    return fault;
  return whole.save() == cut.save() ? "" : "a prompt in chunks of 64 leaves another state";
}

std::string grouping_fault(ModelUnderTest& m) {
  const Tokens tokens = m.tokens(30);
  ForwardOptions options;
  options.decode_step = 1;
  Sequence single = m.model().sequence();
  const auto want = m.feed(single, tokens, options);
  for (const uint32_t width : {2u, 7u, 15u}) {
    options.decode_step = width;
    Sequence sequence = m.model().sequence();
    const std::string what = "steps of " + std::to_string(width);
    if (std::string fault = same_fault(m.feed(sequence, tokens, options), want, what); !fault.empty()) return fault;
    if (sequence.save() != single.save()) return what + " leave another state";
  }
  return "";
}

std::string company_fault(ModelUnderTest& m) {
  const Tokens tokens = m.tokens(12);
  const int32_t last = 2;
  std::vector<Sequence> alone, together;
  std::vector<float> want;
  for (size_t i = 0; i < 3; ++i) {
    Sequence& s = alone.emplace_back(m.model().sequence());
    const Feed feed = {&s, std::span(tokens).subspan(i * 3, 3), {&last, 1}};
    const Output out = m.model().forward({&feed, 1});
    want.insert(want.end(), out.logits.begin(), out.logits.end());
  }
  std::vector<Feed> feeds;
  for (size_t i = 0; i < 3; ++i) together.push_back(m.model().sequence());
  for (size_t i = 0; i < 3; ++i) feeds.push_back({&together[i], std::span(tokens).subspan(i * 3, 3), {&last, 1}});
  return same_fault(m.model().forward(feeds).logits, want, "a step of three sequences");
}

std::string phase_fault(ModelUnderTest& m) {
  const Tokens tokens = m.tokens(40);
  ForwardOptions singly;
  singly.decode_step = 1;
  Sequence a = m.model().sequence(), b = m.model().sequence();
  const Difference d = compare(m.feed(a, tokens), m.feed(b, tokens, singly));
  return d.comparable && d.relative_rms <= kPhaseBound ? "" : "prefill and decode differ: " + d.text();
}

template <typename T>
void put(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}
template <typename T>
void put(std::string& out, const std::vector<T>& values) {
  put(out, values.size());
  for (const T& value : values) put(out, value);
}
void put(std::string& out, const std::string& text) {
  put(out, text.size());
  out += text;
}

}  // namespace

std::string graph_text(const graph::Graph& graph) {
  std::string out;
  for (const graph::Value& v : graph.values) {
    put(out, v.encoding), put(out, v.domain), put(out, v.cols), put(out, v.input);
    put(out, v.base), put(out, v.col0), put(out, v.groups), put(out, v.group_step);
  }
  for (const graph::Node& n : graph.nodes) {
    put(out, n.op), put(out, n.layer), put(out, n.name), put(out, n.attr);
    for (const auto* list : {&n.in, &n.out, &n.weight, &n.store}) put(out, *list);
  }
  for (const graph::Weight& w : graph.weights) {
    put(out, w.name), put(out, w.role), put(out, w.flags), put(out, w.parts), put(out, w.n_expert);
    put(out, w.rows), put(out, w.cols), put(out, w.constant);
    for (const tenon_segment& s : w.segments) put(out, s.rows), put(out, s.unit), put(out, s.period);
  }
  for (const graph::Store& s : graph.stores) {
    put(out, s.kind), put(out, s.heads), put(out, s.layer), put(out, s.window);
    put(out, s.cols_k), put(out, s.cols_v), put(out, s.tape_cols);
  }
  for (const auto& [name, value] : graph.taps) put(out, name), put(out, value);
  put(out, graph.logits), put(out, graph.softcap), put(out, graph.never), put(out, graph.n_layers);
  return out;
}

void check_model(Session& session, Opened& opened) {
  std::unique_ptr<ModelUnderTest> model;
  std::string missing;
  const auto add = [&](const char* what, std::string (*fault)(ModelUnderTest&)) {
    session.check(std::string("model: ") + what, "P17 P21", [&] {
      if (!missing.empty()) return skip(missing);
      if (!model) {
        if (!opened.backend("reference")) return skip(missing = "no plugin on the path has the reference backend");
        const std::string directory = std::filesystem::path(session.options().library).parent_path().string();
        model = std::make_unique<ModelUnderTest>(session.options(), directory.empty() ? "." : directory);
        const auto& own = opened.contents().architectures;
        const std::string& serving = model->model().info().architecture;
        if (std::none_of(own.begin(), own.end(), [&](const tenon_architecture* a) { return view(a->name) == serving; }))
          missing = "architecture " + serving + " of another plugin serves this model";
        if (!missing.empty()) return skip(missing);
      }
      return outcome(fault(*model));
    });
  };
  add("a run repeats to the bit", repeat_fault);
  add("a prompt may be cut on the grid", chunk_fault);
  add("tokens may be grouped into any decode steps", grouping_fault);
  add("a sequence is equal alone and in company", company_fault);
  add("prefill and decode agree within the bound", phase_fault);
}

}  // namespace tenon::kit
