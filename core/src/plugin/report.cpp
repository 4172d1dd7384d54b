#include "report.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tenon/error.hpp>

namespace tenon::plugin {
namespace {

using Json = nlohmann::ordered_json;

// Manifests may hold any bytes: what is not UTF-8 is replaced.
std::string dump(const Json& value) { return value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

std::string joined(const std::vector<std::string>& list, const char* separator = " ") {
  std::string text;
  for (const std::string& item : list) text += (text.empty() ? "" : separator) + item;
  return text;
}

// Bytes that a terminal can show; the rest as \xNN.
std::string printable(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      text += c;
    } else {
      text += "\\x";
      text += "0123456789abcdef"[byte >> 4];
      text += "0123456789abcdef"[byte & 15];
    }
  }
  return text;
}
std::vector<std::string> printable(const std::vector<std::string>& list) {
  std::vector<std::string> out;
  for (const std::string& bytes : list) out.push_back(printable(bytes));
  return out;
}

// Of a library that was not opened only whether it is there is known: its hash, owner and contents are checked then.
const char* state(const PluginRecord& record) {
  if (!record.refusal.empty()) return "refused";
  if (record.opened) return "opened";
  std::error_code ignored;
  return std::filesystem::exists(record.library_path, ignored) ? "found" : "missing";
}

// What it provides, in a line.
std::string provides(const PluginRecord& record) {
  std::vector<std::string> parts;
  const auto add = [&](const char* what, const std::vector<std::string>& list) {
    if (!list.empty()) parts.push_back(std::string(what) + " " + joined(list));
  };
  add("architectures", record.architectures);
  add("formats", record.formats);
  add("backends", record.backends);
  add("collectives", record.collectives);
  add("kernels for", record.kernel_backends);
  add("dtypes", record.kernel_dtypes);
  return printable(joined(parts, "; "));
}

Json to_json(const PluginRecord& record) {
  return {{"name", record.name},
          {"version", record.version},
          {"kind", record.kind},
          {"state", state(record)},
          {"refusal", record.refusal.empty() ? Json(nullptr) : Json(record.refusal)},
          {"priority", record.priority},
          {"manifest", record.manifest_path},
          {"library", record.library_path},
          {"provides",
           {{"architectures", record.architectures},
            {"formats", record.formats},
            {"format_magics", printable(record.format_magics)},
            {"format_extensions", record.format_extensions},
            {"backends", record.backends},
            {"collectives", record.collectives},
            {"kernel_backends", record.kernel_backends},
            {"kernel_ops", record.kernel_ops},
            {"kernel_dtypes", record.kernel_dtypes},
            {"kernel_features", record.kernel_features}}}};
}

Json to_json(const PluginHost& host) {
  Json out = {{"search_path", Json::array()}, {"plugins", Json::array()}};
  for (const SearchDirectory& directory : host.search_path())
    out["search_path"].push_back({{"path", directory.path}, {"origin", directory.origin}});
  for (const PluginRecord& record : host.plugins()) out["plugins"].push_back(to_json(record));
  return out;
}

void pad(std::string& line, size_t column) { line.append(line.size() < column ? column - line.size() : 2, ' '); }

std::string table(const PluginHost& host) {
  size_t name_width = 4, version_width = 7;
  for (const PluginRecord& record : host.plugins()) {
    name_width = std::max(name_width, printable(record.name).size());
    version_width = std::max(version_width, printable(record.version).size());
  }
  std::string text;
  const auto row = [&](const std::string& name, const std::string& version, const std::string& kind,
                       const std::string& how, const std::string& what) {
    std::string line = name;
    pad(line, name_width + 2);
    line += version;
    pad(line, name_width + version_width + 4);
    line += kind;
    pad(line, name_width + version_width + 18);
    line += how;
    pad(line, name_width + version_width + 27);
    text += line + what + "\n";
  };
  row("name", "version", "kind", "state", "provides");
  for (const PluginRecord& record : host.plugins()) {
    row(printable(record.name), printable(record.version), record.kind.empty() ? "-" : record.kind, state(record),
        provides(record));
    if (!record.refusal.empty()) text += "  refused: " + printable(record.refusal) + "\n";
  }
  if (host.plugins().empty()) text = "no plugins found\n";
  text += "\nsearched:\n";
  for (const SearchDirectory& directory : host.search_path())
    text += "  " + printable(directory.path) + " (" + directory.origin + ")\n";
  if (host.search_path().empty()) text += "  nothing: no directory of the search path exists\n";
  return text;
}

template <typename Record>
std::vector<std::string> names(const std::vector<const Record*>& list) {
  std::vector<std::string> out;
  for (const Record* record : list) out.emplace_back(record->name.data, size_t(record->name.size));
  return out;
}

Json registered(const Registry& contents) {
  Json kernels = Json::array();
  for (const tenon_kernel* k : contents.kernels) {
    const auto text = [](tenon_str s) { return std::string(s.data ? s.data : "", s.data ? size_t(s.size) : 0); };
    Json phases = Json::array();
    if (k->phases & TENON_PHASE_DECODE) phases.push_back("decode");
    if (k->phases & TENON_PHASE_PREFILL) phases.push_back("prefill");
    kernels.push_back({{"name", text(k->name)},
                       {"backend", text(k->backend)},
                       {"pattern", text(k->pattern)},
                       {"numeric_class", text(k->numeric_class)},
                       {"feature", text(k->feature)},
                       {"phases", phases},
                       {"priority", k->priority}});
  }
  Json composites = Json::array();
  for (const Composite& composite : contents.composites)
    composites.push_back({{"name", composite.name}, {"text", composite.text}});
  Json dtypes = Json::array();
  for (const tenon_dtype* d : contents.registered_dtypes)
    dtypes.push_back({{"name", std::string(d->name.data, size_t(d->name.size))},
                      {"block_cols", d->block_cols},
                      {"block_bytes", d->block_bytes}});
  return {{"architectures", names(contents.architectures)},
          {"formats", names(contents.formats)},
          {"backends", names(contents.backends)},
          {"collectives", names(contents.collectives)},
          {"dtypes", dtypes},
          {"kernels", kernels},
          {"composites", composites}};
}

std::string info_text(const PluginRecord& record, const Registry& contents) {
  std::string text;
  const auto line = [&](std::string name, const std::string& value) {
    if (value.empty()) return;
    pad(name, 16);
    text += name + printable(value) + "\n";
  };
  line("name", record.name);
  line("version", record.version);
  line("licence", record.licence);
  line("kind", record.kind);
  line("state", state(record));
  line("refused", record.refusal);
  line("manifest", record.manifest_path);
  line("library", record.library_path);
  line("priority", std::to_string(record.priority));
  line("provides", provides(record));
  line("magics", joined(printable(record.format_magics)));
  line("extensions", joined(record.format_extensions));
  line("architectures", joined(names(contents.architectures)));
  line("formats", joined(names(contents.formats)));
  line("backends", joined(names(contents.backends)));
  line("collectives", joined(names(contents.collectives)));
  std::vector<std::string> dtypes;
  for (const tenon_dtype* d : contents.registered_dtypes) dtypes.emplace_back(d->name.data, size_t(d->name.size));
  line("dtypes", joined(dtypes));
  for (const tenon_kernel* k : contents.kernels)
    line("kernel", std::string(k->name.data, size_t(k->name.size)) + "  class " +
                       std::string(k->numeric_class.data, size_t(k->numeric_class.size)));
  for (const Composite& composite : contents.composites) line("composite", composite.name + ": " + composite.text);
  return text;
}

}  // namespace

std::string report_list(const PluginHost& host, bool json) { return json ? dump(to_json(host)) : table(host); }

std::string report_verify(PluginHost& host, bool json, bool* all_good) {
  host.verify_all();
  const auto& records = host.plugins();
  const auto n_refused =
      std::count_if(records.begin(), records.end(), [](const PluginRecord& record) { return !record.refusal.empty(); });
  *all_good = n_refused == 0 && !records.empty();
  if (!json)
    return table(host) + "\n" + std::to_string(records.size() - size_t(n_refused)) + " good, " +
           std::to_string(n_refused) + " refused\n";
  Json out = to_json(host);
  out["all_good"] = *all_good;
  return dump(out);
}

std::string report_info(PluginHost& host, const std::string& name, bool json) {
  const auto& records = host.plugins();
  // Of several with the name, the one in use.
  size_t chosen = records.size();
  for (size_t i = records.size(); i-- > 0;)
    if (records[i].name == name && (chosen == records.size() || records[i].refusal.empty())) chosen = i;
  if (chosen == records.size()) {
    std::vector<std::string> known;
    for (const PluginRecord& record : records) known.push_back(record.name);
    throw Error(ErrorKind::kUsage,
                "no plugin is named " + name + "; there " +
                    (known.empty() ? std::string("are none on the search path") : "are " + joined(known)));
  }
  host.open(chosen);
  if (!json) return info_text(records[chosen], host.contents(chosen));
  Json out = to_json(records[chosen]);
  out["licence"] = records[chosen].licence;
  out["registered"] = registered(host.contents(chosen));
  return dump(out);
}

}  // namespace tenon::plugin
