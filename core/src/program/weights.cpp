#include "weights.hpp"

#include "plugin/plugin_host.hpp"

#include <tenon/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>

namespace tenon::program {
namespace {

// Rows of a slice: a multiple of what pack() promises, large enough to amortise a call, small enough to bound the pages of
// the source that are resident at once.
constexpr int64_t kSliceRows = 256;

tenon_addr address_of(const void* pointer) { return reinterpret_cast<tenon_addr>(pointer); }

std::vector<bool> matrices(std::span<const graph::Graph* const> graphs) {
  std::vector<bool> out(graphs.back()->weights.size(), false);
  for (const graph::Graph* graph : graphs)
    for (const graph::Node& node : graph->nodes)
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

// What moves bytes at most; other transforms change values.
bool keeps_dtype(uint32_t transform) {
  return transform == TENON_TRANSFORM_NONE || transform == TENON_TRANSFORM_STACK_EXPERTS || transform == TENON_TRANSFORM_SLICE_ROWS ||
         is_assembled(transform);
}

// Of [all_rows][all_cols] values.
void keep_share(const Share& share, std::vector<float>& values) {
  const graph::Ranges all_rows = {{0, share.all_rows}}, all_cols = {{0, share.all_cols}};
  std::vector<float> out;
  for (const graph::Range& rows : share.rows.empty() ? all_rows : share.rows)
    for (int64_t row = rows.begin; row < rows.end; ++row)
      for (const graph::Range& cols : share.cols.empty() ? all_cols : share.cols)
        out.insert(out.end(), values.begin() + row * share.all_cols + cols.begin, values.begin() + row * share.all_cols + cols.end);
  values = std::move(out);
}

void divide(std::vector<float>& values, const std::vector<float>& divisor, const std::string& name) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (!(divisor[i] > 0) || !std::isfinite(divisor[i]))
      throw Error(ErrorKind::kFile, fmt::format("tensor {}: entry {} is {}; expected a finite number above 0, to divide "
                                                "rotary frequencies by", name, i, divisor[i]));
    values[i] /= divisor[i];
  }
}

}  // namespace

WeightSet::WeightSet(std::span<const graph::Graph* const> graphs, std::span<const graph::NameMap* const> names,
                     const plugin::Registry& registry, Device device)
    : registry_(registry), device_(device), entries_(graphs.back()->weights.size()) {
  const graph::Graph& graph = *graphs.back();
  const std::vector<bool> is_matrix = matrices(graphs);
  for (size_t i = 0; i < entries_.size(); ++i) {
    const graph::Weight& weight = graph.weights[i];
    Entry& entry = entries_[i];
    entry.is_matrix = is_matrix[i];
    entry.raw.struct_size = sizeof entry.raw;
    entry.raw.rows = weight.rows, entry.raw.cols = weight.cols, entry.raw.parts = weight.parts;
    entry.raw.n_expert = weight.n_expert;
    for (const graph::Range& range : weight.kept_experts.empty() ? graph::Ranges{{0, weight.n_expert}} : weight.kept_experts)
      for (int64_t e = range.begin; e < range.end; ++e) entry.experts.push_back(e);
    entry.share = {weight.kept_rows, weight.kept_cols, weight.all_rows(), weight.all_cols()};
    if (weight.flags & TENON_DECL_ROUTER) entry.raw.flags |= TENON_WEIGHT_ROUTER;
    if (weight.flags & TENON_DECL_NORM) entry.raw.flags |= TENON_WEIGHT_NORM;
    if (weight.is_constant) {
      entry.dense = weight.constant;
      if (weight.divisor >= 0)
        divide(entry.dense, entries_[size_t(weight.divisor)].dense, graph.weights[size_t(weight.divisor)].name);
    } else {
      entry.source = &names[weight.source]->source();
      entry.binding = names[weight.source]->find(weight.name);
      entry.tensor = entry.binding->tensor;
      describe(weight, entry);
      if (!entry.is_matrix || !keeps_dtype(entry.binding->transform)) make_dense(weight, *entry.binding, entry);
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

void WeightSet::describe(const graph::Weight& weight, Entry& entry) {
  const tenon_dtype* dtype = registry_.dtype(entry.tensor->dtype);
  if (!dtype) throw Error(ErrorKind::kFile, fmt::format("tensor {}: no plugin knows its dtype", entry.tensor->name));
  entry.raw.dtype = entry.tensor->dtype;
  entry.raw.row_bytes = weight.cols / dtype->block_cols * dtype->block_bytes;
  const bool is_stack = entry.binding->transform == TENON_TRANSFORM_STACK_EXPERTS;
  entry.raw.expert_stride = is_stack || !weight.n_expert || entry.is_partial() ? 0 : entry.raw.row_bytes * entry.tensor->rows();
  if (!entry.share.is_all()) {
    if (is_assembled(entry.binding->transform)) check_assembled(*entry.binding, *dtype, weight.name);
    for (uint32_t role = 0; role < TENON_PLANE_MACRO; ++role)
      if (role == TENON_PLANE_CODES || dtype->plane_bytes[role])
        entry.bytes += uint64_t(entry.n_matrix()) * share_bytes(entry.share, *dtype, role, weight.rows);
  } else if (is_assembled(entry.binding->transform)) {
    check_assembled(*entry.binding, *dtype, weight.name);
    for (const source::Tensor* tensor : entry.binding->tensors()) entry.bytes += tensor->bytes();
    if (entry.binding->cuts_rows()) entry.bytes = uint64_t(weight.rows * entry.raw.row_bytes);
  } else if (!is_stack && !entry.is_partial() && entry.binding->transform != TENON_TRANSFORM_SLICE_ROWS) {
    entry.bytes = entry.tensor->bytes();
  } else {
    for (int64_t e = 0; e < entry.n_matrix(); ++e)
      for (uint32_t role = 0; role < 4; ++role) entry.bytes += part_of(entry, e, role).bytes;
  }
  source_bytes_ += entry.bytes;
}

void WeightSet::make_dense(const graph::Weight& weight, const graph::Binding& binding, Entry& entry) {
  const bool cut = binding.transform == TENON_TRANSFORM_STACK_EXPERTS || binding.transform == TENON_TRANSFORM_SLICE_ROWS;
  if (cut || weight.n_expert)
    throw Error(ErrorKind::kFile, fmt::format("tensor {}: cut or stacked weights are served as operands of linear, embed and "
                                              "expert_ffn only ({})", binding.tensor->name, weight.name));
  const int64_t n = weight.all_rows() * weight.all_cols();
  tenon_weight raw = entry.raw;
  raw.rows = weight.all_rows(), raw.cols = weight.all_cols();
  if (is_assembled(binding.transform)) {
    assemble(entry);
    for (size_t role = 0; role < 4; ++role)
      if (!entry.assembled[role].empty()) raw.plane[role] = address_of(entry.assembled[role].data());
  } else {
    for (const source::Plane& plane : binding.tensor->planes)
      if (plane.role < 4) raw.plane[plane.role] = address_of(entry.source->data(plane));
    // The tensor may be a vector that is declared as the other kind of vector: decode it as the file has it.
    raw.rows = n / binding.tensor->cols(), raw.cols = binding.tensor->cols();
  }
  const tenon_dtype* dtype = registry_.dtype(raw.dtype);
  raw.row_bytes = raw.cols / dtype->block_cols * dtype->block_bytes;
  entry.dense.resize(size_t(n));
  plugin::check_status(dtype->decode(&raw, 0, raw.rows, entry.dense.data()), "tensor " + binding.tensor->name);
  if (!entry.share.is_all()) keep_share(entry.share, entry.dense);
  apply_transform(binding, entry.dense);
  entry.assembled = {};
}

void WeightSet::assemble(Entry& entry) const {
  const bool joins = entry.binding->transform == TENON_TRANSFORM_JOIN_ROWS;
  tenon_weight all = entry.raw;
  all.rows = entry.share.all_rows, all.cols = entry.share.all_cols;
  entry.assembled = joins ? joined_rows(*entry.source, *entry.binding) : transposed(*entry.source, *entry.binding, all);
}

WeightSet::PlanePart WeightSet::part_of(const Entry& entry, int64_t matrix, uint32_t role) const {
  if (is_assembled(entry.binding->transform)) {
    const std::vector<uint8_t>& bytes = entry.assembled[role];
    return bytes.empty() ? PlanePart{} : PlanePart{bytes.data(), bytes.size()};
  }
  const bool is_stack = entry.binding->transform == TENON_TRANSFORM_STACK_EXPERTS;
  if (entry.raw.n_expert) matrix = entry.experts[size_t(matrix)];
  const source::Tensor& tensor = is_stack ? *entry.binding->experts.at(matrix) : *entry.tensor;
  const source::Plane* plane = tensor.plane(role);
  if (!plane) return {};
  const auto part = [&](uint64_t offset, uint64_t bytes) {
    return PlanePart{entry.source->data(*plane) + offset, bytes, plane, offset};
  };
  if (role == TENON_PLANE_MACRO && plane->bytes == 4) return part(0, 4);
  // The rows of a stack's matrices count through where one matrix is cut out of it.
  const uint64_t n = entry.raw.n_expert && !is_stack ? uint64_t(tensor.experts()) : 1, bytes = plane->bytes / n;
  const uint64_t offset = is_stack ? 0 : bytes * uint64_t(matrix);
  if (entry.binding->transform != TENON_TRANSFORM_SLICE_ROWS) return part(offset, bytes);
  if (role == TENON_PLANE_MACRO) {
    if (bytes == 4) return part(offset, bytes);
    throw Error(ErrorKind::kFile, fmt::format("tensor {}: its matrices have a factor each, and one is to be cut out", tensor.name));
  }
  const uint64_t all = uint64_t(tensor.rows()) * (entry.raw.n_expert ? 1 : uint64_t(tensor.experts()));
  const uint64_t first = bytes * uint64_t(entry.binding->a);
  const int64_t tile = role == TENON_PLANE_CODES ? 1 : std::max<int64_t>(1, registry_.dtype(tensor.dtype)->tile_rows);
  const bool cuts_tile = entry.binding->a % tile || entry.binding->b % tile || tensor.rows() % tile;
  if (cuts_tile || first % all || bytes * uint64_t(entry.share.all_rows) % all)
    throw Error(ErrorKind::kFile, fmt::format("tensor {}: rows {} to {} cut through a tile of {} rows that share scales", tensor.name,
                                              entry.binding->a, entry.binding->b - 1, tile));
  return part(offset + first / all, bytes * uint64_t(entry.share.all_rows) / all);
}

tenon_weight WeightSet::source_matrix(const Entry& entry, int64_t matrix) const {
  tenon_weight out = entry.raw;
  out.n_expert = 0, out.expert_stride = 0;
  if (!entry.dense.empty()) {
    out.plane[0] = address_of(entry.dense.data());
    return out;
  }
  for (uint32_t role = 0; role < n_role(entry); ++role)
    if (const PlanePart part = part_of(entry, matrix, role); part.data) out.plane[role] = address_of(part.data);
  return out;
}

// Planes that kernels read: a factor that is none of the dtype's own is the core's matter.
uint32_t WeightSet::n_role(const Entry& entry) const { return entry.tensor->factors_apart ? TENON_PLANE_MACRO : TENON_PLANE_MACRO + 1; }

std::vector<float> WeightSet::macros(const Entry& entry) const {
  if (!entry.tensor || !entry.tensor->factors_apart) return {};
  std::vector<float> out(size_t(entry.n_matrix()), 1.0f);
  for (size_t e = 0; e < out.size(); ++e)
    if (const PlanePart part = part_of(entry, int64_t(e), TENON_PLANE_MACRO); part.data)
      std::memcpy(&out[e], part.data, sizeof(float));
  return out;
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

// Whether the weight cannot be read where it lies in the file: on another device, a share, or an expert of several planes,
// which a bank's one address must reach.
bool WeightSet::is_copied(const Entry& entry) const {
  if (!entry.wants_raw || !entry.is_matrix || !entry.dense.empty()) return false;
  if (!entry.share.is_all()) return true;
  const auto read = [&](const source::Plane& plane) { return plane.role < n_role(entry); };
  const auto n_plane = std::count_if(entry.tensor->planes.begin(), entry.tensor->planes.end(), read);
  return !device_.is_host_memory() || (entry.raw.n_expert && n_plane > 1);
}

// Matrix after matrix, the planes of each behind one another.
void WeightSet::copy_matrices(Entry& entry) {
  const bool is_share = !entry.share.is_all();
  const auto bytes_of_plane = [&](uint32_t role, const PlanePart& part) {
    return is_share && role != TENON_PLANE_MACRO ? share_bytes(entry.share, dtype_of(entry), role, entry.raw.rows) : part.bytes;
  };
  uint64_t step = 0;
  for (uint32_t role = 0; role < n_role(entry); ++role) {
    const PlanePart part = part_of(entry, 0, role);
    if (!part.data) continue;
    entry.copied_plane[role] = step;
    step += (bytes_of_plane(role, part) + 63) & ~uint64_t(63);
  }
  entry.copied_step = step;
  entry.copied = Buffer(device_, step * uint64_t(entry.n_matrix()), "a weight");
  std::vector<uint8_t> share;
  for (int64_t e = 0; e < entry.n_matrix(); ++e)
    for (uint32_t role = 0; role < n_role(entry); ++role) {
      const PlanePart part = part_of(entry, e, role);
      if (!part.data) continue;
      const uint8_t* from = part.data;
      const uint64_t bytes = bytes_of_plane(role, part);
      if (is_share && role != TENON_PLANE_MACRO) {
        share.resize(bytes);
        copy_share(entry.share, dtype_of(entry), role, part.data, 0, entry.raw.rows, share.data());
        from = share.data();
      }
      device_.upload(entry.copied.address() + uint64_t(e) * step + entry.copied_plane[role], from, bytes);
    }
}

const tenon_dtype& WeightSet::dtype_of(const Entry& entry) const { return *registry_.dtype(entry.raw.dtype); }

tenon_weight WeightSet::gathered(const Slice& slice, Planes& planes) const {
  const Entry& entry = *slice.entry;
  const tenon_dtype& dtype = dtype_of(entry);
  tenon_weight out = entry.raw;
  out.n_expert = 0, out.expert_stride = 0;
  for (uint32_t role = 0; role < n_role(entry); ++role) {
    const PlanePart part = part_of(entry, slice.matrix, role);
    if (!part.data) continue;
    if (role == TENON_PLANE_MACRO) {
      out.plane[role] = address_of(part.data);
      continue;
    }
    planes[role].resize(share_bytes(entry.share, dtype, role, slice.rows));
    copy_share(entry.share, dtype, role, part.data, slice.row0, slice.rows, planes[role].data());
    out.plane[role] = address_of(planes[role].data()) - share_offset(entry.share, dtype, role, slice.row0);
  }
  return out;
}

// Memory for a packed weight, and the work of filling it. Answers the source's bytes.
uint64_t WeightSet::place_slices(Entry& entry, std::vector<Slice>& slices) {
  tenon_weight matrix = entry.raw;
  matrix.n_expert = 0, matrix.expert_stride = 0;
  tenon_pack ask = {};
  ask.struct_size = sizeof ask, ask.weight = entry.how.index, ask.layout = entry.layout;
  ask.rows = entry.raw.rows, ask.src = &matrix, ask.align = 64;
  plugin::check_status(entry.how.kernel->pack(entry.how.kernel, entry.how.node, &ask), "pack a weight");
  const uint64_t align = std::max<uint64_t>(ask.align, 64);
  entry.packed_step = (ask.bytes + align - 1) / align * align;
  const uint64_t bytes = entry.packed_step * uint64_t(entry.n_matrix() - 1) + ask.bytes;
  entry.packed = Buffer(device_, bytes, "packed weights", align);
  packed_bytes_ += bytes;
  for (int64_t e = 0; e < entry.n_matrix(); ++e)
    for (int64_t row = 0; row < entry.raw.rows; row += kSliceRows)
      slices.push_back({&entry, e, row, std::min(kSliceRows, entry.raw.rows - row)});
  return uint64_t(entry.n_matrix() * entry.raw.rows * entry.raw.row_bytes);
}

void WeightSet::pack_slice(const Slice& slice) {
  Entry& entry = *slice.entry;
  Planes planes;
  const bool is_share = entry.dense.empty() && !entry.share.is_all();
  const tenon_weight src = is_share ? gathered(slice, planes) : source_matrix(entry, slice.matrix);
  tenon_pack pack = {};
  pack.struct_size = sizeof pack, pack.weight = entry.how.index, pack.layout = entry.layout;
  pack.row0 = slice.row0, pack.rows = slice.rows, pack.src = &src;
  pack.dst = entry.packed.address() + entry.packed_step * uint64_t(slice.matrix);
  plugin::check_status(entry.how.kernel->pack(entry.how.kernel, entry.how.node, &pack), "pack a weight");
  if (entry.tensor && entry.dense.empty() && !entry.wants_raw) drop_pages(slice);
}

// The pages of the file that a slice was packed from.
void WeightSet::drop_pages(const Slice& slice) const {
  const Entry& entry = *slice.entry;
  const PlanePart codes = part_of(entry, slice.matrix, TENON_PLANE_CODES);
  if (!codes.plane) return;
  const graph::Range rows = rows_around(entry.share, slice.row0, slice.rows);
  const uint64_t row_bytes = uint64_t(entry.share.all_cols / dtype_of(entry).block_cols) * dtype_of(entry).block_bytes;
  entry.source->drop_pages(*codes.plane, codes.offset + uint64_t(rows.begin) * row_bytes, uint64_t(rows.end - rows.begin) * row_bytes);
}

void WeightSet::pack(uint32_t n_workers, const ProgressCallback& progress, const CancelCallback& cancelled) {
  std::vector<Slice> slices;
  uint64_t total = 0;
  for (Entry& entry : entries_) {
    if (entry.binding && entry.dense.empty() && is_assembled(entry.binding->transform)) assemble(entry);
    if (is_copied(entry)) copy_matrices(entry);
    if (entry.layout) total += place_slices(entry, slices);
  }
  std::atomic<size_t> next = 0;
  std::atomic<uint64_t> done = 0;
  std::atomic<bool> stop = false;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&](bool reports) {
    try {
      for (size_t i = next++; i < slices.size() && !stop; i = next++) {
        pack_slice(slices[i]);
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
  for (Entry& entry : entries_)
    if (!entry.wants_raw || is_copied(entry)) entry.assembled = {};
  if (progress && total) progress({"pack", total, total});
}

tenon_addr WeightSet::matrix_address(const Entry& entry, uint32_t layout, int64_t matrix) const {
  if (layout) return entry.packed.address() + entry.packed_step * uint64_t(matrix);
  if (entry.copied.address()) return entry.copied.address() + entry.copied_step * uint64_t(matrix);
  return source_matrix(entry, matrix).plane[0];
}

tenon_weight WeightSet::resolved(int32_t id, uint32_t layout) const {
  const Entry& entry = entries_[size_t(id)];
  tenon_weight out = entry.raw;
  out.layout = layout;
  if (layout) {
    out.plane[0] = entry.packed.address();
    if (out.n_expert && !entry.is_partial()) out.expert_stride = int64_t(entry.packed_step);
  } else if (entry.copied.address()) {
    for (uint32_t role = 0; role < 4; ++role)
      if (role == 0 || entry.copied_plane[role]) out.plane[role] = entry.copied.address() + entry.copied_plane[role];
    if (out.n_expert && !entry.is_partial()) out.expert_stride = int64_t(entry.copied_step);
  } else {
    const tenon_weight first = source_matrix(entry, 0);
    std::copy(std::begin(first.plane), std::end(first.plane), out.plane);
  }
  return out;
}

const tenon_bank* WeightSet::bank(const std::vector<int32_t>& ids, const std::vector<uint32_t>& layouts) {
  std::unique_ptr<Bank>& bank = banks_[{ids, layouts}];
  if (bank) return bank->table();
  std::array<Projection, 3> projections;
  for (size_t i = 0; i < projections.size(); ++i) {
    const Entry& entry = entries_[size_t(ids.at(i))];
    projections[i].address.resize(entry.raw.n_expert);
    for (int64_t e = 0; e < entry.n_matrix(); ++e) projections[i].address[size_t(entry.experts[size_t(e)])] = matrix_address(entry, layouts.at(i), e);
    if (const std::vector<float> own = macros(entry); !own.empty()) {
      projections[i].macro.resize(entry.raw.n_expert, 1.0f);
      for (size_t e = 0; e < own.size(); ++e) projections[i].macro[size_t(entry.experts[e])] = own[e];
    }
  }
  bank = std::make_unique<Bank>(device_, projections);
  return bank->table();
}

uint64_t WeightSet::bytes_of(int32_t id, uint32_t layout) const {
  const Entry& entry = entries_[size_t(id)];
  return layout ? entry.packed.bytes() : entry.bytes;
}

}  // namespace tenon::program
