// opened_source.hpp: a model opened through one format: its files, the format's handle, metadata and tensors.
#pragma once

#include <memory>

#include "mapped_file.hpp"
#include "source_meta.hpp"
#include "tensor_checks.hpp"

namespace tenon::source {

// Immutable after the constructor; any thread.
class OpenedSource final : public ModelSource {
 public:
  // `first` is the file that the user named; the rest of its set is opened from the same directory. Throws Error.
  OpenedSource(const tenon_format& format, std::unique_ptr<MappedFile> first, const plugin::Registry& registry);
  OpenedSource(const OpenedSource&) = delete;
  OpenedSource& operator=(const OpenedSource&) = delete;

  const Metadata& metadata() const override { return meta_; }
  const std::vector<Tensor>& tensors() const override { return meta_.tensors(); }
  const Tensor* find(std::string_view name) const override { return meta_.find_tensor(name); }
  std::string_view format() const override { return format_name_; }
  std::string_view scheme() const override { return meta_.scheme(); }
  const std::vector<std::string>& file_paths() const override { return paths_; }
  uint64_t file_bytes() const override;
  const tenon_meta* meta_handle() const override { return &meta_; }
  const uint8_t* data(const Plane& plane) const override;
  void drop_pages(const Plane& plane, uint64_t offset, uint64_t bytes) const override;

 private:
  // The format's handle; closed before the files are.
  class Handle {
   public:
    explicit Handle(const tenon_format& format) : format_(format) {}
    ~Handle() { close(); }
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
    void open(const std::vector<std::unique_ptr<MappedFile>>& files);
    void close();
    void* get() const { return source_; }

   private:
    const tenon_format& format_;
    void* source_ = nullptr;
  };

  std::unique_ptr<MappedFile> open_part(const std::string& path) const;
  void open_set(const tenon_format& format);
  void read_meta(const tenon_format& format);
  void read_tensors(const tenon_format& format, const plugin::Registry& registry);
  const MappedFile& file_of(const Plane& plane, uint64_t offset, uint64_t bytes) const;

  std::string format_name_;
  std::vector<std::unique_ptr<MappedFile>> files_;  // in the format's order; null: not there
  std::vector<std::string> paths_;                  // of those that are
  Handle handle_;
  SourceMeta meta_;
};

}  // namespace tenon::source
