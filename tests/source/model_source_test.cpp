// A model is opened through the installed format plugins: whole sets, clear refusals, and bytes that stay readable.
#include "source/model_source.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <functional>
#include <tenon/error.hpp>

#include "gguf_builder.hpp"
#include "plugin/plugin_host.hpp"
#include "source/mapped_file.hpp"
#include "temp_folder.hpp"

namespace tenon::source {
namespace {

using test::GgufBuilder;
using test::TempFolder;

plugin::PluginHost& plugins() {
  static plugin::PluginHost host({{TENON_TEST_PLUGINS}, false});
  return host;
}

std::string refusal(const std::string& path, plugin::PluginHost& host = plugins()) {
  try {
    ModelSource::open(path, host);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kFile);
    return error.what();
  }
  ADD_FAILURE() << path << " was opened";
  return "";
}

void expect_refused(const std::string& path, std::initializer_list<const char*> parts) {
  const std::string message = refusal(path);
  for (const char* part : parts) EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(ModelSource, OpensATestModel) {
  const std::string path = std::string(TENON_TEST_DATA) + "/models/gemma3/gemma3-Q4_0.gguf";
  const auto model = ModelSource::open(path, plugins());
  EXPECT_EQ(model->format(), "gguf");
  EXPECT_EQ(model->scheme(), "gguf");
  EXPECT_EQ(model->file_paths(), std::vector<std::string>{path});
  EXPECT_EQ(model->file_bytes(), std::filesystem::file_size(path));
  EXPECT_EQ(model->metadata().string("general.architecture"), "gemma3");
  EXPECT_EQ(model->metadata().integer("gemma3.block_count"), 7);
  EXPECT_EQ(model->metadata().strings("tokenizer.ggml.tokens")->size(), 1024u);
  EXPECT_EQ(model->tensors().size(), 93u);
  const Tensor* tensor = model->find("token_embd.weight");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->cols(), 256);
  EXPECT_EQ(tensor->rows(), 1024);
  EXPECT_EQ(tensor->experts(), 1);
  EXPECT_EQ(tensor->dtype, plugins().registry().dtype_id("q6_k"));
  EXPECT_EQ(tensor->bytes(), 1024u * 210);
  EXPECT_EQ(model->find("no.such.tensor"), nullptr);
}

TEST(ModelSource, HandleShowsPluginsTheSameMetadataAndTensors) {
  const auto model = ModelSource::open(std::string(TENON_TEST_DATA) + "/models/qwen35/qwen35-Q4_K_M.gguf", plugins());
  const tenon_host& host = *plugins().host_table();
  tenon_value value = {};
  ASSERT_EQ(host.meta_find(host.self, model->meta_handle(), {"qwen35.block_count", 18}, &value), TENON_OK);
  EXPECT_EQ(value.integer, model->metadata().integer("qwen35.block_count"));
  tenon_tensor tensor = {};
  for (const Tensor& expected : model->tensors()) {
    ASSERT_EQ(host.meta_tensor(host.self, model->meta_handle(), {expected.name.data(), expected.name.size()}, &tensor),
              TENON_OK);
    EXPECT_EQ(tensor.dim[0], expected.cols());
    EXPECT_EQ(tensor.plane[0].offset, expected.planes[0].offset);
  }
  EXPECT_EQ(host.meta_tensor_at(host.self, model->meta_handle(), model->tensors().size(), &tensor), TENON_NOT_FOUND);
  tenon_str scheme = {};
  ASSERT_EQ(host.meta_scheme(host.self, model->meta_handle(), &scheme), TENON_OK);
  EXPECT_EQ(std::string(scheme.data, scheme.size), "gguf");
}

std::string one_tensor(const std::string& name, char fill, uint16_t part, uint16_t count) {
  GgufBuilder builder;
  builder.add<uint16_t>("split.no", GgufBuilder::kU16, part).add<uint16_t>("split.count", GgufBuilder::kU16, count);
  builder.add<int32_t>("split.tensors.count", GgufBuilder::kI32, count);
  if (part == 0) builder.add_string("general.architecture", "test");
  builder.tensor({name, 0, {1024, 4}, std::string(16384, fill)});
  return builder.build();
}

TEST(ModelSource, AnyPartOpensTheWholeSet) {
  const TempFolder folder;
  const std::string paths[] = {folder.write("m-00001-of-00003.gguf", one_tensor("t0", 'a', 0, 3)),
                               folder.write("m-00002-of-00003.gguf", one_tensor("t1", 'b', 1, 3)),
                               folder.write("m-00003-of-00003.gguf", one_tensor("t2", 'c', 2, 3))};
  for (const std::string& path : paths) {
    const auto model = ModelSource::open(path, plugins());
    EXPECT_EQ(model->file_paths().size(), 3u);
    EXPECT_EQ(model->file_paths()[0], path);
    EXPECT_EQ(model->metadata().string("general.architecture"), "test");
    for (int part = 0; part < 3; ++part) {
      const Tensor* tensor = model->find("t" + std::to_string(part));
      ASSERT_NE(tensor, nullptr);
      const uint8_t* data = model->data(tensor->planes[0]);
      EXPECT_EQ(std::string(reinterpret_cast<const char*>(data), 16384), std::string(16384, char('a' + part)));
    }
  }
}

TEST(ModelSource, MissingPartIsNamed) {
  const TempFolder folder;
  const std::string path = folder.write("m-00002-of-00002.gguf", one_tensor("t1", 'b', 1, 2));
  expect_refused(path, {"m-00001-of-00002.gguf", "No such file", "m-00002-of-00002.gguf", "one directory"});
}

TEST(ModelSource, RefusesWhatIsNoModelFile) {
  const TempFolder folder;
  expect_refused(folder.path() + "/none.gguf", {"none.gguf", "No such file or directory"});
  expect_refused(folder.path(), {"is a directory without a model file", "installed formats:", "gguf"});
  expect_refused(folder.write("empty.gguf", ""), {"empty.gguf", "is empty"});
  expect_refused(folder.write("text.gguf", "hello world"),
                 {"'hello wo' (68 65 6c 6c 6f 20 77 6f)", "installed formats:", "gguf"});
  const std::string pipe = folder.path() + "/pipe.gguf";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_refused(pipe, {"is no regular file"});
  expect_refused(folder.write("cut.gguf", std::string("GGUF\3\0\0\0", 8)), {"cut.gguf", "tensor count at byte 8"});
}

TEST(ModelSource, ADirectoryWithOneModelStandsForIt) {
  const TempFolder folder;
  folder.write("m.gguf", one_tensor("t0", 'a', 0, 1));
  folder.write("notes.txt", "GGUF");
  EXPECT_NE(ModelSource::open(folder.path(), plugins())->find("t0"), nullptr);
  folder.write("n.gguf", one_tensor("t0", 'a', 0, 1));
  expect_refused(folder.path(), {"several models, 'm.gguf' and 'n.gguf'"});
}

TEST(ModelSource, SaysWhenNoFormatIsInstalled) {
  const TempFolder folder;
  plugin::PluginHost none({{folder.path()}, false});
  EXPECT_NE(refusal(folder.write("m.gguf", "GGUF"), none).find("no format plugin is installed"), std::string::npos);
}

TEST(ModelSource, NoticesAFileThatHasShrunk) {
  const TempFolder folder;
  GgufBuilder builder;
  builder.tensor({"t", 0, {1024, 4}, std::string(16384, 'x')});
  const std::string path = folder.write("m.gguf", builder.build());
  const auto model = ModelSource::open(path, plugins());
  EXPECT_EQ(*model->data(model->tensors()[0].planes[0]), 'x');
  std::filesystem::resize_file(path, 8192);
  try {
    model->data(model->tensors()[0].planes[0]);
    ADD_FAILURE() << "the shrunk file was not noticed";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("has shrunk"), std::string::npos) << error.what();
  }
}

TEST(ModelSource, DroppedPagesAreReadAgain) {
  const TempFolder folder;
  GgufBuilder builder;
  builder.tensor({"t", 0, {1024, 16}, std::string(65536, 'x')});
  const auto model = ModelSource::open(folder.write("m.gguf", builder.build()), plugins());
  const Plane& plane = model->tensors()[0].planes[0];
  const uint8_t* data = model->data(plane);
  model->drop_pages(plane, 0, plane.bytes);
  model->drop_pages(plane, 100, 5);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(data), plane.bytes), std::string(65536, 'x'));
  EXPECT_THROW(model->drop_pages(plane, 1, plane.bytes), Error);
  Plane outside = plane;
  outside.offset = UINT64_MAX - 8;
  EXPECT_THROW(model->data(outside), Error);
  outside.file = 7;
  EXPECT_THROW(model->data(outside), Error);
}

TEST(MappedFile, ReadsAndMapsInsideTheFileOnly) {
  const TempFolder folder;
  const MappedFile file(folder.write("f.bin", "0123456789"));
  EXPECT_EQ(file.base_name(), "f.bin");
  EXPECT_EQ(file.size(), 10u);
  char buffer[4] = {};
  EXPECT_TRUE(file.read(6, buffer, 4));
  EXPECT_EQ(std::string(buffer, 4), "6789");
  EXPECT_FALSE(file.read(7, buffer, 4));
  EXPECT_FALSE(file.read(UINT64_MAX, buffer, 4));
  ASSERT_NE(file.map(10, 0), nullptr);
  EXPECT_EQ(*static_cast<const char*>(file.map(3, 7)), '3');
  EXPECT_EQ(file.map(3, 8), nullptr);
  EXPECT_EQ(file.map(11, 0), nullptr);
  EXPECT_EQ(file.map(4, UINT64_MAX - 2), nullptr);
  file.advise(0, 10, TENON_ADVISE_SEQUENTIAL);
  file.advise(2, 3, TENON_ADVISE_WILL_NEED);
  file.advise(0, 10, TENON_ADVISE_DONE);
  EXPECT_EQ(*static_cast<const char*>(file.map(9, 1)), '9');
}

}  // namespace
}  // namespace tenon::source
