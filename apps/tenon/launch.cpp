#include "launch.hpp"

#include <tenon/abi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <new>
#include <thread>

#include "console.hpp"
#include "interrupt.hpp"
#include "verbs.hpp"

namespace tenon::launcher {
namespace {

constexpr int kUsageStatus = 2;

int dispatch(const Arguments& arguments) {
  switch (arguments.verb()) {
    case Verb::kRun:
      return run(arguments);
    case Verb::kEval:
      return eval(arguments);
    case Verb::kPerplexity:
      return perplexity(arguments);
    case Verb::kTokenize:
      return tokenize(arguments);
    case Verb::kBench:
      return bench(arguments);
    case Verb::kInspect:
      return inspect(arguments);
    case Verb::kPlugins:
      return plugins(arguments);
    case Verb::kChat:
      return chat(arguments);
    case Verb::kQuantize:
      return quantize(arguments);
    case Verb::kServe:
      break;  // refused before arguments are read
  }
  return kUsageStatus;
}

// Whether `words` ask for help. Words after "--" are text.
bool wants_help(const std::vector<std::string>& words) {
  const auto end = std::find(words.begin(), words.end(), "--");
  return std::any_of(words.begin(), end, [](const std::string& word) { return word == "--help" || word == "-h"; });
}

// Says why the program ends. Where several processes were started all of them refuse what is wrong with the words, and rank 0
// says so. The first to end ends them all, so the others give it the time, and speak where it has nothing to say.
int refused(const Processes& processes, const std::string& why, int status) {
  if (processes.rank == 0) {
    note(why);
    return status;
  }
  for (int tenths = 0; tenths < 20; ++tenths) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    if (interrupted()) return status;
  }
  hush(false);
  note("rank " + std::to_string(processes.rank) + ": " + why);
  return status;
}

int run_verb(const std::vector<std::string>& words, const Environment& environment) {
  if (words.empty()) {
    std::fputs(help_text().c_str(), stderr);
    return kUsageStatus;
  }
  const std::string& first = words.front();
  if (first == "--version") {
    print("tenon " TENON_VERSION " (plugin ABI " + std::to_string(TENON_ABI_MAJOR) + "." +
          std::to_string(TENON_ABI_MINOR) + ")\n");
    return 0;
  }
  const bool named_help = first == "help" && words.size() > 1;  // tenon help VERB
  if (named_help && words.size() > 2)
    throw Error(ErrorKind::kUsage, "help: unexpected argument '" + words[2] + "'; expected one verb");
  if (first == "--help" || first == "-h" || (first == "help" && words.size() == 1)) {
    print(help_text());
    return 0;
  }
  const VerbSpec* spec = find_verb(named_help ? words[1] : first);
  if (!spec) {
    std::string names;
    for (const VerbSpec& known : verb_table()) names += (names.empty() ? "" : ", ") + std::string(known.name);
    throw Error(ErrorKind::kUsage, "unknown verb '" + (named_help ? words[1] : first) + "'; expected one of " + names);
  }
  const std::vector<std::string> rest(words.begin() + 1, words.end());
  if (named_help || wants_help(rest)) {
    print(help_text(spec->verb));
    return 0;
  }
  if (!spec->refusal.empty())
    throw Error(ErrorKind::kUsage, std::string(spec->name) + ": " + std::string(spec->refusal));
  Arguments arguments = parse_arguments(spec->verb, rest, environment);
  if (arguments.has("help")) {  // -vh
    print(help_text(spec->verb));
    return 0;
  }
  try {
    apply_manifest(arguments);
  } catch (const Error& error) {
    // Only rank 0 need have the file: the others are told what to load.
    if (arguments.processes().rank == 0 || error.kind() != ErrorKind::kFile) throw;
  }
  // Plugins may be tested for minutes, in processes of their own, and nothing is kept: there a signal just ends it.
  if (spec->verb != Verb::kPlugins) watch_interrupts();
  set_verbosity(arguments.count("verbose"));
  if (arguments.processes().rank > 0) {
    set_log_level("error");  // what there is to say of a model's files rank 0 says
    return follow(arguments);
  }
  return dispatch(arguments);
}

}  // namespace

Environment read_environment(char** block) {
  Environment environment;
  for (; block && *block; ++block) {
    const char* equals = std::strchr(*block, '=');
    if (!equals) continue;
    const std::string name(*block, equals - *block);
    if (name.starts_with("TENON_") || is_process_variable(name)) environment.emplace(name, equals + 1);
  }
  return environment;
}

int launch(const std::vector<std::string>& words, const Environment& environment) {
  const Processes processes = processes_of(environment);
  try {
    open_console();
    ignore_write_signals();
    hush(processes.rank > 0);
    if (processes.n > 1) pass_output_on();
    return run_verb(words, environment);
  } catch (const OutputError& error) {
    if (!error.closed_pipe()) note(error.what());
    return error.exit_status();
  } catch (const Error& error) {
    return refused(processes, error.what(), error.exit_status());
  } catch (const std::bad_alloc&) {
    return refused(processes, "out of memory", Error(ErrorKind::kCapacity, "").exit_status());
  } catch (const std::exception& error) {
    return refused(processes, error.what(), Error(ErrorKind::kRuntime, "").exit_status());
  }
}

}  // namespace tenon::launcher
