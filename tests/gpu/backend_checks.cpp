// The backend's own table: memory, copies, events, graphs, errors.
#include <cstring>

#include "checks.hpp"

namespace tenon::gpu_test {
namespace {

constexpr uint32_t kHost = UINT32_MAX;
tenon_addr address(const void* p) { return reinterpret_cast<tenon_addr>(p); }

class Table {
 public:
  Table(const Device& device, Line& line)
      : device_(device), b_(device.backend()), dev_(device.table().index), line_(line) {}

  void check_memory() {
    uint64_t free_bytes = 0, total = 0;
    expect(b_.memory(b_.self, dev_, &free_bytes, &total) == TENON_OK && free_bytes > 0 && free_bytes <= total,
           "memory()");
    for (const uint32_t kind : {TENON_MEMORY_DEVICE, TENON_MEMORY_PINNED, TENON_MEMORY_MAPPED})
      for (const uint64_t align : {64, 4096, 2 << 20}) {
        tenon_addr p = 0;
        if (!expect(b_.alloc(b_.self, dev_, kind, 10000, align, &p) == TENON_OK, "alloc()")) continue;
        expect(p % align == 0, "alloc() with an alignment");
        std::vector<uint8_t> seen(10000, 1);
        expect(copy(kHost, address(seen.data()), kind == TENON_MEMORY_DEVICE ? dev_ : kHost, p, 10000), "copy()");
        expect(seen == std::vector<uint8_t>(10000, 0), "new memory is zeroed");
        b_.free(b_.self, dev_, kind, p);
      }
    tenon_addr p = 1;
    expect(b_.alloc(b_.self, dev_, TENON_MEMORY_DEVICE, uint64_t(1) << 50, 64, &p) == TENON_OUT_OF_MEMORY && p == 1 &&
               !Kit::instance().error().empty(),
           "alloc() of a pebibyte answers OUT_OF_MEMORY, with a message, and leaves the output alone");
    expect(b_.alloc(b_.self, dev_, TENON_MEMORY_DEVICE, 64, 96, &p) == TENON_INVALID_ARGUMENT, "an alignment of 96");
    expect(b_.alloc(b_.self, 99, TENON_MEMORY_DEVICE, 64, 64, &p) == TENON_INVALID_ARGUMENT, "device 99");
  }

  void check_copies() {
    const uint64_t rows = 7, row = 100, step = 160, other = 104;
    tenon_addr a = 0, c = 0;
    b_.alloc(b_.self, dev_, TENON_MEMORY_DEVICE, rows * step, 64, &a);
    b_.alloc(b_.self, dev_, TENON_MEMORY_DEVICE, rows * step, 64, &c);
    std::vector<uint8_t> from(rows * other), back(rows * other, 0xee), plain(rows * step);
    for (size_t i = 0; i < from.size(); ++i) from[i] = uint8_t(i * 7);
    bool ok = b_.fill(b_.self, nullptr, dev_, a, 0x55, rows * step) == TENON_OK;
    ok = ok && b_.copy(b_.self, nullptr, dev_, a, kHost, address(from.data()), row, rows, step, other) == TENON_OK;
    ok = ok && b_.copy(b_.self, device_.stream(), dev_, c, dev_, a, rows * step, 1, 0, 0) == TENON_OK;
    ok = ok && b_.sync(b_.self, device_.stream(), 1000000000) == TENON_OK;
    ok = ok && b_.copy(b_.self, nullptr, kHost, address(back.data()), dev_, c, row, rows, other, step) == TENON_OK;
    ok = ok && copy(kHost, address(plain.data()), dev_, c, rows * step);
    expect(ok, "copies of rows");
    bool equal = true, gaps = true;
    for (uint64_t r = 0; r < rows; ++r) {
      equal = equal && std::memcmp(&back[r * other], &from[r * other], row) == 0 && back[r * other + row] == 0xee;
      for (uint64_t i = row; i < step; ++i) gaps = gaps && plain[r * step + i] == 0x55;
    }
    expect(equal && gaps, "rows arrive, and what lies between them stays");
    expect(
        b_.copy(b_.self, nullptr, dev_, a, kHost, address(from.data()), row, rows, 40, other) == TENON_INVALID_ARGUMENT,
        "rows that overlap are refused");
    b_.free(b_.self, dev_, TENON_MEMORY_DEVICE, a), b_.free(b_.self, dev_, TENON_MEMORY_DEVICE, c);
  }

  void check_streams() {
    void *other = nullptr, *event = nullptr, *graph = nullptr;
    expect(b_.stream(b_.self, dev_, 3, &other) == TENON_OK && b_.event(b_.self, dev_, &event) == TENON_OK,
           "stream(), event()");
    tenon_addr a = 0;
    b_.alloc(b_.self, dev_, TENON_MEMORY_DEVICE, 64, 64, &a);
    expect(b_.fill(b_.self, other, dev_, a, 3, 64) == TENON_OK && b_.record(b_.self, event, other) == TENON_OK &&
               b_.wait(b_.self, device_.stream(), event) == TENON_OK && b_.sync(b_.self, event, 0) == TENON_OK &&
               b_.sync(b_.self, device_.stream(), 1000000000) == TENON_OK,
           "an event passes from one stream to another");
    uint8_t seen = 0;
    expect(copy(kHost, address(&seen), dev_, a, 1) && seen == 3, "fill() on a stream");
    expect(b_.capture_begin(b_.self, other) == TENON_OK && b_.fill(b_.self, other, dev_, a, 9, 64) == TENON_OK &&
               b_.capture_end(b_.self, other, &graph) == TENON_OK,
           "capture");
    expect(copy(kHost, address(&seen), dev_, a, 1) && seen == 3, "what is captured does not run");
    for (const uint8_t value : {1, 2}) {
      b_.fill(b_.self, nullptr, dev_, a, value, 64);
      expect(b_.replay(b_.self, graph, device_.stream()) == TENON_OK &&
                 b_.sync(b_.self, device_.stream(), 0) == TENON_OK && copy(kHost, address(&seen), dev_, a, 1) &&
                 seen == 9,
             "a graph is replayed, on another stream too");
    }
    expect(b_.sync(b_.self, &seen, 0) == TENON_INVALID_ARGUMENT, "sync() of what is no handle");
    expect(b_.replay(b_.self, event, other) == TENON_INVALID_ARGUMENT, "replay() of an event");
    b_.destroy(b_.self, TENON_HANDLE_GRAPH, graph), b_.destroy(b_.self, TENON_HANDLE_EVENT, event);
    b_.destroy(b_.self, TENON_HANDLE_STREAM, other);
    expect(b_.sync(b_.self, other, 0) == TENON_INVALID_ARGUMENT, "sync() of a stream that is gone");
    b_.free(b_.self, dev_, TENON_MEMORY_DEVICE, a);
  }

  void check_peers() {
    uint32_t n = 0, direct = 7;
    const tenon_device* const* list = nullptr;
    b_.devices(b_.self, &n, &list);
    expect(b_.peer(b_.self, dev_, dev_, &direct) == TENON_OK && direct == 1, "a device reaches itself");
    for (uint32_t i = 0; i < n; ++i) {
      expect(list[i]->index == i && list[i]->memory_bytes > 0 && list[i]->n_feature > 0, "the record of a device");
      if (i == dev_) continue;
      direct = 7;
      expect(b_.peer(b_.self, dev_, i, &direct) == TENON_OK && direct <= 1, "peer()");
      tenon_addr here = 0, there = 0;
      b_.alloc(b_.self, dev_, TENON_MEMORY_DEVICE, 4096, 64, &here),
          b_.alloc(b_.self, i, TENON_MEMORY_DEVICE, 4096, 64, &there);
      std::vector<uint8_t> sent(4096), seen(4096);
      for (size_t k = 0; k < sent.size(); ++k) sent[k] = uint8_t(k * 5 + i);
      expect(copy(dev_, here, kHost, address(sent.data()), 4096) && copy(i, there, dev_, here, 4096) &&
                 copy(kHost, address(seen.data()), i, there, 4096) && seen == sent,
             "bytes pass from device to device");
      b_.free(b_.self, dev_, TENON_MEMORY_DEVICE, here), b_.free(b_.self, i, TENON_MEMORY_DEVICE, there);
    }
    tenon_str text = {};
    expect(b_.describe(b_.self, &text) == TENON_OK && text.size > 0, "describe()");
  }

 private:
  bool expect(bool holds, const std::string& what) {
    ++line_.cases;
    if (!holds) line_.faults.push_back(what + " (" + Kit::instance().error() + ")");
    return holds;
  }
  bool copy(uint32_t dst_dev, tenon_addr dst, uint32_t src_dev, tenon_addr src, uint64_t bytes) {
    return b_.copy(b_.self, nullptr, dst_dev, dst, src_dev, src, bytes, 1, 0, 0) == TENON_OK;
  }
  const Device& device_;
  const tenon_backend& b_;
  uint32_t dev_;
  Line& line_;
};

}  // namespace

void check_backend(const Device& device, std::vector<Line>& lines) {
  Line line;
  line.name = "backend";
  Table table(device, line);
  table.check_memory(), table.check_copies(), table.check_streams(), table.check_peers();
  lines.push_back(line);
}

}  // namespace tenon::gpu_test
