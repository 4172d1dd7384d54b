#include "fake_host.hpp"

#include <cstring>

extern "C" const tenon_plugin* tenon_plugin_entry();

namespace tenon::test {
namespace {

FakeHost& of(void* self) { return *static_cast<FakeHost*>(self); }
std::string to_string(tenon_str text) { return {text.data, size_t(text.size)}; }

}  // namespace

FakeHost& FakeHost::get() {
  static FakeHost host;
  return host;
}

FakeHost::FakeHost() {
  host_.struct_size = sizeof host_, host_.abi_major = TENON_ABI_MAJOR, host_.abi_minor = TENON_ABI_MINOR,
  host_.self = this;
  host_.log = [](void*, uint32_t, tenon_str) noexcept {};
  host_.fail = [](void* self, tenon_status status, tenon_str text) noexcept {
    of(self).message = to_string(text);
    return status;
  };
  host_.file_size = [](void*, const tenon_file* file, uint64_t* bytes) noexcept {
    *bytes = file->bytes.size();
    return tenon_status(TENON_OK);
  };
  host_.file_name = [](void*, const tenon_file* file, tenon_str* name) noexcept {
    *name = {file->name.data(), file->name.size()};
    return tenon_status(TENON_OK);
  };
  host_.file_map = [](void*, const tenon_file* file, uint64_t offset, uint64_t bytes, const void** data) noexcept {
    if (offset > file->bytes.size() || bytes > file->bytes.size() - offset) return tenon_status(TENON_IO);
    *data = file->bytes.data() + offset;
    return tenon_status(TENON_OK);
  };
  host_.dtype = [](void* self, uint32_t id) noexcept -> const tenon_dtype* {
    const auto& dtypes = of(self).dtypes_;
    const uint32_t place = id - TENON_DTYPE_FIRST_REGISTERED;
    return id >= TENON_DTYPE_FIRST_REGISTERED && place < dtypes.size() ? dtypes[place] : nullptr;
  };
  registrar_.struct_size = sizeof registrar_, registrar_.self = this;
  registrar_.format = [](void* self, const tenon_format* format) noexcept {
    of(self).format_ = format;
    return tenon_status(TENON_OK);
  };
  registrar_.dtype = [](void* self, const tenon_dtype* dtype, uint32_t* id) noexcept {
    of(self).dtypes_.push_back(dtype);
    *id = uint32_t(TENON_DTYPE_FIRST_REGISTERED + of(self).dtypes_.size() - 1);
    return tenon_status(TENON_OK);
  };
  if (tenon_plugin_entry()->init(&host_, &registrar_) != TENON_OK) format_ = nullptr;
}

const tenon_dtype* FakeHost::dtype(const std::string& name) const {
  for (const tenon_dtype* dtype : dtypes_) {
    if (to_string(dtype->name) == name) return dtype;
  }
  return nullptr;
}

uint32_t FakeHost::dtype_id(const std::string& name) const {
  for (size_t i = 0; i < dtypes_.size(); ++i) {
    if (to_string(dtypes_[i]->name) == name) return uint32_t(TENON_DTYPE_FIRST_REGISTERED + i);
  }
  return TENON_DTYPE_NONE;
}

OpenedSet::OpenedSet(std::vector<tenon_file> files) {
  std::vector<tenon_file*> handles;
  for (tenon_file& file : files) {
    files_.push_back(std::make_unique<tenon_file>(std::move(file)));
    handles.push_back(files_.back()->name.empty() ? nullptr : files_.back().get());
  }
  FakeHost& host = FakeHost::get();
  host.message.clear();
  status_ = host.format().open(host.format().self, handles.data(), uint32_t(handles.size()), &source_);
  message_ = host.message;
}

OpenedSet::~OpenedSet() {
  if (source_) FakeHost::get().format().close(source_);
}

bool OpenedSet::value(const std::string& key, tenon_value* out) const {
  tenon_str found = {};
  for (uint64_t i = 0; FakeHost::get().format().meta(source_, i, &found, out) == TENON_OK; ++i) {
    if (to_string(found) == key) return true;
  }
  return false;
}

bool OpenedSet::tensor(const std::string& name, tenon_tensor* out) const {
  for (uint64_t i = 0; FakeHost::get().format().tensor(source_, i, out) == TENON_OK; ++i) {
    if (to_string(out->name) == name) return true;
  }
  return false;
}

std::vector<std::string> OpenedSet::keys() const {
  std::vector<std::string> out;
  tenon_str key = {};
  tenon_value value = {};
  while (FakeHost::get().format().meta(source_, out.size(), &key, &value) == TENON_OK) out.push_back(to_string(key));
  return out;
}

std::vector<std::string> OpenedSet::tensors() const {
  std::vector<std::string> out;
  tenon_tensor tensor = {};
  while (FakeHost::get().format().tensor(source_, out.size(), &tensor) == TENON_OK)
    out.push_back(to_string(tensor.name));
  return out;
}

std::vector<std::string> OpenedSet::wanted() const {
  std::vector<std::string> out;
  tenon_str name = {};
  while (FakeHost::get().format().more(source_, uint32_t(files_.size() + out.size()), &name) == TENON_OK) {
    out.push_back(to_string(name));
  }
  return out;
}

}  // namespace tenon::test
