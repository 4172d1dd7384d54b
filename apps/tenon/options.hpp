// options.hpp: the one table of verbs and flags. Parsing, --help and the TENON_… environment twins all read it.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tenon::launcher {

enum class Verb : uint32_t {
  kRun = 1,
  kEval = 2,
  kPerplexity = 4,
  kTokenize = 8,
  kBench = 16,
  kInspect = 32,
  kPlugins = 64,
  kChat = 128,
  kServe = 256,
  kQuantize = 512
};

constexpr uint32_t bit(Verb verb) { return static_cast<uint32_t>(verb); }
template <typename... Verbs>
constexpr uint32_t verbs(Verbs... list) {
  return (bit(list) | ...);
}
constexpr uint32_t kEveryVerb = 0xffffffffu;

struct VerbSpec {
  Verb verb;
  std::string_view name;
  std::string_view usage;    // what follows the verb
  std::string_view summary;  // one line
  size_t min_positional, max_positional;
  std::string_view positional;  // what the positional arguments are, for messages
  std::string_view refusal;     // why this build cannot serve it; empty = it can
};

// kNumbers: whole numbers with commas between. kRanks: one, or a list of layers with their ranks. kParts: P or P,E.
enum class Kind { kSwitch, kText, kInteger, kNumber, kChoice, kSize, kNumbers, kRanks, kParts };

struct OptionSpec {
  std::string_view name;  // without dashes
  char letter;            // 0 = none
  Kind kind;
  std::string_view argument;  // what --help calls the value
  uint32_t verbs;
  std::string_view help;
  double minimum = 0, maximum = 0;  // of numbers
  std::string_view choices = {};    // kChoice: a|b|c
  bool repeatable = false;
  std::string_view group = {};    // of the options of a group at most one may be given
  bool environment_adds = false;  // the twin is read by the engine and adds to the flag
};

std::span<const VerbSpec> verb_table();
std::span<const OptionSpec> option_table();

const VerbSpec* find_verb(std::string_view name);
const VerbSpec& spec_of(Verb verb);
const OptionSpec* find_option(Verb verb, std::string_view name);
bool serves(const OptionSpec& option, Verb verb);

// "TENON_CTX_SIZE" for "ctx-size".
std::string environment_name(const OptionSpec& option);

// Texts for standard output, each ending with a newline.
std::string help_text();
std::string help_text(Verb verb);

}  // namespace tenon::launcher
