// format.cpp: the container FAKE, which write_fake.cpp writes. "FAKE", u32 length of a text, the text, the tensors'
// bytes. Lines of the text, words separated by one blank:
//   meta KEY integer|real|string VALUE
//   tensor NAME DTYPE COLS ROWS OFFSET BYTES      ROWS 0: a vector
#include <cstring>
#include <deque>
#include <sstream>
#include <tenon/sdk/plugin.hpp>

namespace {

namespace sdk = tenon::sdk;

class Source {
 public:
  explicit Source(const tenon_file* file) {
    uint32_t length = 0;
    const tenon_host& host = sdk::host();
    sdk::check(host.file_read(host.self, file, 4, &length, sizeof length));
    std::string text(length, '\0');
    sdk::check(host.file_read(host.self, file, 8, text.data(), length));
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) read(line);
  }

  struct Meta {
    std::string key, text;
    tenon_value value = {};
  };
  const Meta* meta(uint64_t i) const { return i < metas_.size() ? &metas_[i] : nullptr; }
  const tenon_tensor* tensor(uint64_t i) const { return i < tensors_.size() ? &tensors_[i].record : nullptr; }

 private:
  struct Tensor {
    std::string name;
    tenon_plane plane = {};
    tenon_tensor record = {};
  };

  void read(const std::string& line) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    if (kind == "meta") {
      read_meta(words);
    } else if (kind == "tensor") {
      read_tensor(words);
    }
    if (!words) throw sdk::Error(TENON_CORRUPT, "fake: a line cannot be read: " + line);
  }

  void read_meta(std::istringstream& words) {
    Meta& meta = metas_.emplace_back();
    std::string type;
    words >> meta.key >> type;
    meta.value.struct_size = sizeof meta.value;
    if (type == "integer") {
      meta.value.type = TENON_VALUE_I64;
      words >> meta.value.integer;
    } else if (type == "real") {
      meta.value.type = TENON_VALUE_F64;
      words >> meta.value.real;
    } else {
      meta.value.type = TENON_VALUE_STRING;
      words >> meta.text;
      meta.value.string = sdk::to_str(meta.text);
    }
  }

  void read_tensor(std::istringstream& words) {
    Tensor& tensor = tensors_.emplace_back();
    std::string dtype;
    tenon_plane& plane = tensor.plane;
    words >> tensor.name >> dtype >> plane.dim[0] >> plane.dim[1] >> plane.offset >> plane.bytes;
    const tenon_host& host = sdk::host();
    if (host.dtype_id(host.self, sdk::to_str(dtype), &plane.dtype) != TENON_OK)
      throw sdk::Error(TENON_UNSUPPORTED, "fake: tensor " + tensor.name + ": no plugin knows dtype " + dtype);
    plane.role = TENON_PLANE_CODES, plane.n_dim = plane.dim[1] ? 2 : 1;
    tensor.record.struct_size = sizeof tensor.record, tensor.record.dtype = plane.dtype;
    tensor.record.name = sdk::to_str(tensor.name), tensor.record.n_dim = plane.n_dim;
    tensor.record.n_plane = 1, tensor.record.plane = &plane;
    std::memcpy(tensor.record.dim, plane.dim, sizeof plane.dim);
  }

  std::deque<Meta> metas_;  // records point into both
  std::deque<Tensor> tensors_;
};

tenon_status probe(void*, const uint8_t* head, uint64_t n, tenon_str, uint32_t* score) noexcept {
  *score = n >= 8 && std::memcmp(head, "FAKE", 4) == 0 ? 100 : 0;
  return TENON_OK;
}

tenon_status open(void*, tenon_file* const* files, uint32_t, void** source) noexcept {
  return sdk::guard([&] { *source = std::make_unique<Source>(files[0]).release(); });
}

tenon_status more(void*, uint32_t, tenon_str*) noexcept { return TENON_NOT_FOUND; }

tenon_status meta(void* source, uint64_t i, tenon_str* key, tenon_value* value) noexcept {
  const Source::Meta* found = static_cast<const Source*>(source)->meta(i);
  if (!found) return TENON_NOT_FOUND;
  *key = sdk::to_str(found->key), *value = found->value;
  return TENON_OK;
}

tenon_status tensor(void* source, uint64_t i, tenon_tensor* out) noexcept {
  const tenon_tensor* found = static_cast<const Source*>(source)->tensor(i);
  if (!found) return TENON_NOT_FOUND;
  *out = *found;
  return TENON_OK;
}

void close(void* source) noexcept { std::unique_ptr<Source>(static_cast<Source*>(source)).reset(); }

const tenon_format kFormat = {.struct_size = sizeof(tenon_format),
                              .flags = 0,
                              .name = sdk::to_str("fake"),
                              .scheme = sdk::to_str("hf"),
                              .self = nullptr,
                              .probe = probe,
                              .open = open,
                              .more = more,
                              .meta = meta,
                              .tensor = tensor,
                              .close = close,
                              .layout = nullptr};

}  // namespace

TENON_PLUGIN("fake-format", "0.1.0") { registrar.format(&kFormat); }
