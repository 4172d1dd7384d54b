#include "ranks.hpp"

#include "model_impl.hpp"

#include <tenon/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <string_view>

namespace tenon {

namespace engine {
namespace {

const tenon_collective& find_collective(plugin::PluginHost& plugins, const ModelOptions& options) {
  const std::string wanted = options.collective.empty() ? "threads" : options.collective;
  plugins.open_collective(wanted);
  for (const tenon_collective* collective : plugins.registry().collectives)
    if (std::string_view(collective->name.data, size_t(collective->name.size)) == wanted) return *collective;
  const std::vector<std::string> installed = plugins.installed(&plugin::PluginRecord::collectives);
  const std::string refusals = plugins.refusals();
  throw Error(ErrorKind::kUsage, fmt::format("no collective \"{}\"; installed: {}{}{}", wanted,
                                             installed.empty() ? "none" : fmt::format("{}", fmt::join(installed, ", ")),
                                             refusals.empty() ? "" : "; refused: ", refusals));
}

}  // namespace

RankPlace first_place(plugin::PluginHost& plugins, const ModelOptions& options) {
  RankPlace out;
  out.n_ranks = options.tensor_parallel;
  if (out.n_ranks <= 1) return {};
  if (out.n_ranks > parallel::kMostRanks)
    throw Error(ErrorKind::kUsage, fmt::format("{} ranks: at most {} are served", out.n_ranks, parallel::kMostRanks));
  out.collective = &find_collective(plugins, options);
  plugin::check_status(out.collective->unique(out.collective->self, out.group.data()), "collective " + std::string(out.collective->name.data, size_t(out.collective->name.size)));
  return out;
}

std::vector<uint8_t> join_saved(const std::vector<std::vector<uint8_t>>& of_rank) {
  std::vector<uint8_t> out;
  for (const auto& bytes : of_rank) {
    const uint64_t n = bytes.size();
    const auto* head = reinterpret_cast<const uint8_t*>(&n);
    out.insert(out.end(), head, head + sizeof n);
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  return out;
}

std::vector<std::span<const uint8_t>> split_saved(std::span<const uint8_t> bytes, size_t n_ranks) {
  std::vector<std::span<const uint8_t>> out;
  while (bytes.size() >= sizeof(uint64_t) && out.size() < n_ranks) {
    uint64_t n = 0;
    std::memcpy(&n, bytes.data(), sizeof n);
    bytes = bytes.subspan(sizeof n);
    if (n > bytes.size()) break;
    out.push_back(bytes.first(size_t(n)));
    bytes = bytes.subspan(size_t(n));
  }
  if (out.size() != n_ranks || !bytes.empty())
    throw Error(ErrorKind::kUsage, fmt::format("the saved sequence is not one of {} ranks", n_ranks));
  return out;
}

}  // namespace engine

void Model::Impl::settle_on_ranks(Sequence::Impl& sequence) {
  if (!ranks || !sequence.state.accepted) return settle(sequence);
  ranks->threads.run([&](uint32_t rank) {
    Sequence::Impl& own = rank ? *sequence.twins[rank - 1].impl_ : sequence;
    own.model->settle(own);
  });
}

Output Model::Impl::forward_on_ranks(std::span<const Feed> feeds, const ForwardOptions& options) {
  check(feeds, options);  // before the ranks start: what is refused here changes nothing
  Output out;
  ranks->threads.run([&](uint32_t rank) {
    ForwardOptions own = options;
    if (options.cancelled) own.cancelled = [&, rank] { return ranks->threads.agreed(rank, options.cancelled); };
    if (rank == 0) {
      out = forward(feeds, own);
      return;
    }
    own.tapped = nullptr;
    own.on_row = [](int64_t, std::span<const float>) {};
    std::vector<Feed> twins(feeds.begin(), feeds.end());
    for (size_t i = 0; i < feeds.size(); ++i) twins[i].sequence = &feeds[i].sequence->impl_->twins[rank - 1];
    ranks->others[rank - 1]->forward(twins, own);
  });
  return out;
}

}  // namespace tenon
