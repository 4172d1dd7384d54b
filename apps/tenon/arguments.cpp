#include "arguments.hpp"

#include <algorithm>
#include <boost/program_options.hpp>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <tenon/error.hpp>
#include <tenon/layer_ranks.hpp>
#include <tenon/model_manifest.hpp>

namespace tenon::launcher {
namespace {

namespace po = boost::program_options;

[[noreturn]] void usage_error(const std::string& message) { throw Error(ErrorKind::kUsage, message); }

template <typename Number>
bool parse_number(std::string_view text, Number* value) {
  const char* end = text.data() + text.size();
  auto [stopped, error] = std::from_chars(text.data(), end, *value);
  return error == std::errc() && stopped == end;
}

// "512M": bytes, where K, M and G are powers of 1024.
bool parse_size(std::string_view text, int64_t* bytes) {
  constexpr std::string_view kUnits = "KMG";
  const size_t unit = text.empty() ? std::string_view::npos : kUnits.find(text.back());
  if (unit != std::string_view::npos) text.remove_suffix(1);
  int64_t count = 0;
  if (!parse_number(text, &count) || count < 0) return false;
  const int64_t factor = unit == std::string_view::npos ? 1 : int64_t{1} << (10 * (unit + 1));
  return !__builtin_mul_overflow(count, factor, bytes);
}

std::string shown(const OptionSpec& option, double value) {
  char buffer[32];
  auto [end, error] = option.kind == Kind::kInteger
                          ? std::to_chars(buffer, buffer + sizeof(buffer), static_cast<int64_t>(value))
                          : std::to_chars(buffer, buffer + sizeof(buffer), value);
  return error == std::errc() ? std::string(buffer, end) : std::string("?");
}

bool is_choice(std::string_view choices, std::string_view value) {
  while (!choices.empty()) {
    const size_t bar = std::min(choices.find('|'), choices.size());
    if (choices.substr(0, bar) == value) return true;
    choices.remove_prefix(std::min(bar + 1, choices.size()));
  }
  return false;
}

// How many whole numbers of the option's range `text` holds, with commas between and nothing else; 0: not so.
size_t count_numbers(const OptionSpec& option, std::string_view text) {
  for (size_t n = 1;; ++n) {
    const size_t comma = std::min(text.find(','), text.size());
    int64_t number = 0;
    if (!parse_number(text.substr(0, comma), &number) || number < static_cast<int64_t>(option.minimum) || number > static_cast<int64_t>(option.maximum))
      return 0;
    if (comma == text.size()) return n;
    text.remove_prefix(comma + 1);
  }
}

// Numbers of ranks, of parts and of devices, and lists.
void check_ranks(const OptionSpec& option, const std::string& origin, const std::string& value) {
  const std::string range = shown(option, option.minimum) + " to " + shown(option, option.maximum);
  const size_t n = count_numbers(option, value);
  if (option.kind == Kind::kNumbers && n == 0)
    usage_error(origin + ": expected numbers from " + range + " with commas between, found '" + value + "'");
  if (option.kind == Kind::kParts && (n == 0 || n > 2))
    usage_error(origin + ": expected P or P,E, each " + range + ", found '" + value + "'");
  if (option.kind != Kind::kRanks || n == 1) return;
  if (is_layer_list(value) || value.empty() || value == "0")
    check_layer_ranks(origin, value, option.name == "tensor-parallel");
  else
    usage_error(origin + ": expected " + range + ", or layers with their ranks such as 0-3@0,1;4-7@2,3, found '" + value + "'");
}

// `origin` is how the user spelled it: --threads or TENON_THREADS.
void check_value(const OptionSpec& option, const std::string& origin, const std::string& value) {
  if (option.kind == Kind::kInteger || option.kind == Kind::kNumber) {
    bool fits = false;
    if (option.kind == Kind::kInteger) {
      int64_t integer = 0;
      if (!parse_number(value, &integer)) usage_error(origin + ": expected a whole number, found '" + value + "'");
      // Not as doubles, which a number beyond 2^53 is rounded to.
      fits = integer >= static_cast<int64_t>(option.minimum) && integer <= static_cast<int64_t>(option.maximum);
    } else {
      double number = 0;
      if (!parse_number(value, &number) || !std::isfinite(number))
        usage_error(origin + ": expected a number, found '" + value + "'");
      fits = number >= option.minimum && number <= option.maximum;
    }
    if (!fits)
      usage_error(origin + ": expected " + shown(option, option.minimum) + " to " + shown(option, option.maximum) +
                  ", found " + value);
  }
  if (option.kind == Kind::kNumbers || option.kind == Kind::kRanks || option.kind == Kind::kParts) check_ranks(option, origin, value);
  int64_t bytes = 0;
  if (option.kind == Kind::kSize && !parse_size(value, &bytes))
    usage_error(origin + ": expected bytes such as 0, 65536, 512M or 2G, found '" + value + "'");
  if (option.kind == Kind::kChoice && !is_choice(option.choices, value))
    usage_error(origin + ": expected one of " + std::string(option.choices) + ", found '" + value + "'");
}

// Whether a switch's variable is on.
bool switch_value(const std::string& origin, const std::string& value) {
  for (const char* yes : {"1", "true", "yes", "on"})
    if (value == yes) return true;
  for (const char* no : {"", "0", "false", "no", "off"})
    if (value == no) return false;
  usage_error(origin + ": expected 1 or 0, found '" + value + "'");
}

po::options_description describe(Verb verb) {
  po::options_description description;
  for (const OptionSpec& option : option_table()) {
    if (!serves(option, verb)) continue;
    std::string name(option.name);
    if (option.letter) name += std::string(",") + option.letter;
    if (option.kind == Kind::kSwitch)
      description.add_options()(name.c_str(), "");
    else
      description.add_options()(name.c_str(), po::value<std::string>(), "");
  }
  return description;
}

// What serves here for flags of llama.cpp and vLLM that have another name or none.
std::string_view hint_for(std::string_view word) {
  struct Hint {
    std::string_view flag, text;
  };
  constexpr std::string_view kBackend = "--backend says where a model runs, as a whole",
                             kBatch = "the engine divides prompts by itself",
                             kRaw = "`tenon run --raw` uses no template",
                             kRanks = "it is --tensor-parallel", kStages = "it is --pipeline-parallel",
                             kSplit = "--pipeline-parallel gives each rank layers of its own, --tensor-parallel a share of every layer";
  static constexpr Hint kHints[] = {
      {"-ngl", kBackend},
      {"--n-gpu-layers", kBackend},
      {"--gpu-layers", kBackend},
      {"-ctk", "it is --cache-type-k"},
      {"-ctv", "it is --cache-type-v"},
      {"-temp", "it is --temp"},
      {"--predict", "it is --n-predict, or -n"},
      {"-fa", "attention needs no flag"},
      {"--flash-attn", "attention needs no flag"},
      {"-no-cnv", kRaw},
      {"--no-conversation", kRaw},
      {"-cnv", "`tenon chat` talks over several turns"},
      {"--conversation", "`tenon chat` talks over several turns"},
      {"-b", kBatch},
      {"--batch-size", kBatch},
      {"-ub", kBatch},
      {"--ubatch-size", kBatch},
      {"-tb", "--threads serves prompts, too"},
      {"--threads-batch", "--threads serves prompts, too"},
      {"-sm", kSplit},
      {"--split-mode", kSplit},
      {"-ts", kSplit},
      {"--tensor-split", kSplit},
      {"-tp", kRanks},
      {"--tensor-parallel-size", kRanks},
      {"-pp", kStages},
      {"--pipeline-parallel-size", kStages},
  };
  for (const Hint& hint : kHints)
    if (hint.flag == word) return hint.text;
  return "";
}

std::string unknown_flag(Verb verb, const std::string& word) {
  std::string hint(hint_for(word)), spelled = word.substr(0, word.find('='));
  std::replace(spelled.begin(), spelled.end(), '_', '-');
  if (hint.empty() && spelled.starts_with("--") && find_option(verb, spelled.substr(2))) hint.assign("it is ").append(spelled);
  return "unknown flag " + word + (hint.empty() ? "" : ": ") + hint;
}

// Of -n5 the word and its value; any other letters after a flag's are a longer flag, as -ngl is in llama.cpp.
bool is_joined_text(const OptionSpec& option, const po::option& given) {
  if (option.kind == Kind::kSwitch || given.original_tokens.size() != 1) return false;
  const std::string& word = given.original_tokens.front();
  if (word.size() < 3 || word[0] != '-' || word[1] == '-') return false;
  double number = 0;
  return (option.kind != Kind::kInteger && option.kind != Kind::kNumber) || !parse_number(given.value.front(), &number);
}

std::vector<po::option> split_words(Verb verb, const std::vector<std::string>& words) {
  const std::string more = "; `tenon " + std::string(spec_of(verb).name) + " --help` lists the flags";
  const po::options_description description = describe(verb);
  try {
    // No guessing: a flag that a later version adds must not change what an abbreviation means.
    const int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    std::vector<po::option> options = po::command_line_parser(words).options(description).style(style).run().options;
    for (const po::option& given : options)
      if (given.position_key < 0 && !given.string_key.empty() &&
          is_joined_text(*find_option(verb, given.string_key), given))
        usage_error(unknown_flag(verb, given.original_tokens.front()) + more);
    return options;
  } catch (const po::unknown_option& error) {
    // Of -fa the message names -f alone.
    std::string word = error.get_option_name();
    for (const std::string& candidate : words)
      if (candidate.starts_with(word) && !hint_for(candidate).empty()) word = candidate;
    usage_error(unknown_flag(verb, word) + more);
  } catch (const po::error_with_option_name& error) {
    const std::string name = error.get_option_name();
    const auto* syntax = dynamic_cast<const po::invalid_syntax*>(&error);
    if (syntax && syntax->kind() == po::invalid_syntax::missing_parameter) usage_error(name + " needs a value" + more);
    if (syntax && syntax->kind() == po::invalid_syntax::empty_adjacent_parameter)
      usage_error(name + "= needs a value; an empty one is given as: " + name + " ''");
    if (syntax && syntax->kind() == po::invalid_syntax::extra_parameter) usage_error(name + " takes no value" + more);
    usage_error(std::string(error.what()) + more);
  } catch (const po::error& error) {
    usage_error(std::string(error.what()) + more);
  }
}

}  // namespace

bool is_layer_list(std::string_view ranks) { return ranks.find_first_of("@;") != std::string_view::npos; }

bool Arguments::has(std::string_view name) const { return values_.find(name) != values_.end(); }

size_t Arguments::count(std::string_view name) const {
  auto found = values_.find(name);
  return found == values_.end() ? 0 : found->second.size();
}

std::string Arguments::text(std::string_view name, std::string_view fallback) const {
  auto found = values_.find(name);
  return found == values_.end() ? std::string(fallback) : found->second.front();
}

int64_t Arguments::integer(std::string_view name, int64_t fallback) const {
  if (has(name)) parse_number(text(name), &fallback);
  return fallback;
}

double Arguments::number(std::string_view name, double fallback) const {
  if (has(name)) parse_number(text(name), &fallback);
  return fallback;
}

int64_t Arguments::bytes(std::string_view name, int64_t fallback) const {
  if (has(name)) parse_size(text(name), &fallback);
  return fallback;
}

std::vector<std::string> Arguments::list(std::string_view name, char separator) const {
  std::vector<std::string> parts;
  auto found = values_.find(name);
  if (found == values_.end()) return parts;
  for (const std::string& value : found->second) {
    for (size_t begin = 0; begin <= value.size();) {
      const size_t end = std::min(value.find(separator, begin), value.size());
      if (end > begin) parts.push_back(value.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return parts;
}

Arguments parse_arguments(Verb verb, const std::vector<std::string>& words, const Environment& environment) {
  const VerbSpec& spec = spec_of(verb);
  Arguments arguments(verb);
  arguments.processes_ = processes_of(environment);
  std::map<std::string, std::string, std::less<>> group_member;  // group -> flag given

  for (const po::option& given : split_words(verb, words)) {
    if (given.position_key >= 0 || given.string_key.empty()) {
      arguments.positional_.insert(arguments.positional_.end(), given.value.begin(), given.value.end());
      continue;
    }
    const OptionSpec& option = *find_option(verb, given.string_key);
    const std::string origin = "--" + given.string_key;
    const std::string value = given.value.empty() ? "" : given.value.front();
    if (option.kind != Kind::kSwitch) check_value(option, origin, value);
    std::vector<std::string>& values = arguments.values_[given.string_key];
    if (!option.repeatable && !values.empty()) {
      if (values.front() != value)
        usage_error(origin + " is given twice, as '" + values.front() + "' and '" + value + "'");
      continue;
    }
    values.push_back(value);
    if (option.group.empty()) continue;
    auto [member, first] = group_member.try_emplace(std::string(option.group), origin);
    if (!first && member->second != origin) usage_error(member->second + " and " + origin + " contradict each other");
  }

  if (spec.positional == "MODEL" && !arguments.positional_.empty()) {
    const std::string& model = arguments.positional_.front();
    if (arguments.has("model") && arguments.text("model") != model)
      usage_error("MODEL is given twice, as '" + model + "' and with --model '" + arguments.text("model") + "'");
    arguments.values_["model"] = {model};
  }

  for (const OptionSpec& option : option_table()) {
    if (!serves(option, verb) || option.environment_adds || option.name == "help" || arguments.has(option.name))
      continue;
    const std::string origin = environment_name(option);
    auto found = environment.find(origin);
    if (found == environment.end()) continue;
    const std::string& value = found->second;
    if (option.kind == Kind::kSwitch) {
      if (!switch_value(origin, value)) continue;
    } else {
      if (value.empty()) continue;  // as good as unset
    }
    if (!option.group.empty()) {
      auto member = group_member.find(option.group);
      if (member != group_member.end()) {
        if (member->second.starts_with("--")) continue;  // the flag wins
        usage_error(member->second + " and " + origin + " contradict each other");
      }
      group_member.emplace(option.group, origin);
    }
    if (option.kind != Kind::kSwitch) check_value(option, origin, value);
    arguments.values_[std::string(option.name)].push_back(option.kind == Kind::kSwitch ? "" : value);
  }

  if (arguments.positional_.size() > spec.max_positional)
    usage_error("unexpected argument '" + arguments.positional_[spec.max_positional] + "'; " +
                (spec.max_positional ? "expected " + std::string(spec.positional)
                                     : "usage: tenon " + std::string(spec.name) + " " + std::string(spec.usage)));
  if (arguments.positional_.size() < spec.min_positional) usage_error("expected " + std::string(spec.positional));
  return arguments;
}

namespace {

bool is_given(const Arguments& arguments, const OptionSpec& option) {
  if (arguments.has(option.name)) return true;
  return !option.group.empty() && std::any_of(option_table().begin(), option_table().end(), [&](const OptionSpec& other) {
    return other.group == option.group && arguments.has(other.name);
  });
}

}  // namespace

void apply_manifest(Arguments& arguments) {
  if (!arguments.has("manifest") || !arguments.has("model")) return;
  const std::string path = arguments.text("manifest"), wanted = arguments.text("model");
  const std::vector<NamedModel> models = read_model_manifest(path);
  const auto found = std::find_if(models.begin(), models.end(), [&](const NamedModel& model) { return model.name == wanted; });
  if (found == models.end()) {
    std::error_code error;
    if (std::filesystem::exists(wanted, error)) return;
    std::string names;
    for (const NamedModel& model : models) names += (names.empty() ? "" : ", ") + model.name;
    usage_error("'" + wanted + "' is no file and no model of " + path + "; there are " + (names.empty() ? "none" : names));
  }
  arguments.values_.erase("model");
  std::vector<std::pair<std::string, std::string>> settings;
  for (const NamedModel::Setting& setting : found->settings) {
    const OptionSpec* option = find_option(arguments.verb(), setting.flag);
    if (!option || is_given(arguments, *option)) continue;  // of another verb, or said already
    try {
      check_value(*option, setting.flag, setting.value);
    } catch (const Error& error) {
      throw Error(ErrorKind::kFile, setting.place + error.what());
    }
    settings.emplace_back(setting.flag, setting.value);
  }
  for (auto& [flag, value] : settings) arguments.values_[flag] = {std::move(value)};
}

}  // namespace tenon::launcher
