// Rows in place of embeddings: a model's own rows change nothing, spans see themselves both ways and nothing else does,
// and chunks, steps and company change nothing for them either.
#include <algorithm>
#include <numeric>
#include <tenon/error.hpp>

#include "property.hpp"

namespace tenon::property {
namespace {

// Images in windows, in windows and beside causal layers, and in a model without span masks.
std::vector<Case> overlay_cases() {
  std::vector<Case> out;
  for (const std::string architecture : {"gemma3", "gemma4", "qwen35"}) {
    const std::string path = data_model(architecture);
    for (const std::string backend : {"reference", "cpu", "far"})
      out.push_back({architecture + "_" + backend + "_exact", path, backend, Precision::kExact});
    out.push_back({architecture + "_cpu_default", path, "cpu", Precision::kDefault});
  }
  return out;
}

struct Image {
  int32_t begin, n, span;  // positions, rows, id
};

class OverlayTest : public PropertyTest {
 protected:
  std::unique_ptr<Model> load_with_overlay(const std::function<void(ModelOptions&)>& change = {}) const {
    return load([&](ModelOptions& options) {
      options.overlay = true, options.max_sequences = 6;
      if (change) change(options);
    });
  }
  bool sees_spans() const { return GetParam().name.starts_with("gemma"); }
  // Borders of pages in the first two; the third follows the second at once. A window of the test models is narrower
  // than the first.
  std::vector<Image> images() const {
    std::vector<Image> out = {{20, 70, 4}, {100, 30, 0}, {130, 9, 7}};
    if (!sees_spans())
      for (Image& image : out) image.span = -1;
    return out;
  }
  size_t prompt() const { return GetParam().is_slow() ? 150 : 300; }
};

// An overlay that owns what it shows.
struct Rows {
  std::vector<float> values;
  std::vector<int32_t> positions, spans;
  int64_t width = 0;
  Overlay view() const { return {values, positions, spans}; }
  float* row(int32_t position) {
    const auto found = std::find(positions.begin(), positions.end(), position);
    return values.data() + (found - positions.begin()) * width;
  }
};

Rows rows_of(const Model& model, const std::vector<Image>& images, uint32_t seed, int32_t shift = 0) {
  Rows out;
  out.width = model.entry("main").overlay_width;
  std::mt19937 random(seed);
  for (const Image& image : images)
    for (int32_t i = 0; i < image.n; ++i) {
      out.positions.push_back(image.begin + i - shift), out.spans.push_back(image.span);
      for (int64_t c = 0; c < out.width; ++c) out.values.push_back(float(int32_t(random() % 2001) - 1000) / 500);
    }
  return out;
}

std::vector<float> feed_overlay(Model& model, Sequence& sequence, std::span<const int32_t> tokens,
                                const Overlay& overlay, const ForwardOptions& options = {}) {
  std::vector<int32_t> rows(tokens.size());
  std::iota(rows.begin(), rows.end(), 0);
  const Feed one = {&sequence, tokens, rows, {}, overlay};
  const Output out = model.forward({&one, 1}, options);
  return {out.logits.begin(), out.logits.end()};
}

std::span<const float> row_of(const std::vector<float>& logits, size_t row, const Model& model) {
  const auto vocab = size_t(model.info().vocab);
  return std::span(logits).subspan(row * vocab, vocab);
}

// The first tap is what enters the first layer: the scaled embeddings.
TEST_P(OverlayTest, TheModelsOwnRowsGiveThePlainRun) {
  const auto model = load_with_overlay(), plain = load();
  for (const size_t n : {size_t(12), prompt()}) {
    const Tokens tokens = random_tokens(81, n, *model);
    std::map<std::string, std::vector<float>> tapped;
    ForwardOptions options;
    options.taps = {"hidden.0"}, options.tapped = &tapped;
    Sequence a = plain->sequence(), b = model->sequence(), c = model->sequence();
    const std::vector<float> expected = feed(*plain, a, tokens, options);
    EXPECT_TRUE(same(feed(*model, b, tokens), expected)) << "no rows are given";
    Rows rows;
    rows.width = model->entry("main").overlay_width;
    Tokens others = tokens;
    for (size_t i = 1; i < n; i += i % 5 ? 1 : 3) {
      others[i] = (tokens[i] + 1) % int32_t(model->info().vocab);
      rows.positions.push_back(int32_t(i));
      const auto row = std::span(tapped.at("hidden.0")).subspan(i * size_t(rows.width), size_t(rows.width));
      rows.values.insert(rows.values.end(), row.begin(), row.end());
    }
    EXPECT_TRUE(same(feed_overlay(*model, c, others, rows.view()), expected)) << n << " tokens";
    EXPECT_TRUE(same(c.save(), a.save())) << n << " tokens";
  }
}

TEST_P(OverlayTest, AnyChunkingGivesTheSame) {
  const auto model = load_with_overlay([](ModelOptions& o) { o.prefill_chunk = 384; });
  const Tokens tokens = random_tokens(82, prompt(), *model);
  const Rows rows = rows_of(*model, images(), 1);
  Sequence whole = model->sequence();
  const std::vector<float> expected = feed_overlay(*model, whole, tokens, rows.view());
  ASSERT_TRUE(all_finite(expected));
  for (const uint32_t chunk : {64u, 128u, 192u}) {
    ForwardOptions options;
    options.chunk = chunk;
    Sequence sequence = model->sequence();
    EXPECT_TRUE(same(feed_overlay(*model, sequence, tokens, rows.view(), options), expected)) << "chunks of " << chunk;
    EXPECT_TRUE(same(sequence.save(), whole.save())) << "chunks of " << chunk;
    if (GetParam().is_slow()) break;
  }
  // Text first, the images with what follows.
  const int32_t cut = 64;
  Sequence parts = model->sequence();
  std::vector<Image> later = images();
  later.erase(later.begin());
  const Rows all = rows_of(*model, later, 2), behind = rows_of(*model, later, 2, cut);
  Sequence at_once = model->sequence();
  const std::vector<float> together = feed_overlay(*model, at_once, tokens, all.view());
  feed(*model, parts, part(tokens, 0, cut));
  const std::vector<float> found = feed_overlay(*model, parts, part(tokens, cut, tokens.size() - cut), behind.view());
  EXPECT_TRUE(same(found, std::span(together).subspan(size_t(cut * model->info().vocab))));
}

TEST_P(OverlayTest, ASpanSeesItselfBothWaysAndNothingElseDoes) {
  const auto model = load_with_overlay();
  const std::vector<Image> there = images();
  const Tokens tokens = random_tokens(83, 150, *model);
  const auto logits = [&](int32_t changed) {
    Rows rows = rows_of(*model, there, 3);
    if (changed >= 0) std::reverse(rows.row(changed), rows.row(changed) + rows.width);
    Sequence sequence = model->sequence();
    return feed_overlay(*model, sequence, tokens, rows.view());
  };
  const std::vector<float> before = logits(-1);
  for (const Image& image : there) {
    const int32_t last = image.begin + image.n - 1;
    const std::vector<float> after = logits(last);
    int32_t n_changed = 0;  // of the image's rows before; a few may give that key too little weight
    for (int32_t i = 0; i < last; ++i) {
      const auto is_equal = same(row_of(after, size_t(i), *model), row_of(before, size_t(i), *model));
      if (i >= image.begin) n_changed += !is_equal;
      if (i < image.begin || !sees_spans()) {
        EXPECT_TRUE(is_equal) << "row " << i << ", image at " << image.begin;
      }
    }
    if (sees_spans()) {
      EXPECT_GT(n_changed, (image.n - 1) / 2) << "image at " << image.begin;
    }
    if (GetParam().is_slow()) break;
  }
}

TEST_P(OverlayTest, StepsAndCompanyChangeNothing) {
  const auto model = load_with_overlay();
  const std::vector<Image> small = {{2, 3, sees_spans() ? 1 : -1}, {6, 5, sees_spans() ? 0 : -1}};
  std::vector<Tokens> tokens;
  std::vector<Rows> rows;
  std::vector<std::vector<float>> alone;
  for (uint32_t i = 0; i < 3; ++i) {
    tokens.push_back(random_tokens(84 + i, 12, *model));
    rows.push_back(rows_of(*model, small, 10 + i));
    Sequence sequence = model->sequence();
    alone.push_back(feed_overlay(*model, sequence, tokens[i], rows[i].view()));
    for (const uint32_t width : {5u, 7u, 15u}) {  // 5 and 7 end in front of a span
      ForwardOptions options;
      options.decode_step = width;
      Sequence stepped = model->sequence();
      EXPECT_TRUE(same(feed_overlay(*model, stepped, tokens[i], rows[i].view(), options), alone[i])) << width;
      EXPECT_TRUE(same(stepped.save(), sequence.save())) << width;
    }
  }
  const Tokens text = random_tokens(90, 9, *model);
  Sequence plain = model->sequence();
  const std::vector<float> expected = feed(*model, plain, text);
  std::vector<Sequence> sequences;
  std::vector<Feed> feeds;
  std::vector<int32_t> all(12);
  std::iota(all.begin(), all.end(), 0);
  for (int i = 0; i < 4; ++i) sequences.push_back(model->sequence());
  for (size_t i = 0; i < 3; ++i) feeds.push_back({&sequences[i], tokens[i], all, {}, rows[i].view()});
  feeds.insert(feeds.begin() + 1, Feed{&sequences[3], text, std::span(all).first(9)});
  const Output out = model->forward(feeds, {});
  size_t at = 0;
  for (const std::vector<float>& one : {alone[0], expected, alone[1], alone[2]}) {
    EXPECT_TRUE(same(out.logits.subspan(at, one.size()), one)) << "from value " << at;
    at += one.size();
  }
}

TEST_P(OverlayTest, TokensDoNotNameWhatTheSequenceHolds) {
  const auto model = load_with_overlay([](ModelOptions& o) { o.prefix_cache_bytes = -1; });
  const Tokens tokens = random_tokens(91, 150, *model);
  Sequence cold = model->sequence();
  const std::vector<float> expected = feed(*model, cold, tokens);
  const Rows rows = rows_of(*model, images(), 5);
  Sequence first = model->sequence(), second = model->sequence();
  EXPECT_EQ(first.resume(tokens).reused, 0);
  const std::vector<float> with = feed_overlay(*model, first, tokens, rows.view());
  EXPECT_FALSE(same(with, expected));
  feed(*model, first, random_tokens(92, 70, *model));
  EXPECT_EQ(second.resume(tokens).reused, 0) << "another sequence";
  EXPECT_TRUE(same(feed(*model, second, tokens), expected));
  Sequence third = model->sequence();
  EXPECT_GT(third.resume(tokens).reused, 0) << "the test would say nothing";
  const int64_t reused = first.resume(tokens).reused;
  EXPECT_LE(reused, 128) << "the sequence itself";
  const std::vector<float> rest = feed(*model, first, part(tokens, size_t(reused), tokens.size() - size_t(reused)));
  EXPECT_TRUE(same(rest, std::span(expected).subspan(size_t(reused * model->info().vocab))));
}

TEST_P(OverlayTest, RefusesWhatDoesNotFit) {
  const auto model = load_with_overlay([](ModelOptions& o) { o.prefill_chunk = 64; });
  const Tokens tokens = random_tokens(93, 100, *model);
  Sequence sequence = model->sequence();
  const auto refused = [&](const Rows& rows, const std::string& what, uint32_t step = 0) {
    ForwardOptions options;
    options.decode_step = step;
    try {
      feed_overlay(*model, sequence, tokens, rows.view(), options);
      ADD_FAILURE() << "accepted; expected: " << what;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
    }
  };
  const int32_t span = sees_spans() ? 3 : -1;
  Rows rows = rows_of(*model, {{95, 6, -1}}, 1);
  refused(rows, "position 100 of 100 tokens");
  rows = rows_of(*model, {{-1, 2, -1}}, 1);
  refused(rows, "position -1 of 100");
  rows = rows_of(*model, {{5, 2, -1}, {6, 1, -1}}, 1);
  refused(rows, "position 6 behind 6");
  rows = rows_of(*model, {{5, 2, -1}}, 1);
  rows.values.pop_back();
  refused(rows, "overlay values for 2 positions");
  rows = rows_of(*model, {{5, 2, 1}}, 1);
  rows.spans.pop_back();
  refused(rows, "1 span ids for 2 positions");
  refused(rows_of(*model, {{5, 2, 1}, {9, 2, 1}}, 1), "span 1 begins again at position 9");
  if (span < 0) {
    refused(rows_of(*model, {{5, 2, 1}}, 1), "no attention of this model");
  } else {
    refused(rows_of(*model, {{5, 65, 1}}, 1), "a span of 65 rows does not fit into the prefill chunk of 64");
    refused(rows_of(*model, {{5, 8, 1}}, 1), "a span of 8 rows does not fit into decode steps of 7", 7);
  }
  EXPECT_EQ(sequence.length(), 0);
  EXPECT_TRUE(all_finite(feed_overlay(*model, sequence, tokens, rows_of(*model, {{5, 64, span}}, 1).view())));
  const auto plain = load();
  EXPECT_EQ(plain->entry("main").overlay_width, 0);
  Sequence other = plain->sequence();
  try {
    feed_overlay(*plain, other, tokens, rows_of(*model, {{5, 2, -1}}, 1).view());
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("loaded without"), std::string::npos) << error.what();
  }
}

TEST(OverlayLoading, ModelsWithEmbeddingsOfEachLayerTakeNone) {
  if (!has_plugin("cpu")) GTEST_SKIP() << "the plugin of backend cpu is not built";
  ModelOptions options;
  options.path = data_model("gemma4e"), options.backend = "cpu", options.overlay = true;
  try {
    engine().load(options);
    FAIL() << "loaded";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find("this gemma4 model takes no overlay rows"), std::string::npos)
        << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Models, OverlayTest, ::testing::ValuesIn(overlay_cases()), case_name);

}  // namespace
}  // namespace tenon::property
