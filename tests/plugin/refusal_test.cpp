// Every reason for which a plugin is not used, and that the message says it.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "plugin/host_table.hpp"
#include "plugin/library.hpp"
#include "plugin_tree.hpp"

namespace tenon::test {
namespace {

void expect_in(const std::string& part, const std::string& text) {
  EXPECT_NE(text.find(part), std::string::npos) << "expected '" << part << "' in: " << text;
}

TEST(PluginRefusal, AGoodPluginIsNotRefused) {
  PluginTree tree;
  tree.add("fake");
  EXPECT_EQ(refusal_of(tree.path()), "");
}

// --- before anything of the library runs ---

void expect_unopened(const fs::path& directory, const std::string& part) {
  plugin::PluginHost host = host_of(directory);
  host.verify_all();
  ASSERT_FALSE(host.plugins().empty());
  expect_in(part, host.plugins()[0].refusal);
  EXPECT_EQ(host.n_opened_libraries(), 0u);
  EXPECT_TRUE(host.registry().formats.empty());
}

TEST(PluginRefusal, ADirectoryThatEveryoneCanWrite) {
  PluginTree tree;
  tree.add("fake");
  fs::permissions(tree.path(), fs::perms(0777));
  expect_unopened(tree.path(), "every user can write it (mode 0777)");
  expect_unopened(tree.path(), tree.path().string() + ":");
}

TEST(PluginRefusal, ADirectoryOfAStickyBitIsNoBetter) {
  PluginTree tree;
  tree.add("fake");
  ASSERT_EQ(chmod(tree.path().c_str(), 01777), 0);
  expect_unopened(tree.path(), "every user can write it (mode 1777)");
}

TEST(PluginRefusal, AManifestThatEveryoneCanWrite) {
  PluginTree tree;
  const fs::path library = tree.add("fake");
  fs::permissions(library.string() + ".tenon.txtpb", fs::perms(0666));
  expect_unopened(tree.path(), ".tenon.txtpb: every user can write it (mode 0666)");
}

TEST(PluginRefusal, ALibraryThatEveryoneCanWrite) {
  PluginTree tree;
  fs::permissions(tree.add("fake"), fs::perms(0757));
  expect_unopened(tree.path(), "libtenon_fake.so: every user can write it (mode 0757)");
}

TEST(PluginRefusal, AnInnerDirectoryThatEveryoneCanWrite) {
  PluginTree tree;
  const fs::path library = tree.add("fake", "inner");
  fs::remove(library.string() + ".tenon.txtpb");
  write_file(tree.path() / "x.tenon.txtpb", PluginTree::manifest("fake", "inner/libtenon_fake.so", sha256(library)));
  EXPECT_EQ(refusal_of(tree.path()), "");
  fs::permissions(tree.path() / "inner", fs::perms(0777));
  expect_unopened(tree.path(), "inner: every user can write it");
}

TEST(PluginRefusal, AGroupThatIsNotTheOwners) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file to another group";
  PluginTree tree;
  const fs::path library = tree.add("fake");
  fs::permissions(library, fs::perms(0775));
  EXPECT_EQ(refusal_of(tree.path()), "");  // root's own group
  ASSERT_EQ(chown(library.c_str(), 0, 4321), 0);
  fs::permissions(library, fs::perms(0775));
  expect_unopened(tree.path(), "group 4321 can write it (mode 0775)");
}

TEST(PluginRefusal, AnOwnerThatIsNeitherRootNorMe) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  PluginTree tree;
  const fs::path library = tree.add("fake");
  ASSERT_EQ(chown(library.c_str(), 4321, 0), 0);
  expect_unopened(tree.path(), "libtenon_fake.so: owned by user 4321");
  ASSERT_EQ(chown(tree.path().c_str(), 4321, 0), 0);
  expect_unopened(tree.path(), tree.path().string() + ": owned by user 4321");
}

TEST(PluginRefusal, AHashThatDiffers) {
  PluginTree tree;
  const fs::path library = tree.add("fake");
  write_file(library, read_file(library) + "x");
  expect_unopened(tree.path(), "its sha256 is " + sha256(library) + ", the manifest says ");
}

TEST(PluginRefusal, ALibraryThatIsMissing) {
  PluginTree tree;
  fs::remove(tree.add("fake"));
  expect_unopened(tree.path(), "libtenon_fake.so: No such file or directory");
}

TEST(PluginRefusal, ALinkOutOfTheDirectory) {
  PluginTree tree, elsewhere;
  const fs::path library = tree.add("fake"), target = elsewhere.add("fake");
  fs::remove(library);
  fs::create_symlink(target, library);
  expect_unopened(tree.path(), "leads to " + target.string() + ", outside of " + tree.path().string());
}

TEST(PluginRefusal, AnInnerDirectoryThatLinksOut) {
  PluginTree tree, elsewhere;
  const fs::path target = elsewhere.add("fake");
  fs::create_directory_symlink(elsewhere.path(), tree.path() / "inner");
  write_file(tree.path() / "x.tenon.txtpb", PluginTree::manifest("fake", "inner/libtenon_fake.so", sha256(target)));
  expect_unopened(tree.path(), "leads to " + target.string());
}

TEST(PluginRefusal, ADirectoryWhoseNameBeginsTheSameIsOutside) {
  PluginTree tree;
  const fs::path library = tree.add("fake", "plugins-more");
  const fs::path root = tree.path() / "plugins";
  fs::create_directory(root);
  fs::create_symlink(library, root / "libtenon_fake.so");
  PluginTree::rehash("fake", root / "libtenon_fake.so");
  expect_unopened(root, "outside of " + root.string());
}

TEST(PluginRefusal, AManifestThatIsALink) {
  PluginTree tree, elsewhere;
  const fs::path library = tree.add("fake");
  const fs::path manifest = library.string() + ".tenon.txtpb";
  fs::rename(manifest, elsewhere.path() / "m");
  fs::create_symlink(elsewhere.path() / "m", manifest);
  expect_unopened(tree.path(), "a link; expected a file");
}

TEST(PluginRefusal, AManifestThatIsNoFile) {
  PluginTree tree;
  ASSERT_EQ(mkfifo((tree.path() / "x.tenon.txtpb").c_str(), 0600), 0);
  expect_unopened(tree.path(), "x.tenon.txtpb: not a regular file");
}

TEST(PluginRefusal, AManifestThatIsTooLarge) {
  PluginTree tree;
  const fs::path library = tree.add("fake");
  const fs::path manifest = library.string() + ".tenon.txtpb";
  const std::string text = read_file(manifest);
  write_file(manifest, text + std::string((size_t(1) << 20) - text.size(), '\n'));
  EXPECT_EQ(refusal_of(tree.path()), "");
  write_file(manifest, text + std::string((size_t(1) << 20) - text.size() + 1, '\n'));
  expect_unopened(tree.path(), "1048577 bytes; a manifest has at most 1048576");
}

TEST(PluginRefusal, AnotherVersionOfTheInterfaceInTheManifest) {
  PluginTree tree;
  const fs::path library = tree.add("fake");
  const fs::path manifest = library.string() + ".tenon.txtpb";
  std::string text = read_file(manifest);
  const std::string line = "abi_minor: " + std::to_string(TENON_ABI_MINOR);
  text.replace(text.find(line), line.size(), "abi_minor: 77");
  write_file(manifest, text);
  expect_unopened(tree.path(),
                  "built for plugin interface 0.77, this program has 0." + std::to_string(TENON_ABI_MINOR));
}

TEST(PluginRefusal, ATruncatedLibrary) {
  PluginTree tree;
  const fs::path library = tree.add("fake");
  const std::string whole = read_file(library);
  for (const size_t size :
       {size_t(0), size_t(3), size_t(63), size_t(100), whole.size() / 4, whole.size() / 2, whole.size() - 1}) {
    write_file(library, whole.substr(0, size));
    PluginTree::rehash("fake", library);
    SCOPED_TRACE(size);
    expect_unopened(tree.path(), size < 64 ? "not an ELF file" : "truncated");
  }
}

// A byte of the ELF header replaced.
void expect_unopened_with(size_t offset, char byte, const std::string& part) {
  PluginTree tree;
  const fs::path library = tree.add("fake");
  std::string bytes = read_file(library);
  bytes[offset] = byte;
  write_file(library, bytes);
  PluginTree::rehash("fake", library);
  expect_unopened(tree.path(), part);
}

TEST(PluginRefusal, ALibraryForAnotherMachine) {
  expect_unopened_with(0, 'x', "not an ELF file");
  expect_unopened_with(4, 1, "not a 64-bit library");
  expect_unopened_with(5, 2, "byte order");
  expect_unopened_with(18, 8, "built for machine 8");
  expect_unopened_with(16, 2, "not a shared library");
}

TEST(PluginRefusal, ALibraryWithoutTheEntry) {
  PluginTree tree;
  const fs::path library = tree.path() / "libtenon_fake.so";
  fs::copy_file(fs::path(FAKE_DIR) / "libtenon_fake_no_entry.so", library);
  PluginTree::rehash("fake", library);
  expect_unopened(tree.path(), "libtenon_fake.so: exports no tenon_plugin_entry()");
}

// The check alone: a library whose hash fits is trusted, and what passes here is the system loader's.
TEST(PluginRefusal, HostileHeadersAreReadSafely) {
  PluginTree tree;
  const fs::path library = tree.add("fake");
  const std::string whole = read_file(library);
  int n_refused = 0;
  for (size_t offset = 0; offset < 64; ++offset)
    for (const char byte : {char(0xff), char(0x7f), char(0)}) {
      std::string bytes = whole;
      bytes[offset] = byte;
      write_file(library, bytes);
      n_refused += !plugin::library_fault(tree.path(), library.filename(), sha256(library)).empty();
    }
  EXPECT_GT(n_refused, 64);  // the rest of the bytes matter to nobody here, such as the entry point's
}

// --- the library is opened, and its table is looked at ---

void expect_refused(const std::string& fake, const std::string& part) {
  PluginTree tree;
  tree.add(fake);
  expect_in(part, refusal_of(tree.path()));
  expect_in("libtenon_" + fake + ".so: ", refusal_of(tree.path()));  // again, by a second host
}

TEST(PluginRefusal, AnEntryThatAnswersNull) { expect_refused("fake_null", "answered null"); }
TEST(PluginRefusal, AnEntryThatThrows) { expect_refused("fake_entry_throws", "threw an exception: no entry today"); }
TEST(PluginRefusal, AWrongMagicNumber) { expect_refused("fake_magic", "without Tenon's magic number"); }
TEST(PluginRefusal, AnotherMajorVersion) {
  expect_refused("fake_major", "built for plugin interface " + std::to_string(TENON_ABI_MAJOR + 1) + "." +
                                   std::to_string(TENON_ABI_MINOR) + ", this program has " +
                                   std::to_string(TENON_ABI_MAJOR) + "." + std::to_string(TENON_ABI_MINOR));
}
TEST(PluginRefusal, ANewerMinorVersion) {
  expect_refused("fake_newer", "built for plugin interface " + std::to_string(TENON_ABI_MAJOR) + "." +
                                   std::to_string(TENON_ABI_MINOR + 1));
}
TEST(PluginRefusal, ATableThatIsTooShort) { expect_refused("fake_short", "its table has 40 bytes"); }
TEST(PluginRefusal, ATableWithoutInit) { expect_refused("fake_no_init", "no init()"); }
TEST(PluginRefusal, AnInitThatFails) {
  expect_refused("fake_failing", "init() failed: unsupported: no such device here");
}
TEST(PluginRefusal, AnInitThatThrows) { expect_refused("fake_throwing", "init() threw an exception: out of cheese"); }
TEST(PluginRefusal, AnInitThatEndsTheProgramIsNamed) {
  PluginTree tree;
  tree.add("fake_exiting");
  EXPECT_EXIT(refusal_of(tree.path()), ::testing::ExitedWithCode(3), "libtenon_fake_exiting.so ended the program");
}
TEST(PluginRefusal, ARecordThatIsRegisteredTwice) { expect_refused("fake_twice", "format fake is already registered"); }
TEST(PluginRefusal, ARecordWithoutItsFunctions) {
  expect_refused("fake_bad_record", "format fake: expected a scheme, probe");
}
TEST(PluginRefusal, AManifestWhosePromiseIsNotKept) { expect_refused("fake_empty", "promises format fake"); }
TEST(PluginRefusal, AManifestWithAnotherName) {
  expect_refused("fake_liar", "the manifest says the name is fake_liar, the library says somebody");
}

TEST(PluginRefusal, AManifestWithAnotherVersion) {
  PluginTree tree;
  const fs::path library = tree.add("fake");
  const fs::path manifest = library.string() + ".tenon.txtpb";
  std::string text = read_file(manifest);
  text.replace(text.find("1.2.3"), 5, "1.2.4");
  write_file(manifest, text);
  expect_in("the manifest says the version is 1.2.4, the library says 1.2.3", refusal_of(tree.path()));
}

TEST(PluginRefusal, AFailedInitLeavesNoDtype) {
  plugin::set_config("fake.dtype", std::string_view("fake.gone"));
  const size_t before = plugin::n_dtypes();
  for (const char* fake : {"fake_failing", "fake_throwing", "fake_twice"}) {
    PluginTree tree;
    tree.add(fake);
    EXPECT_NE(refusal_of(tree.path()), "");
    EXPECT_EQ(plugin::n_dtypes(), before);
    uint32_t id = 0;
    const tenon_host* host = plugin::host_table();
    EXPECT_EQ(host->dtype_id(host->self, {"fake.gone", 9}, &id), TENON_NOT_FOUND);
    EXPECT_EQ(host->dtype(host->self, uint32_t(TENON_DTYPE_FIRST_REGISTERED + before)), nullptr);
  }
  // The name is free for one that succeeds, and then taken for the next.
  PluginTree first, second;
  first.add("fake"), second.add("fake");
  EXPECT_EQ(refusal_of(first.path()), "");
  EXPECT_EQ(plugin::n_dtypes(), before + 1);
  expect_in("dtype fake.gone is already registered", refusal_of(second.path()));
  plugin::set_config("fake.dtype", std::string_view(""));
}

TEST(PluginRefusal, ARegistrarThatIsUsedAfterInit) {
  PluginTree tree;
  tree.add("fake_late");
  plugin::PluginHost host = host_of(tree.path());
  host.verify_all();
  ASSERT_EQ(host.registry().formats.size(), 1u);
  const tenon_format* format = host.registry().formats[0];
  uint32_t score = 0;
  EXPECT_EQ(format->probe(format->self, nullptr, 0, {"", 0}, &score), TENON_INVALID_ARGUMENT);
  expect_in("during init() only", plugin::take_message());
  EXPECT_EQ(host.registry().formats.size(), 1u);
}

}  // namespace
}  // namespace tenon::test
