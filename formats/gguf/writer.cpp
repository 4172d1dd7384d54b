#include "writer.hpp"

#include <bit>
#include <cstring>
#include <optional>
#include <string>
#include <tenon/sdk/plugin.hpp>
#include <unordered_set>
#include <vector>

#include "cursor.hpp"
#include "types.hpp"

namespace tenon::gguf {
namespace {

constexpr uint32_t kVersion = 3, kTypeArray = 9;
constexpr int64_t kDefaultAlignment = 32, kLargestAlignment = 1 << 20;
constexpr std::string_view kAlignmentKey = "general.alignment", kSplitPrefix = "split.";
constexpr size_t kLongestTensorName = 63;  // what other readers take

// Bytes in the order of the file.
class Bytes {
 public:
  template <typename T>
  void number(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void string(std::string_view text) {
    number(uint64_t(text.size()));
    text_ += text;
  }
  void raw(const void* data, size_t n) { text_.append(static_cast<const char*>(data), n); }
  void pad(uint64_t alignment) { text_.resize((text_.size() + alignment - 1) / alignment * alignment, '\0'); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

struct ValueType {
  uint32_t host, number, bytes;
};
// The specification's numbers of value types.
constexpr ValueType kValueTypes[] = {
    {TENON_VALUE_U8, 0, 1},  {TENON_VALUE_I8, 1, 1},  {TENON_VALUE_U16, 2, 2},  {TENON_VALUE_I16, 3, 2},
    {TENON_VALUE_U32, 4, 4}, {TENON_VALUE_I32, 5, 4}, {TENON_VALUE_F32, 6, 4},  {TENON_VALUE_BOOL, 7, 1},
    {TENON_VALUE_STRING, 8, 0}, {TENON_VALUE_U64, 10, 8}, {TENON_VALUE_I64, 11, 8}, {TENON_VALUE_F64, 12, 8}};

const ValueType& value_type(uint32_t host, std::string_view key) {
  for (const ValueType& type : kValueTypes)
    if (type.host == host) return type;
  throw sdk::Error(TENON_UNSUPPORTED, "key " + quoted(key) + ": GGUF has no place for such a value");
}

void put_scalar(Bytes& out, const ValueType& type, const tenon_value& value) {
  if (type.host == TENON_VALUE_STRING) return out.string(sdk::to_view(value.string));
  if (type.host == TENON_VALUE_F32) return out.number(float(value.real));
  if (type.host == TENON_VALUE_F64) return out.number(value.real);
  out.raw(&value.integer, type.bytes);  // little endian: the low bytes come first
}

void put_entry(Bytes& out, const tenon_entry& entry) {
  const std::string_view key = sdk::to_view(entry.key);
  const tenon_value& value = entry.value;
  out.string(key);
  if (value.type != TENON_VALUE_ARRAY) {
    const ValueType& type = value_type(value.type, key);
    out.number(type.number);
    return put_scalar(out, type, value);
  }
  const ValueType& type = value_type(value.element, key);
  out.number(kTypeArray), out.number(type.number), out.number(value.count);
  if (type.host != TENON_VALUE_STRING) return out.raw(value.data, size_t(value.count * type.bytes));
  for (uint64_t i = 0; i < value.count; ++i) out.string(sdk::to_view(static_cast<const tenon_str*>(value.data)[i]));
}

uint64_t alignment_of(const tenon_entry* entries, uint64_t n_entry) {
  for (uint64_t i = 0; i < n_entry; ++i) {
    if (sdk::to_view(entries[i].key) != kAlignmentKey) continue;
    const int64_t found = entries[i].value.integer;
    if (found < 8 || found > kLargestAlignment || !std::has_single_bit(uint64_t(found)))
      throw sdk::Error(TENON_INVALID_ARGUMENT, sdk::text("general.alignment: %lld is no power of two from 8 to %lld",
                                                         (long long)found, (long long)kLargestAlignment));
    return uint64_t(found);
  }
  return kDefaultAlignment;
}

// Appends a tensor's record; answers the bytes of its data.
uint64_t put_tensor(Bytes& out, const tenon_tensor& tensor, uint64_t offset) {
  const std::string_view name = sdk::to_view(tensor.name);
  const auto number = number_of_dtype(tensor.dtype);
  const std::string what = "tensor " + quoted(name);
  if (!number) {
    const tenon_dtype* dtype = sdk::host().dtype(sdk::host().self, tensor.dtype);
    throw sdk::Error(TENON_UNSUPPORTED, what + ": GGUF has no number for the type " +
                                            (dtype ? std::string(sdk::to_view(dtype->name)) : "that it shall have"));
  }
  if (name.empty() || name.size() > kLongestTensorName)
    throw sdk::Error(TENON_UNSUPPORTED, what + sdk::text(": its name has %zu bytes, expected 1 to %zu", name.size(),
                                                         kLongestTensorName));
  const TensorType& type = *tensor_type(*number);
  if (tensor.n_dim < 1 || tensor.n_dim > 4 || tensor.dim[0] < 1 || tensor.dim[0] % type.block_cols)
    throw sdk::Error(TENON_INVALID_ARGUMENT,
                     what + sdk::text(": %lld columns are no multiple of the block of %s, which is %u",
                                      (long long)tensor.dim[0], type.name, type.block_cols));
  uint64_t bytes = uint64_t(tensor.dim[0]) / type.block_cols * type.block_bytes;
  out.string(name), out.number(tensor.n_dim);
  for (uint32_t i = 0; i < tensor.n_dim; ++i) {
    out.number(tensor.dim[i]);
    if (i > 0 && (tensor.dim[i] < 1 || __builtin_mul_overflow(bytes, uint64_t(tensor.dim[i]), &bytes)))
      throw sdk::Error(TENON_INVALID_ARGUMENT, what + sdk::text(": dim[%u] is %lld", i, (long long)tensor.dim[i]));
  }
  out.number(*number), out.number(offset);
  return bytes;
}

}  // namespace

tenon_status layout(void*, const tenon_layout* file) noexcept {
  return sdk::guard([&] {
    const uint64_t alignment = alignment_of(file->entry, file->n_entry);
    std::vector<const tenon_entry*> kept;
    for (uint64_t i = 0; i < file->n_entry; ++i)
      if (!sdk::to_view(file->entry[i].key).starts_with(kSplitPrefix)) kept.push_back(&file->entry[i]);
    Bytes out;
    out.raw("GGUF", 4);
    out.number(kVersion), out.number(file->n_tensor), out.number(uint64_t(kept.size()));
    for (const tenon_entry* entry : kept) put_entry(out, *entry);
    std::vector<uint64_t> begin;
    uint64_t next = 0;
    for (uint64_t i = 0; i < file->n_tensor; ++i) {
      begin.push_back(next);
      const uint64_t bytes = put_tensor(out, file->tensor[i], next);
      if (__builtin_add_overflow(next, bytes, &next) || next > UINT64_MAX / 2)
        throw sdk::Error(TENON_UNSUPPORTED, "the tensors pass 2^63 bytes");
      next = (next + alignment - 1) / alignment * alignment;
    }
    out.pad(alignment);
    for (uint64_t i = 0; i < begin.size(); ++i) file->offset[i] = out.text().size() + begin[i];
    file->offset[file->n_tensor] = out.text().size() + next;
    file->put(file->arg, out.text().data(), out.text().size());
  });
}

}  // namespace tenon::gguf
