// A row that is not finite changes no other row (P13). A copy of the model gets a token whose embedding is NaN.
#include <cmath>
#include <filesystem>
#include <fstream>

#include "plugin/plugin_host.hpp"
#include "property.hpp"
#include "source/model_source.hpp"

namespace tenon::property {
namespace {

namespace fs = std::filesystem;

constexpr int32_t kBadToken = 77;

// The model with 0xff in the bytes of that token's embedding: NaN as a float of any width and as a block's scale.
class PoisonedModel {
 public:
  explicit PoisonedModel(const std::string& original, const std::string& name) {
    plugin::PluginHost plugins({{TENON_TEST_PLUGINS}, false});
    const auto source = source::ModelSource::open(original, plugins);
    const source::Tensor* table = source->find("token_embd.weight");
    if (!table || table->planes.size() != 1) throw std::runtime_error(original + " has no plain embedding");
    const uint64_t row_bytes = table->bytes() / uint64_t(table->rows());
    path_ = fs::path(::testing::TempDir()) / (name + ".gguf");
    fs::copy_file(original, path_, fs::copy_options::overwrite_existing);
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(std::streamoff(table->planes[0].offset + row_bytes * kBadToken));
    file << std::string(row_bytes, '\xff');
    if (!file.flush()) throw std::runtime_error("cannot write " + path_.string());
  }
  ~PoisonedModel() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

class NanRowTest : public PropertyTest {};

TEST_P(NanRowTest, ChangesNoOtherRow) {
  const PoisonedModel file(GetParam().path, GetParam().name);
  const auto model = load([&](ModelOptions& o) { o.path = file.path(); });
  const size_t n = 5, bad = 2;
  Tokens next = random_tokens(81, n, *model);
  next[bad] = kBadToken;
  std::vector<Sequence> sequences;
  std::vector<std::vector<float>> alone;
  std::vector<std::vector<uint8_t>> before, after;
  for (size_t i = 0; i < n; ++i) {
    Tokens history = random_tokens(uint32_t(82 + i), 3 + i, *model);
    for (int32_t& token : history) token = token == kBadToken ? 0 : token;
    Sequence& s = sequences.emplace_back(model->sequence());
    feed(*model, s, history);
    before.push_back(s.save());
    alone.push_back(feed(*model, s, part(next, i, 1)));
    after.push_back(s.save());
    s.restore(before[i]);
  }
  const int32_t row = 0;
  std::vector<Feed> feeds;
  for (size_t i = 0; i < n; ++i) feeds.push_back({&sequences[i], part(next, i, 1), {&row, 1}});
  const Output out = model->forward(feeds);
  // A head that shares the table has one column of NaN in every row; all others of the good rows are finite.
  for (size_t i = 0; i < n; ++i) {
    for (int64_t v = 0; v < out.vocab; ++v) {
      if (v == kBadToken) continue;
      ASSERT_EQ(std::isfinite(out.row(int64_t(i))[size_t(v)]), i != bad) << "row " << i << ", id " << v;
    }
    if (i == bad) continue;
    EXPECT_TRUE(same(out.row(int64_t(i)), alone[i])) << "row " << i;
  }
  for (size_t i = 0; i < n; ++i) {
    if (i == bad) continue;
    EXPECT_TRUE(same(sequences[i].save(), after[i])) << "sequence " << i;
  }
  // Nor do pages and slots that the bad sequence leaves behind reach those who get them next.
  sequences.erase(sequences.begin() + bad);
  Sequence heir = model->sequence();
  Sequence other = model->sequence();
  const Tokens prompt(20, 5);
  const std::vector<float> first = feed(*model, heir, prompt), second = feed(*model, other, prompt);
  EXPECT_TRUE(same(first, second));
}

INSTANTIATE_TEST_SUITE_P(Models, NanRowTest, ::testing::ValuesIn(most_cases()), case_name);

}  // namespace
}  // namespace tenon::property
