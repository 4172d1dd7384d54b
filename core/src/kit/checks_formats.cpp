// Formats: valid files give the same each time; files that are cut or changed give an error or a source that stays
// inside of its file, and never a crash.
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>
#include <tenon/error.hpp>

#include "call_watch.hpp"
#include "gguf_builder.hpp"
#include "numeric.hpp"
#include "plugin/host_files.hpp"
#include "source/tensor_checks.hpp"
#include "subject.hpp"

namespace tenon::kit {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxSeedBytes = 256 << 10;  // larger ones are too slow to change in every bit
constexpr size_t kMaxSeeds = 8;
constexpr uint64_t kMaxEntries = 1 << 20;  // of keys or tensors

// A file in memory that ends where unreadable memory begins: reading past its end is a crash.
class MemoryFile final : public tenon_file {
 public:
  MemoryFile(std::string name, std::string_view bytes) : name_(std::move(name)), size_(bytes.size()) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    mapped_ = (size_ + 7 + page) / page * page + page;
    memory_ = static_cast<uint8_t*>(mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    // The begin is aligned for numbers of any width, so up to 7 bytes lie before the border.
    begin_ = memory_ + mapped_ - page - (size_ + 7) / 8 * 8;
    std::memset(memory_, 0xa5, mapped_ - page);
    std::copy(bytes.begin(), bytes.end(), begin_);
    mprotect(memory_ + mapped_ - page, page, PROT_NONE);
    mprotect(memory_, mapped_ - page, PROT_READ);
  }
  ~MemoryFile() override { munmap(memory_, mapped_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  uint64_t size() const override { return size_; }
  std::string_view base_name() const override { return name_; }
  bool read(uint64_t offset, void* dst, uint64_t n) const override {
    if (!holds(offset, n)) return false;
    if (n) std::memcpy(dst, begin_ + offset, n);
    return true;
  }
  const void* map(uint64_t offset, uint64_t n) const override { return holds(offset, n) ? begin_ + offset : nullptr; }
  void advise(uint64_t, uint64_t, uint32_t) const override {}

 private:
  bool holds(uint64_t offset, uint64_t n) const { return n <= size_ && offset <= size_ - n; }
  std::string name_;
  size_t size_, mapped_;
  uint8_t *memory_, *begin_;
};

struct Seed {
  std::string name, bytes;
};

std::string tiny_gguf() {
  GgufBuilder b;
  b.add_string("general.architecture", "kit").add_string("general.name", "a tiny model");
  b.add("kit.block_count", GgufBuilder::kU32, uint32_t(2)).add("kit.epsilon", GgufBuilder::kF32, 1e-6f);
  b.add("general.alignment", GgufBuilder::kU32, uint32_t(32)).add("kit.tied", GgufBuilder::kBool, uint8_t(1));
  b.add("kit.parameters", GgufBuilder::kU64, uint64_t(5000)).add("kit.bias", GgufBuilder::kF64, 0.5);
  b.add_array<int32_t>("kit.layers", GgufBuilder::kI32, {1, 2, 3, -4});
  b.add_array<float>("kit.factors", GgufBuilder::kF32, {1, 0.5f});
  b.add_strings("tokenizer.ggml.tokens", {"<s>", "a", "b", "\xe2\x96\x81word"});
  b.tensor({"token_embd.weight", 0, {32, 4}, std::string(32 * 4 * 4, '\x01')});
  b.tensor({"blk.0.attn_q.weight", 8, {64, 3}, std::string(2 * 34 * 3, '\x02')});  // q8_0
  b.tensor({"blk.0.norm.weight", 0, {32}, std::string(32 * 4, '\x03')});
  return b.build();
}

std::string tiny_safetensors() {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"norm.weight":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},)"
      R"("a.weight":{"dtype":"F8_E4M3","shape":[2,16],"data_offsets":[16,48]},)"
      R"("a.weight_scale_inv":{"dtype":"F32","shape":[1,1],"data_offsets":[48,52]},)"
      R"("b.weight":{"dtype":"BF16","shape":[2,3],"data_offsets":[52,64]}})";
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + std::string(64, '\x38');
}

std::vector<Seed> seeds_of(const tenon_format& format, const KitOptions& options) {
  std::vector<Seed> out;
  if (view(format.name) == "gguf") out.push_back({"tiny.gguf", tiny_gguf()});
  if (view(format.name) == "safetensors") out.push_back({"tiny.safetensors", tiny_safetensors()});
  if (options.files.empty()) return out;
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(options.files))
    if (entry.is_regular_file() && entry.file_size() <= kMaxSeedBytes) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  for (const fs::path& path : paths) {
    if (out.size() == kMaxSeeds) break;
    std::ifstream in(path, std::ios::binary);
    Seed seed = {path.filename().string(), std::string(std::istreambuf_iterator<char>(in), {})};
    uint32_t score = 0;
    if (format.probe(format.self, reinterpret_cast<const uint8_t*>(seed.bytes.data()),
                     std::min<size_t>(seed.bytes.size(), 65536), str(seed.name), &score) == TENON_OK &&
        score > 0)
      out.push_back(std::move(seed));
  }
  return out;
}

// Touches every byte, so that a range that is not there crashes here.
uint64_t digest(uint64_t seed, const void* data, size_t n) {
  const auto* byte = static_cast<const volatile uint8_t*>(data);
  for (size_t i = 0; i < n; ++i) seed = (seed ^ byte[i]) * 0x100000001b3ull;
  return seed;
}

size_t element_bytes(uint32_t type) {
  switch (type) {
    case TENON_VALUE_U8:
    case TENON_VALUE_I8:
    case TENON_VALUE_BOOL:
      return 1;
    case TENON_VALUE_U16:
    case TENON_VALUE_I16:
      return 2;
    case TENON_VALUE_U32:
    case TENON_VALUE_I32:
    case TENON_VALUE_F32:
      return 4;
    case TENON_VALUE_STRING:
      return sizeof(tenon_str);
    case TENON_VALUE_U64:
    case TENON_VALUE_I64:
    case TENON_VALUE_F64:
      return 8;
    default:
      return 0;
  }
}

// What an opened source answers. Faults are those that the host must not meet in any file.
struct Read {
  tenon_status status = TENON_OK;
  std::string message, fault;
  uint64_t digest = 1;
  size_t n_keys = 0, n_tensors = 0;
  bool is_whole = true;  // no plane reaches past the file's end
};

// With a registry, also what the host asks of the tensors and parts of a model, which a valid file has to stand.
class Reader {
 public:
  Reader(const tenon_format& format, const tenon_file& file, const plugin::Registry* registry = nullptr)
      : format_(format), file_(file), registry_(registry) {}

  Read run() {
    void* const untouched = &out_;
    void* source = untouched;
    // Handles are given to plugins as pointers to what they may not change.
    tenon_file* const files[] = {const_cast<tenon_file*>(&file_)};
    plugin::PluginHost::take_message();
    out_.status = format_.open(format_.self, files, 1, &source);
    out_.message = plugin::PluginHost::take_message();
    if (out_.status != TENON_OK) {
      if (out_.message.empty()) fault("open() failed without a message");
      if (out_.status < 0 || out_.status > TENON_INCOMPATIBLE)
        fault("open() answered status " + std::to_string(out_.status));
      if (source != untouched) fault("open() failed and changed its output");
      return out_;
    }
    keys(source);
    if (out_.fault.empty()) tensors(source);
    if (out_.fault.empty() && registry_) parts(source);
    format_.close(source);
    return out_;
  }

 private:
  void fault(std::string what) {
    if (out_.fault.empty()) out_.fault = std::move(what);
  }
  void take(tenon_str text, const char* what) {
    if (text.size > file_.size() || (text.size > 0 && !text.data))
      return fault(std::string(what) + " has " + std::to_string(text.size) + " bytes, the file " +
                   std::to_string(file_.size()));
    out_.digest = digest(out_.digest, text.data, size_t(text.size));
  }
  // True when the call gave an entry.
  bool entry(tenon_status status, uint64_t i, const char* what) {
    if (status == TENON_NOT_FOUND) return false;
    if (status != TENON_OK)
      fault(std::string(what) + " " + std::to_string(i) + " answered status " + std::to_string(status) + ": " +
            plugin::PluginHost::take_message());
    if (i >= kMaxEntries) fault("more than " + std::to_string(kMaxEntries) + " entries of " + what);
    return out_.fault.empty();
  }
  void keys(void* source) {
    for (uint64_t i = 0;; ++i) {
      tenon_str key = {};
      tenon_value value = {};
      value.struct_size = sizeof value;
      if (!entry(format_.meta(source, i, &key, &value), i, "metadata")) return;
      ++out_.n_keys;
      take(key, "a key");
      out_.digest = digest(out_.digest, &value.type, sizeof value.type);
      if (value.type == TENON_VALUE_STRING)
        take(value.string, "a string");
      else if (value.type == TENON_VALUE_ARRAY)
        array(value);
      else if (value.type == TENON_VALUE_NONE || value.type > TENON_VALUE_ARRAY)
        fault("a value of type " + std::to_string(value.type));
      else
        out_.digest = digest(out_.digest,
                             value.type == TENON_VALUE_F32 || value.type == TENON_VALUE_F64
                                 ? static_cast<const void*>(&value.real)
                                 : &value.integer,
                             8);
      if (!out_.fault.empty()) return;
    }
  }
  void array(const tenon_value& value) {
    const size_t size = element_bytes(value.element);
    if (size == 0) return fault("an array of type " + std::to_string(value.element));
    // Every element takes a byte of the file at least.
    if (value.count > file_.size() || (value.count > 0 && !value.data))
      return fault("an array of " + std::to_string(value.count) + " elements in a file of " +
                   std::to_string(file_.size()) + " bytes");
    if (reinterpret_cast<uintptr_t>(value.data) % std::min<size_t>(size, 8))
      return fault("an array that is not aligned");
    if (value.element != TENON_VALUE_STRING) {
      out_.digest = digest(out_.digest, value.data, size_t(value.count) * size);
      return;
    }
    for (uint64_t i = 0; i < value.count; ++i)
      take(static_cast<const tenon_str*>(value.data)[i], "a string of an array");
  }
  void tensors(void* source) {
    std::set<std::string> names;
    for (uint64_t i = 0;; ++i) {
      tenon_tensor t = {};
      t.struct_size = sizeof t;
      if (!entry(format_.tensor(source, i, &t), i, "tensor")) return;
      ++out_.n_tensors;
      take(t.name, "a tensor's name");
      if (!out_.fault.empty()) return;
      if (!names.insert(text_of(t.name)).second) fault("two tensors are called " + text_of(t.name));
      if (t.n_dim > 4 || t.n_plane < 1 || t.n_plane > 4 || !t.plane)
        return fault("tensor " + text_of(t.name) + ": " + std::to_string(t.n_dim) + " dimensions, " +
                     std::to_string(t.n_plane) + " planes");
      for (uint32_t d = 0; d < t.n_dim; ++d)
        if (t.dim[d] < 0) return fault("tensor " + text_of(t.name) + ": dimension " + std::to_string(t.dim[d]));
      out_.digest = digest(out_.digest, t.dim, sizeof(int64_t) * t.n_dim);
      for (uint32_t p = 0; p < t.n_plane; ++p) plane(t, t.plane[p]);
      if (!out_.fault.empty()) return;
      if (registry_) hosts_view(t);
    }
  }
  void hosts_view(const tenon_tensor& t) {
    const source::FileExtent extent = {std::string(file_.base_name()), file_.size()};
    try {
      source::checked_tensor(t, {&extent, 1}, *registry_);
    } catch (const Error& error) {
      fault(std::string("the host refuses it: ") + error.what());
    }
  }
  void parts(void* source) {
    for (uint32_t i = 1;; ++i) {
      tenon_str name = {};
      if (!entry(format_.more(source, i, &name), i, "part")) return;
      if (view(name).empty() || view(name).find('/') != std::string_view::npos)
        return fault("more() names part '" + text_of(name) + "', expected a file of the same directory");
    }
  }
  void plane(const tenon_tensor& t, const tenon_plane& p) {
    if (p.file != 0)
      return fault("tensor " + text_of(t.name) + ": file " + std::to_string(p.file) + " of a set of one");
    if (p.bytes > file_.size() || p.offset > file_.size() - p.bytes) {
      return fault("tensor " + text_of(t.name) + ": " + std::to_string(p.bytes) + " bytes at " +
                   std::to_string(p.offset) + " of a file of " + std::to_string(file_.size()));
    }
    out_.digest = digest(out_.digest, &p.offset, sizeof p.offset);
  }

  const tenon_format& format_;
  const tenon_file& file_;
  const plugin::Registry* registry_;
  Read out_;
};

Read read(const tenon_format& format, const std::string& name, std::string_view bytes,
          const plugin::Registry* registry = nullptr) {
  const MemoryFile file(name, bytes);
  return Reader(format, file, registry).run();
}

// What the checks of a format work on.
struct Subjects {
  const tenon_format& format;
  const plugin::Registry& registry;
  std::vector<Seed> seeds;
};

uint32_t probe(const tenon_format& format, std::string_view bytes, std::string_view name) {
  // A copy of its own size: reading past the end is seen.
  const MemoryFile file("head", bytes);
  uint32_t scores[2] = {};
  for (uint32_t& score : scores)
    if (format.probe(format.self, static_cast<const uint8_t*>(file.map(0, bytes.size())), bytes.size(), str(name),
                     &score) != TENON_OK)
      throw std::runtime_error("probe() failed: " + plugin::PluginHost::take_message());
  if (scores[0] != scores[1]) throw std::runtime_error("probe() answered another score the second time");
  if (scores[0] > 100)
    throw std::runtime_error("probe() answered " + std::to_string(scores[0]) + ", expected at most 100");
  return scores[0];
}

std::string probe_fault(const Subjects& of) {
  probe(of.format, "", "");
  Random random(1);
  for (size_t n : {1u, 3u, 16u, 1000u, 65536u}) {
    std::string bytes(n, '\0');
    for (char& c : bytes) c = char(random.bits() >> 24);
    if (probe(of.format, bytes, "noise.bin") == 100) return "probe() is sure of random bytes";
  }
  for (const Seed& seed : of.seeds) {
    const std::string_view head = std::string_view(seed.bytes).substr(0, 65536);
    if (probe(of.format, head, seed.name) == 0) return "probe() does not know " + seed.name;
    for (size_t n = 0; n < std::min<size_t>(head.size(), 256); ++n) probe(of.format, head.substr(0, n), seed.name);
  }
  return "";
}

std::string valid_fault(const Subjects& of) {
  for (const Seed& seed : of.seeds) {
    const Read one = read(of.format, seed.name, seed.bytes), two = read(of.format, seed.name, seed.bytes);
    const Read hosts = read(of.format, seed.name, seed.bytes, &of.registry);
    if (one.status != TENON_OK) return seed.name + ": open() failed: " + one.message;
    if (!one.fault.empty()) return seed.name + ": " + one.fault;
    if (one.digest != two.digest) return seed.name + ": answers something else the second time";
    if (!hosts.fault.empty()) return seed.name + ": " + hosts.fault;
    if (one.n_keys + one.n_tensors == 0) return seed.name + ": gives neither metadata nor tensors";
  }
  return "";
}

// Lengths to cut at: every byte of the first KiBs, then fewer.
std::vector<size_t> cuts(size_t bytes) {
  std::vector<size_t> out;
  for (size_t n = 0; n < bytes; n += n < 4096 ? 1 : 1 + bytes / 2000) out.push_back(n);
  return out;
}

std::string cut_fault(const Subjects& of) {
  for (const Seed& seed : of.seeds)
    for (const size_t n : cuts(seed.bytes.size())) {
      const Read got = read(of.format, seed.name, std::string_view(seed.bytes).substr(0, n));
      if (!got.fault.empty()) return seed.name + " cut at byte " + std::to_string(n) + ": " + got.fault;
    }
  return "";
}

// Calls body(bytes, what) for files that differ from the seed: single bits, and whole numbers of every width.
template <typename Body>
void each_change(const Seed& seed, Body&& body) {
  const size_t head = std::min<size_t>(seed.bytes.size(), 3000);
  std::string bytes = seed.bytes;
  for (size_t i = 0; i < head; ++i)
    for (int bit = 0; bit < 8; ++bit) {
      bytes[i] = char(seed.bytes[i] ^ (1 << bit));
      body(bytes, "bit " + std::to_string(bit) + " of byte " + std::to_string(i) + " flipped");
      bytes[i] = seed.bytes[i];
    }
  static constexpr uint64_t kNumbers[] = {
      0, 0x7fffffff, 0x80000000, 0xffffffff, 0x7fffffffffffffff, 0x8000000000000000, UINT64_MAX, UINT64_MAX - 31};
  for (size_t i = 0; i + 8 <= head; i += 1)
    for (const uint64_t number : kNumbers)
      for (const size_t width : {size_t(4), size_t(8)}) {
        if (width == 4 && number > UINT32_MAX) continue;
        std::memcpy(bytes.data() + i, &number, width);
        body(bytes, std::to_string(width) + " bytes at " + std::to_string(i) + " set to " + std::to_string(number));
        bytes.replace(i, width, seed.bytes, i, width);
      }
}

std::string change_fault(const Subjects& of) {
  std::string fault;
  for (const Seed& seed : of.seeds)
    each_change(seed, [&](const std::string& bytes, const std::string& what) {
      if (!fault.empty()) return;
      const Read got = read(of.format, seed.name, bytes);
      if (!got.fault.empty()) fault = seed.name + ", " + what + ": " + got.fault;
    });
  return fault;
}

// A length in a file may be any number; memory is asked for only where the file has the bytes.
std::string memory_fault(const Subjects& of) {
  if (const std::string fault = install_call_watch(); !fault.empty()) return fault;
  std::string fault;
  for (const Seed& seed : of.seeds) {
    const uint64_t bound = 64 * seed.bytes.size() + (1 << 20);
    each_change(seed, [&](const std::string& bytes, const std::string& what) {
      if (!fault.empty()) return;
      CallWatch watch;
      const MemoryFile file(seed.name, bytes);
      watch.begin();
      Reader(of.format, file).run();
      watch.end();
      if (watch.calls().largest_bytes > bound)
        fault = seed.name + ", " + what + ": asks for " + std::to_string(watch.calls().largest_bytes) +
                " bytes at once, the file has " + std::to_string(seed.bytes.size());
    });
  }
  return fault;
}

std::string leak_fault(const Subjects& of) {
  for (const Seed& seed : of.seeds) {
    const auto all = [&] {
      for (size_t n = 0; n <= seed.bytes.size(); n += 1 + seed.bytes.size() / 400)
        read(of.format, seed.name, std::string_view(seed.bytes).substr(0, n));
      read(of.format, seed.name, seed.bytes);
    };
    all();  // what is kept for good is kept now
    const size_t before = mallinfo2().uordblks;
    for (int i = 0; i < 3; ++i) all();
    const size_t after = mallinfo2().uordblks;
    if (after > before + 3 * 400 * 8)
      return seed.name + ": " + std::to_string(after - before) +
             " bytes are not given back after files that were opened or refused";
  }
  return "";
}

void check_format(Session& session, const tenon_format& format, const plugin::Registry& registry) {
  const std::string title = "format " + text_of(format.name) + ": ";
  Subjects of = {format, registry, {}};
  try {
    of.seeds = seeds_of(format, session.options());
  } catch (const fs::filesystem_error& error) {
    const std::string what = error.what();
    session.check(title + "files of --files", "", [&] { return fail(what); });
  }
  const auto add = [&](const char* what, const char* duties, std::string (*fault)(const Subjects&),
                       bool needs_seed = true) {
    session.check(title + what, duties, [&] {
      if (needs_seed && of.seeds.empty())
        return skip("the kit has no valid file of this format; give a directory of some with --files");
      return outcome(fault(of), of.seeds.empty() ? "" : std::to_string(of.seeds.size()) + " valid files");
    });
  };
  add("probes the same each time, and stays inside what it gets", "P11", probe_fault, false);
  add("reads valid files, the same each time", "P7", valid_fault);
  add("survives files that are cut anywhere", "P10 P13", cut_fault);
  add("survives files with other bits and numbers in them", "P10 P13", change_fault);
  add("asks for no memory that the file does not explain", "P13", memory_fault);
  add("gives back what it took", "P9", leak_fault);
}

}  // namespace

Group format_checks(const Subject& subject) {
  return {"formats", [&subject](Session& session) {
            const Opened opened(subject, session.options());
            if (!opened.fault().empty()) return;
            for (const tenon_format* format : opened.contents().formats)
              check_format(session, *format, opened.registry());
          }};
}

}  // namespace tenon::kit
