#include "processes.hpp"

#include "parallel/failure.hpp"
#include "parallel/watchdog.hpp"
#include "plugin/host_table.hpp"

#include <tenon/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tenon::engine {

using namespace std::chrono_literals;
using parallel::Reader;
using parallel::Watchdog;
using parallel::Writer;
using wire::Result;

namespace {

Writer message(wire::Kind kind) {
  Writer out;
  out.number(uint64_t(kind));
  return out;
}

std::string host_of(Reader& hello) {
  if (wire::Kind(hello.number()) != wire::Kind::kHello || hello.number() != wire::kProtocol)
    throw Error(ErrorKind::kRuntime, "it runs another version of this program");
  return hello.text();
}

// What to say of flags that make a plan of so many ranks.
std::string plan_for(const ModelOptions& options, uint32_t n_ranks) {
  const uint32_t stages = options.pipeline_parallel;
  if (n_ranks == 1) return "";
  if (stages > 1 && n_ranks % stages == 0)
    return fmt::format(", --tensor-parallel {} with --pipeline-parallel {} has as many ranks", n_ranks / stages, stages);
  return fmt::format(", --tensor-parallel {} alone has as many ranks", n_ranks);
}

}  // namespace

Patience::Patience(uint32_t timeout_ms)
    : beat(std::clamp<int64_t>(timeout_ms / 4, 10, 10'000)), grace(std::min<int64_t>(timeout_ms / 2, 10'000)) {}

ProcessRanks::ProcessRanks(std::unique_ptr<parallel::Control> control, std::unique_ptr<parallel::Communicator> answers,
                           const parallel::Communicator& values, Patience patience)
    : control_(std::move(control)), answers_(std::move(answers)), values_(values), patience_(patience), beats_([this] { beat(); }) {}

ProcessRanks::~ProcessRanks() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  condition_.notify_all();
  beats_.join();
  try {
    tell_all(message(wire::Kind::kEnd));
  } catch (...) {
    // Whoever does not hear it ends by itself.
  }
}

void ProcessRanks::tell_all(const Writer& message) {
  for (uint32_t rank = 1; rank < control_->size(); ++rank) control_->send(message.bytes(), rank);
}

void ProcessRanks::beat() {
  std::unique_lock lock(mutex_);
  while (!condition_.wait_for(lock, patience_.beat, [this] { return ends_; })) try {
      tell_all(message(wire::Kind::kBeat));
    } catch (const std::exception& error) {
      if (broken_.empty()) broken_ = error.what();
    }
}

void ProcessRanks::answer(bool stop) {
  const uint64_t word = stop;
  for (uint32_t rank = 1; rank < answers_->size(); ++rank)
    if (answers_->send(reinterpret_cast<tenon_addr>(&word), sizeof word, rank, nullptr) != TENON_OK)
      throw Error(ErrorKind::kRuntime, plugin::PluginHost::take_message());
}

// Those that wait for another rank in the middle of a command: no command is executed any more.
void ProcessRanks::wake() const {
  values_.abort();
  answers_->abort();
}

std::vector<Outcome> ProcessRanks::run(const Command& command, const Own& own, const CancelCallback& cancelled) {
  const std::lock_guard lock(mutex_);
  if (!broken_.empty()) throw Error(ErrorKind::kRuntime, "the ranks have ended: " + broken_);
  ++serial_;
  Result here;
  try {
    Writer out = message(wire::Kind::kCommand);
    out.number(serial_), out.number(bool(cancelled));
    wire::write(out, command);
    tell_all(out);
    CancelCallback asked;
    if (cancelled)
      asked = [&] {
        const bool stop = cancelled();
        answer(stop);
        return stop;
      };
    own(asked);
  } catch (...) {
    const std::exception_ptr error = std::current_exception();
    here = wire::failure(error, !parallel::is_alike(error) && (values_.was_cancelled() || answers_->was_cancelled()));
  }
  std::vector<Result> others = results(here.failed ? &here : nullptr);
  judge(here, others);
  std::vector<Outcome> outcomes;
  for (Result& other : others) outcomes.push_back(std::move(other.outcome));
  return outcomes;
}

Result ProcessRanks::result_of(uint32_t rank) {
  for (;;) {
    const parallel::Message heard = control_->receive(rank);
    Reader from(heard.bytes());
    if (wire::Kind(from.number()) != wire::Kind::kResult || from.number() != serial_) continue;  // left over from a load or a failure
    return wire::read_result(from);
  }
}

// Of rank 1, 2 … Where this rank has failed or refused the others may wait for it: they are woken, and do not wait for ever.
std::vector<Result> ProcessRanks::results(const Result* own_failure) {
  std::optional<Watchdog> waker, give_up;
  if (own_failure) {
    if (own_failure->is_alike) waker.emplace(patience_.grace, [this] { wake(); });
    else wake();
    give_up.emplace(own_failure->is_alike ? 2 * patience_.grace : patience_.grace, [this] { control_->abort(); });
  }
  std::vector<Result> out(control_->size() - 1);
  silent_.clear();
  for (uint32_t rank = 1; rank < control_->size(); ++rank) try {
      out[rank - 1] = result_of(rank);
    } catch (const Error& error) {
      wake();
      out[rank - 1].failed = true, out[rank - 1].message = error.what();
      out[rank - 1].is_aftermath = control_->was_cancelled() || own_failure;
      if (silent_.empty()) silent_.push_back(rank);  // of those behind it nothing is known
    }
  return out;
}

// As RankThreads: what all refuse alike leaves the ranks as they are, everything else ends them.
void ProcessRanks::judge(const Result& own, std::vector<Result>& others) {
  uint32_t n_refused = own.failed && own.is_alike, first = 0;
  const Result* worst = own.failed ? &own : nullptr;
  const Result* breaks = own.failed && !own.is_alike ? &own : nullptr;
  for (uint32_t rank = 1; rank <= others.size(); ++rank) {
    const Result& result = others[rank - 1];
    if (!result.failed) continue;
    n_refused += result.is_alike;
    if (!worst || (worst->is_aftermath && !result.is_aftermath)) worst = &result, first = rank;
    if (!result.is_alike) breaks = &result;
  }
  if (!worst) return;
  std::exception_ptr error = parallel::of_rank(first, wire::error_of(*worst));
  if (const std::string silent = silent_.empty() ? "" : fmt::format("rank {} ", silent_[0]); parallel::text_of(error).find(silent) == std::string::npos)
    error = std::make_exception_ptr(Error(ErrorKind::kRuntime, fmt::format("{}; rank {} does not answer any more", parallel::text_of(error), silent_[0])));
  if (breaks || n_refused < control_->size()) {
    broken_ = breaks ? parallel::text_of(error) : fmt::format("rank {}: {}", first, worst->message);
    wake();
  }
  try {
    Writer verdict = message(wire::Kind::kVerdict);
    verdict.number(serial_), verdict.text(broken_);
    tell_all(verdict);
  } catch (const std::exception& failure) {
    if (broken_.empty()) broken_ = failure.what();
  }
  std::rethrow_exception(error);
}

FirstProcess::FirstProcess(const tenon_collective& collective, const ModelOptions& options, uint32_t n_ranks)
    : options_(options), patience_(options.rank_timeout_ms), progress_(options.progress) {
  place_ = process_place(collective, options.collective, options.rank_timeout_ms);
  control_ = std::make_unique<parallel::Control>(next_group(place_, options.collective));
  try {
    if (n_ranks != place_.n_ranks)
      throw Error(ErrorKind::kUsage, fmt::format("the plan has {}, but {} started: mpirun -n {} starts as many{}",
                                                 n_ranks == 1 ? "1 rank" : fmt::format("{} ranks", n_ranks),
                                                 place_.n_ranks == 1 ? "1 process was" : fmt::format("{} processes were", place_.n_ranks), n_ranks,
                                                 plan_for(options, place_.n_ranks)));
    greet();
    answers_ = next_group(place_, options.collective);
    plugin::check_status(collective.unique(collective.self, place_.group.data()), "collective " + options.collective);
  } catch (...) {
    control_->abort();
    throw;
  }
  options_.cancelled = [own = options.cancelled, this] { return failed_.load() || (own && own()); };
  if (progress_)
    options_.progress = [this](const Progress& progress) {
      const std::lock_guard lock(progress_mutex_);
      progress_(progress);
    };
  shares_.resize(place_.n_ranks - 1);
  listener_ = std::thread([this] { listen(); });
}

FirstProcess::~FirstProcess() {
  if (!control_) return;
  control_->abort();
  stop_listening();
}

// Learns who shares cores with whom, and says what is to be loaded.
void FirstProcess::greet() {
  std::vector<std::string> hosts = {own_cores()};
  for (uint32_t rank = 1; rank < place_.n_ranks; ++rank) try {
      const parallel::Message hello = control_->receive(rank);
      Reader from(hello.bytes());
      hosts.push_back(host_of(from));
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("rank {}: {}", rank, error.what()));
    }
  const auto ranks_here = [&](uint32_t rank) { return uint32_t(std::count(hosts.begin(), hosts.end(), hosts[rank])); };
  for (uint32_t rank = 1; rank < place_.n_ranks; ++rank) {
    Writer out = message(wire::Kind::kLoad);
    wire::write(out, wire::Load{options_, ranks_here(rank)});
    control_->send(out.bytes(), rank);
  }
  place_.ranks_here = ranks_here(0);
}

// Hears one rank after the other, again and again, until all have loaded; each of them reports often. In between it says to
// those that have loaded that this rank is still there.
void FirstProcess::listen() {
  std::vector<uint32_t> waiting;
  for (uint32_t rank = 1; rank < place_.n_ranks; ++rank) waiting.push_back(rank);
  auto last_beat = std::chrono::steady_clock::now();
  try {
    for (;;) {
      std::erase_if(waiting, [this](uint32_t rank) { return hear(rank); });
      if (const auto now = std::chrono::steady_clock::now(); now - last_beat >= patience_.beat || waiting.empty()) {
        last_beat = now;
        for (uint32_t rank = 1; rank < place_.n_ranks; ++rank)
          if (std::find(waiting.begin(), waiting.end(), rank) == waiting.end()) control_->send(message(wire::Kind::kBeat).bytes(), rank);
      }
      std::unique_lock lock(mutex_);
      if (waiting.empty()) {
        all_loaded_ = true;
        condition_.notify_all();
        condition_.wait_for(lock, patience_.beat, [this] { return ends_; });
      }
      if (ends_) return;
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
    failed_ = true;
    condition_.notify_all();
  }
}

bool FirstProcess::hear(uint32_t rank) {
  const parallel::Message heard = control_->receive(rank);
  Reader from(heard.bytes());
  const auto kind = wire::Kind(from.number());
  if (kind == wire::Kind::kProgress) {
    Progress progress = wire::read_progress(from);
    progress.rank = rank;
    if (options_.progress) options_.progress(progress);
    return false;
  }
  if (kind != wire::Kind::kResult) throw Error(ErrorKind::kRuntime, fmt::format("rank {} sends what was not asked for", rank));
  from.number();
  const Result result = wire::read_result(from);
  if (result.failed) throw Error(result.kind, fmt::format("rank {}: {}", rank, result.message));
  shares_[rank - 1] = result.share;
  return true;
}

void FirstProcess::stop_listening() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  condition_.notify_all();
  if (listener_.joinable()) listener_.join();
}

void FirstProcess::rethrow_other() const {
  const std::lock_guard lock(mutex_);
  if (failed_ && failure_) std::rethrow_exception(failure_);
}

std::unique_ptr<OtherRanks> FirstProcess::complete(const parallel::Communicator& values, ModelInfo& info) {
  {
    std::unique_lock lock(mutex_);
    condition_.wait(lock, [this] { return all_loaded_ || failed_; });
  }
  rethrow_other();
  stop_listening();
  rethrow_other();
  info.n_ranks = place_.n_ranks;
  for (const wire::Share& share : shares_) {
    info.weight_bytes += share.weight_bytes, info.packed_bytes += share.packed_bytes, info.decode_weight_bytes += share.decode_weight_bytes;
    info.arena_bytes += share.arena_bytes, info.store_bytes += share.store_bytes, info.threads += uint32_t(share.threads);
  }
  return std::make_unique<ProcessRanks>(std::move(control_), std::move(answers_), values, patience_);
}

}  // namespace tenon::engine
