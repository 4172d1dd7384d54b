// Named models: what a manifest says counts where flags and variables say nothing.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <tenon/error.hpp>
#include <vector>

#include "arguments.hpp"

namespace tenon::launcher {
namespace {

class ModelManifest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = std::filesystem::temp_directory_path() / "tenon_models_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& text) const {
    const std::string path = folder_ / "models.txtpb";
    std::ofstream(path) << text;
    return path;
  }
  // The arguments of `tenon VERB -m m` with the manifest's text.
  Arguments applied(const std::string& text, std::vector<std::string> more = {}, Verb verb = Verb::kRun, const Environment& environment = {}) const {
    std::vector<std::string> words = {"-m", "m", "--manifest", write(text)};
    words.insert(words.end(), more.begin(), more.end());
    Arguments arguments = parse_arguments(verb, words, environment);
    apply_manifest(arguments);
    return arguments;
  }
  std::string refusal(const std::string& text, ErrorKind kind = ErrorKind::kFile) const {
    try {
      applied(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      return error.what();
    }
    return "nothing is wrong";
  }
  void expect_refusal(const std::string& text, std::string_view part, ErrorKind kind = ErrorKind::kFile) const {
    const std::string message = refusal(text, kind);
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_NE(message.find("models.txtpb"), std::string::npos) << message;
  }

  std::filesystem::path folder_;
};

TEST_F(ModelManifest, StandsForFlags) {
  const Arguments arguments = applied(R"(model { name: "other" model: "o.gguf" threads: 7 }
model {
  name: "m" model: "sub/m.gguf" threads: 3 devices: [0, 2] prefer: "a" prefer: "b" temp: 0.25 tensor_parallel: "0-3@0,1;4@2,3"
})");
  EXPECT_EQ(arguments.text("model"), folder_ / "sub/m.gguf") << "relative to the manifest";
  EXPECT_EQ(arguments.integer("threads", 0), 3);
  EXPECT_EQ(arguments.list("devices", ','), (std::vector<std::string>{"0", "2"}));
  EXPECT_EQ(arguments.list("prefer", ','), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(arguments.number("temp", 1), 0.25);
  EXPECT_EQ(arguments.text("tensor-parallel"), "0-3@0,1;4@2,3");
}

TEST_F(ModelManifest, FlagsAndVariablesWin) {
  const std::string text = R"(model { name: "m" model: "m.gguf" threads: 3 devices: 4 precision: "exact" })";
  EXPECT_EQ(applied(text, {"-t", "5"}).integer("threads", 0), 5);
  EXPECT_EQ(applied(text, {}, Verb::kRun, {{"TENON_PRECISION", "fast"}}).text("precision"), "fast");
  EXPECT_FALSE(applied(text, {"--device", "1"}).has("devices")) << "one flag of a group is enough";
}

TEST_F(ModelManifest, LeavesOtherVerbsFlagsAlone) {
  const std::string text = R"(model { name: "m" model: "m.gguf" temp: 0.5 draft: "d.gguf" })";
  EXPECT_FALSE(applied(text, {}, Verb::kInspect).has("temp"));
  EXPECT_EQ(applied(text, {}, Verb::kEval).text("draft"), folder_ / "d.gguf");
}

TEST_F(ModelManifest, PathsStayPaths) {
  const std::string manifest = write(R"(model { name: "m" model: "m.gguf" })");
  Arguments arguments = parse_arguments(Verb::kRun, {"-m", manifest, "--manifest", manifest}, {});
  apply_manifest(arguments);
  EXPECT_EQ(arguments.text("model"), manifest);
}

TEST_F(ModelManifest, FaultsSayWhere) {
  expect_refusal("model { name: 'm' model: 'a'\n  tensor: 3 }", ":2:");
  expect_refusal("model { name: 'm' }", "model: missing");
  expect_refusal("model { model: 'a' }", "name: expected");
  expect_refusal("model { name: 'a/b' model: 'a' }", "name: expected");
  expect_refusal("model { name: 'm' model: 'a' }\nmodel { name: 'm' model: 'b' }", ":2:");
  expect_refusal("model { name: 'm' model: 'a' backend: '' }", "backend: empty");
  expect_refusal("model { name: 'm' model: 'a'\n precision: 'huge' }", ":2:");
  expect_refusal("model { name: 'm' model: 'a' threads: 100000 }", "threads: expected 1 to 1024");
  expect_refusal("model { name: 'm' model: 'a' threads: -1 }", "1:");
  expect_refusal("model { name: 'm' model: 'a'\n tensor_parallel: 'two' }", ":2:2: tensor-parallel: expected 1 to 64, or layers with their ranks");
  expect_refusal("model { name: 'm' model: 'a'\n tensor_parallel: '0-3@0,' }", ":2:2: tensor-parallel: \"0-3@0,\": \"\" is no rank");
  expect_refusal("model { name: 'm' model: 'a'\n expert_parallel: 'all@0,1' }", ":2:2: expert-parallel: \"all@0,1\": name the layers");
  expect_refusal("model { name: 'm' model: 'a'\n sum_parts: '2,' }", ":2:2: sum-parts: expected");
  expect_refusal("model { name: 'x' model: 'a' } model { name: 'y' model: 'a' }", "there are x, y", ErrorKind::kUsage);
  expect_refusal(std::string(2 << 20, '#'), "more than");
  expect_refusal("", "there are none", ErrorKind::kUsage);
}

}  // namespace
}  // namespace tenon::launcher
