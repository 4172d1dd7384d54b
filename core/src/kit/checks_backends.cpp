// Backends: memory, copies in two dimensions, order of streams, teams.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <optional>

#include "numeric.hpp"
#include "subject.hpp"

namespace tenon::kit {
namespace {

constexpr uint32_t kHost = UINT32_MAX;

tenon_addr address(const void* p) { return reinterpret_cast<tenon_addr>(p); }

std::string number(uint64_t n) { return std::to_string(n); }

// One device of a backend. Calls throw when they fail.
class DeviceUnderTest {
 public:
  DeviceUnderTest(const tenon_backend& backend, uint32_t dev) : b(backend), dev(dev) {}
  ~DeviceUnderTest() {
    for (const tenon_addr a : held_) b.free(b.self, dev, TENON_MEMORY_DEVICE, a);
  }
  DeviceUnderTest(const DeviceUnderTest&) = delete;
  DeviceUnderTest& operator=(const DeviceUnderTest&) = delete;

  void check(tenon_status status, const char* what) const {
    if (status == TENON_OK) return;
    throw std::runtime_error(std::string(what) + "() answered " + number(uint64_t(status)) + ": " +
                             plugin::PluginHost::take_message());
  }
  tenon_addr alloc(uint64_t bytes, uint64_t align = 64) {
    tenon_addr out = 0;
    check(b.alloc(b.self, dev, TENON_MEMORY_DEVICE, bytes, align, &out), "alloc");
    held_.push_back(out);
    return out;
  }
  void release(tenon_addr a) {
    held_.erase(std::find(held_.begin(), held_.end(), a));
    b.free(b.self, dev, TENON_MEMORY_DEVICE, a);
  }
  std::vector<uint8_t> read(tenon_addr from, size_t bytes) const {
    std::vector<uint8_t> out(bytes, 0xee);
    if (bytes) check(b.copy(b.self, nullptr, kHost, address(out.data()), dev, from, bytes, 1, bytes, bytes), "copy");
    return out;
  }
  void write(tenon_addr to, const std::vector<uint8_t>& data) const {
    if (!data.empty())
      check(b.copy(b.self, nullptr, dev, to, kHost, address(data.data()), data.size(), 1, data.size(), data.size()),
            "copy");
  }

  const tenon_backend& b;
  const uint32_t dev;

 private:
  std::vector<tenon_addr> held_;
};

std::vector<uint8_t> pattern(size_t n, uint64_t seed) {
  std::vector<uint8_t> out(n);
  Random random(seed);
  for (uint8_t& byte : out) byte = uint8_t(random.bits() >> 24);
  return out;
}

std::string alloc_fault(const tenon_backend& b, uint32_t dev) {
  DeviceUnderTest d(b, dev);
  for (const uint64_t align : {uint64_t(1), uint64_t(64), uint64_t(4096)})
    for (const uint64_t bytes : {uint64_t(1), uint64_t(63), uint64_t(4096), uint64_t(1000003)}) {
      const tenon_addr a = d.alloc(bytes, align);
      if (a == 0 || a % align)
        return "alloc() of " + number(bytes) + " bytes does not lie at a multiple of " + number(align);
      const auto fresh = d.read(a, bytes);
      if (std::any_of(fresh.begin(), fresh.end(), [](uint8_t v) { return v != 0; })) return "memory is not zeroed";
      d.write(a, pattern(bytes, bytes));
      d.release(a);  // so that the next one may get it again
      const tenon_addr again = d.alloc(bytes, align);
      const auto found = d.read(again, bytes);
      if (std::any_of(found.begin(), found.end(), [](uint8_t v) { return v != 0; }))
        return "memory that was used before is not zeroed";
    }
  return "";
}

std::string too_much_fault(const tenon_backend& b, uint32_t dev) {
  DeviceUnderTest d(b, dev);
  uint64_t free_bytes = 0, total = 0;
  d.check(b.memory(b.self, dev, &free_bytes, &total), "memory");
  if (total == 0 || free_bytes > total)
    return "memory() says " + number(free_bytes) + " bytes of " + number(total) + " are free";
  for (const uint64_t bytes : {total * 4, uint64_t(1) << 62, UINT64_MAX - 100, UINT64_MAX}) {
    tenon_addr out = 0x1234;
    plugin::PluginHost::take_message();
    const tenon_status status = b.alloc(b.self, dev, TENON_MEMORY_DEVICE, bytes, 64, &out);
    if (status == TENON_OK) return "alloc() gave " + number(bytes) + " bytes, the device has " + number(total);
    if (status != TENON_OUT_OF_MEMORY)
      return "alloc() of too much answered " + number(uint64_t(status)) + ", expected OUT_OF_MEMORY";
    if (plugin::PluginHost::take_message().empty()) return "alloc() failed without a message";
    if (out != 0x1234) return "alloc() failed and changed its output";
  }
  return "";
}

// Rows between memories with steps of their own; what lies between the rows stays.
std::string copy_fault(const tenon_backend& b, uint32_t dev) {
  DeviceUnderTest d(b, dev);
  struct Shape {
    uint64_t row_bytes, rows, dst_step, src_step;
  };
  static constexpr Shape kShapes[] = {{1, 1, 1, 1},     {7, 5, 7, 7},     {64, 9, 128, 64},
                                      {64, 9, 64, 192}, {33, 17, 40, 51}, {4096, 3, 4096, 5000},
                                      {0, 3, 8, 8},     {8, 0, 8, 8},     {1000, 2, 1000, 1000}};
  for (const Shape& s : kShapes) {
    const size_t from_bytes = size_t(s.src_step * std::max<uint64_t>(s.rows, 1) + 64),
                 to_bytes = size_t(s.dst_step * std::max<uint64_t>(s.rows, 1) + 64);
    const auto from = pattern(from_bytes, 1), old = pattern(to_bytes, 2);
    std::vector<uint8_t> want = old;
    for (uint64_t r = 0; r < s.rows; ++r)
      std::copy_n(from.begin() + int64_t(r * s.src_step), s.row_bytes, want.begin() + int64_t(r * s.dst_step));
    const std::string shape = number(s.rows) + " rows of " + number(s.row_bytes) + " bytes, steps of " +
                              number(s.dst_step) + " and " + number(s.src_step);
    const tenon_addr src = d.alloc(from_bytes), dst = d.alloc(to_bytes);
    d.write(src, from);
    const auto differs = [&](const std::vector<uint8_t>& found, const char* way) -> std::string {
      for (size_t i = 0; i < found.size(); ++i)
        if (found[i] != want[i]) return "copy " + std::string(way) + ", " + shape + ": byte " + number(i) + " is wrong";
      return "";
    };
    std::vector<uint8_t> host = old;
    d.check(b.copy(b.self, nullptr, kHost, address(host.data()), dev, src, s.row_bytes, s.rows, s.dst_step, s.src_step),
            "copy");
    if (std::string fault = differs(host, "from the device"); !fault.empty()) return fault;
    d.write(dst, old);
    d.check(b.copy(b.self, nullptr, dev, dst, kHost, address(from.data()), s.row_bytes, s.rows, s.dst_step, s.src_step),
            "copy");
    if (std::string fault = differs(d.read(dst, to_bytes), "to the device"); !fault.empty()) return fault;
    d.write(dst, old);
    d.check(b.copy(b.self, nullptr, dev, dst, dev, src, s.row_bytes, s.rows, s.dst_step, s.src_step), "copy");
    if (std::string fault = differs(d.read(dst, to_bytes), "inside the device"); !fault.empty()) return fault;
    if (d.read(src, from_bytes) != from) return "copy changed its source, " + shape;
  }
  return "";
}

std::string fill_fault(const tenon_backend& b, uint32_t dev) {
  DeviceUnderTest d(b, dev);
  const tenon_addr a = d.alloc(1024);
  const auto old = pattern(1024, 3);
  for (const auto& [begin, n] : {std::pair<size_t, size_t>{0, 1024}, {1, 1}, {3, 77}, {64, 0}, {500, 524}}) {
    d.write(a, old);
    d.check(b.fill(b.self, nullptr, dev, a + begin, 0xab, n), "fill");
    const auto found = d.read(a, 1024);
    for (size_t i = 0; i < found.size(); ++i)
      if (found[i] != (i >= begin && i < begin + n ? 0xab : old[i]))
        return "fill of " + number(n) + " bytes from byte " + number(begin) + ": byte " + number(i) + " is wrong";
  }
  return "";
}

// A handle that ends with its scope.
struct Handle {
  Handle(const tenon_backend& backend, uint32_t kind) : b(backend), what(kind) {}
  ~Handle() {
    if (handle && b.destroy) b.destroy(b.self, what, handle);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  const tenon_backend& b;
  uint32_t what;
  void* handle = nullptr;
};

// Two streams, and copies in a chain over both of them. Its end holds the data of its begin when every link waits for
// the one before.
class Chain {
 public:
  Chain(const DeviceUnderTest& device, DeviceUnderTest& memory, uint32_t n_event)
      : d_(device), one_(d_.b, TENON_HANDLE_STREAM), two_(d_.b, TENON_HANDLE_STREAM) {
    d_.check(d_.b.stream(d_.b.self, d_.dev, 0, &one_.handle), "stream");
    d_.check(d_.b.stream(d_.b.self, d_.dev, 0, &two_.handle), "stream");
    for (uint32_t i = 0; i < n_event; ++i) {
      events_.emplace_back(d_.b, TENON_HANDLE_EVENT);
      d_.check(d_.b.event(d_.b.self, d_.dev, &events_.back().handle), "event");
    }
    for (size_t i = 0; i <= kLinks; ++i) chain_.push_back(memory.alloc(kBytes));
  }
  // Gives the chain's begin new data and puts all copies on the streams. Event i of n is recorded after every n-th
  // link.
  void start(uint64_t seed) {
    for (size_t i = 1; i < chain_.size(); ++i)
      d_.check(d_.b.fill(d_.b.self, nullptr, d_.dev, chain_[i], 0, kBytes), "fill");
    data_ = pattern(kBytes, seed);
    d_.write(chain_[0], data_);
    for (size_t i = 0; i < kLinks; ++i) {
      void* mine = i % 2 ? two_.handle : one_.handle;
      if (i > 0) d_.check(d_.b.wait(d_.b.self, mine, event(i - 1)), "wait");
      d_.check(d_.b.copy(d_.b.self, mine, d_.dev, chain_[i + 1], d_.dev, chain_[i], kBytes, 1, kBytes, kBytes), "copy");
      d_.check(d_.b.record(d_.b.self, event(i), mine), "record");
    }
  }
  bool is_done() const { return d_.read(chain_.back(), kBytes) == data_; }
  tenon_status sync_event(uint64_t timeout_ns) const { return d_.b.sync(d_.b.self, event(kLinks - 1), timeout_ns); }
  tenon_status sync_streams() const {
    const tenon_status first = d_.b.sync(d_.b.self, two_.handle, 0);  // it has the last link
    return first == TENON_OK ? d_.b.sync(d_.b.self, one_.handle, 0) : first;
  }

 private:
  static constexpr size_t kBytes = 1 << 20, kLinks = 12;
  void* event(size_t i) const { return events_[i % events_.size()].handle; }
  const DeviceUnderTest& d_;
  Handle one_, two_;
  std::deque<Handle> events_;
  std::vector<tenon_addr> chain_;
  std::vector<uint8_t> data_;
};

std::string order_fault(const tenon_backend& b, uint32_t dev) {
  DeviceUnderTest d(b, dev);
  for (const uint32_t n_event : {12u, 2u}) {  // fresh ones, and such that are recorded again and again
    const std::string which = n_event == 2 ? " that are recorded again" : "";
    Chain chain(d, d, n_event);
    chain.start(4);
    d.check(chain.sync_event(0), "sync");
    if (!chain.is_done()) return "copies on two streams were not in the order that their events" + which + " ask for";
    d.check(chain.sync_streams(), "sync");
    chain.start(5);
    d.check(chain.sync_streams(), "sync");
    if (!chain.is_done()) return "sync() of a stream came back before its copies were done";
    chain.start(6);
    const tenon_status status = chain.sync_event(1);
    if (status == TENON_OK && !chain.is_done())
      return "sync() with a time answered OK before the event, expected CANCELLED";
    if (status != TENON_OK && status != TENON_CANCELLED) d.check(status, "sync");
    d.check(chain.sync_streams(), "sync");
  }
  return "";
}

std::string capture_fault(const tenon_backend& b, uint32_t dev) {
  DeviceUnderTest d(b, dev);
  Handle stream(b, TENON_HANDLE_STREAM), graph(b, TENON_HANDLE_GRAPH);
  d.check(b.stream(b.self, dev, 0, &stream.handle), "stream");
  const tenon_addr from = d.alloc(4096), to = d.alloc(4096);
  d.check(b.capture_begin(b.self, stream.handle), "capture_begin");
  d.check(b.copy(b.self, stream.handle, dev, to, dev, from, 4096, 1, 4096, 4096), "copy");
  d.check(b.capture_end(b.self, stream.handle, &graph.handle), "capture_end");
  for (uint64_t round = 0; round < 3; ++round) {
    const auto data = pattern(4096, 10 + round);
    d.write(from, data);
    d.check(b.replay(b.self, graph.handle, stream.handle), "replay");
    d.check(b.sync(b.self, stream.handle, 0), "sync");
    if (d.read(to, 4096) != data) return "a replay did not do what was captured";
  }
  return "";
}

// What a team's workers do together.
struct TeamWork {
  uint32_t workers = 0;
  std::vector<std::atomic<uint32_t>> ran, claimed;
  std::vector<std::atomic<uint32_t>> round;  // of each worker
  std::atomic<uint32_t> faults = 0;
  static constexpr uint32_t kRounds = 200;
  static constexpr int64_t kUnits = 1000;
  explicit TeamWork(uint32_t n) : workers(n), ran(n), claimed(kUnits), round(n) {}

  static void body(void* arg, const tenon_exec* exec) {
    TeamWork& work = *static_cast<TeamWork*>(arg);
    if (exec->worker >= work.workers || exec->n_workers != work.workers) {
      work.faults.fetch_add(1);
      return;
    }
    work.ran[exec->worker].fetch_add(1);
    for (uint32_t i = 0; i < kRounds; ++i) {
      work.round[exec->worker].store(i + 1);
      exec->barrier(exec->team);
      for (const auto& other : work.round)
        if (other.load() < i + 1) work.faults.fetch_add(1);  // somebody has not arrived
      exec->barrier(exec->team);
    }
    for (;;) {
      const int64_t first = exec->claim(exec->counter, 3);
      if (first >= kUnits) return;
      for (int64_t u = first; u < std::min(first + 3, kUnits); ++u) work.claimed[size_t(u)].fetch_add(1);
    }
  }
};

std::string team_fault(const tenon_backend& b, uint32_t dev) {
  DeviceUnderTest d(b, dev);
  for (const uint32_t workers : {1u, 2u, 3u, 7u, 1u, 4u})
    for (int round = 0; round < 5; ++round) {
      TeamWork work(workers);
      d.check(b.team(b.self, dev, workers, TeamWork::body, &work), "team");
      for (uint32_t w = 0; w < workers; ++w)
        if (work.ran[w] != 1)
          return "worker " + number(w) + " of " + number(workers) + " ran " + number(work.ran[w]) + " times";
      if (work.faults > 0) return "a worker of " + number(workers) + " left a barrier before all had reached it";
      for (int64_t u = 0; u < TeamWork::kUnits; ++u)
        if (work.claimed[size_t(u)] != 1)
          return "unit " + number(uint64_t(u)) + " was claimed " + number(work.claimed[size_t(u)]) + " times";
    }
  return "";
}

std::string devices_fault(const tenon_backend& b, uint32_t n, const tenon_device* const* list) {
  uint32_t again = 0;
  const tenon_device* const* second = nullptr;
  if (b.devices(b.self, &again, &second) != TENON_OK || again != n)
    return "devices() answered something else the second time";
  for (uint32_t i = 0; i < n; ++i) {
    if (second[i] != list[i]) return "devices() gave another record the second time";
    const tenon_device& d = *list[i];
    if (d.struct_size != sizeof d) return "device " + number(i) + ": its size is " + number(d.struct_size);
    if (d.index != i) return "device " + number(i) + " says that its index is " + number(d.index);
    if (view(d.backend) != view(b.name))
      return "device " + number(i) + " says that its backend is " + text_of(d.backend);
    if (view(d.name).empty()) return "device " + number(i) + " has no name";
    if ((b.flags & TENON_BACKEND_SPMD) && d.max_workers == 0) return "device " + number(i) + " has no workers";
    if (d.n_feature > 0 && !d.features) return "device " + number(i) + " counts features, but lists none";
  }
  if (!b.describe) return "";
  tenon_str one = {}, two = {};
  if (b.describe(b.self, &one) != TENON_OK || b.describe(b.self, &two) != TENON_OK) return "describe() failed";
  return view(one).empty() || view(one) != view(two) ? "describe() answered nothing, or another line the second time"
                                                     : "";
}

void check_backend(Session& session, const tenon_backend& b) {
  const std::string title = "backend " + text_of(b.name) + ": ";
  uint32_t n = 0;
  const tenon_device* const* list = nullptr;
  std::string none;
  session.check(title + "lists its devices, the same each time", "P6 P7", [&] {
    plugin::PluginHost::take_message();
    const tenon_status status = b.devices(b.self, &n, &list);
    if (status == TENON_OK && n > 0)
      return outcome(devices_fault(b, n, list), number(n) + (n == 1 ? " device" : " devices"));
    none = plugin::PluginHost::take_message();
    if (status == TENON_OK) none = "it has no device here";
    return none.empty() ? fail("devices() failed without a message") : skip(none);
  });
  if (n == 0 && b.devices(b.self, &n, &list) != TENON_OK) n = 0;
  for (uint32_t dev = 0; dev < n; ++dev) {
    const auto add = [&](const char* what, const char* duties, bool able, const char* unable,
                         std::string (*fault)(const tenon_backend&, uint32_t)) {
      session.check(title + (n > 1 ? "device " + number(dev) + " " : "") + what, duties,
                    [&] { return able ? outcome(fault(b, dev)) : skip(unable); });
    };
    add("gives zeroed and aligned memory", "P9", true, "", alloc_fault);
    add("answers a request for too much memory", "P10", true, "", too_much_fault);
    add("copies rows with steps, and nothing between them", "", true, "", copy_fault);
    add("fills what it is told to", "", true, "", fill_fault);
    add("keeps the order that events ask for", "", b.stream && b.event && b.record && b.wait && b.sync,
        "it has no streams", order_fault);
    add("replays what was captured", "", (b.flags & TENON_BACKEND_CAPTURE) != 0, "its flags promise no capture",
        capture_fault);
    add("runs teams whose barriers and claims hold", "P15", (b.flags & TENON_BACKEND_SPMD) != 0,
        "its flags promise no team", team_fault);
  }
}

}  // namespace

Group backend_checks(const Subject& subject) {
  return {"backends", [&subject](Session& session) {
            const Opened opened(subject, session.options());
            if (!opened.fault().empty()) return;
            for (const tenon_backend* backend : opened.contents().backends) check_backend(session, *backend);
          }};
}

}  // namespace tenon::kit
