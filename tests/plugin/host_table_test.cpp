// What a plugin gets from the host's table.
#include "plugin/host_table.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <stdexcept>
#include <tenon/error.hpp>
#include <thread>
#include <vector>

#include "plugin/host_files.hpp"
#include "plugin/log.hpp"
#include "plugin/message.hpp"
#include "plugin/plugin_host.hpp"

namespace tenon::test {
namespace {

tenon_str str(std::string_view text) { return {text.data(), text.size()}; }
std::string_view view(tenon_str text) { return {text.data, size_t(text.size)}; }
const tenon_host& host() { return *plugin::host_table(); }

TEST(HostTable, SaysItsSizeAndVersionAndHasEveryMember) {
  EXPECT_EQ(host().struct_size, sizeof(tenon_host));
  EXPECT_EQ(host().abi_major, TENON_ABI_MAJOR);
  EXPECT_EQ(host().abi_minor, TENON_ABI_MINOR);
  const void* members[(sizeof(tenon_host) - offsetof(tenon_host, log)) / sizeof(void*)];
  std::memcpy(members, &host().log, sizeof members);
  for (const void* member : members) EXPECT_NE(member, nullptr);
}

TEST(HostTable, AMessageStaysInItsThread) {
  EXPECT_EQ(host().fail(host().self, TENON_CORRUPT, str("here")), TENON_CORRUPT);
  std::thread([] {
    EXPECT_EQ(plugin::take_message(), "");
    host().fail(host().self, TENON_IO, str("there"));
  }).join();
  EXPECT_EQ(plugin::PluginHost::take_message(), "here");
  EXPECT_EQ(plugin::take_message(), "");
}

TEST(HostTable, AStatusBecomesAnErrorOfItsKind) {
  EXPECT_NO_THROW(plugin::check_status(TENON_OK, "x"));
  const std::pair<tenon_status, ErrorKind> kinds[] = {
      {TENON_CORRUPT, ErrorKind::kFile},           {TENON_UNSUPPORTED, ErrorKind::kFile},
      {TENON_OUT_OF_MEMORY, ErrorKind::kCapacity}, {TENON_CAPACITY, ErrorKind::kCapacity},
      {TENON_CANCELLED, ErrorKind::kInterrupted},  {TENON_INTERNAL, ErrorKind::kRuntime},
      {tenon_status(99), ErrorKind::kRuntime}};
  for (const auto& [status, kind] : kinds) {
    plugin::set_message(status, "key a.b: expected 1, found 2");
    try {
      plugin::check_status(status, "model.gguf");
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind);
      EXPECT_STREQ(error.what(), "model.gguf: key a.b: expected 1, found 2");
    }
  }
  try {
    plugin::check_status(TENON_DEVICE_LOST, "step");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "step: device lost");
  }
}

TEST(HostTable, ScratchIsAligned) {
  for (const uint64_t align : {uint64_t(0), uint64_t(1), uint64_t(64), uint64_t(4096)}) {
    void* memory = host().scratch(host().self, 100, align);
    ASSERT_NE(memory, nullptr);
    if (align != 0) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % align, 0u);
    }
    std::memset(memory, 1, 100);
    host().release(host().self, memory);
  }
  EXPECT_EQ(host().scratch(host().self, 100, 48), nullptr);
  EXPECT_EQ(host().scratch(host().self, UINT64_MAX / 2, 64), nullptr);
  host().release(host().self, nullptr);
}

TEST(HostTable, ConfigurationValuesHaveTypes) {
  plugin::set_config("test.threads", int64_t(7));
  plugin::set_config("test.rate", 0.5);
  plugin::set_config("test.name", std::string_view("old"));
  tenon_value value{}, old{};
  EXPECT_EQ(host().config(host().self, str("test.threads"), &value), TENON_OK);
  EXPECT_EQ(value.type, uint32_t(TENON_VALUE_I64));
  EXPECT_EQ(value.integer, 7);
  EXPECT_EQ(host().config(host().self, str("test.rate"), &value), TENON_OK);
  EXPECT_EQ(value.real, 0.5);
  EXPECT_EQ(host().config(host().self, str("test.name"), &old), TENON_OK);
  plugin::set_config("test.name", std::string_view("new"));
  EXPECT_EQ(host().config(host().self, str("test.name"), &value), TENON_OK);
  EXPECT_EQ(view(value.string), "new");
  EXPECT_EQ(view(old.string), "old");  // strings are borrowed for the library's life
  value.integer = 42;
  EXPECT_EQ(host().config(host().self, str("test.absent"), &value), TENON_NOT_FOUND);
  EXPECT_EQ(value.integer, 42);
}

TEST(HostTable, ParallelRunsEveryIndexOnce) {
  for (const int64_t n : {0, 1, 2, 1000}) {
    std::vector<std::atomic<int>> counts(size_t(n) + 1);
    EXPECT_EQ(
        host().parallel(
            host().self, n,
            [](void* arg, int64_t i) { ++(*static_cast<std::vector<std::atomic<int>>*>(arg))[size_t(i)]; }, &counts),
        TENON_OK);
    for (int64_t i = 0; i < n; ++i) EXPECT_EQ(counts[size_t(i)], 1);
    EXPECT_EQ(counts[size_t(n)], 0);
  }
}

TEST(HostTable, ParallelStopsAnExceptionOfTheBody) {
  EXPECT_EQ(host().parallel(
                host().self, 100,
                [](void*, int64_t i) {
                  if (i == 3) throw std::runtime_error("x");
                },
                nullptr),
            TENON_INTERNAL);
  EXPECT_NE(plugin::take_message(), "");
}

TEST(HostTable, TheLogTakesAnything) {
  EXPECT_FALSE(set_log_level("loud"));
  EXPECT_TRUE(set_log_level("info"));
  testing::internal::CaptureStderr();
  host().log(host().self, TENON_LOG_DEBUG, str("unseen"));
  host().log(host().self, TENON_LOG_INFO, str("{} %s {"));
  host().log(host().self, 77, str("unknown level"));
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(set_log_level("warning"));
  EXPECT_EQ(text.find("unseen"), std::string::npos);
  EXPECT_NE(text.find("info: {} %s {\n"), std::string::npos) << text;
  EXPECT_NE(text.find("error: unknown level\n"), std::string::npos) << text;
}

struct FakeFile final : tenon_file {
  std::string bytes = "0123456789";
  bool throws = false;
  uint64_t size() const override { return bytes.size(); }
  std::string_view base_name() const override { return "model.bin"; }
  bool read(uint64_t offset, void* dst, uint64_t n) const override {
    if (throws) throw std::runtime_error("x");
    if (offset > bytes.size() || n > bytes.size() - offset) return false;
    std::memcpy(dst, bytes.data() + offset, n);
    return true;
  }
  const void* map(uint64_t offset, uint64_t n) const override {
    if (throws) throw std::runtime_error("x");
    return offset > bytes.size() || n > bytes.size() - offset ? nullptr : bytes.data() + offset;
  }
  void advise(uint64_t, uint64_t, uint32_t) const override {
    if (throws) throw std::runtime_error("x");
  }
};

TEST(HostTable, FilesAreReadAndMapped) {
  FakeFile file;
  uint64_t size = 0;
  tenon_str name{};
  char dst[4] = {};
  const void* data = nullptr;
  EXPECT_EQ(host().file_size(host().self, &file, &size), TENON_OK);
  EXPECT_EQ(size, 10u);
  EXPECT_EQ(host().file_name(host().self, &file, &name), TENON_OK);
  EXPECT_EQ(view(name), "model.bin");
  EXPECT_EQ(host().file_read(host().self, &file, 2, dst, 3), TENON_OK);
  EXPECT_STREQ(dst, "234");
  EXPECT_EQ(host().file_map(host().self, &file, 4, 6, &data), TENON_OK);
  EXPECT_EQ(data, file.bytes.data() + 4);
  EXPECT_EQ(host().file_read(host().self, &file, 8, dst, 3), TENON_IO);
  EXPECT_EQ(plugin::take_message(), "model.bin: cannot read 3 bytes at offset 8; the file has 10");
  EXPECT_EQ(host().file_map(host().self, &file, 8, 3, &data), TENON_IO);
  EXPECT_EQ(data, file.bytes.data() + 4);  // untouched
  file.throws = true;
  EXPECT_EQ(host().file_read(host().self, &file, 0, dst, 1), TENON_IO);
  EXPECT_EQ(host().file_map(host().self, &file, 0, 1, &data), TENON_IO);
  EXPECT_EQ(host().file_advise(host().self, &file, 0, 1, TENON_ADVISE_DONE), TENON_OK);
}

struct FakeMeta final : tenon_meta {
  tenon_value value{};
  const tenon_value* find(std::string_view key) const override {
    if (key == "throw") throw std::runtime_error("x");
    return key == "a" ? &value : nullptr;
  }
  size_t size() const override { return 1; }
  std::string_view key_at(size_t) const override { return "a"; }
  const tenon_value& value_at(size_t) const override { return value; }
  bool tensor(std::string_view name, tenon_tensor* out) const override {
    if (name != "t") return false;
    out->dtype = TENON_DTYPE_F16;
    return true;
  }
  bool tensor_at(uint64_t i, tenon_tensor* out) const override { return i == 0 && tensor("t", out); }
  std::string_view scheme() const override { return "gguf"; }
};

TEST(HostTable, MetadataIsFoundByKeyAndPosition) {
  FakeMeta meta;
  meta.value.integer = 5;
  tenon_value value{};
  tenon_str key{};
  tenon_tensor tensor{};
  EXPECT_EQ(host().meta_find(host().self, &meta, str("a"), &value), TENON_OK);
  EXPECT_EQ(value.integer, 5);
  EXPECT_EQ(host().meta_find(host().self, &meta, str("b"), &value), TENON_NOT_FOUND);
  EXPECT_EQ(host().meta_find(host().self, &meta, str("throw"), &value), TENON_INTERNAL);
  EXPECT_EQ(host().meta_at(host().self, &meta, 0, &key, &value), TENON_OK);
  EXPECT_EQ(view(key), "a");
  EXPECT_EQ(host().meta_at(host().self, &meta, 1, &key, &value), TENON_NOT_FOUND);
  EXPECT_EQ(host().meta_tensor(host().self, &meta, str("t"), &tensor), TENON_OK);
  EXPECT_EQ(tensor.dtype, uint32_t(TENON_DTYPE_F16));
  EXPECT_EQ(host().meta_tensor(host().self, &meta, str("u"), &tensor), TENON_NOT_FOUND);
  EXPECT_EQ(host().meta_tensor_at(host().self, &meta, 0, &tensor), TENON_OK);
  EXPECT_EQ(host().meta_tensor_at(host().self, &meta, 1, &tensor), TENON_NOT_FOUND);
  EXPECT_EQ(host().meta_scheme(host().self, &meta, &key), TENON_OK);
  EXPECT_EQ(view(key), "gguf");
}

TEST(HostTable, CoreDtypesAreThere) {
  uint32_t id = 0;
  EXPECT_EQ(host().dtype_id(host().self, str("bf16"), &id), TENON_OK);
  EXPECT_EQ(id, uint32_t(TENON_DTYPE_BF16));
  EXPECT_EQ(view(host().dtype(host().self, id)->name), "bf16");
  EXPECT_EQ(host().dtype_id(host().self, str("nothing"), &id), TENON_NOT_FOUND);
  EXPECT_EQ(host().dtype(host().self, UINT32_MAX), nullptr);
  EXPECT_EQ(host().dtype(host().self, TENON_DTYPE_NONE), nullptr);
}

}  // namespace
}  // namespace tenon::test
