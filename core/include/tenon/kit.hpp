// kit.hpp: the conformance kit. Holds a plugin to the duties of docs/abi.md and says which it breaks.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tenon::kit {

enum class Verdict { kPass, kFail, kSkip };

struct CheckResult {
  std::string name;    // "kernel block.linear.avx2: workers"
  std::string duties;  // of docs/abi.md: "P16 P17"; "" = none of them
  Verdict verdict = Verdict::kFail;
  std::string reason;  // of a failure or of what was left out; else what was looked at, or ""
  double seconds = 0;
};

struct KitReport {
  std::string library, name, version, kind;
  std::vector<CheckResult> checks;
  bool passed() const;  // no check failed, and one at least passed
};

struct KitOptions {
  std::string library;                   // the plugin's library, or its manifest
  std::vector<std::string> plugin_path;  // where other plugins are that it needs, the reference backend above all
  bool use_default_path = true;          // look for them where the engine looks, too
  std::string files;                     // formats: a directory of valid files, as seeds of malformed ones; may be ""
  std::string model;                     // architectures: a model file to build and run; may be ""
  std::string only;                      // checks whose name contains this; "" = all
  uint32_t timeout_s = 300;              // of one check
  std::function<void(const KitReport&)> on_check;  // called after each check; may be null
};

// Runs every check in processes of their own, so that a plugin that crashes or hangs costs one check. Call it while the
// process has one thread. Throws Error(kUsage) for a library that has no manifest, Error(kRuntime) when the system
// gives no process.
KitReport test_plugin(const KitOptions& options);

std::string to_text(const KitReport& report);  // the three parts below
std::string text_head(const KitReport& report);
std::string text_of_check(const CheckResult& check);
std::string text_tail(const KitReport& report);
std::string to_json(const KitReport& report);

}  // namespace tenon::kit
