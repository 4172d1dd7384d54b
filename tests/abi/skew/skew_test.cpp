// Plugins built with the header of another release: tables with more members at their end work, records with fewer are
// refused with both sizes.
#include <gtest/gtest.h>
#include <tenon/abi.h>

#include <algorithm>
#include <string>

#include "plugin/plugin_host.hpp"

namespace tenon {
namespace {

class SkewTest : public ::testing::Test {
 protected:
  SkewTest() : host({{SKEW_DIR}, false}) { host.verify_all(); }
  std::string refusal_of(const std::string& name) const {
    for (const plugin::PluginRecord& record : host.plugins())
      if (record.name == name) return record.refusal;
    return "no such plugin";
  }
  bool has_format(std::string_view name) const {
    const auto& formats = host.registry().formats;
    return std::any_of(formats.begin(), formats.end(), [&](const tenon_format* one) {
      return std::string_view(one->name.data, size_t(one->name.size)) == name;
    });
  }
  void expect_refused(const std::string& name, uint64_t found, uint64_t expected) {
    const std::string wanted =
        "its table has " + std::to_string(found) + " bytes, expected " + std::to_string(expected);
    EXPECT_NE(refusal_of(name).find(wanted), std::string::npos) << refusal_of(name);
    EXPECT_FALSE(has_format(name));
  }
  plugin::PluginHost host;
};

TEST_F(SkewTest, MembersThatCameLaterAreLeftAlone) {
  EXPECT_EQ(refusal_of("skew_newer"), "");
  ASSERT_TRUE(has_format("skew_newer"));
  uint32_t score = 0;
  for (const tenon_format* one : host.registry().formats)
    if (one->struct_size > sizeof(tenon_format)) {
      EXPECT_EQ(one->probe(one->self, nullptr, 0, {}, &score), TENON_OK);
    }
  EXPECT_EQ(score, 1u);
}

TEST_F(SkewTest, APluginNeedNotKnowAllOfTheHost) {
  EXPECT_EQ(refusal_of("skew_older_host"), "");
  EXPECT_TRUE(has_format("skew_older_host"));
}

TEST_F(SkewTest, RecordsWithFewerMembersAreRefused) {
  expect_refused("skew_older_format", offsetof(tenon_format, layout), sizeof(tenon_format));
  expect_refused("skew_older_plugin", offsetof(tenon_plugin, shutdown), sizeof(tenon_plugin));
}

}  // namespace
}  // namespace tenon
