// The collective "threads" by itself: order, groups of calls, ends.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <tenon/engine.hpp>
#include <tenon/error.hpp>

#include "plugin/plugin_host.hpp"

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

namespace tenon {
namespace {

class Threads : public testing::Test {
 protected:
  void SetUp() override {
    static plugin::PluginHost& host = *std::make_unique<plugin::PluginHost>(plugin::PluginHostOptions{{TENON_TEST_PLUGINS}, false}).release();
    host.open_collective("threads");
    for (const tenon_collective* record : host.registry().collectives)
      if (std::string_view(record->name.data, record->name.size) == "threads") collective_ = record;
    ASSERT_NE(collective_, nullptr);
  }

  // Runs body(rank, comm) on n threads; answers their statuses.
  std::vector<tenon_status> on_ranks(uint32_t n, const std::function<tenon_status(uint32_t, void*)>& body) {
    uint8_t id[128];
    EXPECT_EQ(collective_->unique(collective_->self, id), TENON_OK);
    std::vector<tenon_status> out(n);
    std::vector<std::thread> threads;
    std::vector<void*> comms(n);
    for (uint32_t rank = 0; rank < n; ++rank) out[rank] = collective_->join(collective_->self, id, n, rank, {"cpu", 3}, 0, &comms[rank]);
    for (uint32_t rank = 0; rank < n; ++rank)
      threads.emplace_back([&, rank] {
        if (out[rank] == TENON_OK) out[rank] = body(rank, comms[rank]);
      });
    for (std::thread& thread : threads) thread.join();
    for (void* comm : comms)
      if (comm) collective_->leave(comm);
    return out;
  }

  const tenon_collective* collective_ = nullptr;
};

tenon_addr address(const void* data) { return reinterpret_cast<tenon_addr>(data); }

TEST_F(Threads, EveryoneGetsEveryonesBytesInTheOrderOfTheCalls) {
  constexpr uint32_t kRanks = 4, kMessages = 20;  // more than a mailbox holds
  std::vector<std::vector<uint32_t>> got(kRanks, std::vector<uint32_t>(kRanks * kMessages));
  const auto statuses = on_ranks(kRanks, [&](uint32_t rank, void* comm) {
    std::vector<uint32_t> mine(kMessages);
    std::iota(mine.begin(), mine.end(), rank * 1000);
    for (int round = 0; round < 50; ++round) {
      EXPECT_EQ(collective_->group(comm, 1), TENON_OK);
      for (uint32_t peer = 0; peer < kRanks; ++peer)
        for (uint32_t i = 0; peer != rank && i < kMessages; ++i) {
          EXPECT_EQ(collective_->send(comm, address(&mine[i]), 4, peer, nullptr), TENON_OK);
          EXPECT_EQ(collective_->recv(comm, address(&got[rank][peer * kMessages + i]), 4, peer, nullptr), TENON_OK);
        }
      if (const tenon_status status = collective_->group(comm, 0); status != TENON_OK) return status;
      for (uint32_t peer = 0; peer < kRanks; ++peer)
        for (uint32_t i = 0; peer != rank && i < kMessages; ++i)
          EXPECT_EQ(got[rank][peer * kMessages + i], peer * 1000 + i + uint32_t(round));
      for (uint32_t& value : mine) ++value;
    }
    return tenon_status(TENON_OK);
  });
  EXPECT_EQ(statuses, std::vector<tenon_status>(kRanks, TENON_OK));
}

// Every rank gets the same bits, those of adding ranks in ascending order; in place too.
TEST_F(Threads, SumsAreEqualOnEveryRank) {
  constexpr uint32_t kRanks = 4, kValues = 1000;
  const auto value = [](uint32_t rank, uint32_t i) { return std::ldexp(float(int(i * 2654435761u % 2001) - 1000), int(i + 5 * rank) % 40 - 20); };
  std::vector<float> expected(kValues);
  for (uint32_t i = 0; i < kValues; ++i)
    for (uint32_t rank = 0; rank < kRanks; ++rank) expected[i] = rank ? expected[i] + value(rank, i) : value(0, i);
  const auto statuses = on_ranks(kRanks, [&](uint32_t rank, void* comm) {
    std::vector<float> mine(kValues), sums(kValues);
    for (int round = 0; round < 50; ++round)
      for (const bool in_place : {false, true}) {
        for (uint32_t i = 0; i < kValues; ++i) mine[i] = value(rank, i);
        std::vector<float>& found = in_place ? mine : sums;
        const tenon_status status = collective_->all_reduce(comm, address(mine.data()), address(found.data()), kValues, TENON_ENC_F32, nullptr);
        if (status != TENON_OK) return status;
        EXPECT_EQ(std::memcmp(found.data(), expected.data(), kValues * sizeof(float)), 0) << "rank " << rank << (in_place ? ", in place" : "");
      }
    return tenon_status(TENON_OK);
  });
  EXPECT_EQ(statuses, std::vector<tenon_status>(kRanks, TENON_OK));
}

TEST_F(Threads, DifferentSizesOfASumEndTheGroup) {
  float values[4] = {};
  const auto statuses = on_ranks(2, [&](uint32_t rank, void* comm) {
    return collective_->all_reduce(comm, address(values), address(values), 3 + rank, TENON_ENC_F32, nullptr);
  });
  EXPECT_EQ(statuses, std::vector<tenon_status>(2, TENON_CANCELLED));
}

// A stage of a pipeline goes on with its next chunk: a send by itself leaves a copy behind.
TEST_F(Threads, ASendByItselfDoesNotWaitForItsReceiver) {
  std::atomic<bool> sent = false;
  uint32_t got[3] = {};
  const auto statuses = on_ranks(2, [&](uint32_t rank, void* comm) {
    if (rank == 0) {
      for (uint32_t value = 7; value < 10; ++value)
        if (collective_->send(comm, address(&value), 4, 1, nullptr) != TENON_OK) return tenon_status(TENON_INTERNAL);
      sent = true;
      return tenon_status(TENON_OK);
    }
    while (!sent && collective_->poll(comm) == TENON_OK) std::this_thread::yield();
    for (uint32_t& value : got)
      if (collective_->recv(comm, address(&value), 4, 0, nullptr) != TENON_OK) return tenon_status(TENON_INTERNAL);
    return tenon_status(TENON_OK);
  });
  EXPECT_EQ(statuses, std::vector<tenon_status>(2, TENON_OK));
  EXPECT_EQ(got[0], 7u);
  EXPECT_EQ(got[1], 8u);
  EXPECT_EQ(got[2], 9u);
}

// Copies are few: who sends and sends is kept until somebody takes them.
TEST_F(Threads, CopiesAreBounded) {
  std::atomic<uint32_t> sent = 0;
  constexpr uint32_t kMany = 100;
  const auto statuses = on_ranks(2, [&](uint32_t rank, void* comm) {
    for (uint32_t i = 0; i < kMany; ++i) {
      uint32_t value = i;
      if (rank == 0) {
        if (collective_->send(comm, address(&value), 4, 1, nullptr) != TENON_OK) return tenon_status(TENON_INTERNAL);
        ++sent;
      } else {
        if (collective_->recv(comm, address(&value), 4, 0, nullptr) != TENON_OK || value != i) return tenon_status(TENON_INTERNAL);
        EXPECT_LE(sent.load(), i + 1 + 8) << "more than a mailbox holds";
      }
    }
    return tenon_status(TENON_OK);
  });
  EXPECT_EQ(statuses, std::vector<tenon_status>(2, TENON_OK));
}

TEST_F(Threads, DifferentSizesEndTheGroup) {
  uint8_t bytes[16] = {};
  const auto statuses = on_ranks(2, [&](uint32_t rank, void* comm) {
    if (rank) return collective_->recv(comm, address(bytes), 12, 0, nullptr);
    const tenon_status status = collective_->send(comm, address(bytes + 12), 4, 1, nullptr);
    return status == TENON_OK ? collective_->recv(comm, address(bytes), 4, 1, nullptr) : status;
  });
  EXPECT_EQ(statuses, std::vector<tenon_status>(2, TENON_CANCELLED));
}

TEST_F(Threads, AnAbortWakesThoseWhoWait) {
  uint8_t bytes[4] = {};
  const auto statuses = on_ranks(3, [&](uint32_t rank, void* comm) {
    if (rank != 2) return collective_->recv(comm, address(bytes), 4, 2, nullptr);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    collective_->abort(comm);
    return collective_->poll(comm);
  });
  EXPECT_EQ(statuses, std::vector<tenon_status>(3, TENON_CANCELLED));
}

// A sender that is woken by the end of its group may give its memory away at once: nobody must still be reading it.
TEST_F(Threads, ASenderThatGivesUpIsReadNoMore) {
  constexpr uint64_t kBytes = 96 << 20;  // more than is copied
  std::vector<float> other(kBytes / sizeof(float));
  for (int round = 0; round < 8; ++round) {
    const auto exchange = [&](uint32_t rank, void* comm, tenon_addr data) {
      if (round % 2) return collective_->all_reduce(comm, data, data, other.size(), TENON_ENC_F32, nullptr);
      return rank ? collective_->recv(comm, data, kBytes, 0, nullptr) : collective_->send(comm, data, kBytes, 1, nullptr);
    };
    on_ranks(2, [&](uint32_t rank, void* comm) {
      if (rank) return exchange(rank, comm, address(other.data()));
      void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
      EXPECT_NE(memory, MAP_FAILED);
      std::thread ends([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(1 + round));  // about when the other one is in the middle
        collective_->abort(comm);
      });
      const tenon_status status = exchange(rank, comm, address(memory));
      munmap(memory, kBytes);
      ends.join();
      return status;
    });
  }
}

TEST_F(Threads, RefusesRanksThatAreNotThere) {
  uint8_t bytes[4] = {};
  const auto statuses = on_ranks(1, [&](uint32_t, void* comm) { return collective_->send(comm, address(bytes), 4, 0, nullptr); });
  EXPECT_EQ(statuses, std::vector<tenon_status>(1, TENON_INVALID_ARGUMENT));
  uint8_t id[128] = {};
  void* comm = nullptr;
  EXPECT_EQ(collective_->join(collective_->self, id, 2, 2, {"cpu", 3}, 0, &comm), TENON_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace tenon
