#include "probe.hpp"

#include "plugin/plugin_host.hpp"

#include <tenon/error.hpp>

#include <fmt/format.h>

#include <array>
#include <span>
#include <utility>
#include <vector>

namespace tenon::parallel {
namespace {

constexpr std::array<uint64_t, 4> kBytes = {16 << 10, 64 << 10, 1 << 20, 64 << 20};
constexpr size_t kSizesOnHost = 3;  // between devices what is long may take another way

// A stream of the device, where it has some.
class Stream {
 public:
  explicit Stream(const program::Device& device) : device_(device) {
    const tenon_backend& backend = device.backend();
    if (device.is_spmd() || !backend.stream) return;
    plugin::check_status(backend.stream(backend.self, device.table().index, 0, &handle_), "create a stream");
    native_ = backend.native ? backend.native(backend.self, TENON_HANDLE_STREAM, handle_) : handle_;
  }
  ~Stream() {
    if (handle_) device_.backend().destroy(device_.backend().self, TENON_HANDLE_STREAM, handle_);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  void* native() const { return native_; }
  void wait(const Communicator& communicator, std::chrono::milliseconds limit) const {
    if (handle_) communicator.wait(handle_, limit);
  }

 private:
  const program::Device& device_;
  void *handle_ = nullptr, *native_ = nullptr;
};

// Words of one message on the device, and what the host writes there and reads.
struct Message {
  Message(const program::Device& device, uint64_t bytes) : words(bytes / sizeof(uint32_t)), memory(device, bytes, "memory to probe ranks with") {}
  std::vector<uint32_t> words;
  program::Buffer memory;
};

void exchange(const Communicator& communicator, const Message& out, uint32_t to, const Message& in, uint32_t from, uint64_t bytes, const Stream& stream) {
  constexpr const char* kWhat = "while ranks are probed";
  communicator.require(communicator.group(true), kWhat);
  communicator.require(communicator.send(out.memory.address(), bytes, to, stream.native()), kWhat);
  communicator.require(communicator.recv(in.memory.address(), bytes, from, stream.native()), kWhat);
  communicator.require(communicator.group(false), kWhat);
}

}  // namespace

void probe(const Communicator& communicator, std::chrono::milliseconds limit) {
  const program::Device& device = communicator.device();
  const Stream stream(device);
  const uint32_t own = communicator.rank(), n = communicator.size();
  for (const uint64_t bytes : std::span(kBytes).first(device.is_host_memory() ? kSizesOnHost : kBytes.size())) {
    Message out(device, bytes), in(device, bytes);
    const auto n_words = uint32_t(out.words.size());
    for (uint32_t distance = 1; distance < n; ++distance) {  // each rank sends to one and hears from one at a time
      const uint32_t to = (own + distance) % n, from = (own + n - distance) % n;
      for (uint32_t i = 0; i < n_words; ++i) out.words[i] = probe_word(i, own, to), in.words[i] = ~probe_word(i, from, own);
      device.upload(out.memory.address(), out.words.data(), bytes);
      device.upload(in.memory.address(), in.words.data(), bytes);
      exchange(communicator, out, to, in, from, bytes, stream);
      stream.wait(communicator, limit);
      device.download(in.words.data(), in.memory.address(), bytes);
      uint32_t wrong = 0;
      for (uint32_t i = 0; i < n_words; ++i) wrong += in.words[i] != probe_word(i, from, own);
      if (wrong)
        throw Error(ErrorKind::kRuntime, fmt::format("of {} bytes from rank {} to rank {}, {} of {} words did not arrive as they were sent", bytes, from,
                                                     own, wrong, n_words));
    }
  }
}

}  // namespace tenon::parallel
