// The core checks what a format plugin says: a plugin that lies is refused before anything is read.
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <tenon/error.hpp>

#include "gguf_builder.hpp"
#include "source/opened_source.hpp"
#include "temp_folder.hpp"

namespace tenon::source {
namespace {

using test::TempFolder;

// What the lying format answers; one tensor of 4 × 2 f32 at byte 64 of a file of 1024 bytes unless a test changes it.
struct Lie {
  std::vector<tenon_tensor> tensors;
  std::vector<std::vector<tenon_plane>> planes;
  std::vector<std::pair<std::string, tenon_value>> keys;
  std::vector<std::string> more;
  int open_handles = 0;
};
Lie& of(void* self) { return *static_cast<Lie*>(self); }

tenon_format format_of(Lie& lie) {
  tenon_format format = {};
  format.struct_size = sizeof format, format.name = {"lie", 3}, format.scheme = {"lie", 3}, format.self = &lie;
  format.open = [](void* self, tenon_file* const*, uint32_t, void** source) noexcept {
    ++of(self).open_handles;
    *source = self;
    return tenon_status(TENON_OK);
  };
  format.more = [](void* source, uint32_t i, tenon_str* name) noexcept {
    if (i - 1 >= of(source).more.size()) return tenon_status(TENON_NOT_FOUND);
    *name = {of(source).more[i - 1].data(), of(source).more[i - 1].size()};
    return tenon_status(TENON_OK);
  };
  format.meta = [](void* source, uint64_t i, tenon_str* key, tenon_value* value) noexcept {
    if (i >= of(source).keys.size()) return tenon_status(TENON_NOT_FOUND);
    *key = {of(source).keys[i].first.data(), of(source).keys[i].first.size()};
    *value = of(source).keys[i].second;
    return tenon_status(TENON_OK);
  };
  format.tensor = [](void* source, uint64_t i, tenon_tensor* out) noexcept {
    if (i >= of(source).tensors.size()) return tenon_status(TENON_NOT_FOUND);
    *out = of(source).tensors[i];
    out->plane = of(source).planes[i].data(), out->n_plane = uint32_t(of(source).planes[i].size());
    return tenon_status(TENON_OK);
  };
  format.close = [](void* source) noexcept { --of(source).open_handles; };
  return format;
}

void add_tensor(Lie& lie, const char* name, uint64_t offset) {
  tenon_tensor tensor = {};
  tensor.struct_size = sizeof tensor, tensor.dtype = TENON_DTYPE_F32, tensor.name = {name, std::strlen(name)};
  tensor.n_dim = 2, tensor.dim[0] = 4, tensor.dim[1] = 2;
  lie.tensors.push_back(tensor);
  lie.planes.push_back({{TENON_PLANE_CODES, TENON_DTYPE_F32, 0, 2, {4, 2, 1, 1}, offset, 32}});
}

class LyingFormat : public ::testing::Test {
 protected:
  LyingFormat() { add_tensor(lie_, "t", 64); }
  // The message of the refusal; nullopt when the model opens.
  std::optional<std::string> refusal() {
    const tenon_format format = format_of(lie_);
    try {
      const OpenedSource source(format, std::make_unique<MappedFile>(folder_.write("m.lie", std::string(1024, 'm'))),
                                {});
    } catch (const Error& error) {
      EXPECT_EQ(lie_.open_handles, 0);
      return error.what();
    }
    EXPECT_EQ(lie_.open_handles, 0);
    return std::nullopt;
  }
  void expect_refused(const std::string& part) {
    const auto message = refusal();
    ASSERT_TRUE(message.has_value()) << "opened; expected: " << part;
    EXPECT_NE(message->find(part), std::string::npos) << *message;
  }
  tenon_tensor& tensor() { return lie_.tensors[0]; }
  tenon_plane& plane() { return lie_.planes[0][0]; }

  Lie lie_;
  TempFolder folder_;
};

TEST_F(LyingFormat, TheTruthIsOpened) {
  EXPECT_EQ(refusal(), std::nullopt);
  plane().offset = 1024 - 32;
  EXPECT_EQ(refusal(), std::nullopt);
}

TEST_F(LyingFormat, RangesOutsideTheFileAreRefused) {
  plane().offset = 1024 - 31;
  expect_refused("tensor 't': plane 0 has 32 bytes at byte 993 of 'm.lie', which has only 1024");
  plane().offset = UINT64_MAX - 15;
  expect_refused("which has only 1024");
  plane().offset = 64, plane().file = 1;
  expect_refused("lies in file 1 of 1");
}

TEST_F(LyingFormat, SizesThatDoNotFitTheDimensionsAreRefused) {
  plane().bytes = 28;
  expect_refused("28 bytes, but its dimensions mean 32");
  plane().bytes = 32, plane().dim[0] = 8;
  expect_refused("its dimensions mean 64");
  plane().bytes = 64;
  expect_refused("other dimensions");
  plane().dim[0] = INT64_MAX / 2;
  expect_refused("passes 2^64 bytes");
  plane().dim[0] = INT64_MAX;
  expect_refused("more than 2^63 elements");
}

TEST_F(LyingFormat, DimensionsNamesAndDtypesAreChecked) {
  tensor().dim[1] = 0;
  expect_refused("dimension 1 is 0");
  tensor().dim[1] = 2, tensor().n_dim = 5;
  expect_refused("5 dimensions");
  tensor().n_dim = 2, tensor().dtype = 9999;
  expect_refused("dtype 9999 is not registered");
  tensor().dtype = TENON_DTYPE_F16;
  expect_refused("another dtype");
  tensor().dtype = TENON_DTYPE_F32, tensor().name = {"", 0};
  expect_refused("no name");
}

TEST_F(LyingFormat, PlanesAreChecked) {
  lie_.planes[0].push_back(plane());
  expect_refused("plane 0 is there twice");
  lie_.planes[0].back().role = 4;
  expect_refused("plane 4 has no meaning");
  lie_.planes[0].pop_back();
  plane().role = TENON_PLANE_SCALES;
  expect_refused("has no codes");
  lie_.planes[0].clear();
  expect_refused("0 planes");
}

TEST_F(LyingFormat, TensorsThatShareBytesOrNamesAreRefused) {
  add_tensor(lie_, "u", 80);
  expect_refused("tensor 'u': begins at byte 80 of 'm.lie', inside tensor 't'");
  lie_.planes[1][0].offset = 96;
  EXPECT_EQ(refusal(), std::nullopt);
  lie_.tensors[1].name = {"t", 1};
  expect_refused("tensor 't': is there twice");
}

TEST_F(LyingFormat, KeysAreChecked) {
  tenon_value value = {};
  value.type = TENON_VALUE_U32;
  lie_.keys = {{"k", value}, {"k", value}};
  expect_refused("metadata key 'k': is there twice");
  value.type = 14;
  lie_.keys = {{"k", value}};
  expect_refused("unknown type");
  value.type = TENON_VALUE_ARRAY, value.element = TENON_VALUE_ARRAY;
  lie_.keys = {{"k", value}};
  expect_refused("array of unknown type");
  value.element = TENON_VALUE_U8, value.count = 3;
  lie_.keys = {{"k", value}};
  expect_refused("without its elements");
}

TEST_F(LyingFormat, PartsCannotLeaveTheDirectory) {
  for (const std::string& name : {std::string("../m.lie"), std::string("/etc/passwd"), std::string(".."), std::string(),
                                  std::string("a\0b", 3), std::string(300, 'x')}) {
    lie_.more = {name};
    expect_refused("expected a plain file name");
  }
  lie_.more = {"m.lie"};
  expect_refused("twice");
  lie_.more = {"absent.lie"};
  expect_refused("absent.lie");
}

}  // namespace
}  // namespace tenon::source
