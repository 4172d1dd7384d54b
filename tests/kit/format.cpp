// A format of a few bytes: "KITF", u32 count, then count × (u64 offset, u64 bytes) of tensors "0", "1" … of i8.
// Without a fault it keeps every duty.
#include <cstring>
#include <memory>
#include <tenon/sdk/plugin.hpp>
#include <vector>

#ifndef FAULT
#define FAULT kNone
#endif

namespace {

enum Fault { kNone, kTrustsRanges, kReadsPastEnd, kTrustsCount, kNoMessage, kLeaks, kWrongDims, kNamesAPath };
constexpr Fault kFault = FAULT;

namespace sdk = tenon::sdk;

struct Source {
  std::vector<std::string> names;
  std::vector<tenon_plane> planes;
};

tenon_status probe(void*, const uint8_t* head, uint64_t n, tenon_str, uint32_t* score) noexcept {
  *score = n >= 4 && std::memcmp(head, "KITF", 4) == 0 ? 100 : 0;
  return TENON_OK;
}

tenon_status corrupt(const char* what) {
  if (kFault == kNoMessage) return TENON_CORRUPT;
  return sdk::fail(TENON_CORRUPT, what);
}

tenon_status open(void*, tenon_file* const* files, uint32_t, void** out) noexcept {
  return sdk::guard([&]() -> tenon_status {
    const tenon_host& host = sdk::host();
    uint64_t size = 0;
    sdk::check(host.file_size(host.self, files[0], &size));
    if (size < 8) return corrupt("the file ends inside its head of 8 bytes");
    const void* data = nullptr;
    sdk::check(host.file_map(host.self, files[0], 0, size, &data));
    const auto* bytes = static_cast<const uint8_t*>(data);
    uint32_t count = 0;
    std::memcpy(&count, bytes + 4, 4);
    if (std::memcmp(bytes, "KITF", 4) != 0) return corrupt("the file does not begin with KITF");
    auto source = std::make_unique<Source>();
    if (kFault == kLeaks) source->names.emplace_back(4000, 'x');
    if (kFault == kTrustsCount) source->planes.reserve(count);
    if (kFault != kReadsPastEnd && count > (size - 8) / 16) {
      if (kFault == kLeaks) source.release();
      return corrupt("more tensors than the file has bytes for");
    }
    for (uint32_t i = 0; i < count; ++i) {
      tenon_plane plane = {};
      plane.dtype = TENON_DTYPE_I8, plane.n_dim = 1;
      std::memcpy(&plane.offset, bytes + 8 + i * 16, 8);
      std::memcpy(&plane.bytes, bytes + 16 + i * 16, 8);
      if (kFault != kTrustsRanges && (plane.bytes > size || plane.offset > size - plane.bytes))
        return corrupt("a tensor reaches past the file's end");
      plane.dim[0] = static_cast<int64_t>(plane.bytes & INT64_MAX) * (kFault == kWrongDims ? 2 : 1);
      source->planes.push_back(plane);
      source->names.push_back(std::to_string(i));
    }
    *out = source.release();
    return TENON_OK;
  });
}

tenon_status more(void*, uint32_t i, tenon_str* name) noexcept {
  if (kFault != kNamesAPath || i > 1) return TENON_NOT_FOUND;
  return *name = sdk::to_str("../part"), TENON_OK;
}
tenon_status meta(void*, uint64_t, tenon_str*, tenon_value*) noexcept { return TENON_NOT_FOUND; }
tenon_status tensor(void* self, uint64_t i, tenon_tensor* out) noexcept {
  const Source& source = *static_cast<const Source*>(self);
  if (i >= source.planes.size()) return TENON_NOT_FOUND;
  *out = {};
  out->struct_size = sizeof *out, out->dtype = TENON_DTYPE_I8, out->name = sdk::to_str(source.names[i]);
  out->n_dim = 1, out->n_plane = 1, out->dim[0] = source.planes[i].dim[0], out->plane = &source.planes[i];
  return TENON_OK;
}
void close(void* self) noexcept { std::unique_ptr<Source>(static_cast<Source*>(self)).reset(); }

const tenon_format kFormat = {.struct_size = sizeof(tenon_format),
                              .flags = 0,
                              .name = {KIT_NAME, sizeof KIT_NAME - 1},
                              .scheme = {"kit", 3},
                              .self = nullptr,
                              .probe = probe,
                              .open = open,
                              .more = more,
                              .meta = meta,
                              .tensor = tensor,
                              .close = close,
                              .layout = nullptr};

}  // namespace

TENON_PLUGIN(KIT_NAME, "0.1.0") { registrar.format(&kFormat); }
