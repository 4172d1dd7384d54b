// model_source.hpp: a model's files, mapped and checked: metadata and tensors as planes. Nothing is copied.
#pragma once

#include "metadata.hpp"

#include <tenon/abi.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::plugin {
class PluginHost;
}

namespace tenon::source {

struct Plane {
  uint32_t role, dtype, file;
  std::vector<int64_t> dim;
  uint64_t offset, bytes;
};

// dim[0] contiguous: cols; dim[1]: rows; dim[2]: experts.
struct Tensor {
  std::string name;
  uint32_t dtype = 0;
  std::vector<int64_t> dim;
  std::vector<Plane> planes;
  bool factors_apart = false;  // the macro plane is none of the dtype's own: decoded values lack it
  const Plane* plane(uint32_t role) const;  // null where there is none
  int64_t cols() const { return dim.empty() ? 1 : dim[0]; }
  int64_t rows() const { return dim.size() < 2 ? 1 : dim[1]; }
  int64_t experts() const { return dim.size() < 3 ? 1 : dim[2]; }
  uint64_t bytes() const;
};

// Immutable after open(); any thread.
class ModelSource {
 public:
  // Finds the format plugin, opens the whole split set and checks every range against its file's size. `path` is a model
  // file or a directory with one model. Throws Error(kFile) naming file, field and offset.
  static std::unique_ptr<ModelSource> open(const std::string& path, plugin::PluginHost& plugins);
  virtual ~ModelSource() = default;

  virtual const Metadata& metadata() const = 0;
  virtual const std::vector<Tensor>& tensors() const = 0;  // in file order
  virtual const Tensor* find(std::string_view name) const = 0;
  virtual std::string_view format() const = 0;  // "gguf"
  virtual std::string_view scheme() const = 0;  // "gguf", "hf"
  virtual const std::vector<std::string>& file_paths() const = 0;
  virtual uint64_t file_bytes() const = 0;
  virtual const tenon_meta* meta_handle() const = 0;  // for architecture plugins

  // Mapped bytes of a plane. Throws Error(kFile) when the file has shrunk since it was opened.
  virtual const uint8_t* data(const Plane& plane) const = 0;
  // The pages of that range will not be needed soon: given back to the system.
  virtual void drop_pages(const Plane& plane, uint64_t offset, uint64_t bytes) const = 0;
};

}  // namespace tenon::source
