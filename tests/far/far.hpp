// far.hpp: the far device with shorthands for its calls.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "op_harness.hpp"

namespace tenon::far_test {

constexpr uint32_t kHost = UINT32_MAX;

inline tenon_addr address_of(const void* pointer) { return reinterpret_cast<tenon_addr>(pointer); }

class FarTest : public ::testing::Test {
 protected:
  FarTest() : kit(testing::Kit::instance()) {
    for (const char* name : {"far", "reference"}) kit.load(std::string(TENON_PLUGIN_DIR) + "/libtenon_" + name + ".so");
    b = &kit.backend("far");
    EXPECT_EQ(b->stream(b->self, 0, 0, &stream), TENON_OK);
  }
  ~FarTest() override {
    b->destroy(b->self, TENON_HANDLE_STREAM, stream);
    for (const tenon_addr address : held_) b->free(b->self, 0, TENON_MEMORY_DEVICE, address);
  }
  tenon_addr alloc(uint64_t bytes) {
    tenon_addr out = 0;
    EXPECT_EQ(b->alloc(b->self, 0, TENON_MEMORY_DEVICE, bytes, 64, &out), TENON_OK) << kit.error();
    held_.push_back(out);
    return out;
  }
  void release(tenon_addr address) {
    std::erase(held_, address);
    b->free(b->self, 0, TENON_MEMORY_DEVICE, address);
  }
  tenon_addr floats(const std::vector<float>& values) {
    const tenon_addr out = alloc(values.size() * 4);
    write(out, values);
    return out;
  }
  void write(tenon_addr to, const std::vector<float>& values) {
    const uint64_t bytes = values.size() * 4;
    EXPECT_EQ(b->copy(b->self, nullptr, 0, to, kHost, address_of(values.data()), bytes, 1, bytes, bytes), TENON_OK);
  }
  std::vector<float> read(tenon_addr from, size_t n) {
    std::vector<float> out(n, -1);
    EXPECT_EQ(b->copy(b->self, nullptr, kHost, address_of(out.data()), 0, from, n * 4, 1, n * 4, n * 4), TENON_OK)
        << kit.error();
    return out;
  }
  tenon_status sync(uint64_t timeout_ns = 0) { return b->sync(b->self, stream, timeout_ns); }
  // The message of a call that failed, "" of one that did not.
  std::string message(tenon_status status) { return status == TENON_OK ? "" : kit.error(); }

  testing::Kit& kit;
  const tenon_backend* b = nullptr;
  void* stream = nullptr;

 private:
  std::vector<tenon_addr> held_;
};

}  // namespace tenon::far_test
