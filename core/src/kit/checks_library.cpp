// What can be said of a plugin before any of it runs: manifest, owner, hash, and the headers of its library.
#include <algorithm>

#include "elf_facts.hpp"
#include "plugin/library.hpp"
#include "subject.hpp"

namespace tenon::kit {
namespace {

bool starts_with_any(const std::string& text, std::initializer_list<const char*> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](const char* p) { return text.starts_with(p); });
}

std::string exports_fault(const ElfFacts& facts) {
  bool has_entry = false;
  for (const std::string& name : facts.exports) {
    if (name == TENON_PLUGIN_ENTRY) {
      has_entry = true;
    } else if (!starts_with_any(name, {"__asan", "__odr_asan", "__tsan", "__ubsan"})) {
      return "exports " + name + "; expected " TENON_PLUGIN_ENTRY " alone";
    }
  }
  return has_entry ? "" : "exports no " TENON_PLUGIN_ENTRY;
}

std::string needed_fault(const ElfFacts& facts) {
  for (const std::string& name : facts.needed)
    for (const char* core : {"tenon_core", "spdlog", "libfmt", "protobuf", "boost"})
      if (name.find(core) != std::string::npos) return "needs " + name + ", a library of the core";
  return "";
}

// A library that is installed elsewhere must not look for others where it was built.
std::string run_path_fault(const ElfFacts& facts) {
  for (const std::string& path : facts.run_paths)
    if (!starts_with_any(path, {"$ORIGIN", "${ORIGIN}", "/usr/", "/opt/", "/lib"}))
      return "looks for libraries in " + path + "; expected none, $ORIGIN, or a directory of the system";
  return "";
}

std::string imports_fault(const ElfFacts& facts) {
  static constexpr const char* kLeftAlone[] = {
      "fork",   "vfork",   "system", "popen", "execv",      "execve",    "execvp",    "posix_spawn", "posix_spawnp",
      "socket", "connect", "signal", "chdir", "fesetround", "setlocale", "uselocale", "sigaction"};
  for (const std::string& name : facts.imports)
    if (std::find(std::begin(kLeftAlone), std::end(kLeftAlone), name) != std::end(kLeftAlone))
      return "calls " + name +
             "(): a plugin starts no process, opens no connection, and leaves signal handlers, locale, "
             "rounding and working directory alone";
  return "";
}

}  // namespace

Group library_checks(const Subject& subject) {
  return {
      "library", [&subject](Session& session) {
        session.check("manifest: can be read", "H2", [&] { return outcome(subject.manifest_fault); });
        session.check("manifest: fits the library, and both may be trusted", "H3 H4 H5", [&] {
          if (!subject.manifest_fault.empty()) return skip("the manifest cannot be read");
          return outcome(plugin::library_fault(subject.directory, subject.manifest.library, subject.manifest.sha256));
        });
        const auto facts = [&](std::string (*fault)(const ElfFacts&)) {
          return [&subject, fault] { return outcome(fault(read_elf_facts(subject.library))); };
        };
        session.check("library: exports the entry alone", "P1", facts(exports_fault));
        session.check("library: needs no library of the core", "P1", facts(needed_fault));
        session.check("library: has no path of a build in it", "", facts(run_path_fault));
        session.check("library: needs no writable code and no executable stack", "", facts([](const ElfFacts& f) {
                        if (f.text_relocations) return std::string("has relocations in its code; build it with -fPIC");
                        return std::string(f.executable_stack ? "asks for an executable stack" : "");
                      }));
        session.check("library: calls nothing that is the host's matter", "P12", facts(imports_fault));
      }};
}

}  // namespace tenon::kit
