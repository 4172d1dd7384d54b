// Libraries are opened when something they provide is needed, never before.
#include <filesystem>
#include <fstream>
#include <iterator>

#include "gguf_builder.hpp"
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

// A sound library, under the names of the keys that choose plugins.
TEST(OpeningTest, APathInAModelFileOpensNothing) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(::testing::TempDir()) / "path_in_a_model_file";
  fs::create_directories(folder);
  const fs::path library = folder / "libtenon_bait.so";
  for (const char* ending : {"", ".tenon.txtpb"})
    fs::copy_file(std::string(TENON_TEST_PLUGINS) + "/libtenon_gemma.so" + ending, library.string() + ending,
                  fs::copy_options::overwrite_existing);
  for (const std::string& name : {library.string(), std::string("libtenon_bait.so"), std::string("./libtenon_bait")}) {
    SCOPED_TRACE(name);
    test::GgufBuilder builder;
    builder.add_string("general.architecture", name).add_string("tokenizer.ggml.model", name);
    const fs::path path = folder / "model.gguf";
    std::ofstream(path, std::ios::binary) << builder.build();
    Engine engine({{TENON_TEST_PLUGINS}, false});
    ModelOptions options;
    options.path = path.string(), options.backend = "reference";
    try {
      engine.load(options);
      FAIL() << "it was loaded";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kFile) << error.what();
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
    EXPECT_LE(engine.n_opened_libraries(), 1u) << "more than the format";
    std::ifstream maps("/proc/self/maps");
    const std::string mapped(std::istreambuf_iterator<char>(maps), {});
    EXPECT_EQ(mapped.find("libtenon_bait"), std::string::npos) << "the library is open";
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace tenon::property
