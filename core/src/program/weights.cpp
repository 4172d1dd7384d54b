#include "weights.hpp"

#include "plugin/plugin_host.hpp"

#include <tenon/error.hpp>

#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <mutex>
#include <system_error>
#include <thread>

namespace tenon::program {
namespace {

// Rows of a slice: a multiple of what pack() promises, large enough to amortise a call, small enough to bound the pages of
// the source that are resident at once.
constexpr int64_t kSliceRows = 256;

tenon_addr address_of(const void* pointer) { return reinterpret_cast<tenon_addr>(pointer); }

std::vector<bool> matrices(const graph::Graph& graph) {
  std::vector<bool> out(graph.weights.size(), false);
  for (const graph::Node& node : graph.nodes)
    if (node.op == TENON_OP_LINEAR || node.op == TENON_OP_EMBED || node.op == TENON_OP_EXPERT_FFN)
      for (int32_t id : node.weight) out[size_t(id)] = true;
  return out;
}

void apply_transform(const graph::Binding& binding, std::vector<float>& values) {
  if (binding.transform == TENON_TRANSFORM_ADD_ONE)
    for (float& v : values) v += 1.0f;
  if (binding.transform == TENON_TRANSFORM_MINUS_EXP)
    for (float& v : values) v = -std::exp(v);
}

}  // namespace

WeightSet::WeightSet(const graph::Graph& graph, const graph::NameMap& names, const plugin::Registry& registry, Device device)
    : registry_(registry), source_(names.source()), device_(device), entries_(graph.weights.size()) {
  const std::vector<bool> is_matrix = matrices(graph);
  for (size_t i = 0; i < entries_.size(); ++i) {
    const graph::Weight& weight = graph.weights[i];
    Entry& entry = entries_[i];
    entry.is_matrix = is_matrix[i];
    entry.raw.struct_size = sizeof entry.raw;
    entry.raw.rows = weight.rows, entry.raw.cols = weight.cols, entry.raw.parts = weight.parts;
    entry.raw.n_expert = weight.n_expert;
    if (weight.flags & TENON_DECL_ROUTER) entry.raw.flags |= TENON_WEIGHT_ROUTER;
    if (weight.flags & TENON_DECL_NORM) entry.raw.flags |= TENON_WEIGHT_NORM;
    if (weight.is_constant) {
      entry.dense = weight.constant;
    } else {
      const graph::Binding& binding = *names.find(weight.name);
      const tenon_dtype* dtype = registry.dtype(binding.tensor->dtype);
      if (!dtype)
        throw Error(ErrorKind::kFile, fmt::format("tensor {}: no plugin knows its dtype", binding.tensor->name));
      entry.tensor = binding.tensor;
      entry.raw.dtype = binding.tensor->dtype;
      entry.raw.row_bytes = weight.cols / dtype->block_cols * dtype->block_bytes;
      entry.raw.expert_stride = entry.raw.row_bytes * weight.rows;
      entry.bytes = binding.tensor->bytes();
      source_bytes_ += entry.bytes;
      if (!entry.is_matrix || binding.transform != TENON_TRANSFORM_NONE) make_dense(weight, binding, entry);
    }
    if (!entry.dense.empty()) {
      entry.raw.dtype = TENON_DTYPE_F32;
      entry.raw.row_bytes = weight.cols * 4;
      entry.bytes = entry.dense.size() * 4;
      entry.copied = Buffer(device_, entry.bytes, weight.name.c_str());
      device_.upload(entry.copied.address(), entry.dense.data(), entry.bytes);
    }
  }
}

void WeightSet::make_dense(const graph::Weight& weight, const graph::Binding& binding, Entry& entry) {
  tenon_weight raw = entry.raw;
  for (const source::Plane& plane : binding.tensor->planes)
    if (plane.role < 4) raw.plane[plane.role] = address_of(source_.data(plane));
  // The tensor may be a vector that is declared as the other kind of vector: decode it as the file has it.
  raw.rows = binding.tensor->rows(), raw.cols = binding.tensor->cols();
  const tenon_dtype* dtype = registry_.dtype(raw.dtype);
  raw.row_bytes = raw.cols / dtype->block_cols * dtype->block_bytes;
  entry.dense.resize(size_t(weight.rows * weight.cols));
  plugin::check_status(dtype->decode(&raw, 0, raw.rows, entry.dense.data()), "tensor " + binding.tensor->name);
  apply_transform(binding, entry.dense);
}

tenon_weight WeightSet::described(int32_t id) const {
  tenon_weight out = entries_[size_t(id)].raw;
  out.layout = entries_[size_t(id)].layout;
  return out;
}

std::string WeightSet::dtype_name(int32_t id) const {
  const tenon_dtype* dtype = registry_.dtype(entries_[size_t(id)].raw.dtype);
  return dtype ? std::string(dtype->name.data, size_t(dtype->name.size)) : "unknown";
}

void WeightSet::request(int32_t id, uint32_t layout, const PackRequest& how) {
  Entry& entry = entries_[size_t(id)];
  if (layout == 0) {
    entry.wants_raw = true;
  } else if (entry.layout == 0) {
    entry.layout = layout, entry.how = how;
  } else if (entry.layout != layout) {
    throw Error(ErrorKind::kRuntime, fmt::format("a weight of {} rows is wanted in two packed layouts, {} and {}", entry.raw.rows,
                                                 entry.layout, layout));
  }
}

void WeightSet::pack_slice(Entry& entry, int64_t row0, int64_t rows) {
  tenon_weight src = entry.raw;
  if (entry.tensor && entry.dense.empty()) {
    for (const source::Plane& plane : entry.tensor->planes)
      if (plane.role < 4) src.plane[plane.role] = address_of(source_.data(plane));
  } else {
    src.plane[0] = address_of(entry.dense.data());
  }
  tenon_pack pack = {};
  pack.struct_size = sizeof pack, pack.weight = entry.how.index, pack.layout = entry.layout;
  pack.row0 = row0, pack.rows = rows, pack.src = &src, pack.dst = entry.packed.address();
  plugin::check_status(entry.how.kernel->pack(entry.how.kernel, entry.how.node, &pack), "pack a weight");
  if (entry.tensor && entry.dense.empty() && !entry.wants_raw)
    source_.drop_pages(entry.tensor->planes[0], uint64_t(row0 * entry.raw.row_bytes), uint64_t(rows * entry.raw.row_bytes));
}

void WeightSet::pack(uint32_t n_workers, const ProgressCallback& progress, const CancelCallback& cancelled) {
  struct Slice {
    Entry* entry;
    int64_t row0, rows;
  };
  std::vector<Slice> slices;
  uint64_t total = 0;
  for (Entry& entry : entries_) {
    if (!entry.layout && entry.is_matrix && entry.dense.empty() && !device_.is_host_memory()) {
      entry.copied = Buffer(device_, entry.bytes, "a weight");
      device_.upload(entry.copied.address(), source_.data(entry.tensor->planes[0]), entry.bytes);
    }
    if (!entry.layout) continue;
    tenon_pack ask = {};
    ask.struct_size = sizeof ask, ask.weight = entry.how.index, ask.layout = entry.layout;
    ask.rows = entry.raw.rows, ask.src = &entry.raw, ask.align = 64;
    plugin::check_status(entry.how.kernel->pack(entry.how.kernel, entry.how.node, &ask), "pack a weight");
    entry.packed = Buffer(device_, ask.bytes, "packed weights", std::max<uint64_t>(ask.align, 64));
    packed_bytes_ += ask.bytes;
    for (int64_t row = 0; row < entry.raw.rows; row += kSliceRows) {
      const int64_t rows = std::min(kSliceRows, entry.raw.rows - row);
      slices.push_back({&entry, row, rows});
      total += uint64_t(rows * entry.raw.row_bytes);
    }
  }
  std::atomic<size_t> next = 0;
  std::atomic<uint64_t> done = 0;
  std::atomic<bool> stop = false;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&](bool reports) {
    try {
      for (size_t i = next++; i < slices.size() && !stop; i = next++) {
        pack_slice(*slices[i].entry, slices[i].row0, slices[i].rows);
        done += uint64_t(slices[i].rows * slices[i].entry->raw.row_bytes);
        if (!reports) continue;
        if (progress) progress({"pack", done, total});
        if (cancelled && cancelled()) throw Error(ErrorKind::kInterrupted, "loading was interrupted");
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      stop = true;
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(n_workers);
  try {
    for (uint32_t i = 1; i < n_workers; ++i) threads.emplace_back(work, false);
  } catch (const std::system_error&) {
    // No more threads to be had: those there are do the work.
  }
  work(true);
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
  if (progress && total) progress({"pack", total, total});
}

tenon_weight WeightSet::resolved(int32_t id, uint32_t layout) const {
  const Entry& entry = entries_[size_t(id)];
  tenon_weight out = entry.raw;
  out.layout = layout;
  if (layout) {
    out.plane[0] = entry.packed.address();
  } else if (entry.copied.address()) {
    out.plane[0] = entry.copied.address();
  } else {
    for (const source::Plane& plane : entry.tensor->planes)
      if (plane.role < 4) out.plane[plane.role] = address_of(source_.data(plane));
  }
  return out;
}

uint64_t WeightSet::bytes_of(int32_t id, uint32_t layout) const {
  const Entry& entry = entries_[size_t(id)];
  return layout ? entry.packed.bytes() : entry.bytes;
}

}  // namespace tenon::program
