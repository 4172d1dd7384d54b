// The kit finds each planted fault by the check that is meant for it, and passes sound plugins.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <tenon/error.hpp>
#include <tenon/kit.hpp>

namespace tenon::kit {
namespace {

namespace fs = std::filesystem;

// A directory with one valid file of the tests' own format.
const std::string& seeds() {
  static const std::string path = [] {
    std::string pattern = (fs::temp_directory_path() / "tenon-kit-XXXXXX").string();
    if (!mkdtemp(pattern.data())) throw std::runtime_error("no temporary directory");
    std::string bytes = "KITF";
    const auto put = [&](auto value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); };
    put(uint32_t(3));
    for (uint64_t i = 0; i < 3; ++i) put(uint64_t(56 + i * 40)), put(uint64_t(40));
    bytes.resize(56 + 120, 'd');
    std::ofstream(fs::path(pattern) / "three.kitf", std::ios::binary) << bytes;
    return pattern;
  }();
  return path;
}

class SeedsAreRemoved : public ::testing::Environment {
  void TearDown() override {
    std::error_code ignored;
    fs::remove_all(seeds(), ignored);
  }
};
[[maybe_unused]] const auto* const environment =
    ::testing::AddGlobalTestEnvironment(std::make_unique<SeedsAreRemoved>().release());

KitOptions options_for(const std::string& library) {
  KitOptions options;
  options.library = library, options.plugin_path = {TREE_PLUGINS}, options.use_default_path = false;
  options.files = seeds();
  return options;
}

KitReport report_on(const std::string& name, const std::string& only = "", uint32_t timeout_s = 120) {
  KitOptions options = options_for(std::string(KIT_PLUGINS) + "/libtenon_" + name + ".so");
  options.only = only, options.timeout_s = timeout_s;
  return test_plugin(options);
}

// The failed check whose name contains `part`; null when there is none.
const CheckResult* failure(const KitReport& report, const std::string& part) {
  for (const CheckResult& check : report.checks)
    if (check.verdict == Verdict::kFail && check.name.find(part) != std::string::npos) return &check;
  return nullptr;
}

struct Planted {
  const char *plugin, *check, *reason;
};
std::ostream& operator<<(std::ostream& out, const Planted& planted) { return out << planted.check; }

class Faults : public ::testing::TestWithParam<Planted> {};

TEST_P(Faults, AreFoundByTheCheckMeantForThem) {
  const KitReport report = report_on(GetParam().plugin);
  EXPECT_FALSE(report.passed());
  const CheckResult* found = failure(report, GetParam().check);
  ASSERT_TRUE(found) << to_text(report);
  EXPECT_NE(found->reason.find(GetParam().reason), std::string::npos) << found->reason;
}

constexpr Planted kPlanted[] = {
    {"kit_kernel_reads_padding", "reads no padding", "other bytes in padding"},
    {"kit_kernel_depends_on_rows", "alone and in any company", "rows among"},
    {"kit_kernel_writes_padding", "writes only its share", "rows are live"},
    {"kit_kernel_writes_beyond", "writes only its share", "beyond its end"},
    {"kit_kernel_uses_scratch", "reads no padding", "other bytes in padding"},
    {"kit_kernel_allocates", "allocates nothing", "allocated"},
    {"kit_kernel_starts_thread", "allocates nothing", "a launch"},
    {"kit_kernel_hides_nan", "not finite to itself", "comes out finite"},
    {"kit_kernel_depends_on_workers", "any number of workers", "workers: output 0 differs"},
    {"kit_kernel_wrong_class", "numeric class", "gives other bits"},
    {"kit_kernel_pack_overruns", "same bytes in any slices", ""},
    {"kit_kernel_impure_accept", "accepts or says why not", "the second time"},
    {"kit_kernel_no_reason", "accepts or says why not", "without a reason"},
    {"kit_kernel_wrong_share", "writes only its share", "another's"},
    {"kit_kernel_wrong_values", "agrees with the reference", "relative RMS"},
    {"kit_kernel_crashes", "agrees with the reference", "crashed with signal 11"},
    {"kit_kernel_changes_input", "writes only its share", "may only read"},
    {"kit_kernel_says_nothing", "passes a refusal on", "although the registrar refused"},
    {"kit_kernel_registers_more", "registers what the manifest says", "concat"},
    {"kit_kernel_reads_beyond", "agrees with the reference", "crashed with signal 11"},
    {"kit_kernel_allocates_once", "allocates nothing", "allocated"},
    {"kit_kernel_sleeps", "allocates nothing", "waited outside of a barrier"},
    {"kit_kernel_locks_shared", "allocates nothing", "took a lock"},
    {"kit_kernel_hides_last_nan", "not finite to itself", "comes out finite"},
    {"kit_kernel_fixed_rows", "finds rows wherever they lie", "further apart"},
    {"kit_kernel_misses_thirteen", "agrees with the reference", "13 rows"},
    {"kit_kernel_misses_barrier", "any number of workers", "output 0 differs"},
    {"kit_kernel_leaves_barrier", "any number of workers", "while others waited"},
    {"kit_liar", "registers what the manifest says", "norm"},
    {"kit_composite_rounds_once", "numeric class", "equals its parts"},
    {"kit_composite_forgets_an_output", "agrees with the reference", ""},
    {"kit_experts_sums_in_double", "slots whose sum", "not what it gives with combine 0"},
    {"kit_experts_leaves_slots", "agrees with the reference", "NOT comparable"},
    {"kit_experts_trusts_ids", "does not exist", ""},
    {"kit_experts_names_no_id", "does not exist", "does not name it"},
    {"kit_experts_depends_on_owner", "slots whose sum", "from three devices"},
    {"kit_format_trusts_ranges", "cut anywhere", "of a file of"},
    {"kit_format_reads_past_end", "cut anywhere", "crashed with signal"},
    {"kit_format_trusts_count", "asks for no memory", "at once"},
    {"kit_format_no_message", "cut anywhere", "without a message"},
    {"kit_format_leaks", "gives back what it took", "are not given back"},
    {"kit_format_wrong_dims", "reads valid files", "the host refuses it"},
    {"kit_format_names_a_path", "reads valid files", "../part"},
    {"kit_dtype_reads_beyond", "decodes rows", "crashed with signal 11"},
    {"kit_dtype_passes_infinite", "rows that are not finite", "is decoded to"},
    {"kit_streams_forgets_wait", "order that events ask for", "not in the order"},
    {"kit_streams_waits_for_first", "order that events ask for", ""},
    {"kit_streams_forgets_streams", "order that events ask for", "before its copies were done"},
    {"kit_streams_lies_on_time", "order that events ask for", "expected CANCELLED"},
    {"kit_backend_ignores_steps", "copies rows with steps", "is wrong"},
    {"kit_backend_dirty_memory", "zeroed", "not zeroed"},
    {"kit_backend_loose_barrier", "barriers and claims", "left a barrier"},
    {"kit_backend_claims_twice", "barriers and claims", "was claimed"},
    {"kit_backend_dies_of_hunger", "too much memory", "crashed with signal 6"},
    {"kit_backend_fills_too_much", "fills what it is told", "is wrong"},
};
INSTANTIATE_TEST_SUITE_P(Planted, Faults, ::testing::ValuesIn(kPlanted),
                         [](const auto& info) { return std::string(info.param.plugin); });

TEST(Kit, PassesSoundPlugins) {
  for (const char* name : {"kit_kernel_none", "kit_composite_none", "kit_experts_none", "kit_format_none", "kit_backend_none",
                           "kit_streams_none", "kit_dtype_none"}) {
    const KitReport report = report_on(name);
    EXPECT_TRUE(report.passed()) << to_text(report);
  }
}

TEST(Kit, GivesUpOnAPluginThatHangsAndGoesOn) {
  const KitReport report = report_on("kit_kernel_hangs", "kernel", 3);
  const CheckResult* hung = failure(report, "agrees with the reference");
  ASSERT_TRUE(hung) << to_text(report);
  EXPECT_NE(hung->reason.find("was not done after 3 s"), std::string::npos) << hung->reason;
  EXPECT_NE(report.checks.back().verdict, Verdict::kFail) << "later checks still run\n" << to_text(report);
}

TEST(Kit, SaysWhatItHasFoundAsItGoes) {
  KitOptions options = options_for(std::string(KIT_PLUGINS) + "/libtenon_kit_format_none.so");
  std::string said;
  options.on_check = [&](const KitReport& report) {
    said += (report.checks.size() == 1 ? text_head(report) : "") + text_of_check(report.checks.back());
  };
  const KitReport report = test_plugin(options);
  EXPECT_EQ(said + text_tail(report), to_text(report));
}

TEST(Kit, LeavesTheRestOutWhenCheckAfterCheckHangs) {
  const KitReport report = report_on("kit_kernel_hangs_early", "", 1);
  EXPECT_FALSE(report.passed());
  EXPECT_EQ(report.checks.back().name, "the other checks") << to_text(report);
  EXPECT_EQ(report.checks.back().verdict, Verdict::kSkip);
}

TEST(Kit, EndsAPluginThatClosesThePipeAndHangs) {
  const KitReport report = report_on("kit_kernel_hides_and_hangs", "init: succeeds", 60);
  const CheckResult* found = failure(report, "init: succeeds");
  ASSERT_TRUE(found) << to_text(report);
  EXPECT_LT(found->seconds, 30);
}

TEST(Kit, SaysWhichLibraryHasNoManifest) {
  KitOptions options = options_for("/nowhere/libtenon_nothing.so");
  EXPECT_THROW(test_plugin(options), Error);
  options.library = KIT_PLUGINS;
  EXPECT_THROW(test_plugin(options), Error);
}

TEST(Kit, FindsALibraryThatChangedAfterItsManifest) {
  const fs::path directory = fs::path(seeds()) / "changed";
  fs::create_directories(directory);
  const std::string file = "libtenon_kit_kernel_none.so";
  for (const std::string& name : {file, file + ".tenon.txtpb"})
    fs::copy_file(fs::path(KIT_PLUGINS) / name, directory / name);
  std::ofstream(directory / file, std::ios::binary | std::ios::app) << "more";
  const KitReport report = test_plugin(options_for((directory / file).string()));
  const CheckResult* found = failure(report, "manifest: fits the library");
  ASSERT_TRUE(found) << to_text(report);
  EXPECT_NE(found->reason.find("sha256"), std::string::npos) << found->reason;
}

TEST(Kit, ReportsAsTextAndJson) {
  const KitReport report = report_on("kit_liar", "init");
  EXPECT_NE(to_text(report).find("fail  init: registers what the manifest says"), std::string::npos) << to_text(report);
  EXPECT_NE(to_json(report).find("\"result\": \"fail\""), std::string::npos);
  EXPECT_NE(to_json(report).find("\"passed\": false"), std::string::npos);
}

class Tree : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(Tree, KeepsTheDuties) {
  const auto& [name, model] = GetParam();
  KitOptions options = options_for(std::string(TREE_PLUGINS) + "/libtenon_" + name + ".so");
  if (!fs::exists(options.library)) GTEST_SKIP() << name << " is not built";
  if (*model) options.model = std::string(TENON_TEST_DATA) + "/models/" + model;
  const KitReport report = test_plugin(options);
  EXPECT_TRUE(report.passed()) << to_text(report);
}

INSTANTIATE_TEST_SUITE_P(Plugins, Tree,
                         ::testing::Values(std::pair{"gguf", ""}, std::pair{"safetensors", ""},
                                           std::pair{"reference", ""}, std::pair{"cpu", ""}, std::pair{"far", ""},
                                           std::pair{"block", ""}, std::pair{"fp8", ""}, std::pair{"fp4", ""},
                                           std::pair{"threads", ""},
                                           std::pair{"gemma", "gemma3/gemma3-Q4_0.gguf"},
                                           std::pair{"llama", "llama/llama-MIX.gguf"},
                                           std::pair{"qwen35", "qwen35/qwen35-Q4_K_M.gguf"},
                                           std::pair{"step35", "step35/step35-Q3_K_M.gguf"}),
                         [](const auto& info) { return std::string(info.param.first); });

}  // namespace
}  // namespace tenon::kit
