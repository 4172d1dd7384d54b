#include "stores.hpp"

#include "plugin/registry.hpp"

#include <tenon/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace tenon::store {
namespace {

constexpr int64_t kPage = TENON_PAGE_TOKENS;

int64_t pages_for(int64_t tokens) { return (tokens + kPage - 1) / kPage; }

int64_t row_bytes(const tenon_dtype& dtype, int64_t cols) {
  if (cols % dtype.block_cols)
    throw Error(ErrorKind::kUsage, fmt::format("cache type {}: a head of {} columns is no multiple of its block of {}",
                                               std::string_view(dtype.name.data, dtype.name.size), cols, dtype.block_cols));
  return cols / dtype.block_cols * dtype.block_bytes;
}

}  // namespace

namespace {

tenon_store_type type_of(const graph::Store& store, const StoreOptions& options) {
  tenon_store_type type = {};
  type.struct_size = sizeof type, type.kind = store.kind, type.heads = store.heads, type.window = store.window;
  type.layer = store.layer, type.cols_k = store.cols_k, type.cols_v = store.cols_v, type.tape_cols = store.tape_cols;
  const bool paged = graph::is_paged(store.kind);
  type.dtype_k = paged ? options.dtype_k : uint32_t(TENON_DTYPE_F32);
  // The values of a latent store are columns of its keys.
  type.dtype_v = store.kind == TENON_STORE_PAGED ? options.dtype_v : type.dtype_k;
  return type;
}

// The store before it was cut.
graph::Store all_of(graph::Store store) {
  if (!store.kept.empty()) store.heads = store.all_heads, store.cols_k = store.all_cols_k, store.cols_v = store.all_cols_v;
  return store;
}

// Heads or channels that a rank has.
graph::Ranges kept_of(const graph::Store& store) {
  if (!store.kept.empty()) return store.kept;
  return {{0, store.kind == TENON_STORE_CONV ? store.cols_k : int64_t(store.heads)}};
}

}  // namespace

std::vector<tenon_store_type> store_types(const graph::Graph& graph, const StoreOptions& options) {
  std::vector<tenon_store_type> out;
  for (const graph::Store& store : graph.stores) out.push_back(type_of(store, options));
  return out;
}

Stores::Stores(const graph::Graph& graph, const StoreOptions& options, const plugin::Registry& registry, program::Device device)
    : options_(options), device_(device), shapes_(graph.stores), types_(store_types(graph, options)) {
  stride_ = uint32_t(pages_for(options.context) + 1);
  for (const graph::Store& store : shapes_) {
    const Pool all = pool_of(type_of(all_of(store), options), registry);
    Pool own = pool_of(type_of(store, options), registry);
    own.all_page_bytes = all.page_bytes, own.all_state_bytes = all.state_bytes;
    if (store.is_absent) own.page_bytes = own.value_offset = own.aux_bytes = own.state_bytes = own.half_bytes = 0;
    has_recurrent_ = has_recurrent_ || own.group < 0;
    pools_.push_back(std::move(own));
  }
  plan_the_cache();
  for (Pool& pool : pools_) allocate(pool);
  for (uint32_t i = options.max_sequences; i-- > 0;) free_slots_.push_back(i);
  if (has_recurrent_)
    for (int32_t i = int32_t(cache_.n_checkpoints); i-- > 0;) free_snapshots_.push_back(i);
}

int32_t Stores::group_of(int32_t window) {
  for (size_t i = 0; i < groups_.size(); ++i)
    if (groups_[i].window == window) return int32_t(i);
  Group group;
  group.window = window;
  // A windowed sequence holds the window before its oldest open row, what a step adds, and a page at each ragged end.
  group.a_sequence = pages_for(options_.context) + 1;
  if (window)
    group.a_sequence = std::min(group.a_sequence, pages_for(window - 1) + pages_for(int64_t(options_.max_step_tokens) + TENON_DECODE_MAX_TOKENS) + 2);
  groups_.push_back(std::move(group));
  return int32_t(groups_.size()) - 1;
}

Stores::Pool Stores::pool_of(const tenon_store_type& type, const plugin::Registry& registry) {
  return graph::is_paged(type.kind) ? paged(type, registry) : slots(type);
}

Stores::Pool Stores::paged(const tenon_store_type& type, const plugin::Registry& registry) {
  const tenon_dtype *k = registry.dtype(type.dtype_k), *v = registry.dtype(type.dtype_v);
  if (!type.heads || type.cols_k % type.heads || type.cols_v % type.heads)
    throw Error(ErrorKind::kRuntime, "a paged store's widths are no multiple of its heads");
  Pool pool;
  pool.row_bytes_k = row_bytes(*k, type.cols_k / type.heads);
  pool.row_bytes_v = row_bytes(*v, type.cols_v / type.heads);
  pool.value_offset = TENON_ALIGN64(pool.row_bytes_k * type.heads * kPage);
  pool.page_bytes = pool.value_offset + TENON_ALIGN64(pool.row_bytes_v * type.heads * kPage);
  pool.group = group_of(type.window);
  return pool;
}

Stores::Pool Stores::slots(const tenon_store_type& type) {
  Pool pool;
  const bool conv = type.kind == TENON_STORE_CONV;
  pool.state_bytes = type.cols_k * type.cols_v * 4;
  pool.half_bytes = conv ? pool.state_bytes : 0;
  pool.page_bytes = TENON_ALIGN64((conv ? 2 : 1) * pool.state_bytes);
  pool.aux_bytes = TENON_ALIGN64(2 * TENON_DECODE_MAX_TOKENS * type.tape_cols * 4);
  return pool;
}

void Stores::plan_the_cache() {
  CacheSizes sizes;
  sizes.context_pages = pages_for(options_.context);
  const auto window_pages = [&](const Group& group) { return std::min(pages_for(group.window - 1), sizes.context_pages); };
  for (const Pool& pool : pools_) {
    if (pool.group < 0) {
      sizes.snapshot_bytes += uint64_t(TENON_ALIGN64(pool.all_state_bytes));
    } else if (!groups_[size_t(pool.group)].window) {
      sizes.page_bytes += uint64_t(pool.all_page_bytes);
    } else {
      sizes.window_bytes += uint64_t(pool.all_page_bytes) * uint64_t(window_pages(groups_[size_t(pool.group)]));
    }
  }
  cache_ = plan_cache(options_.prefix_cache_bytes, sizes);
  for (Group& group : groups_) {
    int64_t live = 0, pages = 0;
    group.cached = group.window ? cache_.n_checkpoints * window_pages(group) : cache_.n_pages;
    if (__builtin_mul_overflow(group.a_sequence, int64_t(options_.max_sequences), &live) ||
        __builtin_add_overflow(live, group.cached, &pages) || pages > INT32_MAX)
      throw Error(ErrorKind::kCapacity,
                  fmt::format("{} sequences of {} tokens and a prefix cache of {} bytes need more K/V pages than can be numbered",
                              options_.max_sequences, options_.context, cache_.limit_bytes));
  }
  if (cache_.n_checkpoints > INT32_MAX)
    throw Error(ErrorKind::kCapacity, fmt::format("a prefix cache of {} bytes holds more checkpoints than can be numbered", cache_.limit_bytes));
}

void Stores::allocate(Pool& pool) {
  if (pool.group < 0) {
    pool.base = program::Buffer(device_, uint64_t(pool.page_bytes) * options_.max_sequences, "recurrent state");
    pool.aux = program::Buffer(device_, uint64_t(pool.aux_bytes) * options_.max_sequences, "transaction tape");
    pool.snapshots = program::Buffer(device_, uint64_t(TENON_ALIGN64(pool.state_bytes)) * uint64_t(cache_.n_checkpoints), "prefix cache: snapshots");
    if (options_.poison) device_.fill(pool.aux.address(), 0xff, pool.aux.bytes());
    return;
  }
  Group& group = groups_[size_t(pool.group)];
  const int64_t n_pages = group.a_sequence * int64_t(options_.max_sequences) + group.cached;
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(uint64_t(pool.page_bytes), uint64_t(n_pages), &bytes))
    throw Error(ErrorKind::kCapacity, fmt::format("{} K/V pages of {} bytes are more than can be addressed", n_pages, pool.page_bytes));
  // The remedy is to ask for less, of what most of the pages are for.
  const bool is_cache = group.cached > n_pages - group.cached;
  pool.base = program::Buffer(device_, bytes, is_cache ? "K/V pages (a smaller --prefix-cache takes less)" : "K/V pages (a smaller --ctx-size takes less)");
  if (!group.pool.is_filled()) group.pool.fill(n_pages);
}

uint64_t Stores::bytes() const {
  uint64_t total = 0;
  for (const Pool& pool : pools_) total += pool.base.bytes() + pool.aux.bytes() + pool.snapshots.bytes();
  return total;
}

std::vector<tenon_store> Stores::tables(const std::vector<tenon_addr>& page_tables, tenon_addr slot_table) const {
  std::vector<tenon_store> out;
  for (const Pool& pool : pools_) {
    tenon_store table = {};
    table.base = pool.base.address(), table.aux = pool.aux.address();
    table.page_bytes = pool.page_bytes, table.value_offset = pool.value_offset, table.aux_bytes = pool.aux_bytes;
    table.page_tokens = TENON_PAGE_TOKENS;
    table.table = pool.group >= 0 ? page_tables[size_t(pool.group)] : slot_table;
    table.table_stride = pool.group >= 0 ? stride_ : 1;
    out.push_back(table);
  }
  return out;
}

void Stores::clear_slot(uint32_t slot) {
  for (const Pool& pool : pools_)
    if (pool.group < 0) device_.fill(pool.base.address() + uint64_t(pool.page_bytes) * slot, 0, uint64_t(pool.page_bytes));
}

SequenceState Stores::create() {
  if (free_slots_.empty())
    throw Error(ErrorKind::kCapacity, fmt::format("all {} sequences of this model are in use", options_.max_sequences));
  SequenceState state;
  state.slot = free_slots_.back();
  clear_slot(state.slot);
  free_slots_.pop_back();
  state.pages.resize(groups_.size());
  return state;
}

void Stores::give_back_pages(SequenceState& state) {
  for (size_t g = 0; g < state.pages.size(); ++g) {
    for (int32_t page : state.pages[g]) groups_[g].pool.release(page);
    state.pages[g].clear();
  }
}

void Stores::drop(SequenceState& state) {
  give_back_pages(state);
  free_slots_.push_back(state.slot);
}

void Stores::need_pages(size_t group, int64_t n) {
  while (groups_[group].pool.n_free() < n)
    if (!reclaim_ || !reclaim_(group)) throw Error(ErrorKind::kCapacity, "no K/V page is free");
}

int32_t Stores::take_page(size_t group) {
  const int32_t page = groups_[group].pool.take();
  if (options_.poison) poison_page(int32_t(group), page);
  return page;
}

int64_t Stores::first_page_in_reach(size_t group, int64_t length) const {
  const int32_t window = groups_[group].window;
  return window ? std::max<int64_t>(0, length - (window - 1)) / kPage : 0;
}

uint64_t Stores::page_bytes(size_t group) const {
  uint64_t total = 0;
  for (const Pool& pool : pools_)
    if (pool.group == int32_t(group)) total += uint64_t(pool.all_page_bytes);
  return total;
}

uint64_t Stores::snapshot_bytes() const {
  uint64_t total = 0;
  for (const Pool& pool : pools_)
    if (pool.group < 0) total += uint64_t(TENON_ALIGN64(pool.all_state_bytes));
  return total;
}

void Stores::reserve(SequenceState& state, int64_t n) {
  if (state.length + n > options_.context)
    throw Error(ErrorKind::kCapacity, fmt::format("the context holds {} tokens; {} are used and {} more were asked for",
                                                  options_.context, state.length, n));
  for (size_t g = 0; g < groups_.size(); ++g) {
    const int64_t keep_from = first_reachable_page(state, g);
    for (int64_t p = 0; p < std::min<int64_t>(keep_from, int64_t(state.pages[g].size())); ++p) {
      groups_[g].pool.release(state.pages[g][size_t(p)]);
      state.pages[g][size_t(p)] = -1;
    }
  }
  const int64_t wanted = pages_for(state.length + n);
  const size_t written = size_t(state.length / kPage);  // the first page that new rows go to
  const auto must_copy = [&](size_t g) { return written < state.pages[g].size() && groups_[g].pool.holders(state.pages[g][written]) > 1; };
  for (size_t g = 0; g < groups_.size(); ++g) need_pages(g, wanted - int64_t(state.pages[g].size()) + (n > 0 && must_copy(g)));
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (n > 0 && must_copy(g)) {
      const int32_t shared = state.pages[g][written];
      state.pages[g][written] = groups_[g].pool.take();
      copy_page(int32_t(g), state.pages[g][written], shared);
      groups_[g].pool.release(shared);
    }
    while (int64_t(state.pages[g].size()) < wanted) state.pages[g].push_back(take_page(g));
  }
}

void Stores::copy_page(int32_t group, int32_t to, int32_t from) const {
  for (const Pool& pool : pools_)
    if (pool.group == group)
      device_.copy(pool.base.address() + uint64_t(pool.page_bytes) * uint64_t(to), pool.base.address() + uint64_t(pool.page_bytes) * uint64_t(from),
                   uint64_t(pool.page_bytes));
}

void Stores::poison_page(int32_t group, int32_t page) const {
  for (const Pool& pool : pools_)
    if (pool.group == group)
      device_.fill(pool.base.address() + uint64_t(pool.page_bytes) * uint64_t(page), 0xff, uint64_t(pool.page_bytes));
}

void Stores::write_table(const SequenceState& state, size_t group, std::span<int32_t> out) const {
  const std::vector<int32_t>& pages = state.pages[group];
  std::copy(pages.begin(), pages.end(), out.begin());
  std::fill(out.begin() + ptrdiff_t(pages.size()), out.end(), -1);
}

void Stores::stepped(SequenceState& state, int64_t n, uint32_t phase) const {
  if (phase == TENON_PHASE_PREFILL && state.exact == state.length && state.length % kPage == 0) state.exact += n;
  state.length += n;
  if (!has_recurrent_) return;
  const bool replayed = state.accepted > 0;
  const bool plain = state.tape < 0;
  if (replayed || plain) state.half = 1 - state.half;
  state.accepted = 0;
  if (!plain) state.tape_rows += int32_t(n);
}

void Stores::begin(SequenceState& state) const {
  if (state.is_open) throw Error(ErrorKind::kUsage, "a transaction is open already");
  state.is_open = true, state.base = state.length;
  state.tape = has_recurrent_ ? (state.accepted > 0 ? 1 - state.replay : 0) : -1;
  state.tape_rows = 0;
}

void Stores::commit(SequenceState& state, int64_t keep) const {
  if (!state.is_open) throw Error(ErrorKind::kUsage, "no transaction is open");
  if (keep < 0 || keep > state.length - state.base)
    throw Error(ErrorKind::kUsage, fmt::format("commit of {} tokens in a transaction of {}", keep, state.length - state.base));
  state.is_open = false;
  state.length = state.base + keep;
  state.exact = std::min(state.exact, state.length);
  // Rows that an earlier transaction left to replay were replayed by this one's first step; without a step they still wait.
  if (has_recurrent_ && state.tape_rows > 0) state.accepted = int32_t(keep), state.replay = state.tape;
  state.tape = -1, state.tape_rows = 0;
}

void Stores::rollback(SequenceState& state) const { commit(state, 0); }

int64_t Stores::resumable(const SequenceState& state, int64_t n) const {
  n = std::min(n, state.length);
  if (n == state.length) return n;
  if (has_recurrent_) return 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (!groups_[g].window) continue;
    const auto& pages = state.pages[g];
    const int64_t first = std::find_if(pages.begin(), pages.end(), [](int32_t p) { return p >= 0; }) - pages.begin();
    if (first > 0 && n < first * kPage + groups_[g].window - 1) return 0;
  }
  return n;
}

int64_t Stores::truncate(SequenceState& state, int64_t n) {
  if (state.is_open) throw Error(ErrorKind::kUsage, "truncate in an open transaction");
  if (n < 0) throw Error(ErrorKind::kUsage, "truncate to a negative length");
  n = resumable(state, n);
  if (n == state.length) return n;
  for (size_t g = 0; g < groups_.size(); ++g) {
    auto& pages = state.pages[g];
    while (int64_t(pages.size()) > pages_for(n)) {
      groups_[g].pool.release(pages.back());
      pages.pop_back();
    }
  }
  if (n == 0) {
    clear_slot(state.slot);
    state.accepted = 0, state.half = 0;
  }
  state.length = n;
  state.exact = std::min(state.exact, n);
  return n;
}

// Calls visit(address, bytes, at) for every run of live bytes, in a fixed order. `at` says where it lies among those of all ranks,
// of which there are as many as this answers.
template <typename Visit>
uint64_t Stores::visit_live(const SequenceState& state, Visit&& visit) const {
  uint64_t all = 0;
  for (size_t i = 0; i < pools_.size(); ++i) {
    const Pool& pool = pools_[i];
    const graph::Store whole = all_of(shapes_[i]);
    const graph::Ranges kept = kept_of(shapes_[i]);
    if (pool.group < 0) {
      // Rows of channels, or a matrix a head.
      const bool conv = whole.kind == TENON_STORE_CONV;
      const int64_t n_rows = conv ? whole.cols_v : 1, n_units = conv ? whole.cols_k : int64_t(whole.heads);
      const int64_t unit = pool.all_state_bytes / (n_rows * n_units);
      tenon_addr from = slot_address(pool, state);
      for (int64_t row = 0; !shapes_[i].is_absent && row < n_rows; ++row)
        for (const graph::Range& range : kept) {
          const auto bytes = uint64_t((range.end - range.begin) * unit);
          visit(from, bytes, all + uint64_t((row * n_units + range.begin) * unit));
          from += bytes;
        }
      all += uint64_t(pool.all_state_bytes);
      continue;
    }
    const int32_t window = groups_[size_t(pool.group)].window;
    // Whole pages below the window's begin: a sequence that is cut back a little reads what lies there.
    const int64_t oldest = window ? std::max<int64_t>(0, state.length - (window - 1)) : 0;
    for (int64_t p = oldest / kPage; p < pages_for(state.length); ++p) {
      const int64_t last = std::min<int64_t>(kPage, state.length - p * kPage);
      const uint64_t keys = uint64_t(last * pool.row_bytes_k), values = uint64_t(last * pool.row_bytes_v);
      const tenon_addr page = pool.base.address() + uint64_t(pool.page_bytes) * uint64_t(state.pages[size_t(pool.group)][size_t(p)]);
      int64_t own = 0;
      for (const graph::Range& range : kept)
        for (int64_t head = range.begin; !shapes_[i].is_absent && head < range.end; ++head, ++own) {
          const uint64_t at = all + uint64_t(head) * (keys + values);
          visit(page + uint64_t(own * kPage * pool.row_bytes_k), keys, at);
          if (values) visit(page + uint64_t(pool.value_offset + own * kPage * pool.row_bytes_v), values, at + keys);
        }
      all += uint64_t(whole.heads) * (keys + values);
    }
  }
  return all;
}

// Where the live part of a sequence's state begins.
tenon_addr Stores::slot_address(const Pool& pool, const SequenceState& state) const {
  return pool.base.address() + uint64_t(pool.page_bytes) * state.slot + uint64_t(pool.half_bytes) * uint64_t(state.half);
}

SequenceState Stores::fork(const SequenceState& state) {
  SequenceState copy = create();
  copy.length = state.length, copy.exact = state.exact;
  for (size_t g = 0; g < groups_.size(); ++g) {
    copy.pages[g].assign(state.pages[g].begin(), state.pages[g].begin() + pages_for(state.length));
    for (int32_t page : copy.pages[g])
      if (page >= 0) groups_[g].pool.share(page);
  }
  for (const Pool& pool : pools_)
    if (pool.group < 0) device_.copy(slot_address(pool, copy), slot_address(pool, state), uint64_t(pool.state_bytes));
  return copy;
}

int32_t Stores::take_snapshot(const SequenceState& state) {
  const int32_t snapshot = free_snapshots_.back();
  free_snapshots_.pop_back();
  for (const Pool& pool : pools_)
    if (pool.group < 0)
      device_.copy(pool.snapshots.address() + uint64_t(TENON_ALIGN64(pool.state_bytes)) * uint64_t(snapshot), slot_address(pool, state),
                   uint64_t(pool.state_bytes));
  return snapshot;
}

void Stores::load_snapshot(const SequenceState& state, int32_t snapshot) {
  for (const Pool& pool : pools_)
    if (pool.group < 0)
      device_.copy(slot_address(pool, state), pool.snapshots.address() + uint64_t(TENON_ALIGN64(pool.state_bytes)) * uint64_t(snapshot),
                   uint64_t(pool.state_bytes));
}

void Stores::adopt(SequenceState& state, const StoredPrefix& prefix) {
  for (size_t g = 0; g < groups_.size(); ++g)
    for (int32_t page : prefix.pages[g])
      if (page >= 0) groups_[g].pool.share(page);
  give_back_pages(state);
  SequenceState next;
  next.slot = state.slot, next.length = prefix.length, next.exact = prefix.exact, next.pages = prefix.pages;
  state = std::move(next);
  if (has_recurrent_) load_snapshot(state, prefix.snapshot);
}

namespace {

struct SavedHeader {
  char magic[8];
  uint64_t n_stores, bytes;  // of all ranks
  int64_t length;
};
constexpr char kMagic[8] = {'t', 'e', 'n', 'o', 'n', 's', 'q', '1'};

// Bytes of a share, and where they lie among all.
struct SavedRun {
  uint64_t at, bytes;
};

void append(std::vector<uint8_t>& out, const void* bytes, size_t n) {
  out.resize(out.size() + n);
  std::memcpy(out.data() + out.size() - n, bytes, n);
}

}  // namespace

std::vector<uint8_t> Stores::save(const SequenceState& state) const {
  SavedHeader header = {{}, pools_.size(), visit_live(state, [](tenon_addr, uint64_t, uint64_t) {}), state.length};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  std::vector<uint8_t> out(sizeof header + header.bytes);
  std::memcpy(out.data(), &header, sizeof header);
  visit_live(state, [&](tenon_addr address, uint64_t bytes, uint64_t at) { device_.download(out.data() + sizeof header + at, address, bytes); });
  return out;
}

// A header, then each run's place and bytes.
std::vector<uint8_t> Stores::save_share(const SequenceState& state) const {
  SavedHeader header = {{}, pools_.size(), 0, state.length};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  uint64_t own = 0;
  header.bytes = visit_live(state, [&](tenon_addr, uint64_t bytes, uint64_t) { own += sizeof(SavedRun) + bytes; });
  std::vector<uint8_t> out;
  out.reserve(sizeof header + own);
  append(out, &header, sizeof header);
  visit_live(state, [&](tenon_addr address, uint64_t bytes, uint64_t at) {
    const SavedRun run = {at, bytes};
    append(out, &run, sizeof run);
    out.resize(out.size() + bytes);
    device_.download(out.data() + out.size() - bytes, address, bytes);
  });
  return out;
}

std::vector<uint8_t> join_shares(std::span<const std::vector<uint8_t>> shares) {
  const auto refuse = [] { throw Error(ErrorKind::kRuntime, "the ranks' shares of a saved sequence do not fit together"); };
  SavedHeader header = {};
  if (shares.empty() || shares[0].size() < sizeof header) refuse();
  std::memcpy(&header, shares[0].data(), sizeof header);
  std::vector<uint8_t> out(sizeof header + header.bytes);
  std::memcpy(out.data(), &header, sizeof header);
  for (const std::vector<uint8_t>& share : shares) {
    if (share.size() < sizeof header || std::memcmp(share.data(), &header, sizeof header)) refuse();
    for (size_t at = sizeof header; at < share.size();) {
      SavedRun run = {};
      if (share.size() - at < sizeof run) refuse();
      std::memcpy(&run, share.data() + at, sizeof run);
      at += sizeof run;
      if (run.bytes > share.size() - at || run.at > header.bytes || run.bytes > header.bytes - run.at) refuse();
      std::memcpy(out.data() + sizeof header + run.at, share.data() + at, run.bytes);
      at += run.bytes;
    }
  }
  return out;
}

void Stores::restore(SequenceState& state, std::span<const uint8_t> bytes) {
  SavedHeader header;
  if (bytes.size() < sizeof header) throw Error(ErrorKind::kUsage, "a saved sequence is too short");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) || header.n_stores != pools_.size() ||
      header.bytes != bytes.size() - sizeof header || header.length < 0 || header.length > options_.context)
    throw Error(ErrorKind::kUsage, "a saved sequence is not of this model");
  SequenceState shape;
  shape.length = header.length;
  shape.pages.assign(groups_.size(), std::vector<int32_t>(size_t(pages_for(header.length)), 0));
  if (visit_live(shape, [](tenon_addr, uint64_t, uint64_t) {}) != header.bytes) throw Error(ErrorKind::kUsage, "a saved sequence does not fit this model's stores");
  truncate(state, 0);
  give_back_pages(state);
  // Windowed groups need no pages below the window, but tables count from zero.
  SequenceState next = state;
  next.length = header.length;
  for (size_t g = 0; g < groups_.size(); ++g)
    need_pages(g, pages_for(header.length) - first_reachable_page(next, g));
  for (size_t g = 0; g < groups_.size(); ++g) {
    const int64_t first = first_reachable_page(next, g);
    for (int64_t p = 0; p < pages_for(header.length); ++p) next.pages[g].push_back(p < first ? -1 : groups_[g].pool.take());
  }
  state = std::move(next);
  visit_live(state, [&](tenon_addr address, uint64_t size, uint64_t at) { device_.upload(address, bytes.data() + sizeof header + at, size); });
}

}  // namespace tenon::store
