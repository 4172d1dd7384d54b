// mapped_file.hpp: a model file, opened read-only and mapped whole.
#pragma once

#include <string>

#include "../plugin/host_files.hpp"

namespace tenon::source {

// Immutable; any thread.
class MappedFile final : public tenon_file {
 public:
  // Regular files only. Throws Error(kFile) with the path and the system's reason.
  explicit MappedFile(const std::string& path);
  ~MappedFile() override;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  uint64_t size() const override { return size_; }
  std::string_view base_name() const override { return base_name_; }
  bool read(uint64_t offset, void* dst, uint64_t n) const override;
  const void* map(uint64_t offset, uint64_t n) const override;
  void advise(uint64_t offset, uint64_t n, uint32_t advice) const override;

  const std::string& path() const { return path_; }
  // Gives the pages of the range, and those that were mapped along with them, back to the system; they are read again when touched.
  void drop_pages(uint64_t offset, uint64_t n) const;
  // Throws Error(kFile) when the file on disk now ends before `end`: touching its pages would stop the program.
  void check_not_shrunk(uint64_t end) const;

 private:
  struct Descriptor {
    int number = -1;
    ~Descriptor();
  };
  bool contains(uint64_t offset, uint64_t n) const { return offset <= size_ && n <= size_ - offset; }

  std::string path_, base_name_;
  Descriptor descriptor_;
  uint64_t size_ = 0;
  uint8_t* data_ = nullptr;
};

}  // namespace tenon::source
