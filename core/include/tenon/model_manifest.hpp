// model_manifest.hpp: named models that a user has written down, each with what flags would say of it.
#pragma once

#include <string>
#include <vector>

namespace tenon {

struct NamedModel {
  struct Setting {
    std::string flag;   // without dashes: "tensor-parallel"
    std::string value;  // as the flag takes it; lists with commas between
    std::string place;  // "FILE:LINE:COLUMN: ", for messages
  };
  std::string name;
  std::vector<Setting> settings;  // "model" among them; paths as they are from the manifest's directory
};

// The models of a file in protobuf's text format; core/proto/manifest.proto describes it. Throws Error(kFile) saying where: what
// is no ModelManifest, a model without a name or a file, a name that is given twice.
std::vector<NamedModel> read_model_manifest(const std::string& path);

}  // namespace tenon
