#include "ranks.hpp"

#include "model_impl.hpp"
#include "plan_options.hpp"
#include "plugin/host_table.hpp"

#include <tenon/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <string_view>
#include <utility>

namespace tenon {

namespace engine {

const tenon_collective& find_collective(plugin::PluginHost& plugins, const std::string& name, const std::string& backend) {
  const auto is_installed = [&](const std::string& one) { return std::ranges::count(plugins.installed(&plugin::PluginRecord::collectives), one) > 0; };
  const std::string wanted = !name.empty() ? name : backend == "cuda" && is_installed("nccl") ? "nccl" : "threads";
  plugins.open_collective(wanted);
  for (const tenon_collective* collective : plugins.registry().collectives)
    if (std::string_view(collective->name.data, size_t(collective->name.size)) == wanted) return *collective;
  const std::vector<std::string> installed = plugins.installed(&plugin::PluginRecord::collectives);
  const std::string refusals = plugins.refusals();
  throw Error(ErrorKind::kUsage, fmt::format("no collective \"{}\"; installed: {}{}{}", wanted,
                                             installed.empty() ? "none" : fmt::format("{}", fmt::join(installed, ", ")),
                                             refusals.empty() ? "" : "; refused: ", refusals));
}

bool has_processes(const tenon_collective& collective) { return TENON_HAS(&collective, place) && collective.place; }

RankPlace process_place(const tenon_collective& collective, const std::string& name, uint32_t timeout_ms) {
  plugin::set_config("collective_timeout_ms", int64_t(timeout_ms));
  if (!has_processes(collective)) throw Error(ErrorKind::kUsage, fmt::format("collective {} serves no ranks that are processes", name));
  RankPlace out;
  out.collective = &collective;
  plugin::check_status(collective.place(collective.self, &out.n_ranks, &out.rank), "collective " + name);
  if (out.n_ranks > parallel::kMostRanks || out.rank >= out.n_ranks)
    throw Error(ErrorKind::kUsage, fmt::format("rank {} of {} processes: at most {} are served", out.rank, out.n_ranks, parallel::kMostRanks));
  return out;
}

std::unique_ptr<parallel::Communicator> next_group(const RankPlace& place, const std::string& name) {
  parallel::Communicator::GroupId id = {};
  plugin::check_status(place.collective->unique(place.collective->self, id.data()), "collective " + name);
  auto group = std::make_unique<parallel::Communicator>(*place.collective, id, place.n_ranks, place.rank);
  group->join();
  return group;
}

std::string own_cores() {
  std::string out;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> out;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  sched_getaffinity(0, sizeof cores, &cores);
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &cores)) out += fmt::format(" {}", core);
  return out;
}

RankPlace first_place(plugin::PluginHost& plugins, const ModelOptions& options) {
  RankPlace out;
  out.n_ranks = parallel::count_ranks(plan_options(options));
  if (out.n_ranks <= 1) return {};
  if (out.n_ranks > parallel::kMostRanks)
    throw Error(ErrorKind::kUsage, fmt::format("{} ranks: at most {} are served", out.n_ranks, parallel::kMostRanks));
  out.ranks_here = out.n_ranks;
  out.collective = &find_collective(plugins, options.collective, options.backend);
  plugin::set_config("collective_timeout_ms", int64_t(options.rank_timeout_ms));
  plugin::check_status(out.collective->unique(out.collective->self, out.group.data()), "collective " + std::string(out.collective->name.data, size_t(out.collective->name.size)));
  return out;
}

std::vector<Outcome> ThreadRanks::run(const Command& command, const Own& own, const CancelCallback& cancelled) {
  std::vector<Outcome> outcomes(followers_.size());
  threads_->run([&](uint32_t rank) {
    CancelCallback asked;
    if (cancelled) asked = [&, rank] { return threads_->agreed(rank, cancelled); };
    if (rank == 0) return own(asked);
    outcomes[rank - 1] = followers_[rank - 1]->execute(command, asked);
  });
  return outcomes;
}

}  // namespace engine

std::vector<engine::Outcome> Model::Impl::everywhere(engine::Command command, const engine::OtherRanks::Own& own, const CancelCallback& cancelled) {
  if (!ranks) {
    own(cancelled);
    return {};
  }
  command.dropped = std::exchange(dropped, {});
  std::vector<engine::Outcome> outcomes = ranks->run(command, own, cancelled);
  sent_by_others = 0;
  for (const engine::Outcome& outcome : outcomes) sent_by_others += outcome.sent_bytes;
  return outcomes;
}

std::vector<engine::Outcome> Model::Impl::everywhere(engine::Command::Kind kind, const Sequence::Impl& sequence, const std::function<void()>& own) {
  engine::Command command;
  command.kind = kind, command.sequence = sequence.number;
  return everywhere(std::move(command), [&](const CancelCallback&) { own(); });
}

// Sequences of one length on all ranks: what was kept decides what is fed next.
void Model::Impl::check_equal(std::span<const engine::Outcome> outcomes, int64_t value) const {
  for (size_t i = 0; i < outcomes.size(); ++i)
    if (outcomes[i].value != value)
      throw Error(ErrorKind::kRuntime, fmt::format("rank {} kept {} tokens of a sequence where rank 0 kept {}", i + 1, outcomes[i].value, value));
}

Output Model::Impl::forward_on_ranks(std::span<const Feed> feeds, const ForwardOptions& options) {
  check(feeds, options);  // before the ranks start: what is refused here changes nothing
  engine::Command command;
  command.kind = engine::Command::Kind::kForward;
  command.chunk = options.chunk, command.decode_step = options.decode_step, command.taps = options.taps;
  command.best_only = options.best_only, command.never = options.never;
  for (const Feed& feed : feeds) command.feeds.push_back({feed.sequence->impl_->number, feed.tokens, feed.output_rows, feed.hidden, feed.overlay});
  Output out;
  ForwardOptions how = options;  // copied here, not while another rank asks options.cancelled
  const auto own = [&](const CancelCallback& cancelled) {
    how.cancelled = cancelled;
    out = forward(feeds, how);
  };
  for (const engine::Outcome& outcome : everywhere(std::move(command), own, options.cancelled)) {
    if (outcome.best.size() != best.size()) throw Error(ErrorKind::kRuntime, fmt::format("a rank has found the best of {} rows where there are {}", outcome.best.size(), best.size()));
    for (size_t i = 0; i < best.size(); ++i) best[i] = better_of(best[i], outcome.best[i]);
  }
  return out;
}

}  // namespace tenon
