#include "backend.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "memory.hpp"
#include "runtime.hpp"

namespace tenon::cuda {
namespace {

cudaStream_t stream_of(void* handle) { return static_cast<cudaStream_t>(handle); }

tenon_status devices(void*, uint32_t* n, const tenon_device* const** list) noexcept {
  return sdk::guard([&] {
    const Devices& all = Devices::instance();
    all.require();
    *n = all.size(), *list = all.tables();
  });
}

tenon_status make_stream(void*, uint32_t dev, int32_t priority, void** stream) noexcept {
  return sdk::guard([&] {
    Devices::instance().use(dev);
    int least = 0, greatest = 0;  // the runtime counts downwards
    TENON_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    const int wanted = std::max(greatest, std::min(least, -priority));
    cudaStream_t made = nullptr;
    TENON_CUDA(cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, wanted));
    Handles::instance().add(made, TENON_HANDLE_STREAM, dev);
    *stream = made;
  });
}

tenon_status make_event(void*, uint32_t dev, void** event) noexcept {
  return sdk::guard([&] {
    Devices::instance().use(dev);
    cudaEvent_t made = nullptr;
    TENON_CUDA(cudaEventCreateWithFlags(&made, cudaEventDisableTiming));
    Handles::instance().add(made, TENON_HANDLE_EVENT, dev);
    *event = made;
  });
}

tenon_status record(void*, void* event, void* stream) noexcept {
  return sdk::guard([&] {
    Handles::instance().device_of(event, TENON_HANDLE_EVENT);
    use_device_of(stream);
    TENON_CUDA(cudaEventRecord(static_cast<cudaEvent_t>(event), stream_of(stream)));
  });
}

tenon_status wait(void*, void* stream, void* event) noexcept {
  return sdk::guard([&] {
    Handles::instance().device_of(event, TENON_HANDLE_EVENT);
    use_device_of(stream);
    TENON_CUDA(cudaStreamWaitEvent(stream_of(stream), static_cast<cudaEvent_t>(event), 0));
  });
}

tenon_status sync(void*, void* handle, uint64_t timeout_ns) noexcept {
  return sdk::guard([&]() -> tenon_status {
    Devices::instance().use(Handles::instance().device_of(handle, 0));
    const bool is_event = Handles::instance().is(handle, TENON_HANDLE_EVENT);
    const auto query = [&] {
      return is_event ? cudaEventQuery(static_cast<cudaEvent_t>(handle)) : cudaStreamQuery(stream_of(handle));
    };
    if (timeout_ns == 0) {
      check(
          is_event ? cudaEventSynchronize(static_cast<cudaEvent_t>(handle)) : cudaStreamSynchronize(stream_of(handle)),
          is_event ? "cudaEventSynchronize" : "cudaStreamSynchronize");
      return TENON_OK;
    }
    const auto begin = std::chrono::steady_clock::now();
    for (;;) {
      const cudaError_t code = query();
      if (code != cudaErrorNotReady) {
        check(code, is_event ? "cudaEventQuery" : "cudaStreamQuery");
        return TENON_OK;
      }
      cudaGetLastError();
      const auto waited = std::chrono::steady_clock::now() - begin;
      if (waited >= std::chrono::nanoseconds(timeout_ns))
        return sdk::fail(TENON_CANCELLED, sdk::text("not done after %.3f s", double(timeout_ns) * 1e-9));
      // A step takes a few hundred microseconds: spin for that long, then leave the core to others.
      if (waited > std::chrono::milliseconds(1)) std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  });
}

tenon_status capture_begin(void*, void* stream) noexcept {
  return sdk::guard([&] {
    Devices::instance().use(Handles::instance().device_of(stream, TENON_HANDLE_STREAM));
    TENON_CUDA(cudaStreamBeginCapture(stream_of(stream), cudaStreamCaptureModeRelaxed));
  });
}

tenon_status capture_end(void*, void* stream, void** graph) noexcept {
  return sdk::guard([&] {
    const uint32_t dev = Handles::instance().device_of(stream, TENON_HANDLE_STREAM);
    Devices::instance().use(dev);
    cudaGraph_t captured = nullptr;
    TENON_CUDA(cudaStreamEndCapture(stream_of(stream), &captured));
    if (!captured) throw sdk::Error(TENON_INTERNAL, "cudaStreamEndCapture: the capture was broken off");
    cudaGraphExec_t ready = nullptr;
    const cudaError_t code = cudaGraphInstantiate(&ready, captured, 0);
    cudaGraphDestroy(captured);
    check(code, "cudaGraphInstantiate");
    Handles::instance().add(ready, TENON_HANDLE_GRAPH, dev);
    *graph = ready;
  });
}

tenon_status replay(void*, void* graph, void* stream) noexcept {
  return sdk::guard([&] {
    Devices::instance().use(Handles::instance().device_of(graph, TENON_HANDLE_GRAPH));
    TENON_CUDA(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), stream_of(stream)));
  });
}

void destroy(void*, uint32_t what, void* handle) noexcept {
  if (!handle) return;
  sdk::guard([&] {
    Devices::instance().use(Handles::instance().device_of(handle, what));
    Handles::instance().remove(handle, what);
    switch (what) {
      case TENON_HANDLE_STREAM:
        TENON_CUDA(cudaStreamDestroy(stream_of(handle)));
        break;
      case TENON_HANDLE_EVENT:
        TENON_CUDA(cudaEventDestroy(static_cast<cudaEvent_t>(handle)));
        break;
      default:
        TENON_CUDA(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(handle)));
    }
  });
}

void* native(void*, uint32_t, void* handle) noexcept { return handle; }

tenon_status describe(void*, tenon_str* text) noexcept {
  return sdk::guard([&] {
    static const std::string& line = *new std::string([] {
      int runtime = 0, driver = 0;
      cudaRuntimeGetVersion(&runtime);
      if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
        cudaGetLastError();
        return sdk::text("CUDA %d.%d, no driver", runtime / 1000, runtime % 1000 / 10);
      }
      return sdk::text("CUDA %d.%d, a driver for %d.%d", runtime / 1000, runtime % 1000 / 10, driver / 1000,
                       driver % 1000 / 10);
    }());
    *text = sdk::to_str(line);
  });
}

}  // namespace

const tenon_backend* backend_record() {
  static const tenon_backend table = [] {
    tenon_backend b = {};
    b.struct_size = sizeof b, b.flags = TENON_BACKEND_CAPTURE | TENON_BACKEND_PEER, b.name = sdk::to_str("cuda");
    b.devices = devices, b.memory = memory_info, b.alloc = allocate, b.free = release;
    b.stream = make_stream, b.event = make_event, b.record = record, b.wait = wait, b.sync = sync;
    b.copy = copy, b.fill = fill, b.peer = peer;
    b.capture_begin = capture_begin, b.capture_end = capture_end, b.replay = replay;
    b.destroy = destroy, b.native = native, b.describe = describe;
    return b;
  }();
  return &table;
}

}  // namespace tenon::cuda
