// What `tenon plugins list|verify|info` print.
#include "plugin/report.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <tenon/error.hpp>

#include "plugin_tree.hpp"

namespace tenon::test {
namespace {

using nlohmann::json;

TEST(PluginReport, ListOpensNothing) {
  PluginTree tree;
  tree.add("fake"), tree.add("fake_failing");
  const plugin::PluginHost host = host_of(tree.path());
  const json out = json::parse(plugin::report_list(host, true));
  ASSERT_EQ(out["plugins"].size(), 2u);
  const json& first = out["plugins"][0];
  EXPECT_EQ(first["name"], "fake");
  EXPECT_EQ(first["version"], "1.2.3");
  EXPECT_EQ(first["kind"], "format");
  EXPECT_EQ(first["state"], "found");
  EXPECT_EQ(first["refusal"], nullptr);
  EXPECT_EQ(first["library"], (tree.path() / "libtenon_fake.so").string());
  EXPECT_EQ(first["provides"]["format_magics"], json::array({"FAKE"}));
  EXPECT_EQ(out["search_path"][0]["path"], tree.path().string());
  const std::string text = plugin::report_list(host, false);
  EXPECT_NE(text.find("fake          1.2.3    format        found    formats fake\n"), std::string::npos) << text;
  EXPECT_EQ(host.n_opened_libraries(), 0u);
}

TEST(PluginReport, ListSaysWhichLibraryIsNotThere) {
  PluginTree tree;
  fs::remove(tree.add("fake"));
  const plugin::PluginHost host = host_of(tree.path());
  EXPECT_EQ(json::parse(plugin::report_list(host, true))["plugins"][0]["state"], "missing");
}

TEST(PluginReport, VerifyOpensAllAndSaysWhatIsWrong) {
  PluginTree tree;
  tree.add("fake");
  bool all_good = false;
  plugin::PluginHost good = host_of(tree.path());
  EXPECT_NE(plugin::report_verify(good, false, &all_good).find("1 good, 0 refused\n"), std::string::npos);
  EXPECT_TRUE(all_good);

  tree.add("fake_failing");
  plugin::PluginHost mixed = host_of(tree.path());
  const json out = json::parse(plugin::report_verify(mixed, true, &all_good));
  EXPECT_FALSE(all_good);
  EXPECT_EQ(out["all_good"], false);
  EXPECT_EQ(out["plugins"][0]["state"], "opened");
  EXPECT_EQ(out["plugins"][1]["state"], "refused");
  EXPECT_NE(out["plugins"][1]["refusal"].get<std::string>().find("no such device here"), std::string::npos);
  const std::string text = plugin::report_verify(mixed, false, &all_good);
  EXPECT_NE(text.find("  refused: "), std::string::npos) << text;
  EXPECT_NE(text.find("1 good, 1 refused\n"), std::string::npos) << text;
}

TEST(PluginReport, NoPluginAtAllIsNotGood) {
  PluginTree tree;
  plugin::PluginHost host = host_of(tree.path());
  bool all_good = true;
  EXPECT_NE(plugin::report_verify(host, false, &all_good).find("no plugins found"), std::string::npos);
  EXPECT_FALSE(all_good);
}

TEST(PluginReport, InfoShowsWhatALibraryRegistered) {
  PluginTree tree;
  tree.add("fake"), tree.add("fake_failing");
  plugin::PluginHost host = host_of(tree.path());
  const json out = json::parse(plugin::report_info(host, "fake", true));
  EXPECT_EQ(out["registered"]["formats"], json::array({"fake"}));
  EXPECT_EQ(out["licence"], "Apache-2.0");
  EXPECT_EQ(host.n_opened_libraries(), 1u);
  const std::string text = plugin::report_info(host, "fake_failing", false);
  EXPECT_NE(text.find("state           refused\n"), std::string::npos) << text;
  EXPECT_NE(text.find("no such device here"), std::string::npos) << text;
  try {
    plugin::report_info(host, "cuda", false);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_STREQ(error.what(), "no plugin is named cuda; there are fake fake_failing");
  }
}

TEST(PluginReport, BytesOfAManifestDoNotReachTheTerminal) {
  PluginTree tree;
  const fs::path manifest = tree.add("fake").string() + ".tenon.txtpb";
  std::string text = read_file(manifest);
  text.replace(text.find("\"FAKE\""), 6, "\"\\033[31m\\377\"");
  text.replace(text.find("\"1.2.3\""), 7, "\"\\033]0;x\"");
  write_file(manifest, text);
  const plugin::PluginHost host = host_of(tree.path());
  ASSERT_EQ(host.plugins()[0].refusal, "");
  const json out = json::parse(plugin::report_list(host, true));
  EXPECT_EQ(out["plugins"][0]["provides"]["format_magics"][0], "\\x1b[31m\\xff");
  EXPECT_EQ(plugin::report_list(host, false).find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace tenon::test
