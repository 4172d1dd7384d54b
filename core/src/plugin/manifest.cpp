#include "manifest.hpp"

#include <algorithm>
#include <filesystem>
#include <tenon/error.hpp>

#include "manifest.pb.h"
#include "manifest/text_proto.hpp"

namespace tenon::plugin {
namespace {

namespace pb = google::protobuf;

// The checks that the grammar does not make.
class Checker {
 public:
  Checker(const std::string& path, const proto::PluginManifest& message, const pb::TextFormat::ParseInfoTree& places)
      : path_(path), message_(message), places_(places) {}

  [[noreturn]] void fail(const char* field, const std::string& what, int index = -1) const {
    const pb::FieldDescriptor* descriptor = message_.GetDescriptor()->FindFieldByName(field);
    if (index < 0 && descriptor->is_repeated()) index = 0;
    throw Error(ErrorKind::kFile, manifest::place_text(path_, places_.GetLocation(descriptor, index)) + field + ": " + what);
  }
  void need(bool present, const char* field) const {
    if (!present) fail(field, "missing");
  }
  // The field is there without what it belongs to.
  void need_with(bool present, const char* field, bool owner, const std::string& what) const {
    if (present && !owner) fail(field, what);
  }
  template <typename List>
  std::vector<std::string> strings(const char* field, const List& list) const {
    for (int i = 0; i < list.size(); ++i)
      if (list[i].empty()) fail(field, "empty", i);
    return {list.begin(), list.end()};
  }

 private:
  const std::string& path_;
  const proto::PluginManifest& message_;
  const pb::TextFormat::ParseInfoTree& places_;
};

bool is_name(const std::string& text) {
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
  });
}

bool is_hash(const std::string& text) {
  return text.size() == 64 &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// The name of a file in the manifest's directory or below. What links do is checked when the file is looked at.
bool is_inner_path(const std::string& text) {
  if (text.empty() || text.find('\0') != std::string::npos) return false;
  const std::filesystem::path path(text);
  if (path.is_absolute() || !path.has_filename()) return false;
  return std::none_of(path.begin(), path.end(), [](const std::filesystem::path& part) { return part == ".."; });
}

const char* kind_name(proto::PluginKind kind) {
  switch (kind) {
    case proto::ARCHITECTURE:
      return "architecture";
    case proto::FORMAT:
      return "format";
    case proto::BACKEND:
      return "backend";
    case proto::KERNELS:
      return "kernels";
    case proto::COLLECTIVE:
      return "collective";
    default:
      return nullptr;
  }
}

void check_identity(const Checker& check, const proto::PluginManifest& m) {
  check.need(m.has_name(), "name");
  if (!is_name(m.name())) check.fail("name", "expected up to 64 of a-z, 0-9, '_', '.', '-'");
  check.need(!m.version().empty(), "version");
  check.need(m.has_kind(), "kind");
  if (kind_name(m.kind()) == nullptr)
    check.fail("kind", "expected ARCHITECTURE, FORMAT, BACKEND, KERNELS or COLLECTIVE");
  check.need(m.has_abi_major(), "abi_major");
  check.need(m.has_abi_minor(), "abi_minor");
  check.need(m.has_library(), "library");
  if (!is_inner_path(m.library()))
    check.fail("library", "expected a file inside the manifest's directory, found '" + m.library() + "'");
  check.need(m.has_sha256(), "sha256");
  if (!is_hash(m.sha256())) check.fail("sha256", "expected 64 lower-case hexadecimal digits");
}

// What a plugin provides has to go with its kind, and the kind has to provide something.
void check_provisions(const Checker& check, const proto::PluginManifest& m) {
  const std::string kind = kind_name(m.kind());
  const auto one_of = [&](const char* field, int count, proto::PluginKind wanted) {
    check.need_with(count > 0, field, m.kind() == wanted, "contradicts kind: " + kind + " plugins provide none");
    if (m.kind() == wanted && count == 0) check.fail("kind", kind + " without a field '" + std::string(field) + "'");
  };
  one_of("architecture", m.architecture_size(), proto::ARCHITECTURE);
  one_of("format", m.format_size(), proto::FORMAT);
  one_of("backend", m.backend_size(), proto::BACKEND);
  one_of("collective", m.collective_size(), proto::COLLECTIVE);
  const bool has_format = m.format_size() > 0;
  check.need_with(m.format_magic_size() > 0, "format_magic", has_format, "without a format");
  check.need_with(m.format_extension_size() > 0, "format_extension", has_format, "without a format");
  if (has_format && m.format_magic_size() + m.format_extension_size() == 0)
    check.fail("format", "without format_magic or format_extension no file selects it");
  if (m.kind() == proto::KERNELS && m.kernels_size() + m.dtype_size() == 0)
    check.fail("kind", "kernels without a field 'kernels' or 'dtype'");
  for (int i = 0; i < m.kernels_size(); ++i)
    if (m.kernels(i).backend().empty()) check.fail("kernels", "without a backend", i);
  for (int i = 0; i < m.format_extension_size(); ++i)
    if (m.format_extension(i).size() < 2 || m.format_extension(i)[0] != '.')
      check.fail("format_extension", "expected '.' and a name, found '" + m.format_extension(i) + "'", i);
}

}  // namespace

Manifest parse_manifest(const std::string& path, std::string_view text) {
  proto::PluginManifest m;
  pb::TextFormat::ParseInfoTree places;
  manifest::parse_text_proto(path, text, m, places);

  const Checker check(path, m, places);
  check_identity(check, m);
  check_provisions(check, m);

  Manifest out;
  out.name = m.name(), out.version = m.version(), out.kind = kind_name(m.kind());
  out.library = m.library(), out.sha256 = m.sha256();
  out.abi_major = m.abi_major(), out.abi_minor = m.abi_minor(), out.priority = m.priority();
  out.architectures = check.strings("architecture", m.architecture());
  out.formats = check.strings("format", m.format());
  out.format_magics = check.strings("format_magic", m.format_magic());
  out.format_extensions = check.strings("format_extension", m.format_extension());
  out.backends = check.strings("backend", m.backend());
  out.collectives = check.strings("collective", m.collective());
  out.dtypes = check.strings("dtype", m.dtype());
  for (const proto::KernelFamily& family : m.kernels())
    out.kernels.push_back({family.backend(),
                           {family.op().begin(), family.op().end()},
                           {family.dtype().begin(), family.dtype().end()},
                           {family.feature().begin(), family.feature().end()}});
  return out;
}

}  // namespace tenon::plugin
