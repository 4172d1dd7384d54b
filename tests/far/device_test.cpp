// Memory that the host cannot reach, and streams that keep it waiting.
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>

#include "far.hpp"

namespace tenon::far_test {
namespace {

class DeviceTest : public FarTest {
 protected:
  tenon_status copy_later(uint32_t dst_dev, tenon_addr dst, uint32_t src_dev, tenon_addr src, uint64_t bytes) {
    return b->copy(b->self, stream, dst_dev, dst, src_dev, src, bytes, 1, bytes, bytes);
  }
};

// The system refuses to read there for us, which a read of ours would die of; so would a sanitizer's look at what the
// library's write() is given.
TEST_F(DeviceTest, AnAddressIsNoPointer) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  for (const uint64_t offset : {uint64_t(0), uint64_t(8), uint64_t(1) << 30}) {
    errno = 0;
    EXPECT_EQ(syscall(SYS_write, ends[1], alloc(64) + offset, 8), -1);
    EXPECT_EQ(errno, EFAULT);
  }
  close(ends[0]), close(ends[1]);
}

TEST_F(DeviceTest, AddressesAreNeverGivenTwice) {
  const tenon_addr first = alloc(64);
  release(first);
  EXPECT_NE(alloc(64), first);
  EXPECT_EQ(b->fill(b->self, nullptr, 0, first, 0, 8), TENON_INVALID_ARGUMENT);
  EXPECT_NE(kit.error().find("freed"), std::string::npos) << kit.error();
}

TEST_F(DeviceTest, RangesEndWithTheirBlock) {
  const tenon_addr a = alloc(100);
  alloc(100);
  EXPECT_EQ(b->fill(b->self, nullptr, 0, a + 36, 1, 64), TENON_OK);
  EXPECT_EQ(b->fill(b->self, nullptr, 0, a + 36, 1, 65), TENON_INVALID_ARGUMENT);
  EXPECT_EQ(b->fill(b->self, nullptr, 0, a - 1, 1, 2), TENON_INVALID_ARGUMENT);
}

TEST_F(DeviceTest, CopiesToldTheWrongSideAreRefused) {
  const tenon_addr a = alloc(64), other = alloc(64);
  uint8_t host[64];
  const auto copy = [&](uint32_t dst_dev, tenon_addr dst, uint32_t src_dev, tenon_addr src) {
    return b->copy(b->self, nullptr, dst_dev, dst, src_dev, src, 64, 1, 64, 64);
  };
  EXPECT_EQ(copy(0, a, kHost, other), TENON_INVALID_ARGUMENT);
  EXPECT_NE(kit.error().find("copied from"), std::string::npos) << kit.error();
  EXPECT_EQ(copy(kHost, a, 0, other), TENON_INVALID_ARGUMENT);
  EXPECT_EQ(copy(0, address_of(host), 0, a), TENON_INVALID_ARGUMENT);
  EXPECT_EQ(copy(0, a, 0, address_of(host)), TENON_INVALID_ARGUMENT);
  EXPECT_EQ(copy(1, a, 0, other), TENON_INVALID_ARGUMENT);
}

// The time between giving work and looking is out of our hands: a look that comes late is no look.
TEST_F(DeviceTest, WhoDoesNotWaitReadsPoison) {
  const tenon_addr a = floats({1, 2, 3, 4});
  for (int attempt = 0; attempt < 20; ++attempt) {
    std::vector<float> host(4, 7);
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_EQ(copy_later(kHost, address_of(host.data()), 0, a, 16), TENON_OK);
    const std::vector<float> seen = host;
    const bool in_time = std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(100);
    ASSERT_EQ(sync(), TENON_OK);
    EXPECT_EQ(host, (std::vector<float>{1, 2, 3, 4}));
    if (!in_time) continue;
    for (const float value : seen) EXPECT_TRUE(std::isnan(value)) << value;
    return;
  }
  FAIL() << "the machine is too busy for this test";
}

TEST_F(DeviceTest, ASourceThatChangesBeforeTheWaitIsReadChanged) {
  const tenon_addr a = alloc(16);
  for (int attempt = 0; attempt < 20; ++attempt) {
    std::vector<float> host = {1, 1, 1, 1};
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_EQ(copy_later(0, a, kHost, address_of(host.data()), 16), TENON_OK);
    host = {2, 2, 2, 2};
    const bool in_time = std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(100);
    ASSERT_EQ(sync(), TENON_OK);
    if (!in_time) continue;
    EXPECT_EQ(read(a, 4), host);
    return;
  }
  FAIL() << "the machine is too busy for this test";
}

TEST_F(DeviceTest, WorkIsDoneEvenIfNobodyWaits) {
  const tenon_addr a = alloc(4);
  ASSERT_EQ(b->fill(b->self, stream, 0, a, 0, 4), TENON_OK);
  ASSERT_EQ(b->fill(b->self, stream, 0, a, 0x11, 4), TENON_OK);
  float wanted;
  std::memset(&wanted, 0x11, 4);
  for (int i = 0; i < 2000 && read(a, 1)[0] != wanted; ++i) usleep(10000);
  EXPECT_EQ(read(a, 1)[0], wanted);
}

TEST_F(DeviceTest, AWaitMayEndBeforeTheWork) {
  constexpr uint64_t kBytes = 64 << 20;
  const tenon_addr from = alloc(kBytes), to = alloc(kBytes);
  ASSERT_EQ(copy_later(0, to, 0, from, kBytes), TENON_OK);
  EXPECT_EQ(sync(1), TENON_CANCELLED);
  EXPECT_EQ(sync(), TENON_OK);
  EXPECT_EQ(sync(UINT64_MAX), TENON_OK) << "nothing is left to wait for";
}

TEST_F(DeviceTest, AFailureIsToldOnceAndWhatFollowsItIsLeftOut) {
  const tenon_addr a = alloc(64), gone = alloc(64);
  void* event = nullptr;
  ASSERT_EQ(b->event(b->self, 0, &event), TENON_OK);
  ASSERT_EQ(b->fill(b->self, stream, 0, gone, 1, 64), TENON_OK);
  ASSERT_EQ(b->fill(b->self, stream, 0, a, 1, 64), TENON_OK);
  ASSERT_EQ(b->record(b->self, event, stream), TENON_OK);
  release(gone);
  EXPECT_EQ(b->sync(b->self, event, 0), TENON_INVALID_ARGUMENT);
  EXPECT_NE(kit.error().find("what is filled"), std::string::npos) << kit.error();
  EXPECT_EQ(sync(), TENON_INVALID_ARGUMENT);
  EXPECT_NE(kit.error().find("what is filled"), std::string::npos) << kit.error();
  EXPECT_EQ(sync(), TENON_OK);
  EXPECT_EQ(read(a, 1)[0], 0.0f);
  ASSERT_EQ(b->fill(b->self, stream, 0, a, 1, 64), TENON_OK);
  EXPECT_EQ(sync(), TENON_OK);
  EXPECT_NE(read(a, 1)[0], 0.0f);
  b->destroy(b->self, TENON_HANDLE_EVENT, event);
}

TEST_F(DeviceTest, WrongAndOldHandlesAreRefused) {
  void *event = nullptr, *other = nullptr;
  ASSERT_EQ(b->event(b->self, 0, &event), TENON_OK);
  ASSERT_EQ(b->stream(b->self, 0, 0, &other), TENON_OK);
  EXPECT_EQ(b->fill(b->self, event, 0, alloc(8), 0, 8), TENON_INVALID_ARGUMENT);
  EXPECT_EQ(b->record(b->self, stream, event), TENON_INVALID_ARGUMENT);
  b->destroy(b->self, TENON_HANDLE_STREAM, other);
  EXPECT_EQ(b->sync(b->self, other, 0), TENON_INVALID_ARGUMENT);
  b->destroy(b->self, TENON_HANDLE_EVENT, event);
  EXPECT_EQ(b->sync(b->self, event, 0), TENON_INVALID_ARGUMENT);
  void* graph = nullptr;
  EXPECT_EQ(b->capture_end(b->self, stream, &graph), TENON_INVALID_ARGUMENT);
  ASSERT_EQ(b->capture_begin(b->self, stream), TENON_OK);
  EXPECT_EQ(b->capture_begin(b->self, stream), TENON_INVALID_ARGUMENT);
  EXPECT_EQ(sync(), TENON_INVALID_ARGUMENT) << "a capturing stream does nothing that could be waited for";
  ASSERT_EQ(b->capture_end(b->self, stream, &graph), TENON_OK);
  b->destroy(b->self, TENON_HANDLE_GRAPH, graph);
  EXPECT_EQ(b->replay(b->self, graph, stream), TENON_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace tenon::far_test
