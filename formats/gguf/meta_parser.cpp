#include "meta_parser.hpp"

#include <unordered_map>

namespace tenon::gguf {
namespace {

constexpr uint64_t kLongestKey = 65535;  // the limit of the GGUF specification
constexpr uint64_t kMostElements = 1 << 24;  // of all arrays of a file; vocabularies have a few 100,000
constexpr uint32_t kTypeBool = 7, kTypeString = 8, kTypeArray = 9;

struct ValueType {
  uint32_t type;   // TENON_VALUE_*
  uint32_t bytes;  // 0 for strings and arrays
  const char* name;
};

// Indexed by GGUF's own numbers.
constexpr ValueType kValueTypes[] = {
    {TENON_VALUE_U8, 1, "u8"},       {TENON_VALUE_I8, 1, "i8"},     {TENON_VALUE_U16, 2, "u16"},
    {TENON_VALUE_I16, 2, "i16"},     {TENON_VALUE_U32, 4, "u32"},   {TENON_VALUE_I32, 4, "i32"},
    {TENON_VALUE_F32, 4, "f32"},     {TENON_VALUE_BOOL, 1, "bool"}, {TENON_VALUE_STRING, 0, "string"},
    {TENON_VALUE_ARRAY, 0, "array"}, {TENON_VALUE_U64, 8, "u64"},   {TENON_VALUE_I64, 8, "i64"},
    {TENON_VALUE_F64, 8, "f64"},
};
constexpr uint32_t kValueTypeCount = sizeof kValueTypes / sizeof *kValueTypes;

template <typename T>
T value_of(const uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

void set_number(tenon_value& value, const uint8_t* bytes) {
  switch (value.type) {
    case TENON_VALUE_U8:
      value.integer = value_of<uint8_t>(bytes);
      break;
    case TENON_VALUE_I8:
      value.integer = value_of<int8_t>(bytes);
      break;
    case TENON_VALUE_U16:
      value.integer = value_of<uint16_t>(bytes);
      break;
    case TENON_VALUE_I16:
      value.integer = value_of<int16_t>(bytes);
      break;
    case TENON_VALUE_U32:
      value.integer = value_of<uint32_t>(bytes);
      break;
    case TENON_VALUE_I32:
      value.integer = value_of<int32_t>(bytes);
      break;
    case TENON_VALUE_U64:
    case TENON_VALUE_I64:
      value.integer = value_of<int64_t>(bytes);
      break;
    case TENON_VALUE_BOOL:
      value.integer = *bytes != 0;
      break;
    case TENON_VALUE_F32:
      value.real = value_of<float>(bytes);
      break;
    case TENON_VALUE_F64:
      value.real = value_of<double>(bytes);
      break;
    default:
      break;
  }
}

std::string field_of(const char* part, std::string_view key) { return part + (" of key " + quoted(key)); }

uint32_t read_type(Cursor& cursor, const char* part, std::string_view key) {
  const uint64_t at = cursor.offset();
  const auto field = [&] { return field_of(part, key); };
  const auto type = cursor.number<uint32_t>(field);
  if (type >= kValueTypeCount) {
    fail_at(cursor.file(), field(), at,
            sdk::text("%u is no value type; the format has 0 to %u", type, kValueTypeCount - 1));
  }
  return type;
}

}  // namespace

void check_name(const Cursor& cursor, std::string_view name, const std::string& field, uint64_t offset,
                uint64_t limit) {
  if (name.empty()) fail_at(cursor.file(), field, offset, "empty, expected a name");
  if (name.size() > limit) {
    fail_at(cursor.file(), field, offset,
            sdk::text("%llu bytes long, at most %llu are allowed", (unsigned long long)name.size(),
                      (unsigned long long)limit));
  }
  unsigned char last = 0;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    const bool high_control = last == 0xc2 && byte >= 0x80 && byte < 0xa0;  // U+0080 to U+009F
    last = byte;
    if (byte < 0x20 || byte == 0x7f || high_control) {
      fail_at(cursor.file(), field, offset,
              sdk::text("%s contains the control byte 0x%02x", quoted(name).c_str(), unsigned(byte)));
    }
  }
}

void MetaParser::read(uint64_t count) {
  std::unordered_map<std::string_view, uint64_t> seen;
  for (uint64_t i = 0; i < count; ++i) {
    MetaEntry entry = {};
    entry.offset = cursor_.offset();
    const auto field = [i] { return "key " + std::to_string(i); };
    entry.key = cursor_.string(field);
    check_name(cursor_, entry.key, field(), entry.offset, kLongestKey);
    const auto [first, fresh] = seen.emplace(entry.key, entry.offset);
    if (!fresh) {
      fail_at(cursor_.file(), field(), entry.offset,
              quoted(entry.key) + " stands in the file twice, first at byte " + std::to_string(first->second));
    }
    entry.value.struct_size = sizeof entry.value;
    const uint32_t type = read_type(cursor_, "type", entry.key);
    entry.value.type = kValueTypes[type].type;
    if (type == kTypeArray) {
      read_array(entry.key, entry.value);
    } else {
      read_scalar(type, entry.key, entry.value);
    }
    file_.entries_.push_back(entry);
  }
}

void MetaParser::read_scalar(uint32_t type, std::string_view key, tenon_value& value) {
  const auto field = [key] { return field_of("value", key); };
  if (type == kTypeString) {
    value.string = sdk::to_str(cursor_.string(field));
  } else {
    set_number(value, cursor_.take(kValueTypes[type].bytes, field));
  }
}

void MetaParser::read_array(std::string_view key, tenon_value& value) {
  const uint64_t type_at = cursor_.offset();
  const uint32_t type = read_type(cursor_, "element type", key);
  if (type == kTypeArray) {
    fail_at(cursor_.file(), field_of("element type", key), type_at, "an array of arrays is not allowed");
  }
  value.element = kValueTypes[type].type;
  const uint64_t count_at = cursor_.offset();
  const auto count = cursor_.number<uint64_t>([key] { return field_of("length", key); });
  // A string takes its eight bytes of length at least.
  const uint64_t least = type == kTypeString ? 8 : kValueTypes[type].bytes;
  if (count > cursor_.remaining() / least) {
    fail_at(cursor_.file(), field_of("length", key), count_at,
            sdk::text("%llu elements of type %s do not fit into the %llu bytes that remain", (unsigned long long)count,
                      kValueTypes[type].name, (unsigned long long)cursor_.remaining()));
  }
  n_elements_ += count;
  if (n_elements_ > kMostElements) {
    fail_at(cursor_.file(), field_of("length", key), count_at,
            sdk::text("%llu elements; all arrays of a file may have %llu together", (unsigned long long)count,
                      (unsigned long long)kMostElements));
  }
  value.count = count;
  if (type == kTypeString) {
    auto& strings = *file_.string_arrays_.emplace_back(std::make_unique<std::vector<tenon_str>>());
    strings.reserve(count);  // the file has eight bytes for each at least, and there is a limit
    for (uint64_t i = 0; i < count; ++i) {
      strings.push_back(
          sdk::to_str(cursor_.string([key, i] { return field_of("element", key) + ", index " + std::to_string(i); })));
    }
    value.data = strings.data();
    return;
  }
  const uint8_t* bytes = cursor_.take(count * least, [key] { return field_of("elements", key); });
  if (type != kTypeBool && reinterpret_cast<uintptr_t>(bytes) % least == 0) {
    value.data = bytes;
    return;
  }
  auto& copy = file_.number_arrays_.emplace_back(std::make_unique<uint64_t[]>((count * least + 7) / 8));
  std::memcpy(copy.get(), bytes, count * least);
  value.data = copy.get();
  if (type == kTypeBool) {  // any other byte counts as true and becomes 1
    auto* flags = reinterpret_cast<uint8_t*>(copy.get());
    for (uint64_t i = 0; i < count; ++i) flags[i] = flags[i] != 0;
  }
}

}  // namespace tenon::gguf
