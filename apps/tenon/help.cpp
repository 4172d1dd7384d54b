#include <algorithm>
#include <sstream>

#include "options.hpp"

namespace tenon::launcher {
namespace {

constexpr size_t kTextColumn = 34;
constexpr size_t kLineWidth = 110;

// One entry: the left part, then the words of `text` wrapped into the right column.
void entry(std::ostream& out, const std::string& left, const std::string& text) {
  out << "  " << left;
  size_t column = left.size() + 2;
  if (column + 1 > kTextColumn) {
    out << '\n';
    column = 0;
  }
  out << std::string(kTextColumn - column, ' ');
  column = kTextColumn;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (column > kTextColumn && column + 1 + word.size() > kLineWidth) {
      out << '\n' << std::string(kTextColumn, ' ');
      column = kTextColumn;
    }
    if (column > kTextColumn) {
      out << ' ';
      ++column;
    }
    out << word;
    column += word.size();
  }
  out << '\n';
}

void option_entry(std::ostream& out, const OptionSpec& option) {
  std::string left = "    --";
  if (option.letter) left = {'-', option.letter, ',', ' ', '-', '-'};
  left += option.name;
  if (!option.argument.empty()) left.append(" ").append(option.argument);
  std::string text(option.help);
  if (option.name != "help") text.append(" [").append(environment_name(option)).append("]");
  entry(out, left, text);
}

}  // namespace

std::string help_text() {
  std::ostringstream out;
  out << "Tenon runs large language models.\n\nUsage: tenon VERB [flags]\n\nVerbs:\n";
  for (const VerbSpec& spec : verb_table()) {
    std::string text(spec.summary);
    if (!spec.refusal.empty()) text += " (" + std::string(spec.refusal) + ")";
    entry(out, std::string(spec.name), text);
  }
  out << "\n`tenon VERB --help` lists the flags of a verb; `tenon --version` prints the version.\n"
         "Every flag has an environment twin, TENON_ and its name in capitals; the flag wins.\n"
         "Exit status: 0 done, 1 failed at run time, 2 wrong usage, 3 file not usable, 4 out of memory or capacity,\n"
         "130 interrupted.\n";
  return out.str();
}

std::string help_text(Verb verb) {
  const VerbSpec& spec = spec_of(verb);
  std::ostringstream out;
  out << "tenon " << spec.name << ": " << spec.summary << "\n\nUsage: tenon " << spec.name << ' ' << spec.usage << "\n";
  if (!spec.refusal.empty()) out << "\nNot served: " << spec.refusal << ".\n";
  for (bool common : {false, true}) {
    out << (common ? "\nCommon flags:\n" : "\nFlags:\n");
    for (const OptionSpec& option : option_table())
      if (serves(option, verb) && (option.verbs == kEveryVerb) == common) option_entry(out, option);
  }
  return out.str();
}

}  // namespace tenon::launcher
