#include "safetensors_file.hpp"

#include <bit>
#include <nlohmann/json.hpp>

namespace tenon::launcher {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");
static_assert(sizeof(float) == sizeof(int32_t));

void SafetensorsFile::define(const std::vector<ArraySpec>& arrays) {
  nlohmann::ordered_json header;
  uint64_t offset = 0;
  for (const ArraySpec& array : arrays) {
    uint64_t bytes = sizeof(float);
    for (int64_t extent : array.shape) bytes *= static_cast<uint64_t>(extent);
    header[array.name] = {{"dtype", array.is_integer ? "I32" : "F32"},
                          {"shape", array.shape},
                          {"data_offsets", {offset, offset + bytes}}};
    offsets_[array.name] = offset;
    offset += bytes;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t size = text.size();
  for (auto& [name, begin] : offsets_) begin += sizeof(size) + size;
  file_.write(0, &size, sizeof(size));
  file_.write(sizeof(size), text.data(), text.size());
}

void SafetensorsFile::write(const std::string& array, int64_t first, std::span<const float> values) {
  file_.write(offsets_.at(array) + static_cast<uint64_t>(first) * sizeof(float), values.data(), values.size_bytes());
}

void SafetensorsFile::write(const std::string& array, int64_t first, std::span<const int32_t> values) {
  file_.write(offsets_.at(array) + static_cast<uint64_t>(first) * sizeof(int32_t), values.data(), values.size_bytes());
}

}  // namespace tenon::launcher
