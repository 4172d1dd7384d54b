// host_files.hpp: what stands behind the host handles of abi.h. The source part derives from these classes; the host
// table calls them for plugins.
#pragma once

#include <tenon/abi.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

// An open, size-checked model file. Immutable after it was opened; any thread.
struct tenon_file {
  virtual ~tenon_file() = default;
  virtual uint64_t size() const = 0;
  virtual std::string_view base_name() const = 0;  // without its directory
  // Copies n bytes from `offset`. False when the range leaves the file or the system's read fails.
  virtual bool read(uint64_t offset, void* dst, uint64_t n) const = 0;
  // A read-only range that lives as long as the file. Null when the range leaves the file or mapping fails.
  virtual const void* map(uint64_t offset, uint64_t n) const = 0;
  virtual void advise(uint64_t offset, uint64_t n, uint32_t advice) const = 0;  // TENON_ADVISE_*
};

// Metadata and tensor list of a model source. Immutable; any thread. Everything answered borrows the source.
struct tenon_meta {
  virtual ~tenon_meta() = default;
  virtual const tenon_value* find(std::string_view key) const = 0;  // null when absent
  virtual size_t size() const = 0;
  virtual std::string_view key_at(size_t i) const = 0;  // i < size()
  virtual const tenon_value& value_at(size_t i) const = 0;
  // False when there is no such tensor; `out` is untouched then.
  virtual bool tensor(std::string_view name, tenon_tensor* out) const = 0;
  virtual bool tensor_at(uint64_t i, tenon_tensor* out) const = 0;
  virtual std::string_view scheme() const = 0;  // "gguf", "hf"
};
