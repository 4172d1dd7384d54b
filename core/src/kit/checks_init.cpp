// The entry and init(): what they answer and register, and that refusals on the way are passed on.
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cfenv>
#include <clocale>
#include <csignal>
#include <cstring>
#include <optional>
#include <set>

#include "plugin/host_table.hpp"
#include "plugin/message.hpp"
#include "plugin/registrar.hpp"
#include "subject.hpp"

namespace tenon::kit {
namespace {

// Types without noexcept: the compiler must not assume that nothing is thrown.
using EntryFn = const tenon_plugin* (*)();
using InitFn = tenon_status (*)(const tenon_host*, const tenon_registrar*);

EntryFn entry_of(const Subject& subject) {
  void* library = dlopen(subject.library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) throw std::runtime_error(std::string("the system cannot open it: ") + dlerror());
  const auto entry = reinterpret_cast<EntryFn>(dlsym(library, TENON_PLUGIN_ENTRY));
  if (!entry) throw std::runtime_error("exports no " TENON_PLUGIN_ENTRY);
  return entry;
}

const tenon_plugin& table_of(const Subject& subject) {
  const tenon_plugin* table = entry_of(subject)();
  if (!table || table->magic != TENON_MAGIC || !table->init) throw std::runtime_error("its table is not usable");
  return *table;
}

std::string number(uint64_t n) { return std::to_string(n); }

std::string entry_fault(const Subject& subject) {
  const EntryFn entry = entry_of(subject);
  const tenon_plugin* first = entry();
  if (!first) return TENON_PLUGIN_ENTRY "() answered null";
  if (entry() != first) return TENON_PLUGIN_ENTRY "() answered another table the second time";
  if (first->magic != TENON_MAGIC) return "its table lacks Tenon's magic number";
  if (first->abi_major != TENON_ABI_MAJOR || first->abi_minor != TENON_ABI_MINOR)
    return "built for plugin interface " + number(first->abi_major) + "." + number(first->abi_minor) + ", expected " +
           number(TENON_ABI_MAJOR) + "." + number(TENON_ABI_MINOR);
  if (first->struct_size != sizeof(tenon_plugin))
    return "its table says " + number(first->struct_size) + " bytes, expected " + number(sizeof(tenon_plugin));
  if (first->reserved != 0) return "the table's reserved member is " + number(first->reserved) + ", expected 0";
  if (!first->init) return "its table has no init()";
  if (view(first->name) != subject.manifest.name)
    return "calls itself '" + text_of(first->name) + "', the manifest says '" + subject.manifest.name + "'";
  if (view(first->version) != subject.manifest.version)
    return "says version '" + text_of(first->version) + "', the manifest says '" + subject.manifest.version + "'";
  if (view(first->licence).empty()) return "its table names no licence";
  return "";
}

// What belongs to the process and must be as before (P12).
struct ProcessState {
  int rounding = fegetround();
  std::string directory, locale = std::setlocale(LC_ALL, nullptr);
  std::vector<void (*)(int)> handlers;
  ProcessState() {
    char path[4096];
    if (getcwd(path, sizeof path)) directory = path;
    for (int i = 1; i < 32; ++i) {
      struct sigaction action = {};
      sigaction(i, nullptr, &action);
      handlers.push_back(action.sa_handler);
    }
  }
  std::string changes(const ProcessState& before) const {
    if (rounding != before.rounding) return "changed the rounding mode";
    if (directory != before.directory) return "changed the working directory to " + directory;
    if (locale != before.locale) return "changed the locale to " + locale;
    for (size_t i = 0; i < handlers.size(); ++i)
      if (handlers[i] != before.handlers[i]) return "changed the handler of signal " + number(i + 1);
    return "";
  }
};

struct Initialised {
  tenon_status status = TENON_OK;
  std::string message;
};

Initialised run_init(const Subject& subject, const tenon_host* host, plugin::Registrar& registrar,
                     const tenon_registrar* table) {
  const plugin::PendingScope scope(&registrar.staged());
  plugin::take_message();
  const InitFn init = table_of(subject).init;
  Initialised out;
  try {
    out.status = init(host, table);
  } catch (const std::exception& error) {
    throw std::runtime_error(std::string("init() threw an exception: ") + error.what());
  }
  registrar.close();
  out.message = plugin::take_message();
  return out;
}

// Names of the one list that the other lacks.
template <typename Record>
std::string name_fault(const char* what, const std::vector<std::string>& promised,
                       const std::vector<const Record*>& records) {
  std::set<std::string> given;
  for (const Record* record : records) given.insert(text_of(record->name));
  for (const std::string& name : promised)
    if (!given.contains(name))
      return "the manifest promises " + std::string(what) + " " + name + ", init() registered none";
  for (const std::string& name : given)
    if (std::find(promised.begin(), promised.end(), name) == promised.end())
      return "init() registered " + std::string(what) + " " + name + ", of which the manifest says nothing";
  return "";
}

// A composite is no op, so that a list of ops says nothing of it.
bool serves_op(const std::string& pattern, const std::vector<std::string>& ops) {
  if (ops.empty() || pattern.find("->") != std::string::npos) return true;
  return std::find(ops.begin(), ops.end(), pattern) != ops.end();
}

std::string kernel_fault(const plugin::Manifest& manifest, const tenon_kernel& kernel) {
  const std::string name = text_of(kernel.name), backend = text_of(kernel.backend), pattern = text_of(kernel.pattern);
  bool has_backend = false, has_op = false;
  for (const plugin::KernelFamily& family : manifest.kernels) {
    if (family.backend != backend) continue;
    has_backend = true;
    has_op = has_op || serves_op(pattern, family.ops);
    const std::string wanted = " " + text_of(kernel.feature) + " ";
    for (const std::string& feature : family.features)
      if (wanted.find(" " + feature + " ") == std::string::npos)
        return "the manifest says that every kernel needs " + feature + ", kernel " + name + " does not say so";
  }
  if (!has_backend) return "kernel " + name + " is for backend " + backend + ", of which the manifest says nothing";
  return has_op ? "" : "kernel " + name + " serves " + pattern + ", of which the manifest says nothing";
}

std::string promise_fault(const plugin::Manifest& manifest, const plugin::Registry& found) {
  std::string fault = name_fault("format", manifest.formats, found.formats);
  if (fault.empty()) fault = name_fault("backend", manifest.backends, found.backends);
  if (fault.empty()) fault = name_fault("collective", manifest.collectives, found.collectives);
  // A format brings its dtypes along; another plugin's are looked for by the manifest.
  const std::vector<const tenon_dtype*> dtypes(found.registered_dtypes.begin(), found.registered_dtypes.end());
  if (fault.empty() && (found.formats.empty() || !manifest.dtypes.empty()))
    fault = name_fault("dtype", manifest.dtypes, dtypes);
  if (!fault.empty()) return fault;
  if (manifest.architectures.empty() != found.architectures.empty())
    return found.architectures.empty() ? "the manifest promises architectures, init() registered none"
                                       : "init() registered architecture " + text_of(found.architectures[0]->name) +
                                             ", of which the manifest says nothing";
  for (const plugin::KernelFamily& family : manifest.kernels) {
    const auto serves = [&](const tenon_kernel* k) { return view(k->backend) == family.backend; };
    if (std::none_of(found.kernels.begin(), found.kernels.end(), serves))
      return "the manifest promises kernels for backend " + family.backend + ", init() registered none";
    for (const std::string& op : family.ops)
      if (std::none_of(found.kernels.begin(), found.kernels.end(), [&](const tenon_kernel* k) {
            return serves(k) && (view(k->pattern) == op || view(k->pattern).find(op + "(") != std::string_view::npos);
          }))
        return "the manifest promises kernels of " + op + " for backend " + family.backend + ", init() registered none";
  }
  for (const tenon_kernel* kernel : found.kernels)
    if (std::string one = kernel_fault(manifest, *kernel); !one.empty()) return one;
  return "";
}

// Unused members of what was registered.
std::string record_fault(const plugin::Registry& found) {
  for (const tenon_kernel* k : found.kernels) {
    if (k->struct_size != sizeof *k) return "kernel " + text_of(k->name) + ": its size is " + number(k->struct_size);
    if (k->reserved != 0) return "kernel " + text_of(k->name) + ": its reserved member is not 0";
    if (k->phases & ~3u) return "kernel " + text_of(k->name) + ": phases " + number(k->phases);
    if (k->max_rows != 0 && k->max_rows < k->min_rows)
      return "kernel " + text_of(k->name) + ": max_rows below min_rows";
  }
  for (const tenon_format* f : found.formats)
    if (f->struct_size != sizeof *f || (f->flags & ~TENON_FORMAT_TAKES_ABSENT))
      return "format " + text_of(f->name) + ": its size or flags are wrong";
  for (const tenon_architecture* a : found.architectures)
    if (a->struct_size != sizeof *a || a->flags != 0)
      return "architecture " + text_of(a->name) + ": its size or flags are wrong";
  for (const tenon_backend* b : found.backends)
    if (b->struct_size != sizeof *b || b->flags > 15)
      return "backend " + text_of(b->name) + ": its size or flags are wrong";
  for (const tenon_dtype* d : found.registered_dtypes)
    if (d->struct_size != sizeof *d) return "dtype " + text_of(d->name) + ": its size is " + number(d->struct_size);
  return "";
}

Group init_group(const Subject& subject) {
  return {"init", [&subject](Session& session) {
            session.check("entry: one table, and it is right", "P4 P6 H7",
                          [&] { return outcome(entry_fault(subject)); });
            plugin::Registry known;
            std::optional<plugin::Registrar> registrar;
            std::optional<Initialised> done;
            const auto initialise = [&] {
              if (done) return;
              registrar.emplace(known);
              done = run_init(subject, plugin::host_table(), *registrar, registrar->table());
            };
            const auto usable = [&]() -> std::optional<Outcome> {
              initialise();
              if (done->status == TENON_OK) return std::nullopt;
              return skip("init() did not succeed");
            };
            session.check("init: succeeds and leaves the process as it was", "P12", [&] {
              const ProcessState before;
              initialise();
              if (done->status != TENON_OK)
                return fail("init() answered " + std::string(plugin::status_name(done->status)) + ": " +
                            (done->message.empty() ? "no message" : done->message));
              return outcome(ProcessState().changes(before));
            });
            session.check("init: registers what the manifest says and nothing else", "H8", [&] {
              if (const auto left_out = usable()) return *left_out;
              if (!subject.manifest_fault.empty()) return skip("the manifest cannot be read");
              return outcome(promise_fault(subject.manifest, registrar->staged()));
            });
            session.check("init: its tables have their size, and unused members are 0", "P6", [&] {
              if (const auto left_out = usable()) return *left_out;
              return outcome(record_fault(registrar->staged()));
            });
            session.check("shutdown: returns", "H13", [&] {
              if (const auto left_out = usable()) return *left_out;
              const auto shutdown = table_of(subject).shutdown;
              if (!shutdown) return skip("it has none");
              shutdown();
              return pass();
            });
          }};
}

template <typename Record>
tenon_status refuse(void*, const Record*) noexcept {
  return plugin::set_message(TENON_INVALID_ARGUMENT, "the kit refuses every record");
}

// init() with a registrar that refuses everything: the refusal has to come out again, with a message.
Group refused_group(const Subject& subject) {
  return {"init, refused", [&subject](Session& session) {
            session.check("init: passes a refusal on", "P10", [&] {
              plugin::Registry known;
              plugin::Registrar registrar(known);
              tenon_registrar table = *registrar.table();
              table.architecture = refuse<tenon_architecture>, table.format = refuse<tenon_format>;
              table.backend = refuse<tenon_backend>, table.collective = refuse<tenon_collective>;
              table.dtype = [](void* self, const tenon_dtype* record, uint32_t*) noexcept {
                return refuse(self, record);
              };
              table.kernels = [](void* self, const tenon_kernel* const*, uint32_t) noexcept {
                return refuse<tenon_kernel>(self, nullptr);
              };
              table.composite = [](void* self, tenon_str, tenon_str) noexcept { return refuse<char>(self, nullptr); };
              const Initialised done = run_init(subject, plugin::host_table(), registrar, &table);
              if (done.status == TENON_OK)
                return fail("init() answered OK although the registrar refused every record");
              return outcome(done.message.empty() ? "init() failed without a message" : "");
            });
          }};
}

// Hosts that a plugin may meet one day. It works with them or says why not.
Group host_group(const Subject& subject, const std::string& name, const std::string& what,
                 void (*change)(tenon_host&)) {
  return {name, [&subject, what, change](Session& session) {
            session.check(what, "P10 H7", [&] {
              struct {
                tenon_host host;
                uint64_t more[8];  // what a later version may have appended
              } newer = {*plugin::host_table(), {}};
              change(newer.host);
              plugin::Registry known;
              plugin::Registrar registrar(known);
              const Initialised done = run_init(subject, &newer.host, registrar, registrar.table());
              if (done.status == TENON_OK) return pass("it works");
              return done.message.empty() ? fail("init() failed without a message") : pass("it says: " + done.message);
            });
          }};
}

}  // namespace

std::vector<Group> init_checks(const Subject& subject) {
  return {init_group(subject), refused_group(subject),
          host_group(subject, "init, newer host", "init: works with a newer host, or says why not",
                     [](tenon_host& host) { host.abi_minor += 1, host.struct_size += 64; }),
          host_group(subject, "init, poor host",
                     "init: without scratch memory and configuration works, or says why not", [](tenon_host& host) {
                       host.scratch = [](void*, uint64_t, uint64_t) noexcept -> void* { return nullptr; };
                       host.config = [](void*, tenon_str, tenon_value*) noexcept {
                         return plugin::set_message(TENON_NOT_FOUND, "no configuration value of that name");
                       };
                     })};
}

Group opening_checks(const Subject& subject) {
  return {"opening", [&subject](Session& session) {
            session.check("opening: the host takes the plugin", "H7 H8 H9", [&] {
              const Opened opened(subject, session.options());
              return outcome(opened.fault());
            });
            session.check("opening: a second host of the process shares it", "H9 P7", [&] {
              const Opened first(subject, session.options()), second(subject, session.options());
              if (!first.fault().empty()) return skip("the host does not take the plugin");
              if (!second.fault().empty()) return fail(second.fault());
              if (first.contents().kernels != second.contents().kernels ||
                  first.contents().formats != second.contents().formats)
                return fail("it registered other records for the second host");
              return pass();
            });
          }};
}

}  // namespace tenon::kit
