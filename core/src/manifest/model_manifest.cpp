#include <tenon/model_manifest.hpp>

#include <tenon/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <set>

#include "manifest.pb.h"
#include "text_proto.hpp"

namespace tenon {
namespace {

namespace pb = google::protobuf;

std::string read_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    throw Error(ErrorKind::kFile, "manifest '" + path + "': " + (error ? error.message() : "no regular file"));
  std::ifstream in(path, std::ios::binary);
  std::string text(manifest::kMaxManifestBytes + 1, '\0');
  in.read(text.data(), std::streamsize(text.size()));
  if (in.bad() || (!in.eof() && in.fail())) throw Error(ErrorKind::kFile, "manifest '" + path + "': cannot be read");
  text.resize(size_t(in.gcount()));
  return text;
}

bool is_model_name(const std::string& text) {
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
  });
}

// A field's value, or that of one element, as a flag takes it. index < 0: the field is not repeated.
std::string value_text(const pb::Message& message, const pb::FieldDescriptor* field, int index) {
  const pb::Reflection& at = *message.GetReflection();
  const bool one = index < 0;
  switch (field->cpp_type()) {
    case pb::FieldDescriptor::CPPTYPE_UINT32:
      return std::to_string(one ? at.GetUInt32(message, field) : at.GetRepeatedUInt32(message, field, index));
    case pb::FieldDescriptor::CPPTYPE_UINT64:
      return std::to_string(at.GetUInt64(message, field));
    case pb::FieldDescriptor::CPPTYPE_DOUBLE: {
      char text[32];
      return {text, std::to_chars(text, text + sizeof text, at.GetDouble(message, field)).ptr};
    }
    default:
      return one ? at.GetString(message, field) : at.GetRepeatedString(message, field, index);
  }
}

std::string joined_values(const pb::Message& message, const pb::FieldDescriptor* field) {
  if (!field->is_repeated()) return value_text(message, field, -1);
  std::string out;
  for (int i = 0; i < message.GetReflection()->FieldSize(message, field); ++i) {
    if (i) out += ',';
    out += value_text(message, field, i);
  }
  return out;
}

std::string from_directory_of(const std::string& path, const std::string& file) {
  return (std::filesystem::path(path).parent_path() / file).string();
}

NamedModel named_model(const std::string& path, const proto::NamedModel& m, const pb::TextFormat::ParseInfoTree& places) {
  NamedModel out;
  out.name = m.name();
  std::vector<const pb::FieldDescriptor*> fields;
  m.GetReflection()->ListFields(m, &fields);
  for (const pb::FieldDescriptor* field : fields) {
    NamedModel::Setting setting;
    setting.flag = field->name();
    std::replace(setting.flag.begin(), setting.flag.end(), '_', '-');
    setting.value = joined_values(m, field);
    setting.place = manifest::place_text(path, places.GetLocation(field, field->is_repeated() ? 0 : -1));
    if (setting.value.empty()) throw Error(ErrorKind::kFile, fmt::format("{}{}: empty", setting.place, field->name()));
    if (setting.flag == "name") continue;
    if (setting.flag == "model" || setting.flag == "draft") setting.value = from_directory_of(path, setting.value);
    out.settings.push_back(std::move(setting));
  }
  return out;
}

}  // namespace

std::vector<NamedModel> read_model_manifest(const std::string& path) {
  proto::ModelManifest message;
  pb::TextFormat::ParseInfoTree places;
  manifest::parse_text_proto(path, read_file(path), message, places);
  const pb::FieldDescriptor* field = proto::ModelManifest::descriptor()->FindFieldByName("model");
  std::vector<NamedModel> out;
  std::set<std::string> names;
  for (int i = 0; i < message.model_size(); ++i) {
    const proto::NamedModel& m = message.model(i);
    const std::string place = manifest::place_text(path, places.GetLocation(field, i));
    if (!is_model_name(m.name())) throw Error(ErrorKind::kFile, place + "name: expected up to 64 of a-z, A-Z, 0-9, '_', '.', '-'");
    if (m.model().empty()) throw Error(ErrorKind::kFile, place + "model: missing");
    if (!names.insert(m.name()).second) throw Error(ErrorKind::kFile, fmt::format("{}name: \"{}\" is given twice", place, m.name()));
    out.push_back(named_model(path, m, *places.GetTreeForNested(field, i)));
  }
  return out;
}

}  // namespace tenon
