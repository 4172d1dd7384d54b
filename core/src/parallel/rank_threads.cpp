#include "rank_threads.hpp"

#include "failure.hpp"

#include <tenon/error.hpp>

#include <fmt/format.h>

namespace tenon::parallel {
RankThreads::RankThreads(uint32_t n_ranks, std::function<void()> abort, std::function<bool(uint32_t)> was_cancelled,
                         std::chrono::milliseconds alike_within)
    : abort_(std::move(abort)), was_cancelled_(std::move(was_cancelled)), alike_within_(alike_within), asked_(n_ranks) {
  for (uint32_t rank = 1; rank < n_ranks; ++rank) threads_.emplace_back([this, rank] { serve(rank); });
}

RankThreads::~RankThreads() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  condition_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void RankThreads::serve(uint32_t rank) {
  uint64_t seen = 0;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      condition_.wait(lock, [&] { return ends_ || turn_ != seen; });
      if (ends_) return;
      seen = turn_;
    }
    call(rank);
  }
}

void RankThreads::call(uint32_t rank) {
  bool refused = false;
  try {
    (*body_)(rank);
  } catch (...) {
    refused = fail(rank, std::current_exception());
  }
  std::unique_lock lock(mutex_);
  --running_;
  condition_.notify_all();
  // Where this rank is alone with its refusal, others may wait for it: rank 0 too, so that no one else would notice.
  const auto done = [this, turn = turn_] { return running_ == 0 || turn_ != turn; };
  if (!refused || condition_.wait_for(lock, alike_within_, done)) return;
  end(refusal_);
  lock.unlock();
  abort_();
}

bool RankThreads::fail(uint32_t rank, std::exception_ptr error) {
  const bool alike = is_alike(error), aftermath = !alike && was_cancelled_(rank);
  {
    const std::lock_guard lock(mutex_);
    if (alike && !n_refused_++) refusal_ = fmt::format("rank {}: {}", rank, text_of(error));
    if (!failure_ || (is_aftermath_ && !aftermath)) {
      failure_ = of_rank(rank, error), is_aftermath_ = aftermath;
      if (!alike) broken_ = text_of(failure_);
    }
  }
  if (!alike) abort_();
  return alike;
}

void RankThreads::end(const std::string& why) {
  if (broken_.empty()) broken_ = why;
}

void RankThreads::run(const std::function<void(uint32_t)>& body) {
  {
    const std::lock_guard lock(mutex_);
    if (!broken_.empty()) throw Error(ErrorKind::kRuntime, "the ranks have ended: " + broken_);
    body_ = &body, failure_ = nullptr, is_aftermath_ = false, running_ = n_ranks(), n_refused_ = 0;
    answers_.clear(), asked_.assign(asked_.size(), 0);
    ++turn_;
  }
  condition_.notify_all();
  call(0);
  std::unique_lock lock(mutex_);
  condition_.wait(lock, [&] { return running_ == 0; });
  if (n_refused_ && n_refused_ < n_ranks()) end(refusal_);  // what the others have done, this rank has not
  if (failure_) std::rethrow_exception(failure_);
}

bool RankThreads::agreed(uint32_t rank, const std::function<bool()>& ask) {
  const std::lock_guard lock(mutex_);
  const size_t number = asked_[rank]++;
  if (number == answers_.size()) answers_.push_back(ask());
  return answers_[number];
}

}  // namespace tenon::parallel
