#include "arguments.hpp"

#include <gtest/gtest.h>

#include <set>
#include <tenon/error.hpp>

namespace tenon::launcher {
namespace {

using Words = std::vector<std::string>;

// The message with which `words` are refused; "" if they are not.
std::string refusal(Verb verb, const Words& words, const Environment& environment = {}) {
  try {
    parse_arguments(verb, words, environment);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_status(), 2);
    return error.what();
  }
  return "";
}

testing::AssertionResult names(const std::string& message, const std::string& part) {
  if (message.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << message << "' does not name " << part;
}

TEST(Arguments, ReadsLongShortAndJoinedSpellings) {
  const Arguments arguments = parse_arguments(
      Verb::kRun, {"-m", "model.gguf", "--prompt=Hello", "-n5", "--temp", "0", "-vv", "--top-k", "3"}, {});
  EXPECT_EQ(arguments.text("model"), "model.gguf");
  EXPECT_EQ(arguments.text("prompt"), "Hello");
  EXPECT_EQ(arguments.integer("n-predict", 128), 5);
  EXPECT_EQ(arguments.number("temp", 0.8), 0.0);
  EXPECT_EQ(arguments.integer("top-k", 40), 3);
  EXPECT_EQ(arguments.count("verbose"), 2u);
  EXPECT_FALSE(arguments.has("seed"));
  EXPECT_EQ(arguments.integer("seed", 7), 7);
}

TEST(Arguments, TakesEmptyAndDashedTexts) {
  EXPECT_EQ(parse_arguments(Verb::kRun, {"-p", ""}, {}).text("prompt", "x"), "");
  EXPECT_EQ(parse_arguments(Verb::kRun, {"-p", "-5 degrees"}, {}).text("prompt"), "-5 degrees");
  EXPECT_EQ(parse_arguments(Verb::kRun, {"-n", "-1"}, {}).integer("n-predict", 0), -1);
  EXPECT_EQ(parse_arguments(Verb::kTokenize, {"-m", "x", "--", "--json"}, {}).positional(), Words{"--json"});
  EXPECT_EQ(parse_arguments(Verb::kTokenize, {"-m", "x", "--", ""}, {}).positional(), Words{""});
  EXPECT_EQ(parse_arguments(Verb::kTokenize, {"-m", "x", ""}, {}).positional(), Words{""});
}

TEST(Arguments, TheSameLetterMeansWhatTheVerbSays) {
  EXPECT_EQ(parse_arguments(Verb::kBench, {"-p", "64", "-n", "8"}, {}).integer("n-prompt", 0), 64);
  EXPECT_EQ(parse_arguments(Verb::kRun, {"-p", "64"}, {}).text("prompt"), "64");
}

TEST(Arguments, ReadsNumbersAndListsOfRanks) {
  for (const char* text : {"1", "64", "0", "", "all@0,1", "0-3@0,1;4@2,3"})
    EXPECT_EQ(refusal(Verb::kRun, {"--tensor-parallel", text}), "") << text;
  for (const char* text : {"65", "-1", "two", "2 ", "1.5", "2,3", "0-3:0,1"})
    EXPECT_EQ(refusal(Verb::kRun, {"--tensor-parallel", text}),
              "--tensor-parallel: expected 1 to 64, or layers with their ranks such as 0-3@0,1;4-7@2,3, found '" + std::string(text) + "'");
  EXPECT_TRUE(names(refusal(Verb::kRun, {"--tensor-parallel", "0-3@0,1;"}), "--tensor-parallel: \"\": expected layers@ranks"));
  EXPECT_TRUE(names(refusal(Verb::kRun, {}, {{"TENON_EXPERT_PARALLEL", "3-1@0,1"}}), "TENON_EXPERT_PARALLEL: \"3-1@0,1\": the range 3-1 is reversed"));
}

TEST(Arguments, ReadsPartsOfSumsAndDevices) {
  for (const char* text : {"1", "64", "4,2"}) EXPECT_EQ(refusal(Verb::kRun, {"--sum-parts", text}), "") << text;
  for (const char* text : {"0", "65", "2,", ",2", "2,2,2", "2,0", "x", ""})
    EXPECT_EQ(refusal(Verb::kRun, {"--sum-parts", text}), "--sum-parts: expected P or P,E, each 1 to 64, found '" + std::string(text) + "'");
  EXPECT_TRUE(names(refusal(Verb::kRun, {"--sum-parts", "2", "--sum-parts", "4"}), "given twice"));
  for (const char* text : {"0", "3,1", "0,0"}) EXPECT_EQ(refusal(Verb::kRun, {"--devices", text}), "") << text;
  for (const char* text : {"", "0,", "0,,1", "0-1", "a", "-1", "1024"})
    EXPECT_EQ(refusal(Verb::kRun, {"--devices", text}), "--devices: expected numbers from 0 to 1023 with commas between, found '" + std::string(text) + "'");
}

TEST(Arguments, RefusesWhatItDoesNotKnow) {
  EXPECT_TRUE(names(refusal(Verb::kRun, {"--colour"}), "--colour"));
  EXPECT_TRUE(names(refusal(Verb::kRun, {"-z"}), "-z"));
  EXPECT_TRUE(names(refusal(Verb::kRun, {"--prom", "text"}), "--prom"));  // no abbreviations
  EXPECT_TRUE(names(refusal(Verb::kRun, {"--chunk", "64"}), "--chunk"));  // a flag of eval
  EXPECT_TRUE(names(refusal(Verb::kRun, {"-p", "a", "stray"}), "stray"));
  EXPECT_TRUE(names(refusal(Verb::kTokenize, {"one", "two"}), "two"));
  EXPECT_TRUE(names(refusal(Verb::kPlugins, {}), "list, verify, info NAME or test LIBRARY"));
}

TEST(Arguments, LettersJoinedToAFlagAreItsValueOnlyIfTheyAreItsNumber) {
  EXPECT_EQ(parse_arguments(Verb::kRun, {"-n-1"}, {}).integer("n-predict", 0), -1);
  EXPECT_EQ(parse_arguments(Verb::kRun, {"-vn5"}, {}).integer("n-predict", 0), 5);
  EXPECT_EQ(parse_arguments(Verb::kRun, {"-vm", "model"}, {}).text("model"), "model");
  for (const char* word : {"-ngl", "-tb", "-mli", "-mmodel.gguf", "-n5x", "-c4k"})
    EXPECT_TRUE(names(refusal(Verb::kRun, {word, "99"}), std::string("unknown flag ") + word));
  EXPECT_TRUE(names(refusal(Verb::kPerplexity, {"-fa"}), "unknown flag -fa"));  // not the file a
}

TEST(Arguments, SaysWhatServesForFlagsOfOtherPrograms) {
  struct {
    const char *word, *hint;
  } const known[] = {{"-ngl", "--backend"},
                     {"--n-gpu-layers", "--backend"},
                     {"-ctk", "--cache-type-k"},
                     {"-ctv", "--cache-type-v"},
                     {"-temp", "--temp"},
                     {"-fa", "attention needs no flag"},
                     {"-no-cnv", "--raw"},
                     {"-cnv", "tenon chat"},
                     {"-b", "divides prompts"},
                     {"-ub", "divides prompts"},
                     {"--predict", "--n-predict, or -n"},
                     {"--split-mode", "--pipeline-parallel"},
                     {"-sm", "--pipeline-parallel"},
                     {"-tp", "it is --tensor-parallel"},
                     {"--tensor-parallel-size", "it is --tensor-parallel"},
                     {"--tensor_parallel", "it is --tensor-parallel"},
                     {"-pp", "it is --pipeline-parallel"}};
  for (const auto& [word, hint] : known) {
    const std::string message = refusal(Verb::kRun, {"-m", "x", word, "1"});
    EXPECT_TRUE(names(message, std::string("unknown flag ") + word + ":"));
    EXPECT_TRUE(names(message, hint));
  }
}

TEST(Arguments, RefusesMissingAndSurplusValues) {
  EXPECT_TRUE(names(refusal(Verb::kRun, {"--threads"}), "--threads"));
  EXPECT_TRUE(names(refusal(Verb::kRun, {"-m"}), "--model"));
  EXPECT_TRUE(names(refusal(Verb::kRun, {"-p", "-n", "5"}), "--prompt"));
  EXPECT_TRUE(names(refusal(Verb::kRun, {"--raw=yes"}), "--raw"));
}

TEST(Arguments, RefusesValuesOfTheWrongKindOrRange) {
  for (const char* value : {"two", "2x", "", "0", "-3", "2.5", "99999999999999999999"})
    EXPECT_TRUE(names(refusal(Verb::kRun, {"--threads", value}), "--threads")) << value;
  for (const char* value : {"hot", "nan", "inf", "-0.1"})
    EXPECT_TRUE(names(refusal(Verb::kRun, {"--temp", value}), "--temp")) << value;
  EXPECT_TRUE(names(refusal(Verb::kRun, {"--top-p", "1.5"}), "--top-p"));
  EXPECT_TRUE(names(refusal(Verb::kRun, {"--precision", "double"}), "exact|default|fast"));
  EXPECT_TRUE(names(refusal(Verb::kPerplexity, {"--score", "quarter"}), "half|all"));
  EXPECT_TRUE(names(refusal(Verb::kEval, {"--step", "16"}), "1 to 15"));
  EXPECT_TRUE(names(refusal(Verb::kRun, {"--seed", "-1"}), "--seed"));
  EXPECT_TRUE(names(refusal(Verb::kRun, {"--seed", "9007199254740993"}), "9007199254740992"));  // not as a double
  EXPECT_TRUE(names(refusal(Verb::kRun, {"--repeat-penalty", "0"}), "--repeat-penalty: expected 0.001"));
}

TEST(Arguments, RefusesContradictions) {
  EXPECT_TRUE(names(refusal(Verb::kRun, {"-p", "a", "--tokens", "1"}), "--prompt and --tokens"));
  EXPECT_TRUE(names(refusal(Verb::kEval, {"--chunk", "64", "--step", "1"}), "--chunk and --step"));
  EXPECT_TRUE(names(refusal(Verb::kInspect, {"m", "--plan", "--graph"}), "--plan and --graph"));
  EXPECT_TRUE(names(refusal(Verb::kRun, {"-t", "2", "--threads", "3"}), "--threads is given twice"));
  EXPECT_TRUE(names(refusal(Verb::kInspect, {"one", "-m", "two"}), "--model 'two'"));
  EXPECT_EQ(refusal(Verb::kRun, {"-t", "2", "--threads", "2"}), "");
  EXPECT_EQ(refusal(Verb::kInspect, {"one", "-m", "one"}), "");
}

TEST(Arguments, RanksAreGivenOnce) {
  EXPECT_EQ(refusal(Verb::kEval, {"--ranks", "1", "--entry", "main"}), "");
  EXPECT_EQ(refusal(Verb::kEval, {"--ranks", "2"}), "");
  EXPECT_TRUE(names(refusal(Verb::kEval, {"--ranks", "2", "--tensor-parallel", "2"}), "--ranks and --tensor-parallel"));
  EXPECT_TRUE(names(refusal(Verb::kRun, {"--pipeline-parallel", "65"}), "1 to 64, found 65"));
}

TEST(Arguments, EveryFlagHasAnEnvironmentTwinThatTheFlagOverrides) {
  const Environment environment = {{"TENON_THREADS", "3"}, {"TENON_RAW", "1"},    {"TENON_JSON", "0"},
                                   {"TENON_MODEL", "a"},   {"TENON_CHUNK", "64"}, {"TENON_CTX_SIZE", ""}};
  const Arguments arguments = parse_arguments(Verb::kRun, {"-m", "b"}, environment);
  EXPECT_EQ(arguments.integer("threads", 0), 3);
  EXPECT_TRUE(arguments.on("raw"));
  EXPECT_FALSE(arguments.on("json"));
  EXPECT_EQ(arguments.text("model"), "b");
  EXPECT_FALSE(arguments.has("chunk"));     // not a flag of this verb
  EXPECT_FALSE(arguments.has("ctx-size"));  // empty is unset
}

TEST(Arguments, SizesHaveUnits) {
  const auto bytes = [](const char* text) {
    return parse_arguments(Verb::kChat, {"--prefix-cache", text}, {}).bytes("prefix-cache", -1);
  };
  EXPECT_EQ(bytes("0"), 0);
  EXPECT_EQ(bytes("65536"), 65536);
  EXPECT_EQ(bytes("3K"), 3072);
  EXPECT_EQ(bytes("512M"), 512 << 20);
  EXPECT_EQ(bytes("2G"), int64_t{2} << 30);
  EXPECT_EQ(parse_arguments(Verb::kChat, {}, {}).bytes("prefix-cache", -1), -1);
  for (const char* bad : {"", "M", "-1", "1.5G", "1T", "2 G", "9223372036854775807K"})
    EXPECT_TRUE(names(refusal(Verb::kChat, {"--prefix-cache", bad}), "--prefix-cache")) << bad;
}

TEST(Arguments, BadVariablesAreNamed) {
  EXPECT_TRUE(names(refusal(Verb::kRun, {}, {{"TENON_THREADS", "many"}}), "TENON_THREADS"));
  EXPECT_TRUE(names(refusal(Verb::kRun, {}, {{"TENON_RAW", "perhaps"}}), "TENON_RAW"));
  EXPECT_EQ(refusal(Verb::kRun, {"-t", "2"}, {{"TENON_THREADS", "many"}}), "");
}

TEST(Arguments, AFlagAlsoOverridesTheVariableOfItsOpposite) {
  const Arguments arguments = parse_arguments(Verb::kRun, {"-p", "a"}, {{"TENON_TOKENS", "1,2"}});
  EXPECT_TRUE(arguments.has("prompt"));
  EXPECT_FALSE(arguments.has("tokens"));
  EXPECT_TRUE(
      names(refusal(Verb::kRun, {}, {{"TENON_TOKENS", "1"}, {"TENON_PROMPT", "a"}}), "TENON_PROMPT and TENON_TOKENS"));
}

TEST(Arguments, ListsAreSplitAndRepeated) {
  const Arguments arguments = parse_arguments(
      Verb::kEval, {"--plugin-path", "/a:/b", "--plugin-path", "/c", "--taps", "hidden,route.1", "--prefer", "x"}, {});
  EXPECT_EQ(arguments.list("plugin-path", ':'), (Words{"/a", "/b", "/c"}));
  EXPECT_EQ(arguments.list("taps", ','), (Words{"hidden", "route.1"}));
  EXPECT_EQ(arguments.list("forbid", ','), Words{});
}

TEST(OptionTable, NamesAndLettersAreUniqueInEveryVerb) {
  for (const VerbSpec& verb : verb_table()) {
    std::set<std::string_view> found;
    std::set<char> letters;
    for (const OptionSpec& option : option_table()) {
      if (!serves(option, verb.verb)) continue;
      EXPECT_TRUE(found.insert(option.name).second) << verb.name << " --" << option.name;
      EXPECT_TRUE(option.letter == 0 || letters.insert(option.letter).second) << verb.name << " -" << option.letter;
      EXPECT_EQ(option.argument.empty(), option.kind == Kind::kSwitch) << option.name;
    }
  }
}

TEST(OptionTable, HelpShowsEveryFlagWithItsTwin) {
  for (const VerbSpec& verb : verb_table()) {
    EXPECT_NE(help_text().find(verb.name), std::string::npos);
    const std::string text = help_text(verb.verb);
    for (const OptionSpec& option : option_table()) {
      if (!serves(option, verb.verb)) continue;
      EXPECT_NE(text.find("--" + std::string(option.name)), std::string::npos) << verb.name << ' ' << option.name;
      if (option.name == "help") continue;
      EXPECT_NE(text.find(environment_name(option)), std::string::npos) << option.name;
    }
  }
}

}  // namespace
}  // namespace tenon::launcher
