// The resident team: every worker runs once, barriers hold, counters count, also with more workers than cores.
#include <atomic>
#include <thread>
#include <vector>

#include "cpu_kernels.hpp"

namespace tenon::testing {
namespace {

const tenon_backend& cpu() {
  load_plugins();
  return Kit::instance().backend("cpu");
}
void run(uint32_t workers, void (*body)(void*, const tenon_exec*), void* arg) {
  ASSERT_EQ(cpu().team(cpu().self, 0, workers, body, arg), TENON_OK) << Kit::instance().error();
}

TEST(CpuTeam, RunsTheBodyOnceOnEachWorker) {
  for (int round = 0; round < 300; ++round) {
    const uint32_t workers = 1 + uint32_t(round) % 7;
    std::vector<std::atomic<int>> calls(8);
    run(
        workers,
        [](void* arg, const tenon_exec* exec) {
          auto& seen = *static_cast<std::vector<std::atomic<int>>*>(arg);
          seen[exec->worker].fetch_add(int(exec->n_workers));
        },
        &calls);
    for (uint32_t w = 0; w < 8; ++w) ASSERT_EQ(calls[w].load(), w < workers ? int(workers) : 0) << "round " << round;
  }
}

TEST(CpuTeam, BarriersKeepRoundsApart) {
  struct Shared {
    int rounds;
    std::atomic<int> faults = 0;
    int64_t turn[8] = {};  // plain memory: the barrier must order it
  };
  for (const uint32_t workers : {1u, 2u, 3u, 4u, 5u, 6u, 7u}) {
    Shared shared{.rounds = workers <= 2 ? 5000 : 400};
    run(
        workers,
        [](void* arg, const tenon_exec* exec) {
          Shared& s = *static_cast<Shared*>(arg);
          for (int i = 1; i <= s.rounds; ++i) {
            s.turn[exec->worker] = i;
            exec->barrier(exec->team);
            for (uint32_t w = 0; w < exec->n_workers; ++w)
              if (s.turn[w] != i) s.faults.fetch_add(1);
            exec->barrier(exec->team);
          }
        },
        &shared);
    EXPECT_EQ(shared.faults.load(), 0) << workers << " workers";
  }
}

TEST(CpuTeam, ClaimGivesEachUnitOnce) {
  struct Shared {
    std::atomic<int64_t> counter = 0;
    std::vector<std::atomic<int>> units = std::vector<std::atomic<int>>(10000);
  } shared;
  run(
      4,
      [](void* arg, const tenon_exec* exec) {
        Shared& s = *static_cast<Shared*>(arg);
        for (int64_t i = exec->claim(&s.counter, 3); i < 10000; i = exec->claim(&s.counter, 3))
          for (int64_t j = i; j < std::min<int64_t>(i + 3, 10000); ++j) s.units[size_t(j)].fetch_add(1);
      },
      &shared);
  for (const auto& unit : shared.units) ASSERT_EQ(unit.load(), 1);
}

// As ranks over one CPU do, whose bodies wait for each other.
TEST(CpuTeam, CallsAtTheSameTimeHaveWorkersOfTheirOwn) {
  constexpr int kCalls = 3, kWorkers = 2, kRounds = 50;
  cpu();  // loaded before several threads ask for it
  struct Shared {
    std::atomic<int> arrived = 0, faults = 0;
    std::atomic<int> round[kCalls] = {};
  } shared;
  struct Call {
    Shared* shared;
    int number;
  };
  const auto body = [](void* arg, const tenon_exec* exec) {
    const Call& call = *static_cast<Call*>(arg);
    Shared& s = *call.shared;
    if (exec->n_workers != kWorkers) s.faults.fetch_add(1);
    const int round = s.round[call.number].load();
    s.arrived.fetch_add(1);
    while (s.arrived.load() < kCalls * kWorkers * (round + 1)) std::this_thread::yield();
    exec->barrier(exec->team);
    if (exec->worker == 0) s.round[call.number].fetch_add(1);
    exec->barrier(exec->team);
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < kCalls; ++t)
    threads.emplace_back([&, t] {
      Call call = {&shared, t};
      for (int i = 0; i < kRounds; ++i) run(kWorkers, body, &call);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(shared.faults.load(), 0);
  EXPECT_EQ(shared.arrived.load(), kCalls * kWorkers * kRounds);
}

TEST(CpuTeam, WakesWorkersThatFellAsleep) {
  for (int i = 0; i < 20; ++i) {
    std::atomic<int> calls = 0;
    run(
        3, [](void* arg, const tenon_exec*) { static_cast<std::atomic<int>*>(arg)->fetch_add(1); }, &calls);
    EXPECT_EQ(calls.load(), 3);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

TEST(CpuTeam, RefusesTeamsOfNoneAndOfTooMany) {
  for (const uint32_t workers : {0u, 100000u})
    EXPECT_EQ(cpu().team(
                  cpu().self, 0, workers, [](void*, const tenon_exec*) {}, nullptr),
              TENON_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace tenon::testing
