#include "world.hpp"

#include <algorithm>
#include <cstdlib>
#include <future>
#include <memory>
#include <string>
#include <thread>

namespace tenon::mpi {

std::chrono::milliseconds limit() {
  constexpr int64_t kSeconds = 600;
  tenon_value value = {};
  const tenon_status status = sdk::host().config(sdk::host().self, sdk::to_str("collective_timeout_ms"), &value);
  const bool given = status == TENON_OK && value.type == TENON_VALUE_I64 && value.integer > 0;
  return given ? std::chrono::milliseconds(value.integer) : std::chrono::seconds(kSeconds);
}

void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int size = 0;
  MPI_Error_string(code, text, &size);
  throw sdk::Error(TENON_DEVICE_LOST, sdk::text("mpi: %s: %s", what, text));
}

namespace {

struct Begun {
  int code = MPI_SUCCESS, provided = MPI_THREAD_SINGLE;
};

// MPI begins in all processes or in none, and waits without end for one that never comes. That is done on a thread of its own,
// which is left behind then.
Begun begin() {
  static const std::shared_future<Begun> once = [] {
    auto promise = std::make_shared<std::promise<Begun>>();
    std::shared_future<Begun> out = promise->get_future().share();
    std::thread([promise] {
      Begun begun;
      begun.code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &begun.provided);
      promise->set_value(begun);
    }).detach();
    return out;
  }();
  const std::chrono::milliseconds patience = limit();
  if (once.wait_for(patience) != std::future_status::ready)
    throw sdk::Error(TENON_DEVICE_LOST, sdk::text("not all processes that were started together came within %.3g s; each must run the same verb, with the same collective",
                                                  static_cast<double>(patience.count()) / 1e3));
  return once.get();
}

}  // namespace

World& World::get() {
  static World& one = *std::unique_ptr<World>(new World).release();  // until the process ends
  return one;
}

World::World() {
  int is_begun = 0;
  MPI_Initialized(&is_begun);
  if (!is_begun) {
    const Begun begun = begin();
    check(begun.code, "MPI cannot begin");
    std::atexit(finalize);
    if (begun.provided < MPI_THREAD_SERIALIZED)
      throw sdk::Error(TENON_UNSUPPORTED, "mpi: this MPI serves the thread that began it alone; one with MPI_THREAD_SERIALIZED is needed");
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int size = 1, rank = 0, found = 0;
  check(MPI_Comm_size(MPI_COMM_WORLD, &size), "size of the world");
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "rank in the world");
  size_ = static_cast<uint32_t>(size), rank_ = static_cast<uint32_t>(rank);
  int* most = nullptr;
  if (MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &found) == MPI_SUCCESS && found) most_tag_ = *most;
}

int World::value_tag(uint64_t number) const {
  if (number >= static_cast<uint64_t>(most_tag_) / 2) throw sdk::Error(TENON_CAPACITY, sdk::text("mpi: group %llu is more than tags can tell apart", static_cast<unsigned long long>(number)));
  return static_cast<int>(2 * number);
}

// MPI ends together or not at all: where a rank is dead or stopped the others do not wait for it, and mpirun tells its user.
void World::finalize() {
  World& world = get();
  const std::lock_guard lock(world.mutex_);
  int is_over = 0;
  MPI_Finalized(&is_over);
  if (is_over || world.is_given_up()) return;
  MPI_Request all_here = MPI_REQUEST_NULL;
  if (MPI_Ibarrier(MPI_COMM_WORLD, &all_here) != MPI_SUCCESS) return;
  const std::chrono::milliseconds patience = world.is_troubled_ ? std::min<std::chrono::milliseconds>(limit(), std::chrono::seconds(2)) : limit();
  const auto end = std::chrono::steady_clock::now() + patience;
  for (int done = 0; !done;) {
    if (MPI_Test(&all_here, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return;
    if (!done && std::chrono::steady_clock::now() > end) return;
    if (!done) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  MPI_Finalize();
}

}  // namespace tenon::mpi
