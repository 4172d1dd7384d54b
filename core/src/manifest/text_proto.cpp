#include "text_proto.hpp"

#include <fmt/format.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <tenon/error.hpp>

namespace tenon::manifest {
namespace {

namespace pb = google::protobuf;

// Keeps the first error; protobuf counts lines and columns from 0.
class FirstError : public pb::io::ErrorCollector {
 public:
  void AddError(int line, pb::io::ColumnNumber column, const std::string& message) override {
    if (text_.empty()) text_ = std::to_string(line + 1) + ":" + std::to_string(column + 1) + ": " + message;
  }
  void AddWarning(int, pb::io::ColumnNumber, const std::string&) override {}
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

void parse_text_proto(const std::string& path, std::string_view text, pb::Message& out, pb::TextFormat::ParseInfoTree& places) {
  if (text.size() > kMaxManifestBytes)
    throw Error(ErrorKind::kFile,
                path + ": more than " + std::to_string(kMaxManifestBytes) + " bytes; expected a manifest");
  pb::TextFormat::Parser parser;
  FirstError error;
  parser.RecordErrorsTo(&error);
  parser.WriteLocationsTo(&places);
  parser.SetRecursionLimit(8);
  pb::io::ArrayInputStream stream(text.data(), int(text.size()));
  if (!parser.Parse(&stream, &out))
    throw Error(ErrorKind::kFile, path + ":" + (error.text().empty() ? "1:1: malformed" : error.text()));
}

std::string place_text(const std::string& path, pb::TextFormat::ParseLocation place) {
  return fmt::format("{}:{}:{}: ", path, std::max(place.line, 0) + 1, std::max(place.column, 0) + 1);
}

}  // namespace tenon::manifest
