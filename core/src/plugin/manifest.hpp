// manifest.hpp: reads a plugin's manifest.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::plugin {

inline constexpr std::string_view kManifestSuffix = ".tenon.txtpb";

struct KernelFamily {
  std::string backend;
  std::vector<std::string> ops, dtypes, features;
};

// What a manifest says, each field checked on its own; core/proto/manifest.proto describes them.
struct Manifest {
  std::string name, version, kind, library, sha256;
  uint32_t abi_major = 0, abi_minor = 0;
  int32_t priority = 0;
  std::vector<std::string> architectures, formats, format_magics, format_extensions, backends, collectives, dtypes;
  std::vector<KernelFamily> kernels;
};

// Throws Error(kFile) "PATH:LINE:COLUMN: what is wrong". `path` is for messages.
Manifest parse_manifest(const std::string& path, std::string_view text);

}  // namespace tenon::plugin
