// The reference's device: memory, copies, streams.
#include <gtest/gtest.h>

#include "conformance.hpp"

namespace tenon::testing {
namespace {

class ReferenceBackend : public ::testing::Test {
 protected:
  void SetUp() override {
    load_reference();
    backend_ = &Kit::instance().backend("reference");
  }
  tenon_addr alloc(uint64_t bytes, uint64_t align = 64) {
    tenon_addr address = 0;
    EXPECT_EQ(backend_->alloc(backend_->self, 0, TENON_MEMORY_DEVICE, bytes, align, &address), TENON_OK);
    return address;
  }
  void release(tenon_addr address) { backend_->free(backend_->self, 0, TENON_MEMORY_DEVICE, address); }
  static uint8_t* bytes(tenon_addr address) { return reinterpret_cast<uint8_t*>(address); }
  const tenon_backend* backend_ = nullptr;
};

TEST_F(ReferenceBackend, OffersOneDeviceOnHostMemory) {
  uint32_t n = 0;
  const tenon_device* const* devices = nullptr;
  ASSERT_EQ(backend_->devices(backend_->self, &n, &devices), TENON_OK);
  ASSERT_EQ(n, 1u);
  EXPECT_EQ(devices[0]->max_workers, 1u);
  EXPECT_EQ(backend_->flags, uint32_t(TENON_BACKEND_HOST_MEMORY));
}

TEST_F(ReferenceBackend, MemoryIsZeroedAndAligned) {
  const tenon_addr address = alloc(1000, 4096);
  EXPECT_EQ(address % 4096, 0u);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(bytes(address)[i], 0);
  release(address);
}

TEST_F(ReferenceBackend, TooMuchMemoryIsAnAnswer) {
  tenon_addr address = 7;
  for (const uint64_t size : {uint64_t(1) << 60, ~uint64_t(0), ~uint64_t(0) - 70}) {
    EXPECT_EQ(backend_->alloc(backend_->self, 0, TENON_MEMORY_DEVICE, size, 64, &address), TENON_OUT_OF_MEMORY);
    EXPECT_EQ(address, 7u);
  }
  EXPECT_EQ(backend_->alloc(backend_->self, 0, TENON_MEMORY_DEVICE, 64, 96, &address), TENON_INVALID_ARGUMENT);
}

TEST_F(ReferenceBackend, CopiesRowsAndFills) {
  const tenon_addr from = alloc(64), to = alloc(64);
  for (uint8_t i = 0; i < 64; ++i) bytes(from)[i] = i;
  ASSERT_EQ(backend_->fill(backend_->self, nullptr, 0, to, 0xee, 64), TENON_OK);
  ASSERT_EQ(backend_->copy(backend_->self, nullptr, 0, to, 0, from, 3, 4, 5, 16), TENON_OK);
  for (int r = 0; r < 4; ++r)
    for (int c = 0; c < 5; ++c) EXPECT_EQ(bytes(to)[r * 5 + c], c < 3 ? r * 16 + c : 0xee);
  release(from), release(to);
}

TEST_F(ReferenceBackend, StreamsAndEventsAreDoneAtOnce) {
  void *stream = nullptr, *event = nullptr;
  ASSERT_EQ(backend_->stream(backend_->self, 0, 0, &stream), TENON_OK);
  ASSERT_EQ(backend_->event(backend_->self, 0, &event), TENON_OK);
  ASSERT_TRUE(stream && event);
  EXPECT_EQ(backend_->record(backend_->self, event, stream), TENON_OK);
  EXPECT_EQ(backend_->wait(backend_->self, stream, event), TENON_OK);
  EXPECT_EQ(backend_->sync(backend_->self, event, 1), TENON_OK);
  backend_->destroy(backend_->self, TENON_HANDLE_EVENT, event);
  backend_->destroy(backend_->self, TENON_HANDLE_STREAM, stream);
}

}  // namespace
}  // namespace tenon::testing
