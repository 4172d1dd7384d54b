// Functions that every template can call.
#include <ctime>

#include "template/builtins.hpp"
#include "template/operations.hpp"
#include "template/runtime.hpp"

namespace tenon::templating {
namespace {

constexpr int64_t kMaxRange = 100000;  // of the sandbox

Value range(Runtime& runtime, Arguments& arguments) {
  auto [first, second, third] = bind(arguments, "range", {"", "", ""}, 1);
  int64_t start = 0, stop = whole_argument(first, "range", 0), step = 1;
  if (!second.is(Kind::kMissing)) {
    start = stop;
    stop = whole_argument(second, "range", 0);
    step = whole_argument(third, "range", 1);
  }
  if (step == 0) throw Fault("range() arg 3 must not be zero");
  Value result = runtime.object<Range>(start, stop, step);
  if (result.as<Range>().size() > kMaxRange)
    throw Fault("Range too big. The sandbox blocks ranges larger than MAX_RANGE (" + std::to_string(kMaxRange) + ").");
  return result;
}

void fill_dict(Runtime& runtime, Dict& dict, Arguments& arguments) {
  if (arguments.positional.size() > 1)
    throw Fault("dict expected at most 1 argument, got " + std::to_string(arguments.positional.size()));
  for (const Value& source : arguments.positional) {
    if (source.is(Kind::kDict)) {
      for (const auto& [key, value] : source.as<Dict>().entries) dict_set(runtime, dict, key, value);
      continue;
    }
    for (const Value& pair : to_values(runtime, source)) {
      const Values two = to_values(runtime, pair);
      if (two.size() != 2) throw Fault("dict(): expected pairs, found " + std::to_string(two.size()) + " items");
      dict_set(runtime, dict, two[0], two[1]);
    }
  }
  for (const auto& [name, value] : arguments.named) dict_set(runtime, dict, name, value);
}

Value make_dict(Runtime& runtime, Arguments& arguments) {
  Value dict = runtime.dict();
  fill_dict(runtime, dict.as<Dict>(), arguments);
  return dict;
}

Value make_namespace(Runtime& runtime, Arguments& arguments) {
  const Value dict = make_dict(runtime, arguments);
  Value result = runtime.object<Namespace>();
  for (const auto& [key, value] : dict.as<Dict>().entries)
    result.as<Namespace>().attributes.emplace_back(to_text(runtime, key), value);
  return result;
}

Value make_cycler(Runtime& runtime, Arguments& arguments) {
  if (!arguments.named.empty()) throw Fault("cycler() takes no keyword arguments");
  if (arguments.positional.empty()) throw Fault("at least one item has to be provided");
  return runtime.object<Cycler>(std::move(arguments.positional));
}

Value make_joiner(Runtime& runtime, Arguments& arguments) {
  const auto [separator] = bind(arguments, "joiner", {"sep"}, 0);
  return runtime.object<Joiner>(separator.is(Kind::kMissing) ? runtime.text(", ") : separator);
}

Value raise_exception(Runtime& runtime, Arguments& arguments) {
  const auto [message] = bind(arguments, "raise_exception", {"message"}, 1);
  throw Fault(to_text(runtime, message), FaultKind::kRaised);
}

Value strftime_now(Runtime& runtime, Arguments& arguments) {
  const auto [format] = bind(arguments, "strftime_now", {"format"}, 1);
  const std::string_view wanted = text_argument(format, "strftime_now");
  std::string pattern;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == '%' && i + 1 < wanted.size()) {
      const char kind = wanted[++i];
      if (kind == 'f') pattern += "000000";
      if (kind != 'f' && kind != 'z' && kind != 'Z') pattern += {'%', kind};  // the time has no zone
    } else {
      pattern += wanted[i] == '%' ? "%%" : std::string(1, wanted[i]);
    }
  }
  const std::time_t now = runtime.now();
  std::tm parts{};
  localtime_r(&now, &parts);
  // A byte at the end tells an empty text from one that did not fit.
  pattern += '.';
  std::string text(pattern.size() * 4 + 64, '\0');
  size_t size = 0;
  while ((size = std::strftime(text.data(), text.size(), pattern.c_str(), &parts)) == 0) {
    runtime.check_size(text.size() * 2);
    text.resize(text.size() * 2);
  }
  text.resize(size - 1);
  return runtime.text(std::move(text));
}

constexpr FunctionSpec kFunctions[] = {
    {"range", range},
    {"dict", make_dict},
    {"namespace", make_namespace},
    {"cycler", make_cycler},
    {"joiner", make_joiner},
    {"raise_exception", raise_exception},
    {"strftime_now", strftime_now},
};

}  // namespace

std::span<const FunctionSpec> functions() { return kFunctions; }

}  // namespace tenon::templating
