#include "registrar.hpp"

#include <algorithm>
#include <string_view>
#include <type_traits>

#include "core_dtypes.hpp"
#include "host_table.hpp"
#include "message.hpp"

namespace tenon::plugin {
namespace {

std::string_view view(tenon_str text) { return {text.data, size_t(text.size)}; }
bool empty(tenon_str text) { return text.data == nullptr || text.size == 0; }

template <typename Record>
bool has_name(const std::vector<const Record*>& list, std::string_view name) {
  return std::any_of(list.begin(), list.end(), [&](const Record* record) { return view(record->name) == name; });
}
bool has_name(const std::vector<Composite>& list, std::string_view name) {
  return std::any_of(list.begin(), list.end(), [&](const Composite& known) { return known.name == name; });
}

// What each record must have besides a name and its size; "" when it is all there.
std::string lacks(const tenon_format& r) {
  return r.probe && r.open && r.more && r.meta && r.tensor && r.close && !empty(r.scheme)
             ? ""
             : "expected a scheme, probe, open, more, meta, tensor and close";
}
std::string lacks(const tenon_architecture& r) {
  return r.score && r.configure && r.names && r.limits && r.build && r.drop
             ? ""
             : "expected score, configure, names, limits, build and drop";
}
std::string lacks(const tenon_backend& r) {
  if (!(r.devices && r.memory && r.alloc && r.free && r.copy && r.fill))
    return "expected devices, memory, alloc, free, copy and fill";
  if ((r.flags & TENON_BACKEND_SPMD) && !r.team) return "its flags promise team";
  if ((r.flags & TENON_BACKEND_PEER) && !r.peer) return "its flags promise peer";
  if ((r.flags & TENON_BACKEND_CAPTURE) && !(r.capture_begin && r.capture_end && r.replay))
    return "its flags promise capture_begin, capture_end and replay";
  return "";
}
std::string lacks(const tenon_kernel& r) {
  if (!(r.accept && r.plan && r.launch)) return "expected accept, plan and launch";
  if (empty(r.backend) || empty(r.pattern) || empty(r.numeric_class))
    return "expected a backend, a pattern and a numeric class";
  if ((r.phases & (TENON_PHASE_DECODE | TENON_PHASE_PREFILL)) == 0) return "expected a phase";
  return "";
}
std::string lacks(const tenon_collective& r) {
  const bool has_all = r.unique && r.join && r.group && r.send && r.recv && r.poll && r.abort && r.leave;
  return has_all ? "" : "expected unique, join, group, send, recv, poll, abort and leave";
}
std::string lacks(const tenon_dtype& r) {
  if (!r.decode) return "expected decode";
  if (r.n_plane < 1 || r.n_plane > 4) return "expected 1 to 4 planes, found " + std::to_string(r.n_plane);
  if (r.block_cols == 0 || r.block_bytes == 0) return "expected a block of at least one column and one byte";
  return "";
}

template <typename Record>
std::string record_fault(const Record* record, const char* what) {
  if (record == nullptr) return std::string(what) + ": null record";
  if (record->struct_size < sizeof(Record))
    return std::string(what) + ": its table has " + std::to_string(record->struct_size) + " bytes, expected " +
           std::to_string(sizeof(Record));
  if (empty(record->name)) return std::string(what) + " without a name";
  const std::string lack = lacks(*record);
  return lack.empty() ? "" : std::string(what) + " " + std::string(view(record->name)) + ": " + lack;
}

std::string taken(const char* what, std::string_view name) {
  return std::string(what) + " " + std::string(name) + " is already registered";
}

// Runs `body`, which answers a fault or "".
template <typename Body>
tenon_status answer(const Registry* known, Body&& body) noexcept {
  try {
    if (known == nullptr) return set_message(TENON_INVALID_ARGUMENT, "the registrar is valid during init() only");
    const std::string fault = body();
    return fault.empty() ? TENON_OK : set_message(TENON_INVALID_ARGUMENT, fault);
  } catch (...) {
    return set_message(TENON_OUT_OF_MEMORY, "out of memory while registering");
  }
}

}  // namespace

Registrar::Registrar(const Registry& known) : known_(&known) {
  static constexpr auto of = [](void* self) -> Registrar& { return *static_cast<Registrar*>(self); };
  table_ = {};
  table_.struct_size = sizeof table_, table_.self = this;
  table_.architecture = [](void* self, const tenon_architecture* record) noexcept {
    return of(self).stage(record, &Registry::architectures, "architecture");
  };
  table_.format = [](void* self, const tenon_format* record) noexcept {
    return of(self).stage(record, &Registry::formats, "format");
  };
  table_.dtype = [](void* self, const tenon_dtype* record, uint32_t* id) noexcept {
    return of(self).stage_dtype(record, id);
  };
  table_.backend = [](void* self, const tenon_backend* record) noexcept {
    return of(self).stage(record, &Registry::backends, "backend");
  };
  table_.kernels = [](void* self, const tenon_kernel* const* records, uint32_t n) noexcept {
    return of(self).stage_kernels(records, n);
  };
  table_.composite = [](void* self, tenon_str name, tenon_str text) noexcept {
    return of(self).stage_composite(name, text);
  };
  table_.collective = [](void* self, const tenon_collective* record) noexcept {
    return of(self).stage(record, &Registry::collectives, "collective");
  };
}

template <typename Record>
tenon_status Registrar::stage(const Record* record, std::vector<const Record*> Registry::*list,
                              const char* what) noexcept {
  return answer(known_, [&]() -> std::string {
    if (std::string fault = record_fault(record, what); !fault.empty()) return fault;
    const std::string_view name = view(record->name);
    // Several plugins may serve one architecture: which of them does is decided for a file.
    constexpr bool is_shared = std::is_same_v<Record, tenon_architecture>;
    if ((!is_shared && has_name(known_->*list, name)) || has_name(staged_.*list, name)) return taken(what, name);
    (staged_.*list).push_back(record);
    return "";
  });
}

tenon_status Registrar::stage_dtype(const tenon_dtype* record, uint32_t* id) noexcept {
  return answer(known_, [&]() -> std::string {
    if (std::string fault = record_fault(record, "dtype"); !fault.empty()) return fault;
    const tenon_host* host = host_table();
    uint32_t other = 0;
    if (host->dtype_id(host->self, record->name, &other) == TENON_OK) return taken("dtype", view(record->name));
    const size_t position = n_dtypes() + staged_.registered_dtypes.size();
    if (position >= kMaxDtypes) return "more than " + std::to_string(kMaxDtypes) + " dtypes";
    staged_.registered_dtypes.push_back(record);
    if (id != nullptr) *id = uint32_t(position) + TENON_DTYPE_FIRST_REGISTERED;
    return "";
  });
}

tenon_status Registrar::stage_kernels(const tenon_kernel* const* records, uint32_t n) noexcept {
  return answer(known_, [&]() -> std::string {
    if (records == nullptr && n != 0) return "kernels: null list";
    std::vector<const tenon_kernel*> fresh;  // a call registers all of its kernels or none
    for (uint32_t i = 0; i < n; ++i) {
      if (std::string fault = record_fault(records[i], "kernel"); !fault.empty()) return fault;
      const std::string_view name = view(records[i]->name);
      if (has_name(known_->kernels, name) || has_name(staged_.kernels, name) || has_name(fresh, name))
        return taken("kernel", name);
      fresh.push_back(records[i]);
    }
    staged_.kernels.insert(staged_.kernels.end(), fresh.begin(), fresh.end());
    return "";
  });
}

tenon_status Registrar::stage_composite(tenon_str name, tenon_str text) noexcept {
  return answer(known_, [&]() -> std::string {
    if (empty(name)) return "composite without a name";
    if (empty(text)) return "composite " + std::string(view(name)) + " without a text";
    if (has_name(known_->composites, view(name)) || has_name(staged_.composites, view(name)))
      return taken("composite", view(name));
    staged_.composites.push_back({std::string(view(name)), std::string(view(text))});
    return "";
  });
}

std::string name_conflict(const Registry& known, const Registry& staged) {
  std::string fault;
  const auto compare = [&](const auto& old, const auto& fresh, const char* what) {
    for (const auto* record : fresh)
      if (fault.empty() && has_name(old, view(record->name))) fault = taken(what, view(record->name));
  };
  compare(known.formats, staged.formats, "format");
  compare(known.backends, staged.backends, "backend");
  compare(known.kernels, staged.kernels, "kernel");
  compare(known.collectives, staged.collectives, "collective");
  for (const Composite& composite : staged.composites)
    if (fault.empty() && has_name(known.composites, composite.name)) fault = taken("composite", composite.name);
  return fault;
}

void merge(Registry& into, const Registry& staged) {
  const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  append(into.formats, staged.formats);
  append(into.architectures, staged.architectures);
  append(into.backends, staged.backends);
  append(into.kernels, staged.kernels);
  append(into.collectives, staged.collectives);
  append(into.composites, staged.composites);
}

}  // namespace tenon::plugin
