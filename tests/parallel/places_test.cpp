// Which device each rank is on.
#include <gtest/gtest.h>
#include <tenon/error.hpp>

#include <functional>
#include <string>
#include <vector>

#include "engine/places.hpp"
#include "models.hpp"

namespace tenon {
namespace {

using engine::devices_of_ranks;
using engine::refuse_shared_devices;
using Numbers = std::vector<uint32_t>;

std::string refusal(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage) << error.what();
    return error.what();
  }
  return "";
}

TEST(Places, RankAfterRankWhereThereAreAsManyDevices) {
  EXPECT_EQ(devices_of_ranks({}, 3, 4, "cuda"), (Numbers{0, 1, 2}));
  EXPECT_EQ(devices_of_ranks({}, 3, 3, "cuda"), (Numbers{0, 1, 2}));
  EXPECT_EQ(devices_of_ranks({}, 3, 1, "cpu"), (Numbers{0, 0, 0}));
  EXPECT_EQ(devices_of_ranks({}, 3, 2, "cuda"), (Numbers{0, 0, 0}));
  EXPECT_EQ(devices_of_ranks(Numbers{3, 1}, 2, 4, "cuda"), (Numbers{3, 1}));
}

TEST(Places, RefusalsNameTheNumberAndWhatThereIs) {
  EXPECT_EQ(refusal([] { devices_of_ranks(Numbers{0, 7}, 2, 2, "cuda"); }), "--devices: no device 7: backend cuda has 2 devices, numbers 0 to 1");
  EXPECT_EQ(refusal([] { devices_of_ranks(Numbers{1}, 1, 1, "cpu"); }), "--devices: no device 1: backend cpu has 1 device, number 0");
  EXPECT_EQ(refusal([] { devices_of_ranks(Numbers{0, 1, 2}, 2, 4, "cuda"); }), "--devices: 3 devices are named for 2 ranks");
  EXPECT_EQ(refusal([] { refuse_shared_devices(Numbers{0, 1, 0}, 2, "cuda"); }),
            "device 0 for ranks 0 and 2: each rank needs a device of its own; backend cuda has 2 devices, numbers 0 to 1");
  EXPECT_EQ(refusal([] { refuse_shared_devices(Numbers{1, 0, 2}, 3, "cuda"); }), "");
}

// Memory of the host is everybody's: one device serves all ranks.
TEST(Places, AModelTakesTheDevicesThatItIsGiven) {
  ModelOptions options = parallel_test::options_for(parallel_test::cuttable("qwen3"));
  options.tensor_parallel = 2, options.devices = {0, 0};
  EXPECT_EQ(parallel_test::engine().load(options)->info().n_ranks, 2u);
  options.devices = {0, 1};
  EXPECT_NE(refusal([&] { parallel_test::engine().load(options); }).find("no device 1: backend cpu has 1 device"), std::string::npos);
  options.tensor_parallel = 1, options.devices = {3};
  EXPECT_NE(refusal([&] { parallel_test::engine().load(options); }).find("no device 3"), std::string::npos);
}

}  // namespace
}  // namespace tenon
