#include "processes.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "common.hpp"

namespace tenon::launcher {
namespace {

constexpr std::array<std::string_view, 2> kSizes = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
constexpr std::array<std::string_view, 2> kRanks = {"OMPI_COMM_WORLD_RANK", "PMI_RANK"};

// Whether rank 0 loads a model over all processes.
bool loads_over_processes(const Arguments& arguments) {
  switch (arguments.verb()) {
    case Verb::kRun:
    case Verb::kEval:
    case Verb::kPerplexity:
    case Verb::kBench: break;
    case Verb::kChat:
      if (arguments.on("render")) return false;
      break;
    default: return false;
  }
  return collective_of(arguments) != "threads";
}

}  // namespace

bool is_process_variable(std::string_view name) {
  return std::find(kSizes.begin(), kSizes.end(), name) != kSizes.end() || std::find(kRanks.begin(), kRanks.end(), name) != kRanks.end();
}

Processes processes_of(const Environment& environment) {
  const auto number = [&](const auto& names, uint32_t otherwise) {
    for (const std::string_view name : names)
      if (const auto found = environment.find(name); found != environment.end())
        return static_cast<uint32_t>(std::strtoul(found->second.c_str(), nullptr, 10));
    return otherwise;
  };
  Processes out = {std::max(1u, number(kSizes, 1)), number(kRanks, 0)};
  if (out.rank >= out.n) out = {};
  return out;
}

std::string binding_note(const Processes& processes) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  const int64_t all = sysconf(_SC_NPROCESSORS_ONLN);
  if (processes.n == 1 || sched_getaffinity(0, sizeof cores, &cores) != 0) return "";
  const int64_t own = CPU_COUNT(&cores);
  if (own * processes.n >= all) return "";
  return "this process may run on " + std::to_string(own) + " of " + std::to_string(all) + " cores; mpirun --bind-to none lets it use more";
}

int follow(const Arguments& arguments) {
  if (!loads_over_processes(arguments)) return 0;
  Engine engine(engine_options(arguments));
  const FollowReport report = engine.follow({collective_of(arguments), rank_timeout_ms(arguments)});
  if (!report.failure || report.is_known) return 0;  // rank 0 says it, and its status is that of all
  hush(false);
  note("rank " + std::to_string(arguments.processes().rank) + ": " + report.failure->what());
  return report.failure->exit_status();
}

}  // namespace tenon::launcher
