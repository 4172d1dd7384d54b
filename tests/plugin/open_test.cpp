// Libraries are opened when something they provide is wanted, not before.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "plugin/host_table.hpp"
#include "plugin_tree.hpp"

namespace tenon::test {
namespace {

using Bytes = std::vector<uint8_t>;
Bytes bytes(std::string_view text) { return {text.begin(), text.end()}; }

TEST(PluginOpen, ReadingManifestsOpensNothing) {
  PluginTree tree;
  tree.add("fake"), tree.add("fake_magic"), tree.add("fake_failing");
  plugin::PluginHost host = host_of(tree.path());
  ASSERT_EQ(host.plugins().size(), 3u);
  for (const plugin::PluginRecord& record : host.plugins()) {
    EXPECT_EQ(record.refusal, "");
    EXPECT_FALSE(record.opened);
  }
  EXPECT_EQ(host.n_opened_libraries(), 0u);
}

TEST(PluginOpen, AFileOfAnotherFormatOpensNothing) {
  PluginTree tree;
  tree.add("fake");
  plugin::PluginHost host = host_of(tree.path());
  EXPECT_EQ(host.open_formats(bytes("GGUF...."), "model.gguf"), 0u);
  EXPECT_EQ(host.open_formats(bytes("FAK"), "model"), 0u);  // shorter than the magic
  EXPECT_EQ(host.open_architectures({}), 0u);
  EXPECT_EQ(host.open_backend(""), 0u);
  EXPECT_EQ(host.open_kernels("cpu"), 0u);
  EXPECT_EQ(host.n_opened_libraries(), 0u);
}

TEST(PluginOpen, TheMagicOrTheExtensionOpensAFormat) {
  PluginTree tree;
  tree.add("fake");
  plugin::PluginHost by_magic = host_of(tree.path());
  EXPECT_EQ(by_magic.open_formats(bytes("FAKE and more"), "model.bin"), 1u);
  EXPECT_TRUE(by_magic.plugins()[0].opened);
  EXPECT_EQ(by_magic.plugins()[0].licence, "Apache-2.0");
  EXPECT_EQ(by_magic.n_opened_libraries(), 1u);
  EXPECT_EQ(by_magic.open_formats(bytes("FAKE and more"), "model.bin"), 1u);  // still serves
  EXPECT_EQ(by_magic.n_opened_libraries(), 1u);
  ASSERT_EQ(by_magic.registry().formats.size(), 1u);

  plugin::PluginHost by_name = host_of(tree.path());
  EXPECT_EQ(by_name.open_formats(bytes("x"), "model.fake"), 1u);
  // The process initialised the library once: both hosts see the same table.
  EXPECT_EQ(by_name.registry().formats, by_magic.registry().formats);
}

TEST(PluginOpen, TheSecondOfTwoPluginsThatRegisterOneNameIsRefused) {
  PluginTree tree;
  tree.add("fake"), tree.add("fake_late");
  plugin::PluginHost host = host_of(tree.path());
  EXPECT_EQ(host.open_formats(bytes("FAKE"), ""), 1u);
  EXPECT_TRUE(host.plugins()[0].opened);
  EXPECT_NE(host.plugins()[1].refusal.find("format fake is already registered"), std::string::npos);
  EXPECT_EQ(host.registry().formats.size(), 1u);
  EXPECT_EQ(host.refusals(), "fake_late: " + host.plugins()[1].refusal);
  EXPECT_EQ(host.n_opened_libraries(), 2u);
}

// Names of the plugins that could serve an architecture, in the order in which they are asked.
std::vector<std::string> serving(plugin::PluginHost& host) {
  const std::vector<std::string> ids = {"fake.model"};
  host.open_architectures(ids);
  EXPECT_EQ(host.refusals(), "");
  std::vector<std::string> out;
  for (const auto& architecture : host.architectures()) out.push_back(architecture.plugin);
  return out;
}

TEST(PluginOpen, AnArchitectureIsServedByTheFirstOnTheSearchPathOrTheHigherPriority) {
  PluginTree tree;
  tree.add_architecture("fake_other_model", "a"), tree.add_architecture("fake_model", "b");
  const std::string a = tree.path() / "a", b = tree.path() / "b";
  plugin::PluginHost first({.plugin_path = {a, b}, .use_default_path = false});
  EXPECT_EQ(serving(first), (std::vector<std::string>{"fake_other_model 1.2.3", "fake_model 1.2.3"}));
  plugin::PluginHost second({.plugin_path = {b, a}, .use_default_path = false});
  EXPECT_EQ(serving(second), (std::vector<std::string>{"fake_model 1.2.3", "fake_other_model 1.2.3"}));

  PluginTree ranked;
  ranked.add_architecture("fake_other_model", "a"), ranked.add_architecture("fake_model", "b", 5);
  const std::string low = ranked.path() / "a", high = ranked.path() / "b";
  plugin::PluginHost third({.plugin_path = {low, high}, .use_default_path = false});
  EXPECT_EQ(serving(third), (std::vector<std::string>{"fake_model 1.2.3", "fake_other_model 1.2.3"}));
}

TEST(PluginOpen, TheOrderOfOpeningDoesNotDecideWhoServesAnArchitecture) {
  PluginTree tree;
  tree.add_architecture("fake_other_model", "a"), tree.add_architecture("fake_model", "b");
  plugin::PluginHost host({.plugin_path = {tree.path() / "a", tree.path() / "b"}, .use_default_path = false});
  EXPECT_TRUE(host.open(1));
  EXPECT_EQ(serving(host).at(0), "fake_other_model 1.2.3");
}

TEST(PluginOpen, TheHigherPriorityIsOpenedFirst) {
  PluginTree tree;
  tree.add("fake");
  const fs::path manifest = tree.add("fake_late").string() + ".tenon.txtpb";
  write_file(manifest, read_file(manifest) + "priority: 5\n");
  plugin::PluginHost host = host_of(tree.path());
  EXPECT_EQ(host.open_formats(bytes("FAKE"), ""), 1u);
  EXPECT_TRUE(host.plugins()[1].opened);
  EXPECT_FALSE(host.plugins()[0].opened);
}

TEST(PluginOpen, DtypeIdsAreTheSameForEveryHost) {
  PluginTree first, second;
  first.add("fake"), second.add("fake");
  plugin::set_config("fake.dtype", std::string_view("fake.a"));
  plugin::PluginHost one = host_of(first.path());
  one.verify_all();
  plugin::set_config("fake.dtype", std::string_view("fake.b"));
  plugin::PluginHost two = host_of(second.path());
  two.verify_all();
  plugin::set_config("fake.dtype", std::string_view(""));
  EXPECT_EQ(one.refusals() + two.refusals(), "");
  const uint32_t a = one.registry().dtype_id("fake.a"), b = two.registry().dtype_id("fake.b");
  EXPECT_GE(a, uint32_t(TENON_DTYPE_FIRST_REGISTERED));
  EXPECT_EQ(b, a + 1);
  EXPECT_EQ(two.registry().dtype_id("fake.a"), a);
  EXPECT_EQ(two.registry().dtype(b)->name.size, 6u);
  EXPECT_EQ(one.registry().dtype(b), nullptr);
}

TEST(PluginOpen, ManyThreadsOpenALibraryOnce) {
  PluginTree tree;
  tree.add("fake");
  plugin::PluginHost host = host_of(tree.path());
  std::vector<std::thread> threads;
  std::vector<size_t> served(4);
  for (size_t i = 0; i < served.size(); ++i)
    threads.emplace_back([&, i] { served[i] = host.open_formats(bytes("FAKE"), ""); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(served, std::vector<size_t>(4, 1));
  EXPECT_EQ(host.n_opened_libraries(), 1u);
  EXPECT_EQ(host.registry().formats.size(), 1u);
}

TEST(PluginOpen, ALibraryOutlivesItsHost) {
  const tenon_format* format = nullptr;
  {
    PluginTree tree;
    tree.add("fake");
    plugin::PluginHost host = host_of(tree.path());
    host.verify_all();
    ASSERT_EQ(host.registry().formats.size(), 1u);
    format = host.registry().formats[0];
  }
  tenon_value value{};
  EXPECT_EQ(format->meta(nullptr, 0, nullptr, &value), TENON_NOT_FOUND);
}

}  // namespace
}  // namespace tenon::test
