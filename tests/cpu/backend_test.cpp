// The backend's record: device, memory, copies.
#include <sys/resource.h>

#include <cstring>

#include "cpu_kernels.hpp"

namespace tenon::testing {
namespace {

const tenon_backend& cpu() {
  load_plugins();
  return Kit::instance().backend("cpu");
}

TEST(CpuBackend, DescribesOneDevice) {
  uint32_t n = 0;
  const tenon_device* const* devices = nullptr;
  ASSERT_EQ(cpu().devices(cpu().self, &n, &devices), TENON_OK);
  ASSERT_EQ(n, 1u);
  EXPECT_EQ(std::string(devices[0]->backend.data, devices[0]->backend.size), "cpu");
  EXPECT_GE(devices[0]->max_workers, 1u);
  uint64_t free_bytes = 0, total = 0;
  ASSERT_EQ(cpu().memory(cpu().self, 0, &free_bytes, &total), TENON_OK);
  EXPECT_GT(free_bytes, 0u);
  EXPECT_LE(free_bytes, total);
  tenon_str line = {};
  ASSERT_EQ(cpu().describe(cpu().self, &line), TENON_OK);
  const std::string text(line.data, line.size);
  const auto names = [&](const char* isa) { return text.find(isa) != std::string::npos; };
  EXPECT_TRUE(names("avx512") || names("avx2") || names("portable")) << text;
}

TEST(CpuBackend, GivesZeroedAlignedMemory) {
  for (const uint64_t bytes : {1ull, 100ull, 5000ull, 3ull << 20}) {
    for (const uint64_t align : {1ull, 64ull, 4096ull, 4ull << 20}) {
      tenon_addr address = 0;
      ASSERT_EQ(cpu().alloc(cpu().self, 0, TENON_MEMORY_DEVICE, bytes, align, &address), TENON_OK);
      EXPECT_EQ(address % std::max<uint64_t>(align, 64), 0u);
      auto* begin = reinterpret_cast<uint8_t*>(address);
      for (uint64_t i = 0; i < bytes; i += 97) ASSERT_EQ(begin[i], 0);
      std::memset(begin, 0xff, bytes);
      cpu().free(cpu().self, 0, TENON_MEMORY_DEVICE, address);
    }
  }
}

TEST(CpuBackend, AnswersWhenThereIsNoRoom) {
  tenon_addr address = 7;
  for (const uint64_t bytes : {1ull << 50, ~0ull})
    EXPECT_EQ(cpu().alloc(cpu().self, 0, TENON_MEMORY_DEVICE, bytes, 64, &address), TENON_OUT_OF_MEMORY);
  EXPECT_EQ(address, 7u);
}

// What the system says of its memory it says in a file, which a process without free descriptors cannot read.
TEST(CpuBackend, GivesMemoryWhereNoFileCanBeOpened) {
  cpu();
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  tenon_addr address = 0;
  const tenon_status given = cpu().alloc(cpu().self, 0, TENON_MEMORY_DEVICE, 8ull << 20, 64, &address);
  tenon_addr nothing = 0;
  const tenon_status refused = cpu().alloc(cpu().self, 0, TENON_MEMORY_DEVICE, 1ull << 50, 64, &nothing);
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(given, TENON_OK);
  EXPECT_EQ(refused, TENON_OUT_OF_MEMORY);
  cpu().free(cpu().self, 0, TENON_MEMORY_DEVICE, address);
}

TEST(CpuBackend, CopiesAndFillsRows) {
  std::vector<uint8_t> from(100), to(100, 9);
  for (size_t i = 0; i < from.size(); ++i) from[i] = uint8_t(i);
  ASSERT_EQ(cpu().copy(cpu().self, nullptr, 0, reinterpret_cast<tenon_addr>(to.data()), UINT32_MAX,
                       reinterpret_cast<tenon_addr>(from.data()), 3, 4, 10, 20),
            TENON_OK);
  for (size_t i = 0; i < to.size(); ++i)
    EXPECT_EQ(to[i], i % 10 < 3 && i / 10 < 4 ? uint8_t(i / 10 * 20 + i % 10) : 9) << i;
  ASSERT_EQ(cpu().fill(cpu().self, nullptr, 0, reinterpret_cast<tenon_addr>(to.data()), 5, 100), TENON_OK);
  EXPECT_EQ(to, std::vector<uint8_t>(100, 5));
}

TEST(CpuBackend, RefusesDevicesThatItDoesNotHave) {
  tenon_addr address = 0;
  EXPECT_EQ(cpu().alloc(cpu().self, 1, TENON_MEMORY_DEVICE, 64, 64, &address), TENON_INVALID_ARGUMENT);
}

TEST(CpuBackend, StreamsAndEventsAreDoneAtOnce) {
  void *stream = nullptr, *event = nullptr;
  ASSERT_EQ(cpu().stream(cpu().self, 0, 0, &stream), TENON_OK);
  ASSERT_EQ(cpu().event(cpu().self, 0, &event), TENON_OK);
  EXPECT_EQ(cpu().record(cpu().self, event, stream), TENON_OK);
  EXPECT_EQ(cpu().wait(cpu().self, stream, event), TENON_OK);
  EXPECT_EQ(cpu().sync(cpu().self, event, 0), TENON_OK);
  cpu().destroy(cpu().self, TENON_HANDLE_EVENT, event);
  cpu().destroy(cpu().self, TENON_HANDLE_STREAM, stream);
}

}  // namespace
}  // namespace tenon::testing
