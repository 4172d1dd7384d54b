// kernel.hpp: kernels as C++ classes. Derive from Kernel, register with Registrar::kernel<T>().
#pragma once

#include <tenon/sdk/base.hpp>

#include <cstring>
#include <memory>
#include <span>

namespace tenon::sdk {

enum class Encoding : uint32_t {
  kF32 = TENON_ENC_F32,
  kBf16 = TENON_ENC_BF16,
  kF16 = TENON_ENC_F16,
  kQ8_32 = TENON_ENC_Q8_32,
  kI32 = TENON_ENC_I32
};

class Device {
 public:
  explicit Device(const tenon_device* table) : table_(table) {}
  bool has(std::string_view feature) const {
    for (uint32_t i = 0; i < table_->n_feature; ++i)
      if (to_view(table_->features[i]) == feature) return true;
    return false;
  }
  std::string_view backend() const { return to_view(table_->backend); }
  const tenon_device& table() const { return *table_; }

 private:
  const tenon_device* table_;
};

// A node offered to accept() and plan(). Borrowed for the call.
class Node {
 public:
  explicit Node(const tenon_node* table) : table_(table) {}
  const tenon_node& table() const { return *table_; }
  uint32_t op() const { return table_->op; }
  bool decode() const { return table_->phase == TENON_PHASE_DECODE; }
  std::string_view name() const { return to_view(table_->name); }
  template <typename Attr>
  const Attr& attr() const {
    return *static_cast<const Attr*>(table_->attr);
  }
  std::span<const tenon_type> in() const { return {table_->in, table_->n_in}; }
  std::span<const tenon_type> out() const { return {table_->out, table_->n_out}; }
  std::span<const tenon_weight> weights() const { return {table_->weight, table_->n_weight}; }
  std::span<const tenon_store_type> stores() const { return {table_->store, table_->n_store}; }
  std::span<const tenon_node> parts() const { return {table_->part, table_->n_part}; }

 private:
  const tenon_node* table_;
};

// Name of a dtype id, as its record says; "unknown" for an id nobody registered.
inline std::string_view dtype_name(uint32_t dtype) {
  const tenon_dtype* record = host().dtype(host().self, dtype);
  return record ? to_view(record->name) : std::string_view("unknown");
}

// What accept() answers: an offer or a reason. Build with offer() and refuse().
class Offer {
 public:
  Offer& reads(int input, Encoding e) { return set(in_[input], uint32_t(e)); }
  Offer& emits(int output, Encoding e) { return set(out_[output], uint32_t(e)); }
  Offer& packs(int weight, uint32_t layout) { return set(pack_[weight], layout); }
  Offer& store_layout(int store, uint32_t layout) { return set(store_[store], layout); }
  Offer& row_exact() { return flag(TENON_OFFER_ROW_EXACT); }
  Offer& capturable() { return flag(TENON_OFFER_CAPTURABLE); }
  Offer& flag(uint32_t bits) { return set(flags_, flags_ | bits); }
  Offer& cost(double bytes, double us_per_row = 0, double fixed_us = 0) {
    bytes_ = bytes, us_per_row_ = us_per_row, fixed_us_ = fixed_us;
    return *this;
  }
  bool refused() const { return refused_; }
  tenon_status write(tenon_offer* table) const {
    if (refused_) {
      std::snprintf(table->why_not, sizeof table->why_not, "%s", why_not_.c_str());
      return TENON_UNSUPPORTED;
    }
    table->flags = flags_;
    for (int i = 0; i < 8; ++i) {
      if (in_[i]) table->in_encoding[i] = in_[i];
      if (out_[i]) table->out_encoding[i] = out_[i];
      if (pack_[i]) table->pack_layout[i] = pack_[i];
      if (i < 4 && store_[i]) table->store_layout[i] = store_[i];
    }
    table->bytes_read = bytes_, table->us_per_row = us_per_row_, table->fixed_us = fixed_us_;
    return TENON_OK;
  }
  static Offer refusal(std::string reason) {
    Offer offer;
    offer.refused_ = true, offer.why_not_ = std::move(reason);
    return offer;
  }

 private:
  Offer& set(uint32_t& slot, uint32_t value) {
    slot = value;
    return *this;
  }
  uint32_t in_[8] = {}, out_[8] = {}, pack_[8] = {}, store_[8] = {}, flags_ = 0;
  double bytes_ = 0, us_per_row_ = 0, fixed_us_ = 0;
  bool refused_ = false;
  std::string why_not_;
};
inline Offer offer() { return {}; }
template <typename... Args>
Offer refuse(const char* format, Args... args) {
  return Offer::refusal(text(format, args...));
}

// A slice to pack. size() is asked first, with dst() null.
struct PackSlice {
  tenon_pack* table;
  const tenon_weight& src() const { return *table->src; }
  int64_t row0() const { return table->row0; }
  int64_t rows() const { return table->rows; }
  template <typename T = uint8_t>
  T* dst() const {
    return reinterpret_cast<T*>(table->dst);
  }
  uint32_t weight() const { return table->weight; }
  uint32_t layout() const { return table->layout; }
};

struct PlanRequest {
  uint32_t max_rows;
  int64_t max_context;
  uint32_t n_workers;
};

// Operands of a launch on host memory.
class Args {
 public:
  explicit Args(const tenon_args* table) : table_(table) {}
  const tenon_args& table() const { return *table_; }
  int64_t rows() const { return table_->rows; }
  const tenon_view& in(int i) const { return table_->in[i]; }
  const tenon_view& out(int i) const { return table_->out[i]; }
  const tenon_weight& weight(int i) const { return table_->weight[i]; }
  const tenon_store& store(int i) const { return table_->store[i]; }
  const tenon_step& step() const { return *table_->step; }

 private:
  const tenon_args* table_;
};

template <typename T>
T* at(tenon_addr address, int64_t byte_offset = 0) {
  return reinterpret_cast<T*>(address + uint64_t(byte_offset));
}
// Begin of row r. For a strided view, group g begins at + g × group_bytes.
template <typename T = float>
T* row(const tenon_view& view, int64_t r) {
  return at<T>(view.data, r * view.row_bytes);
}

struct Range {
  int64_t begin, end;
};
class Worker {
 public:
  explicit Worker(const tenon_exec* table) : table_(table) {}
  uint32_t index() const { return table_->worker; }
  uint32_t count() const { return table_->n_workers; }
  Range share(int64_t n) const {
    return {TENON_SHARE(n, index(), count()), TENON_SHARE(n, index() + 1, count())};
  }
  template <typename T = uint8_t>
  T* scratch() const {
    return static_cast<T*>(table_->scratch);
  }
  template <typename T = uint8_t>
  T* workspace() const {
    return reinterpret_cast<T*>(table_->workspace);
  }
  int64_t claim(int64_t n) const { return table_->claim(table_->counter, n); }
  void barrier() const { table_->barrier(table_->team); }
  const tenon_exec& table() const { return *table_; }

 private:
  const tenon_exec* table_;
};

// Base of a kernel. Objects are immutable after registration and used from every worker at once.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual Offer accept(const Node&, const Device&) const = 0;
  // Fill table->bytes, align, tail_pad for the weight while dst is null; else pack the slice.
  virtual void pack(const Node&, const PackSlice&) const {
    throw Error(TENON_UNSUPPORTED, "this kernel packs nothing");
  }
  virtual void plan(const Node&, const PlanRequest&, tenon_plan&) const = 0;
  virtual void launch(const tenon_plan&, const Args&, const Worker&) const = 0;
  virtual void drop(tenon_plan&) const {}
};

struct KernelInfo {
  std::string_view backend = "cpu", pattern, numeric_class, feature = "";
  uint32_t phases = TENON_PHASE_DECODE | TENON_PHASE_PREFILL;
  uint32_t min_rows = 0, max_rows = 0;
  int32_t priority = 0;
};

// The C record of a Kernel object. Lives as long as the library.
class KernelRecord {
 public:
  KernelRecord(std::string name, const KernelInfo& info, std::unique_ptr<Kernel> object)
      : object_(std::move(object)),
        text_{std::move(name), std::string(info.backend), std::string(info.feature), std::string(info.pattern),
              std::string(info.numeric_class)} {
    table_ = {};
    table_.struct_size = sizeof table_, table_.phases = info.phases;
    table_.min_rows = info.min_rows, table_.max_rows = info.max_rows, table_.priority = info.priority;
    table_.name = to_str(text_[0]), table_.backend = to_str(text_[1]), table_.feature = to_str(text_[2]);
    table_.pattern = to_str(text_[3]), table_.numeric_class = to_str(text_[4]);
    table_.self = object_.get();
    table_.accept = [](const tenon_kernel* k, const tenon_node* n, const tenon_device* d, tenon_offer* o) noexcept {
      return guard([&] { return of(k).accept(Node(n), Device(d)).write(o); });
    };
    table_.pack = [](const tenon_kernel* k, const tenon_node* n, tenon_pack* p) noexcept {
      return guard([&] { of(k).pack(Node(n), PackSlice{p}); });
    };
    table_.plan = [](const tenon_kernel* k, const tenon_node* n, uint32_t rows, int64_t context, uint32_t workers,
                     tenon_plan* p) noexcept {
      return guard([&] { of(k).plan(Node(n), {rows, context, workers}, *p); });
    };
    table_.launch = [](const tenon_kernel* k, const tenon_plan* p, const tenon_args* a, const tenon_exec* e) noexcept {
      return guard([&] { of(k).launch(*p, Args(a), Worker(e)); });
    };
    table_.drop = [](const tenon_kernel* k, tenon_plan* p) noexcept {
      guard([&] { of(k).drop(*p); });
    };
  }
  KernelRecord(const KernelRecord&) = delete;
  KernelRecord& operator=(const KernelRecord&) = delete;
  const tenon_kernel* table() const { return &table_; }

 private:
  static const Kernel& of(const tenon_kernel* table) { return *static_cast<const Kernel*>(table->self); }
  std::unique_ptr<Kernel> object_;
  std::string text_[5];
  tenon_kernel table_;
};

}  // namespace tenon::sdk
