// An exception in any callback of a kernel ends at the plugin's edge, as a status and a message.
#include <gtest/gtest.h>

#include <new>
#include <tenon/sdk/plugin.hpp>

#include "plugin/host_table.hpp"
#include "plugin/message.hpp"

namespace tenon::test {
namespace {

using namespace sdk;

enum class Kind { kRuntime, kStatus, kMemory, kInteger, kHost };

[[noreturn]] void raise(Kind kind) {
  switch (kind) {
    case Kind::kStatus:
      throw sdk::Error(TENON_CAPACITY, "no pages left");
    case Kind::kMemory:
      throw std::bad_alloc();
    case Kind::kInteger:
      throw 7;
    case Kind::kHost: {
      tenon_value value{};
      check(host().config(host().self, to_str("test.never"), &value));
      throw std::logic_error("unreachable");
    }
    case Kind::kRuntime:
      break;
  }
  throw std::runtime_error("broken");
}

class Throwing final : public Kernel {
 public:
  explicit Throwing(Kind kind) : kind_(kind) {}
  Offer accept(const Node&, const Device&) const override { raise(kind_); }
  void pack(const Node&, const PackSlice&) const override { raise(kind_); }
  void plan(const Node&, const PlanRequest&, tenon_plan&) const override { raise(kind_); }
  void launch(const tenon_plan&, const Args&, const Worker&) const override { raise(kind_); }
  void drop(tenon_plan&) const override { raise(kind_); }

 private:
  Kind kind_;
};

void expect_everywhere(Kind kind, tenon_status status, const std::string& message) {
  host_slot() = plugin::host_table();
  const KernelRecord record("throwing", {.pattern = "add", .numeric_class = "x"}, std::make_unique<Throwing>(kind));
  const tenon_kernel* kernel = record.table();
  tenon_node node{};
  tenon_device device{};
  tenon_offer offer{};
  tenon_pack pack{};
  tenon_plan plan{};
  const auto expect = [&](tenon_status found) {
    EXPECT_EQ(found, status);
    EXPECT_EQ(plugin::take_message(), message);
  };
  expect(kernel->accept(kernel, &node, &device, &offer));
  expect(kernel->pack(kernel, &node, &pack));
  expect(kernel->plan(kernel, &node, 1, 1, 1, &plan));
  expect(kernel->launch(kernel, &plan, nullptr, nullptr));
  kernel->drop(kernel, &plan);
  EXPECT_EQ(plugin::take_message(), message);
}

TEST(SdkGuard, EveryKindOfExceptionBecomesAStatus) {
  expect_everywhere(Kind::kRuntime, TENON_INTERNAL, "broken");
  expect_everywhere(Kind::kStatus, TENON_CAPACITY, "no pages left");
  expect_everywhere(Kind::kMemory, TENON_OUT_OF_MEMORY, "out of memory");
  expect_everywhere(Kind::kInteger, TENON_INTERNAL, "unknown exception");
  expect_everywhere(Kind::kHost, TENON_NOT_FOUND, "no configuration value of that name");
}

TEST(SdkGuard, AFailedRegistrationKeepsTheHostsMessage) {
  host_slot() = plugin::host_table();
  tenon_registrar table{};
  table.format = [](void*, const tenon_format*) noexcept {
    return plugin::set_message(TENON_INVALID_ARGUMENT, "taken");
  };
  EXPECT_EQ(guard([&] { Registrar(&table).format(nullptr); }), TENON_INVALID_ARGUMENT);
  EXPECT_EQ(plugin::take_message(), "taken");
}

}  // namespace
}  // namespace tenon::test
