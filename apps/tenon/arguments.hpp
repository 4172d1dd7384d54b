// arguments.hpp: what a command line and the environment say, checked against the table of options.hpp.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "options.hpp"
#include "processes.hpp"

namespace tenon::launcher {

using Environment = std::map<std::string, std::string, std::less<>>;

// The processes that an environment speaks of; one where it speaks of none.
Processes processes_of(const Environment& environment);

// Of --tensor-parallel or --expert-parallel: whether it is a list and no number.
bool is_layer_list(std::string_view ranks);

// Immutable after parse_arguments(). Values have the kind and range that the table asks for.
class Arguments {
 public:
  explicit Arguments(Verb verb) : verb_(verb) {}

  Verb verb() const { return verb_; }
  bool has(std::string_view name) const;
  bool on(std::string_view name) const { return count(name) > 0; }  // switches
  size_t count(std::string_view name) const;
  std::string text(std::string_view name, std::string_view fallback = "") const;
  int64_t integer(std::string_view name, int64_t fallback) const;
  double number(std::string_view name, double fallback) const;
  int64_t bytes(std::string_view name, int64_t fallback) const;  // sizes
  // Every value of a repeatable option, split at `separator`; empty parts are dropped.
  std::vector<std::string> list(std::string_view name, char separator) const;
  const std::vector<std::string>& positional() const { return positional_; }
  const Processes& processes() const { return processes_; }

 private:
  friend Arguments parse_arguments(Verb, const std::vector<std::string>&, const Environment&);
  friend void apply_manifest(Arguments&);
  Verb verb_;
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
  std::vector<std::string> positional_;
  Processes processes_;
};

// What the manifest that --manifest names says of the model that is asked for by name; flags and variables win. Throws
// Error(kFile) for a manifest that cannot be used, Error(kUsage) where MODEL is neither a name in it nor a path.
void apply_manifest(Arguments& arguments);

// `words` are what follows the verb. Throws Error(kUsage) that names the flag or the variable.
Arguments parse_arguments(Verb verb, const std::vector<std::string>& words, const Environment& environment);

}  // namespace tenon::launcher
