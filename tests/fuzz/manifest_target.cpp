// Text of a plugin's manifest.
#include <algorithm>
#include <filesystem>
#include <tenon/error.hpp>

#include "plugin/manifest.hpp"
#include "target.hpp"

using tenon::fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const tenon::plugin::Manifest manifest = tenon::plugin::parse_manifest("m", text);
    require(!manifest.name.empty() && manifest.sha256.size() == 64, "a manifest has a name and a hash");
    const std::filesystem::path library = manifest.library;
    require(library.is_relative() && std::count(library.begin(), library.end(), "..") == 0,
            "a library lies beside its manifest");
  } catch (const tenon::Error& error) {
    require(error.kind() == tenon::ErrorKind::kFile, std::string("kind of: ") + error.what());
    require(std::string(error.what()).starts_with("m:"), std::string("place of: ") + error.what());
  }
  return 0;
}
