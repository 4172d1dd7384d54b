// Ranks that refuse: all of them alike, or one alone.
#include <gtest/gtest.h>
#include <tenon/error.hpp>

#include "parallel/failure.hpp"
#include "parallel/rank_threads.hpp"

#include <atomic>
#include <chrono>
#include <functional>
#include <new>
#include <string>
#include <thread>

namespace tenon {
namespace {

using namespace std::chrono_literals;

TEST(RankFailure, NamesTheRankOnce) {
  const auto said = [](uint32_t rank, const char* text) {
    return parallel::text_of(parallel::of_rank(rank, std::make_exception_ptr(Error(ErrorKind::kRuntime, text))));
  };
  EXPECT_EQ(said(1, "the device is lost"), "rank 1: the device is lost");
  EXPECT_EQ(said(1, "rank 1 did not answer within 3 s"), "rank 1 did not answer within 3 s");
  EXPECT_EQ(said(1, "rank 10 did not answer within 3 s"), "rank 1: rank 10 did not answer within 3 s");
}

class RankThreads : public testing::Test {
 protected:
  // What a run says; "" = it went well.
  std::string said(const std::function<void(uint32_t)>& body) {
    try {
      threads_.run(body);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  // An exchange with ranks that do not come: it ends by abort alone.
  void wait_for_others() {
    const auto begin = std::chrono::steady_clock::now();
    while (!aborted_ && std::chrono::steady_clock::now() - begin < 20s) std::this_thread::sleep_for(1ms);
    EXPECT_TRUE(aborted_) << "the others were never woken";
    throw Error(ErrorKind::kInterrupted, "the group has ended");
  }

  std::atomic<bool> aborted_ = false;
  parallel::RankThreads threads_{3, [this] { aborted_ = true; }, [](uint32_t) { return false; }, 100ms};
};

[[noreturn]] void refuse(const char* why) { throw Error(ErrorKind::kCapacity, why); }

TEST_F(RankThreads, StaySoundWhereAllRefuseAlike) {
  EXPECT_EQ(said([](uint32_t) { refuse("no room"); }), "no room");
  EXPECT_EQ(said([](uint32_t) {}), "");
  EXPECT_FALSE(aborted_);
}

TEST_F(RankThreads, WakeThoseThatWaitForOneThatRefusesAlone) {
  for (uint32_t alone = 0; alone < 3; ++alone) {
    SCOPED_TRACE(alone);
    aborted_ = false;
    parallel::RankThreads threads(3, [this] { aborted_ = true; }, [](uint32_t) { return false; }, 100ms);
    const auto run = [&] {
      threads.run([&](uint32_t rank) {
        if (rank == alone) refuse("no room");
        wait_for_others();
      });
    };
    EXPECT_THROW(run(), Error);
    EXPECT_TRUE(aborted_);
    try {
      threads.run([](uint32_t) {});
      ADD_FAILURE() << "it went on";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("the ranks have ended: rank " + std::to_string(alone) + ": no room"), std::string::npos) << error.what();
    }
  }
}

// Its sequences are not what the others' are any more.
TEST_F(RankThreads, EndWhereOneRefusesWhatTheOthersHaveDone) {
  for (uint32_t alone = 0; alone < 3; ++alone) {
    parallel::RankThreads threads(3, [] {}, [](uint32_t) { return false; }, 100ms);
    EXPECT_THROW(threads.run([&](uint32_t rank) { if (rank == alone) refuse("no room"); }), Error);
    EXPECT_THROW(threads.run([](uint32_t) {}), Error) << "rank " << alone;
  }
}

TEST_F(RankThreads, SayWhichRankIsOutOfMemory) {
  try {
    threads_.run([&](uint32_t rank) { if (rank == 1) throw std::bad_alloc(); });
    ADD_FAILURE() << "it went well";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCapacity);
    EXPECT_STREQ(error.what(), "rank 1: out of memory");
  }
  EXPECT_TRUE(aborted_);
  EXPECT_EQ(said([](uint32_t) {}), "the ranks have ended: rank 1: out of memory");
}

}  // namespace
}  // namespace tenon
