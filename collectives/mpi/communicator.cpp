#include "communicator.hpp"

#include <algorithm>
#include <cstring>
#include <thread>

namespace tenon::mpi {
namespace {

// A message that nobody receives cannot be taken back in MPI. A short one is sent from a copy, which then stays behind.
constexpr uint64_t kShort = 64 << 10;
constexpr uint64_t kMostPiece = uint64_t(1) << 30;  // MPI counts in int

// Waits longer the longer nothing happens: at first not at all, then other ranks of this machine get the core, and a rank
// that waits for a user sleeps.
class Backoff {
 public:
  void rest() {
    const auto waited = std::chrono::steady_clock::now() - begin_;
    if (waited < std::chrono::microseconds(20)) return;
    if (waited < std::chrono::milliseconds(20)) return std::this_thread::yield();
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(waited / 100, std::chrono::milliseconds(2)));
  }
  void restart() { begin_ = std::chrono::steady_clock::now(); }
  std::chrono::nanoseconds waited() const { return std::chrono::steady_clock::now() - begin_; }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// Ends a request that nobody completes. False where MPI still holds its memory.
bool take_back(MPI_Request& request, bool is_send) {
  if (!is_send) MPI_Cancel(&request);
  for (int i = 0, done = 0; i < 100; ++i) {
    if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done) return true;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return false;
}

}  // namespace

Communicator::Communicator(World& world, uint64_t number, std::chrono::milliseconds limit)
    : world_(world), value_tag_(world.value_tag(number)), end_tag_(world.end_tag(number)), limit_(limit), word_(std::make_unique<int>(0)) {
  const std::lock_guard lock(world_.lock());
  if (world_.is_given_up()) throw sdk::Error(TENON_CANCELLED, "mpi: an earlier group of ranks has ended with messages on their way");
  check(MPI_Irecv(word_.get(), 1, MPI_INT, MPI_ANY_SOURCE, end_tag_, MPI_COMM_WORLD, &ending_), "listening");
}

Communicator::~Communicator() {
  const std::lock_guard lock(world_.lock());
  if (world_.is_given_up() || (ending_ != MPI_REQUEST_NULL && !mpi::take_back(ending_, false))) static_cast<void>(word_.release());
}

void Communicator::group(bool begin) {
  collects_ = begin;
  if (!begin) run();
}

void Communicator::send(tenon_addr data, uint64_t bytes, uint32_t to, void*) { add(true, data, bytes, to); }
void Communicator::recv(tenon_addr data, uint64_t bytes, uint32_t from, void*) { add(false, data, bytes, from); }

void Communicator::add(bool is_send, tenon_addr data, uint64_t bytes, uint32_t peer) {
  if (peer >= size() || peer == rank()) throw sdk::Error(TENON_INVALID_ARGUMENT, sdk::text("mpi: rank %u of %u exchanges with rank %u", rank(), size(), peer));
  for (uint64_t at = 0; at == 0 || at < bytes; at += kMostPiece)
    pieces_.push_back({is_send, reinterpret_cast<void*>(data + at), static_cast<int>(std::min(kMostPiece, bytes - at)), peer});
  if (Piece& piece = pieces_.back(); is_send && bytes <= kShort) {
    piece.copy = std::make_unique_for_overwrite<uint8_t[]>(bytes);
    std::memcpy(piece.copy.get(), piece.data, bytes);
    piece.data = piece.copy.get();
  }
  if (!collects_) run();
}

void Communicator::run() {
  try {
    post();
    wait();
  } catch (...) {
    take_back();
    throw;
  }
  pieces_.clear();
}

// Receives first, so that what arrives has a place.
void Communicator::post() {
  const std::lock_guard lock(world_.lock());
  check_ended();
  for (const bool is_send : {false, true})
    for (Piece& piece : pieces_) {
      if (piece.is_send != is_send) continue;
      const int peer = static_cast<int>(piece.peer);
      check(is_send ? MPI_Isend(piece.data, piece.bytes, MPI_BYTE, peer, value_tag_, MPI_COMM_WORLD, &piece.request)
                    : MPI_Irecv(piece.data, piece.bytes, MPI_BYTE, peer, value_tag_, MPI_COMM_WORLD, &piece.request),
            sdk::text(is_send ? "sending to rank %u" : "receiving from rank %u", piece.peer).c_str());
    }
}

void Communicator::wait() {
  Backoff backoff;
  for (;;) {
    {
      const std::lock_guard lock(world_.lock());
      bool moved = false;
      if (advance(moved)) return;
      check_ended();
      if (moved) backoff.restart();
      if (backoff.waited() > limit_) {
        const auto open = std::find_if(pieces_.begin(), pieces_.end(), [](const Piece& piece) { return !piece.is_done; });
        const std::string why = sdk::text("rank %u did not answer within %.3g s", open->peer, static_cast<double>(limit_.count()) / 1e3);
        end(why);
        throw sdk::Error(TENON_DEVICE_LOST, why);
      }
    }
    backoff.rest();
  }
}

// True when all pieces are done.
bool Communicator::advance(bool& moved) {
  bool all = true;
  for (Piece& piece : pieces_) {
    if (piece.is_done) continue;
    MPI_Status status;
    int done = 0, bytes = 0;
    const int code = MPI_Test(&piece.request, &done, &status);
    if (code != MPI_SUCCESS) {
      end(sdk::text("rank %u cannot exchange %d bytes with rank %u", rank(), piece.bytes, piece.peer));
      piece.is_done = true;
      check(code, why_.c_str());
    }
    if (done && !piece.is_send && MPI_Get_count(&status, MPI_BYTE, &bytes) == MPI_SUCCESS && bytes != piece.bytes) {
      end(sdk::text("rank %u sends %d bytes where rank %u expects %d", piece.peer, bytes, rank(), piece.bytes));
      piece.is_done = true;
      throw sdk::Error(TENON_DEVICE_LOST, why_);
    }
    piece.is_done = done, moved = moved || done, all = all && done;
  }
  return all;
}

void Communicator::take_back() {
  const std::lock_guard lock(world_.lock());
  collects_ = false;
  for (Piece& piece : pieces_) {
    if (piece.is_done || piece.request == MPI_REQUEST_NULL) continue;
    if (!world_.is_given_up() && mpi::take_back(piece.request, piece.is_send)) continue;
    if (piece.copy) static_cast<void>(piece.copy.release());
    else world_.give_up();
  }
  pieces_.clear();
}

// Tells the others, without waiting for them.
void Communicator::end(const std::string& why) {
  if (is_over_) return;
  is_over_ = true, why_ = why;
  world_.trouble();
  static const int kWord = 1;
  for (uint32_t to = 0; to < size() && !world_.is_given_up(); ++to) {
    MPI_Request request = MPI_REQUEST_NULL;
    if (to != rank() && MPI_Isend(&kWord, 1, MPI_INT, static_cast<int>(to), end_tag_, MPI_COMM_WORLD, &request) == MPI_SUCCESS) MPI_Request_free(&request);
  }
}

bool Communicator::has_ended() {
  if (is_over_) return true;
  if (world_.is_given_up()) {
    is_over_ = true, why_ = "messages of another group were on their way when it ended", status_ = TENON_DEVICE_LOST;
    return true;
  }
  MPI_Status status;
  int done = 0;
  if (ending_ == MPI_REQUEST_NULL || MPI_Test(&ending_, &done, &status) != MPI_SUCCESS || !done) return false;
  is_over_ = true, why_ = sdk::text("rank %d gave up", status.MPI_SOURCE);
  world_.trouble();
  return true;
}

void Communicator::check_ended() {
  if (has_ended()) throw sdk::Error(status_, "the group of ranks has ended: " + why_);
}

void Communicator::poll() {
  const std::lock_guard lock(world_.lock());
  check_ended();
}

void Communicator::abort() noexcept {
  try {
    const std::lock_guard lock(world_.lock());
    if (!has_ended()) end(sdk::text("rank %u gave up", rank()));
  } catch (...) {
    is_over_ = true;
  }
}

}  // namespace tenon::mpi
