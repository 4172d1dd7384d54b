#include "header.hpp"

#include <algorithm>
#include <cstring>

#include "fault.hpp"

namespace tenon::safetensors {
namespace {

using ull = unsigned long long;

constexpr uint64_t kLongestHeader = 100'000'000;  // the bound of the format's own reader
constexpr size_t kLongestName = 1024, kMostDims = 16;

struct ElementType {
  std::string_view name;
  uint32_t bits;
};
constexpr ElementType kTypes[] = {{"BOOL", 8},        {"U8", 8},         {"I8", 8},   {"F8_E4M3", 8}, {"F8_E5M2", 8},
                                  {"F8_E8M0", 8},     {"U16", 16},       {"I16", 16}, {"F16", 16},    {"BF16", 16},
                                  {"U32", 32},        {"I32", 32},       {"F32", 32}, {"U64", 64},    {"I64", 64},
                                  {"F64", 64},        {"C64", 64},       {"F4", 4},   {"F6_E2M3", 6}, {"F6_E3M2", 6},
                                  {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}};

std::string type_names() {
  std::string out;
  for (const ElementType& type : kTypes) out += (out.empty() ? "" : ", ") + std::string(type.name);
  return out;
}

std::string_view header_text(const std::string& name, const uint8_t* data, uint64_t size) {
  if (size < 8) fail_at(name, "the header's length", 0, sdk::text("needs 8 bytes, but the file has %llu", ull(size)));
  uint64_t length = 0;
  std::memcpy(&length, data, sizeof length);
  if (length > kLongestHeader) {
    fail_at(
        name, "the header's length", 0,
        sdk::text("%llu bytes, expected at most %llu (is it a safetensors file?)", ull(length), ull(kLongestHeader)));
  }
  if (length > size - 8) {
    fail_at(name, "the header's length", 0,
            sdk::text("%llu bytes, but only %llu remain in the file", ull(length), ull(size - 8)));
  }
  return {reinterpret_cast<const char*>(data) + 8, size_t(length)};
}

}  // namespace

uint32_t element_bits(std::string_view type) {
  for (const ElementType& known : kTypes)
    if (known.name == type) return known.bits;
  return 0;
}

SafetensorsFile::SafetensorsFile(std::string name, const uint8_t* data, uint64_t size, uint32_t file)
    : name_(std::move(name)) {
  const std::string_view text = header_text(name_, data, size);
  header_ = std::make_unique<JsonDocument>(name_, text, 8);
  const JsonValue& root = header_->root();
  if (!root.is(JsonValue::Kind::kObject)) {
    fail_at(name_, "the header", root.offset, std::string("is ") + kind_name(root.kind) + ", expected an object");
  }
  data_begin_ = 8 + text.size();
  const uint64_t data_bytes = size - data_begin_;
  for (const JsonValue& entry : root.items) {
    if (entry.key != "__metadata__") {
      read_tensor(entry, data_bytes, file);
      continue;
    }
    if (!entry.is(JsonValue::Kind::kObject)) fail_at(name_, "__metadata__", entry.offset, "expected an object");
    for (const JsonValue& item : entry.items)
      if (!item.is(JsonValue::Kind::kString))
        fail_at(name_, "__metadata__ " + quoted(item.key), item.offset, "expected a string");
    metadata_ = &entry;
  }
  std::sort(tensors_.begin(), tensors_.end(), [](const RawTensor& a, const RawTensor& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.bytes < b.bytes;
  });
  check_tiling(data_bytes);
  // What holds no value is no tensor to anyone.
  std::erase_if(tensors_, [](const RawTensor& tensor) { return tensor.bytes == 0; });
}

void SafetensorsFile::read_tensor(const JsonValue& entry, uint64_t data_bytes, uint32_t file) {
  using Kind = JsonValue::Kind;
  const std::string what = "tensor " + quoted(entry.key);
  if (entry.key.empty() || entry.key.size() > kLongestName) {
    fail_at(name_, what, entry.offset,
            sdk::text("a name of %zu bytes, expected 1 to %zu", entry.key.size(), kLongestName));
  }
  const auto member = [&](const char* name, Kind kind) -> const JsonValue& {
    const JsonValue* found = entry.is(Kind::kObject) ? entry.find(name) : nullptr;
    if (!found || !found->is(kind))
      fail_at(
          name_, what + " " + name, found ? found->offset : entry.offset,
          std::string("expected ") + kind_name(kind) + (found ? std::string(", found ") + kind_name(found->kind) : ""));
    return *found;
  };
  const auto count = [&](const JsonValue& value, const std::string& field) {
    if (!value.is(Kind::kInteger) || value.is_unsigned || value.integer < 0)
      fail_at(name_, what + " " + field, value.offset, "expected a whole number from 0 to 2^63 - 1");
    return uint64_t(value.integer);
  };
  RawTensor tensor;
  tensor.name = entry.key, tensor.file = file, tensor.header_offset = entry.offset;
  const JsonValue& type = member("dtype", Kind::kString);
  tensor.type = type.text;
  const uint32_t bits = element_bits(type.text);
  if (bits == 0) {
    fail_at(name_, what + " dtype", type.offset, quoted(type.text) + " is not known; expected one of " + type_names(),
            TENON_UNSUPPORTED);
  }
  const JsonValue& shape = member("shape", Kind::kArray);
  if (shape.items.size() > kMostDims)
    fail_at(name_, what + " shape", shape.offset,
            sdk::text("%zu dimensions, expected at most %zu", shape.items.size(), kMostDims));
  uint64_t total = 1;
  bool overflow = false;
  for (const JsonValue& d : shape.items) {
    tensor.shape.push_back(int64_t(count(d, "shape")));
    overflow |= __builtin_mul_overflow(total, uint64_t(tensor.shape.back()), &total);
  }
  overflow |= total > uint64_t(INT64_MAX) || __builtin_mul_overflow(total, uint64_t(bits), &total);
  if (overflow) fail_at(name_, what + " shape", shape.offset, "more than 2^63 elements or bits");
  const JsonValue& offsets = member("data_offsets", Kind::kArray);
  if (offsets.items.size() != 2) fail_at(name_, what + " data_offsets", offsets.offset, "expected two numbers");
  const uint64_t begin = count(offsets.items[0], "data_offsets"), end = count(offsets.items[1], "data_offsets");
  if (begin > end || end > data_bytes) {
    fail_at(name_, what + " data_offsets", offsets.offset,
            sdk::text("bytes %llu to %llu leave the data, which has %llu bytes (is the file complete?)", ull(begin),
                      ull(end), ull(data_bytes)));
  }
  if (total % 8 != 0 || total / 8 != end - begin) {
    fail_at(name_, what + " data_offsets", offsets.offset,
            sdk::text("%llu bytes, but shape and dtype mean %llu", ull(end - begin), ull((total + 7) / 8)));
  }
  tensor.offset = data_begin_ + begin, tensor.bytes = end - begin;
  tensors_.push_back(std::move(tensor));
}

void SafetensorsFile::check_tiling(uint64_t data_bytes) const {
  uint64_t end = data_begin_;
  const RawTensor* last = nullptr;
  for (const RawTensor& tensor : tensors_) {
    const std::string what = "tensor " + quoted(tensor.name) + " data_offsets";
    if (tensor.offset < end) {
      fail_at(name_, what, tensor.header_offset,
              sdk::text("begins at byte %llu of the data, inside tensor %s, which ends at %llu",
                        ull(tensor.offset - data_begin_), quoted(last->name).c_str(), ull(end - data_begin_)));
    }
    if (tensor.offset > end) {
      fail_at(name_, what, tensor.header_offset,
              sdk::text("begins at byte %llu of the data, but the one before ends at %llu: a hole",
                        ull(tensor.offset - data_begin_), ull(end - data_begin_)));
    }
    end = tensor.offset + tensor.bytes;
    last = &tensor;
  }
  if (end - data_begin_ != data_bytes) {
    fail_at(name_, "the data", end,
            sdk::text("%llu bytes behind the last tensor belong to none", ull(data_bytes - (end - data_begin_))));
  }
}

}  // namespace tenon::safetensors
