#include "gguf_file.hpp"

#include <algorithm>
#include <unordered_map>

#include "cursor.hpp"
#include "meta_parser.hpp"
#include "types.hpp"

namespace tenon::gguf {
namespace {

using ull = unsigned long long;

constexpr uint64_t kLongestTensorName = 1024;
constexpr int64_t kLargestAlignment = 1 << 20, kSmallestAlignment = 8;
// Far above any model: records take more memory than the bytes that they are made of, and this bounds it.
constexpr uint64_t kMostKeys = 1 << 16, kMostTensors = 1 << 16;
// Bytes of the shortest key (one letter and a u8) and of the shortest tensor info (one letter, one dimension).
constexpr uint64_t kShortestKey = 8 + 1 + 4 + 1, kShortestTensor = 8 + 1 + 4 + 8 + 4 + 8;

// Checks magic and version; the cursor then stands before the counts.
void read_header(Cursor& cursor) {
  const auto* magic = cursor.take(4, [] { return std::string("magic"); });
  if (std::memcmp(magic, "GGUF", 4) != 0) {
    fail_at(cursor.file(), "magic", 0,
            sdk::text("expected 'GGUF', found bytes %02x %02x %02x %02x", magic[0], magic[1], magic[2], magic[3]));
  }
  const auto version = cursor.number<uint32_t>([] { return std::string("version"); });
  if (version == 2 || version == 3) return;
  if (version != 0 && (version & 0xffffu) == 0) {
    fail_at(cursor.file(), "version", 4,
            sdk::text("the file is big-endian (version %u with its bytes turned round); only "
                      "little-endian files are read, convert the model again",
                      __builtin_bswap32(version)),
            TENON_UNSUPPORTED);
  }
  fail_at(cursor.file(), "version", 4,
          sdk::text("GGUF version %u is not supported, expected 2 or 3; convert the model again", version),
          TENON_UNSUPPORTED);
}

uint64_t read_count(Cursor& cursor, const char* name) {
  const uint64_t at = cursor.offset();
  const auto count = cursor.number<int64_t>([name] { return std::string(name); });
  if (count < 0) fail_at(cursor.file(), name, at, sdk::text("%lld is negative", (long long)count));
  return uint64_t(count);
}

void check_count(const Cursor& cursor, const char* name, uint64_t at, uint64_t count, uint64_t shortest,
                 uint64_t most) {
  if (count > most) fail_at(cursor.file(), name, at, sdk::text("%llu, expected at most %llu", ull(count), ull(most)));
  if (count <= cursor.remaining() / shortest) return;
  fail_at(cursor.file(), name, at,
          sdk::text("%llu of at least %llu bytes each do not fit into the %llu bytes that remain", ull(count),
                    ull(shortest), ull(cursor.remaining())));
}

// Dimensions and the number of bytes they mean.
void read_dims(Cursor& cursor, TensorInfo& tensor) {
  const std::string name = "tensor " + quoted(tensor.name);
  const uint64_t at = cursor.offset();
  tensor.n_dim = cursor.number<uint32_t>([&] { return name + " n_dims"; });
  if (tensor.n_dim < 1 || tensor.n_dim > 4) {
    fail_at(cursor.file(), name + " n_dims", at, sdk::text("%u dimensions, expected 1 to 4", tensor.n_dim));
  }
  uint64_t elements = 1;
  for (uint32_t i = 0; i < 4; ++i) {
    tensor.dim[i] = 1;
    if (i >= tensor.n_dim) continue;
    const uint64_t dim_at = cursor.offset();
    const auto field = [&] { return name + sdk::text(" dim[%u]", i); };
    tensor.dim[i] = cursor.number<int64_t>(field);
    if (tensor.dim[i] < 1) {
      fail_at(cursor.file(), field(), dim_at, sdk::text("%lld, expected at least 1", (long long)tensor.dim[i]));
    }
    if (__builtin_mul_overflow(elements, uint64_t(tensor.dim[i]), &elements) || elements > uint64_t(INT64_MAX)) {
      fail_at(cursor.file(), field(), dim_at,
              sdk::text("%lld makes more than 2^63 elements", (long long)tensor.dim[i]));
    }
  }
}

void read_type(Cursor& cursor, TensorInfo& tensor) {
  const std::string field = "tensor " + quoted(tensor.name) + " type";
  const uint64_t at = cursor.offset();
  const auto number = cursor.number<uint32_t>([&] { return field; });
  const TensorType* type = tensor_type(number);
  if (!type)
    fail_at(cursor.file(), field, at, sdk::text("%u is no tensor type of the format", number), TENON_UNSUPPORTED);
  if (type->refusal) {
    fail_at(cursor.file(), field, at, sdk::text("%s (%u) is not served: %s", type->name, number, type->refusal),
            TENON_UNSUPPORTED);
  }
  tensor.dtype = type->dtype;
  if (tensor.dim[0] % type->block_cols != 0) {
    fail_at(cursor.file(), "tensor " + quoted(tensor.name) + " dim[0]", at,
            sdk::text("%lld columns are no multiple of the block of %s, which is %u", (long long)tensor.dim[0],
                      type->name, type->block_cols));
  }
  uint64_t bytes = uint64_t(tensor.dim[0] / type->block_cols);
  bool overflow = __builtin_mul_overflow(bytes, uint64_t(type->block_bytes), &bytes);
  for (int i = 1; i < 4; ++i) overflow |= __builtin_mul_overflow(bytes, uint64_t(tensor.dim[i]), &bytes);
  if (overflow) fail_at(cursor.file(), "tensor " + quoted(tensor.name) + " dims", at, "its size passes 2^64 bytes");
  tensor.bytes = bytes;
}

std::vector<TensorInfo> read_tensors(Cursor& cursor, uint64_t count, uint64_t alignment) {
  std::vector<TensorInfo> tensors;
  std::unordered_map<std::string_view, uint64_t> seen;
  for (uint64_t i = 0; i < count; ++i) {
    TensorInfo tensor = {};
    tensor.info_offset = cursor.offset();
    const auto field = [i] { return "name of tensor " + std::to_string(i); };
    tensor.name = cursor.string(field);
    check_name(cursor, tensor.name, field(), tensor.info_offset, kLongestTensorName);
    const auto [first, fresh] = seen.emplace(tensor.name, tensor.info_offset);
    if (!fresh) {
      fail_at(cursor.file(), field(), tensor.info_offset,
              quoted(tensor.name) + " stands in the file twice, first at byte " + std::to_string(first->second));
    }
    read_dims(cursor, tensor);
    read_type(cursor, tensor);
    const uint64_t at = cursor.offset();
    const auto offset_field = [&] { return "tensor " + quoted(tensor.name) + " offset"; };
    tensor.offset = cursor.number<uint64_t>(offset_field);
    if (tensor.offset % alignment != 0) {
      fail_at(cursor.file(), offset_field(), at,
              sdk::text("%llu is no multiple of the alignment, %llu", ull(tensor.offset), ull(alignment)));
    }
    tensors.push_back(tensor);
  }
  return tensors;
}

// Turns offsets into places in the file and checks that each lies inside it and that none share bytes.
void place_tensors(const Cursor& cursor, std::vector<TensorInfo>& tensors, uint64_t alignment) {
  if (tensors.empty()) return;
  const uint64_t data_begin = (cursor.offset() + alignment - 1) / alignment * alignment;
  const uint64_t available = data_begin <= cursor.size() ? cursor.size() - data_begin : 0;
  std::vector<const TensorInfo*> order;
  for (TensorInfo& tensor : tensors) {
    if (tensor.offset > available || tensor.bytes > available - tensor.offset) {
      fail_at(cursor.file(), "tensor " + quoted(tensor.name) + " data", tensor.info_offset,
              sdk::text(
                  "%llu bytes from %llu of the data leave it: the data begins at byte %llu and has %llu bytes (is the "
                  "file complete?)",
                  ull(tensor.bytes), ull(tensor.offset), ull(data_begin), ull(available)));
    }
    tensor.offset += data_begin;
    order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    const TensorInfo &left = *order[i - 1], &right = *order[i];
    if (left.offset + left.bytes <= right.offset) continue;
    fail_at(cursor.file(), "tensor " + quoted(right.name) + " data", right.info_offset,
            sdk::text("begins at byte %llu, inside tensor %s, which ends at byte %llu", ull(right.offset),
                      quoted(left.name).c_str(), ull(left.offset + left.bytes)));
  }
}

}  // namespace

GgufFile::GgufFile(std::string name, const uint8_t* data, uint64_t size) : name_(std::move(name)) {
  Cursor cursor(name_, data, size);
  read_header(cursor);
  const uint64_t n_tensors_at = cursor.offset();
  const uint64_t n_tensors = read_count(cursor, "tensor count");
  const uint64_t n_keys_at = cursor.offset();
  const uint64_t n_keys = read_count(cursor, "key count");
  check_count(cursor, "tensor count", n_tensors_at, n_tensors, kShortestTensor, kMostTensors);
  check_count(cursor, "key count", n_keys_at, n_keys, kShortestKey, kMostKeys);
  MetaParser(cursor, *this).read(n_keys);
  alignment_ = uint64_t(integer("general.alignment", 32, kSmallestAlignment, kLargestAlignment));
  if ((alignment_ & (alignment_ - 1)) != 0) {
    fail_at(name_, "key 'general.alignment'", find("general.alignment")->offset,
            sdk::text("%llu is no power of two", ull(alignment_)));
  }
  tensors_ = read_tensors(cursor, n_tensors, alignment_);
  place_tensors(cursor, tensors_, alignment_);
}

const MetaEntry* GgufFile::find(std::string_view key) const {
  for (const MetaEntry& entry : entries_) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

int64_t GgufFile::integer(std::string_view key, int64_t fallback, int64_t low, int64_t high) const {
  const MetaEntry* entry = find(key);
  if (!entry) return fallback;
  const std::string field = "key " + quoted(key);
  if (entry->value.type < TENON_VALUE_U8 || entry->value.type > TENON_VALUE_I64) {
    fail_at(name_, field, entry->offset, "expected an integer");
  }
  const int64_t value = entry->value.integer;
  if (value < low || value > high) {
    fail_at(name_, field, entry->offset,
            sdk::text("%lld, expected %lld to %lld", (long long)value, (long long)low, (long long)high));
  }
  return value;
}

}  // namespace tenon::gguf
