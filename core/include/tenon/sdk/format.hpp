// format.hpp: a weight format in C++: the table that the host calls, over a class of one's own, and words about files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tenon/sdk/plugin.hpp>
#include <vector>

namespace tenon::sdk {

// "text" in single quotes, with control bytes escaped and cut after `shown` bytes: names come from the file.
inline std::string quoted(std::string_view text, size_t shown) {
  std::string out = "'";
  for (const char c : text.substr(0, shown)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      out += sdk::text("\\x%02x", unsigned(byte));
    } else {
      out += c;
    }
  }
  return out + (text.size() > shown ? "…'" : "'");
}

// The callbacks of tenon_format over a Source. It is made of a std::vector<tenon_file*> and throws sdk::Error where the
// files are wrong; each of its questions answers nullptr behind the last:
//   const std::string* wanted(uint32_t i)    the name of a further file that it needs
//   const ENTRY* entry(uint64_t i)           metadata, with `key` (text) and `value` (tenon_value)
//   const tenon_tensor* tensor(uint64_t i)
template <typename Source>
class Format {
 public:
  using Probe = tenon_status (*)(void*, const uint8_t*, uint64_t, tenon_str, uint32_t*) noexcept;
  using Layout = decltype(tenon_format::layout);

  // Lives as long as `name` and `scheme`; flags: TENON_FORMAT_…; layout: null for a format that is only read.
  static tenon_format table(std::string_view name, std::string_view scheme, uint32_t flags, Probe probe,
                            Layout layout = nullptr) {
    return {sizeof(tenon_format), flags, to_str(name), to_str(scheme), nullptr, probe,
            open,                 more,  meta,         tensor,         close,   layout};
  }

 private:
  static const Source& of(void* source) { return *static_cast<const Source*>(source); }

  static tenon_status open(void*, tenon_file* const* files, uint32_t n, void** source) noexcept {
    return guard([&] { *source = std::make_unique<Source>(std::vector<tenon_file*>(files, files + n)).release(); });
  }

  static tenon_status more(void* source, uint32_t i, tenon_str* file_name) noexcept {
    const std::string* name = of(source).wanted(i);
    if (!name) return TENON_NOT_FOUND;
    *file_name = to_str(*name);
    return TENON_OK;
  }

  static tenon_status meta(void* source, uint64_t i, tenon_str* key, tenon_value* value) noexcept {
    const auto* entry = of(source).entry(i);
    if (!entry) return TENON_NOT_FOUND;
    *key = to_str(entry->key);
    *value = entry->value;
    return TENON_OK;
  }

  static tenon_status tensor(void* source, uint64_t i, tenon_tensor* out) noexcept {
    const tenon_tensor* found = of(source).tensor(i);
    if (!found) return TENON_NOT_FOUND;
    *out = *found;
    return TENON_OK;
  }

  static void close(void* source) noexcept { std::unique_ptr<Source>(static_cast<Source*>(source)).reset(); }
};

}  // namespace tenon::sdk
