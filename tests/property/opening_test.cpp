// Libraries are opened when something they provide is needed, never before.
#include <fstream>

#include "property.hpp"

namespace tenon::property {
namespace {

TEST(OpeningTest, ListingPluginsOpensNone) {
  Engine engine({{TENON_TEST_PLUGINS}, false});
  EXPECT_NE(engine.plugins_list(false).find("gguf"), std::string::npos);
  EXPECT_NE(engine.plugins_list(true).find("qwen35"), std::string::npos);
  EXPECT_EQ(engine.n_opened_libraries(), 0u);
}

TEST(OpeningTest, ATokenizerNeedsTheFormatOnly) {
  Engine engine({{TENON_TEST_PLUGINS}, false});
  const auto tokenizer = engine.load_tokenizer(data_model("qwen35"));
  ASSERT_TRUE(tokenizer);
  EXPECT_EQ(engine.n_opened_libraries(), 1u);
}

TEST(OpeningTest, AModelOpensItsOwnPluginsOnly) {
  Engine engine({{TENON_TEST_PLUGINS}, false});
  ModelOptions options;
  options.path = data_model("gemma3"), options.backend = "reference", options.context = 64;
  const auto model = engine.load(options);
  // Format, architecture, backend; the reference has no family of kernels, and qwen35 is not asked.
  EXPECT_EQ(engine.n_opened_libraries(), 3u);
}

TEST(OpeningTest, AFileThatIsNoModelOpensNoArchitecture) {
  const std::string path = ::testing::TempDir() + "/not_a_model.gguf";
  std::ofstream(path) << "not a model";
  Engine engine({{TENON_TEST_PLUGINS}, false});
  ModelOptions options;
  options.path = path, options.backend = "reference";
  EXPECT_ANY_THROW(engine.load(options));
  EXPECT_LE(engine.n_opened_libraries(), 1u);
}

}  // namespace
}  // namespace tenon::property
