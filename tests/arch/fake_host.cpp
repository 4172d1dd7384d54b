#include "fake_host.hpp"

#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace {

std::string& slot() {
  static std::string message;
  return message;
}

std::string_view view(tenon_str s) { return {s.data, static_cast<size_t>(s.size)}; }
tenon_str str(std::string_view s) { return {s.data(), s.size()}; }

uint32_t type_id(const std::string& name) {
  static const std::map<std::string, uint32_t> ids = {{"none", TENON_VALUE_NONE},   {"uint32", TENON_VALUE_U32},
                                                      {"int32", TENON_VALUE_I32},   {"int64", TENON_VALUE_I64},
                                                      {"float32", TENON_VALUE_F32}, {"float64", TENON_VALUE_F64},
                                                      {"bool", TENON_VALUE_BOOL},   {"string", TENON_VALUE_STRING}};
  return ids.at(name);
}

std::vector<const tenon_architecture*>& registered() {
  static std::vector<const tenon_architecture*> all;
  return all;
}

void fill_tensor(const std::string& name, const std::vector<int64_t>& dims, tenon_tensor* out) {
  out->name = str(name);
  out->n_dim = static_cast<uint32_t>(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) out->dim[i] = dims[i];
}

template <typename T>
std::vector<uint64_t> pack(const std::vector<double>& numbers) {
  std::vector<uint64_t> out((numbers.size() * sizeof(T) + 7) / 8 + 1);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const T value = static_cast<T>(numbers[i]);
    std::memcpy(reinterpret_cast<char*>(out.data()) + i * sizeof(T), &value, sizeof(T));
  }
  return out;
}

}  // namespace

tenon_meta tenon_meta::load(const std::string& file_name) {
  std::ifstream file(std::string(TENON_ARCH_DATA) + "/" + file_name);
  if (!file) throw std::runtime_error("cannot open " + file_name);
  tenon_meta meta;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string kind, name, type;
    words >> kind >> name;
    if (kind == "scheme") {
      meta.scheme = name;
    } else if (kind == "tensor") {
      for (int64_t d; words >> d;) meta.tensors[name].push_back(d);
    } else if (kind == "meta") {
      words >> type;
      Entry entry;
      const bool array = type.size() > 2 && type.substr(type.size() - 2) == "[]";
      const uint32_t id = type_id(array ? type.substr(0, type.size() - 2) : type);
      entry.type = array ? uint32_t{TENON_VALUE_ARRAY} : id;
      entry.element = array ? id : uint32_t{TENON_VALUE_NONE};
      for (std::string word; words >> word;) {
        if (id == TENON_VALUE_STRING) {
          entry.strings.push_back(word);
        } else {
          entry.numbers.push_back(std::stod(word));
        }
      }
      meta.values[name] = entry;
    }
  }
  return meta;
}

bool tenon_meta::read(std::string_view key, tenon_value* out) const {
  const auto found = values.find(key);
  if (found == values.end()) return false;
  const Entry& entry = found->second;
  out->type = entry.type, out->element = entry.element;
  if (entry.type == TENON_VALUE_STRING) out->string = str(entry.strings.at(0));
  if (entry.type != TENON_VALUE_ARRAY) {
    if (!entry.numbers.empty()) out->real = entry.numbers[0], out->integer = static_cast<int64_t>(entry.numbers[0]);
    return true;
  }
  if (entry.element == TENON_VALUE_STRING) {
    auto& texts = texts_.emplace_back();
    for (const std::string& s : entry.strings) texts.push_back(str(s));
    out->data = texts.data(), out->count = texts.size();
    return true;
  }
  switch (entry.element) {
    case TENON_VALUE_BOOL:
      bytes_.push_back(pack<uint8_t>(entry.numbers));
      break;
    case TENON_VALUE_F32:
      bytes_.push_back(pack<float>(entry.numbers));
      break;
    case TENON_VALUE_F64:
      bytes_.push_back(pack<double>(entry.numbers));
      break;
    case TENON_VALUE_I64:
      bytes_.push_back(pack<int64_t>(entry.numbers));
      break;
    default:
      bytes_.push_back(pack<int32_t>(entry.numbers));
      break;
  }
  out->data = bytes_.back().data(), out->count = entry.numbers.size();
  return true;
}

namespace tenon::test {

std::string take_message() { return std::exchange(slot(), {}); }

const tenon_host* fake_host() {
  static const tenon_host host = [] {
    tenon_host h = {};
    h.struct_size = sizeof h, h.abi_minor = TENON_ABI_MINOR;
    h.log = [](void*, uint32_t, tenon_str) noexcept {};
    h.fail = [](void*, tenon_status status, tenon_str message) noexcept {
      slot() = view(message);
      return status;
    };
    h.meta_find = [](void*, const tenon_meta* meta, tenon_str key, tenon_value* out) noexcept -> tenon_status {
      return meta->read(view(key), out) ? TENON_OK : TENON_NOT_FOUND;
    };
    h.meta_tensor = [](void*, const tenon_meta* meta, tenon_str name, tenon_tensor* out) noexcept -> tenon_status {
      const auto found = meta->tensors.find(view(name));
      if (found == meta->tensors.end()) return TENON_NOT_FOUND;
      fill_tensor(found->first, found->second, out);
      return TENON_OK;
    };
    h.meta_tensor_at = [](void*, const tenon_meta* meta, uint64_t i, tenon_tensor* out) noexcept -> tenon_status {
      if (i >= meta->tensors.size()) return TENON_NOT_FOUND;
      const auto at = std::next(meta->tensors.begin(), static_cast<int64_t>(i));
      fill_tensor(at->first, at->second, out);
      return TENON_OK;
    };
    h.meta_scheme = [](void*, const tenon_meta* meta, tenon_str* scheme) noexcept -> tenon_status {
      *scheme = str(meta->scheme);
      return TENON_OK;
    };
    return h;
  }();
  return &host;
}

const tenon_architecture* architecture(const tenon_plugin* plugin, std::string_view id) {
  registered().clear();
  tenon_registrar registrar = {};
  registrar.struct_size = sizeof registrar;
  registrar.architecture = [](void*, const tenon_architecture* record) noexcept -> tenon_status {
    registered().push_back(record);
    return TENON_OK;
  };
  if (plugin->init(fake_host(), &registrar) != TENON_OK) return nullptr;
  for (const tenon_architecture* record : registered())
    if (view(record->name) == id) return record;
  return nullptr;
}

}  // namespace tenon::test
