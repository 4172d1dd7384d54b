// session.hpp: runs checks one after the other in a child process and tells the parent about each.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <tenon/kit.hpp>
#include <vector>

namespace tenon::kit {

// What a check's body answers. It may throw any std::exception instead of failing.
struct Outcome {
  Verdict verdict = Verdict::kPass;
  std::string reason;
};
inline Outcome pass(std::string what = "") { return {Verdict::kPass, std::move(what)}; }
inline Outcome fail(std::string why) { return {Verdict::kFail, std::move(why)}; }
inline Outcome skip(std::string why) { return {Verdict::kSkip, std::move(why)}; }
// Passes when `fault` is empty.
inline Outcome outcome(std::string fault, std::string what = "") {
  return fault.empty() ? pass(std::move(what)) : fail(std::move(fault));
}

// The child's side. Checks come in the same order each time, so that a child that takes over from a crashed one can
// leave out what was done. One thread.
class Session {
 public:
  Session(int pipe, size_t n_done, const KitOptions& options) : options_(options), pipe_(pipe), n_done_(n_done) {}
  void check(const std::string& name, std::string_view duties, const std::function<Outcome()>& body);
  const KitOptions& options() const { return options_; }

 private:
  void tell(char what, std::string_view a, std::string_view b = {}, std::string_view c = {});

  const KitOptions& options_;
  int pipe_;
  size_t n_done_, n_seen_ = 0;
};

// A set of checks that share what they opened. Runs in a child.
struct Group {
  std::string name;
  std::function<void(Session&)> body;
};

// Adds the group's checks to the report, run in a new child after each crash. False when so many checks have hung
// (`n_hang` counts those of all groups) that the rest is left out. Throws Error(kRuntime) when the system gives no
// process.
bool run_group(const Group& group, const KitOptions& options, KitReport& report, size_t& n_hang);

}  // namespace tenon::kit
