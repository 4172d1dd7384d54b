#include "communicator.hpp"

#include <thread>
#include <utility>

namespace tenon::nccl {
namespace {

tenon_status status_of(ncclResult_t result) {
  switch (result) {
    case ncclInvalidArgument:
    case ncclInvalidUsage:
      return TENON_INVALID_ARGUMENT;
    case ncclUnhandledCudaError:
    case ncclRemoteError:
      return TENON_DEVICE_LOST;
    default:
      return TENON_INTERNAL;
  }
}

[[noreturn]] void fail(ncclResult_t result, const char* what, ncclComm_t comm) {
  std::string message = sdk::text("%s: %s", what, ncclGetErrorString(result));
  const char* more = ncclGetLastError(comm);
  if (more && *more) message += sdk::text(" (%s)", more);
  throw sdk::Error(status_of(result), message);
}

void use(int device) {
  if (const cudaError_t code = cudaSetDevice(device); code != cudaSuccess)
    throw sdk::Error(TENON_DEVICE_LOST, sdk::text("cudaSetDevice(%d): %s", device, cudaGetErrorString(code)));
}

}  // namespace

Communicator::Communicator(std::shared_ptr<Group> group, const ncclUniqueId& id, const Place& place)
    : group_(std::move(group)), place_(place) {
  group_->add(*this);
  try {
    use(place_.device);
    run("ncclCommInitRankConfig", [&] {
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      return ncclCommInitRankConfig(&comm_, int(place_.n), id, int(place_.rank), &config);
    });
  } catch (...) {
    release();
    throw;
  }
}

Communicator::~Communicator() { release(); }

void Communicator::release() noexcept {
  if (const ncclComm_t comm = stop()) {  // nothing has failed
    cudaSetDevice(place_.device);
    ncclCommDestroy(comm);
  }
  group_->remove(*this);
}

ncclComm_t Communicator::stop() noexcept {
  const std::lock_guard lock(mutex_);
  is_stopped_ = true;
  return std::exchange(comm_, nullptr);
}

void Communicator::abort() noexcept { group_->end(sdk::text("rank %u gave up", place_.rank)); }

void Communicator::fail_if_stopped() const {
  if (is_stopped_) throw sdk::Error(TENON_CANCELLED, "the group of ranks has ended: " + group_->why());
}

void Communicator::run(const char* what, const std::function<ncclResult_t()>& call) {
  try {
    std::unique_lock lock(mutex_);
    fail_if_stopped();
    settle(lock, call(), what);
  } catch (const std::exception& error) {
    group_->end(sdk::text("rank %u: %s", place_.rank, error.what()));
    throw;
  }
}

void Communicator::settle(std::unique_lock<std::mutex>& lock, ncclResult_t result, const char* what) {
  const auto begin = std::chrono::steady_clock::now();
  while (result == ncclInProgress) {
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (waited > place_.limit)
      throw sdk::Error(TENON_INTERNAL, sdk::text("%s: the other ranks did not answer within %lld s", what,
                                                 static_cast<long long>(place_.limit.count() / 1000)));
    lock.unlock();
    if (waited > std::chrono::milliseconds(1)) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    } else {
      std::this_thread::yield();
    }
    lock.lock();
    fail_if_stopped();
    if (const ncclResult_t asked = ncclCommGetAsyncError(comm_, &result); asked != ncclSuccess) result = asked;
  }
  if (result != ncclSuccess) fail(result, what, comm_);
}

void Communicator::group(bool begin) {
  collects_ = begin;
  if (!begin) run_calls();
}

void Communicator::collect(const Call& call) {
  if (call.peer >= place_.n || call.peer == place_.rank)
    throw sdk::Error(TENON_INVALID_ARGUMENT, sdk::text("nccl: rank %u of %u exchanges with rank %u", place_.rank, place_.n, call.peer));
  calls_.push_back(call);
  if (!collects_) run_calls();
}

void Communicator::send(tenon_addr data, uint64_t bytes, uint32_t to, void* stream) {
  collect({true, data, bytes, to, static_cast<cudaStream_t>(stream)});
}

void Communicator::recv(tenon_addr data, uint64_t bytes, uint32_t from, void* stream) {
  collect({false, data, bytes, from, static_cast<cudaStream_t>(stream)});
}

void Communicator::run_calls() {
  const std::vector<Call> calls = std::move(calls_);
  calls_.clear();
  if (calls.empty()) return;
  use(place_.device);
  run("exchange with other ranks", [&] {
    ncclResult_t result = ncclGroupStart();
    for (const Call& call : calls) {
      void* const data = reinterpret_cast<void*>(call.data);
      if (result == ncclSuccess || result == ncclInProgress)
        result = call.is_send ? ncclSend(data, call.bytes, ncclUint8, int(call.peer), comm_, call.stream)
                              : ncclRecv(data, call.bytes, ncclUint8, int(call.peer), comm_, call.stream);
    }
    const ncclResult_t end = ncclGroupEnd();  // also behind a failure: the thread's group has to be closed
    return result == ncclSuccess || result == ncclInProgress ? end : result;
  });
}

void Communicator::all_reduce(tenon_addr in, tenon_addr out, uint64_t n, void* stream) {
  if (collects_) throw sdk::Error(TENON_INVALID_ARGUMENT, "nccl: all_reduce inside a group of calls");
  use(place_.device);
  run("sum over the ranks", [&] {
    return ncclAllReduce(reinterpret_cast<void*>(in), reinterpret_cast<void*>(out), n, ncclFloat32, ncclSum, comm_,
                         static_cast<cudaStream_t>(stream));
  });
}

void Communicator::poll() {
  run("the group of ranks", [&] {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(comm_, &state);
    if (asked != ncclSuccess) return asked;
    return state == ncclInProgress ? ncclSuccess : state;
  });
}

}  // namespace tenon::nccl
