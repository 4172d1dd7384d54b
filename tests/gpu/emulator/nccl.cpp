#include "nccl.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "collectives/threads/communicator.hpp"

namespace {

using tenon::threads::Mailboxes;

struct Room {
  explicit Room(uint32_t n) : boxes(std::make_shared<Mailboxes>(n)) {}
  std::shared_ptr<Mailboxes> boxes;
  std::mutex mutex;
  std::set<int> ranks, devices;
};

std::shared_ptr<Room> room_of(const ncclUniqueId& id, uint32_t n) {
  static std::mutex& mutex = *new std::mutex;
  static auto& rooms = *new std::map<std::string, std::weak_ptr<Room>>;
  const std::lock_guard lock(mutex);
  std::weak_ptr<Room>& known = rooms[std::string(id.internal, sizeof id.internal)];
  std::shared_ptr<Room> room = known.lock();
  if (!room) known = room = std::make_shared<Room>(n);
  return room;
}

struct Call {
  enum { kSend, kRecv, kSum } kind;
  const void* in;
  void* out;
  size_t n;
  int peer;
  ncclComm_t comm;
  cudaStream_t stream;
};

thread_local int depth = 0;
thread_local std::vector<Call> collected;

tenon_addr address(const void* data) { return reinterpret_cast<tenon_addr>(data); }

}  // namespace

struct EmulatedComm {
  EmulatedComm(std::shared_ptr<Room> in, uint32_t rank)
      : room(std::move(in)), ends(room->boxes, rank, std::chrono::seconds(60)), uses(std::make_shared<int>(0)) {}
  std::shared_ptr<Room> room;
  tenon::threads::Communicator ends;
  std::shared_ptr<int> uses;  // a holder for each graph with this rank's work
  std::atomic<ncclResult_t> state = ncclSuccess;
};

namespace {

// What the kernels of a group of calls do, when their turn on the stream comes.
cudaError_t perform(ncclComm_t comm, const std::vector<Call>& calls) {
  try {
    comm->ends.group(true);
    for (const Call& call : calls) {
      if (call.kind == Call::kSend) comm->ends.send(address(call.in), call.n, uint32_t(call.peer), nullptr);
      if (call.kind == Call::kRecv) comm->ends.recv(address(call.out), call.n, uint32_t(call.peer), nullptr);
    }
    comm->ends.group(false);
    for (const Call& call : calls)
      if (call.kind == Call::kSum) comm->ends.all_reduce(address(call.in), address(call.out), call.n, nullptr);
  } catch (const std::exception&) {
    comm->state = ncclRemoteError;  // on the stream nothing shows
  }
  return cudaSuccess;
}

ncclResult_t add(const Call& call) {
  if (call.kind != Call::kSum && (call.peer < 0 || uint32_t(call.peer) >= call.comm->ends.size())) return ncclInvalidArgument;
  if (const ncclResult_t started = ncclGroupStart(); started != ncclSuccess) return started;
  collected.push_back(call);
  return ncclGroupEnd();
}

// Blocks as the library does; here not for ever, so that a test fails.
ncclResult_t release(ncclComm_t comm) {
  const auto begin = std::chrono::steady_clock::now();
  while (comm->uses.use_count() > 1) {
    if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(20)) {
      std::fprintf(stderr, "emulated NCCL: graphs outlive their communicator\n");
      std::abort();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  delete comm;
  return ncclSuccess;
}

}  // namespace

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<unsigned> next = 1;
  *id = {};
  std::snprintf(id->internal, sizeof id->internal, "group %u", next++);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* out, int n, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (n < 1 || rank < 0 || rank >= n || config->blocking) return ncclInvalidArgument;
  const std::shared_ptr<Room> room = room_of(id, uint32_t(n));
  int device = 0;
  cudaGetDevice(&device);
  {
    const std::lock_guard lock(room->mutex);
    if (!room->devices.insert(device).second || !room->ranks.insert(rank).second) return ncclInvalidUsage;
  }
  *out = new EmulatedComm(room, uint32_t(rank));
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) { return release(comm); }

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->ends.abort();
  return release(comm);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  *state = comm->state;
  const std::lock_guard lock(comm->room->mutex);
  if (comm->room->ranks.size() < comm->room->boxes->size()) *state = ncclInProgress;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclInvalidUsage ? "invalid usage" : result == ncclRemoteError ? "remote process exited or there was a network error" : "error";
}
const char* ncclGetLastError(ncclComm_t) { return "emulated"; }

ncclResult_t ncclGroupStart() { return ++depth, ncclSuccess; }

ncclResult_t ncclGroupEnd() {
  if (--depth > 0) return ncclSuccess;
  const std::vector<Call> calls = std::move(collected);
  collected.clear();
  if (calls.empty()) return ncclSuccess;
  const ncclComm_t comm = calls[0].comm;
  const auto holder = std::make_shared<std::shared_ptr<int>>(comm->uses);
  const cudaError_t code = tenon::emulator::enqueue_waiting(calls[0].stream, [comm, calls, holder] { return perform(comm, calls); });
  return code == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclSend(const void* data, size_t n, ncclDataType_t, int peer, ncclComm_t comm, cudaStream_t stream) {
  return add({Call::kSend, data, nullptr, n, peer, comm, stream});
}
ncclResult_t ncclRecv(void* data, size_t n, ncclDataType_t, int peer, ncclComm_t comm, cudaStream_t stream) {
  return add({Call::kRecv, nullptr, data, n, peer, comm, stream});
}
ncclResult_t ncclAllReduce(const void* in, void* out, size_t n, ncclDataType_t, ncclRedOp_t, ncclComm_t comm, cudaStream_t stream) {
  return add({Call::kSum, in, out, n, -1, comm, stream});
}
