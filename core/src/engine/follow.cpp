// A rank other than 0 that is a process of its own.
#include "parallel/failure.hpp"
#include "parallel/watchdog.hpp"
#include "processes.hpp"

#include <tenon/error.hpp>

#include <fmt/format.h>

#include <atomic>
#include <optional>

namespace tenon::engine {
namespace {

using namespace std::chrono_literals;
using parallel::Reader;
using parallel::Watchdog;
using parallel::Writer;
using wire::Result;

class Following {
 public:
  Following(plugin::PluginHost& plugins, const FollowOptions& options);
  FollowReport serve(const MakeModel& make);

 private:
  void load(const MakeModel& make);
  void send(wire::Kind kind, const std::function<void(Writer&)>& rest);
  void send_result(const Result& result);
  void report(const Progress& progress);
  void follow();
  void execute(Reader& from);
  bool answer();
  void wake() const;
  void await_verdict(const Result& failure);

  plugin::PluginHost& plugins_;
  FollowOptions options_;
  Patience patience_;
  const tenon_collective& collective_;
  RankPlace place_;
  std::unique_ptr<parallel::Control> control_;
  std::unique_ptr<parallel::Communicator> answers_;
  std::unique_ptr<Follower> follower_;
  const parallel::Communicator* values_ = nullptr;
  uint64_t serial_ = 0;
  std::chrono::steady_clock::time_point last_report_ = {};
  std::optional<Error> failure_;
  std::atomic<bool> gave_up_ = false;
  bool ends_ = false;
};

Following::Following(plugin::PluginHost& plugins, const FollowOptions& options)
    : plugins_(plugins), options_(options), patience_(options.rank_timeout_ms), collective_(find_collective(plugins, options.collective)) {
  place_ = process_place(collective_, options.collective, options.rank_timeout_ms);
  if (place_.rank == 0)
    throw Error(ErrorKind::kUsage, fmt::format("this process is to follow another one, but collective {} has it as rank 0 of {}", options.collective, place_.n_ranks));
  control_ = std::make_unique<parallel::Control>(next_group(place_, options.collective));
}

void Following::send(wire::Kind kind, const std::function<void(Writer&)>& rest) {
  Writer out;
  out.number(uint64_t(kind));
  rest(out);
  control_->send(out.bytes(), 0);
}

void Following::send_result(const Result& result) {
  send(wire::Kind::kResult, [&](Writer& to) { to.number(serial_), wire::write(to, result); });
}

FollowReport Following::serve(const MakeModel& make) {
  try {
    send(wire::Kind::kHello, [](Writer& to) { to.number(wire::kProtocol), to.text(own_cores()); });
    load(make);
    follow();
  } catch (const Error& error) {
    if (!failure_) failure_ = error;
    // What rank 0 has ended is no news to it; what this rank alone has seen is.
    return {failure_, !gave_up_ && control_->was_cancelled()};
  }
  return {failure_, true};
}

void Following::load(const MakeModel& make) {
  const parallel::Message order = control_->receive(0);
  Reader from(order.bytes());
  if (wire::Kind(from.number()) != wire::Kind::kLoad) throw Error(ErrorKind::kRuntime, "rank 0 runs another version of this program");
  wire::Load load = wire::read_load(from);
  answers_ = next_group(place_, options_.collective);
  plugin::check_status(collective_.unique(collective_.self, place_.group.data()), "collective " + options_.collective);
  place_.ranks_here = load.ranks_here;
  load.options.progress = [this](const Progress& progress) { report(progress); };
  load.options.cancelled = [this] {
    control_->check();
    return false;
  };
  Result result;
  std::exception_ptr error;
  try {
    auto parts = std::make_unique<Loaded>(plugins_, load.options, place_);
    values_ = parts->communicator();
    parts->prepare();
    const auto probe = [loaded = parts.get()] { loaded->probe(); };  // the model keeps it
    follower_ = std::make_unique<Follower>(make(std::move(parts)), place_.rank, probe);
    const ModelInfo& info = follower_->model().info();
    result.share = {info.weight_bytes, info.packed_bytes, info.decode_weight_bytes, info.arena_bytes, info.store_bytes, info.threads};
  } catch (...) {
    error = std::current_exception();
    result = wire::failure(error, false);
    values_ = nullptr;
  }
  if (error) failure_ = Error(result.kind, result.message);
  send_result(result);
}

void Following::report(const Progress& progress) {
  const auto now = std::chrono::steady_clock::now();
  const bool is_end = progress.done_bytes >= progress.total_bytes;
  if (!is_end && now - last_report_ < std::min<std::chrono::milliseconds>(500ms, patience_.beat)) return;
  last_report_ = now;
  send(wire::Kind::kProgress, [&](Writer& to) { wire::write(to, progress); });
}

void Following::follow() {
  while (!ends_) {
    const parallel::Message heard = control_->receive(0);
    Reader from(heard.bytes());
    switch (wire::Kind(from.number())) {
      case wire::Kind::kEnd: return;
      case wire::Kind::kCommand: execute(from); break;
      default: break;  // a sign of life, or left over from a failure
    }
  }
}

void Following::execute(Reader& from) {
  serial_ = from.number();
  const bool asks = from.number();
  Result result;
  try {
    if (!follower_) throw Error(ErrorKind::kRuntime, "a command before the model");
    CancelCallback cancelled;
    if (asks) cancelled = [this] { return answer(); };
    result.outcome = follower_->execute(wire::read_command(from), cancelled);
  } catch (...) {
    const std::exception_ptr error = std::current_exception();
    result = wire::failure(error, !parallel::is_alike(error) && ((values_ && values_->was_cancelled()) || answers_->was_cancelled()));
  }
  if (result.failed && !result.is_alike) wake();
  if (result.failed) failure_ = Error(result.kind, result.message);  // what sending it may run into comes of it
  send_result(result);
  if (result.failed) await_verdict(result);
}

// The answer to a question that every rank asks at the same place, and rank 0's caller answers.
bool Following::answer() {
  uint64_t word = 0;
  if (answers_->recv(reinterpret_cast<tenon_addr>(&word), sizeof word, 0, nullptr) != TENON_OK)
    throw Error(ErrorKind::kRuntime, plugin::PluginHost::take_message());
  return word != 0;
}

// Those that wait for another rank in the middle of a command.
void Following::wake() const {
  if (values_) values_->abort();
  answers_->abort();
}

// Others may wait for this rank: they are woken unless all come to the same end.
void Following::await_verdict(const Result& failure) {
  std::optional<Watchdog> waker;
  if (failure.is_alike) waker.emplace(patience_.grace, [this] { wake(); });
  const Watchdog give_up(2 * patience_.grace, [this] {
    gave_up_ = true;
    control_->abort();
  });
  for (;;) {
    const parallel::Message heard = control_->receive(0);
    Reader from(heard.bytes());
    const auto kind = wire::Kind(from.number());
    if (kind == wire::Kind::kEnd) {
      ends_ = true;
      return;
    }
    if (kind != wire::Kind::kVerdict || from.number() != serial_) continue;
    if (from.text().empty()) failure_.reset();  // the ranks go on
    return;
  }
}

}  // namespace

FollowReport follow(plugin::PluginHost& plugins, const FollowOptions& options, const MakeModel& make) {
  return Following(plugins, options).serve(make);
}

}  // namespace tenon::engine
