// text_proto.hpp: messages in protobuf's text format, as people write them.
#pragma once

#include "manifest_size.hpp"

#include <google/protobuf/text_format.h>

#include <string>
#include <string_view>

namespace tenon::manifest {

// Throws Error(kFile) "PATH:LINE:COLUMN: what is wrong"; `places` says where each field begins, counted from 0.
void parse_text_proto(const std::string& path, std::string_view text, google::protobuf::Message& out,
                      google::protobuf::TextFormat::ParseInfoTree& places);
// "PATH:LINE:COLUMN: " of a place, counted from 1; of an unknown one the file's begin.
std::string place_text(const std::string& path, google::protobuf::TextFormat::ParseLocation place);

}  // namespace tenon::manifest
