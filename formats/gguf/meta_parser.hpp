// meta_parser.hpp: reads the key-value part of a GGUF file.
#pragma once

#include "cursor.hpp"
#include "gguf_file.hpp"

namespace tenon::gguf {

class MetaParser {
 public:
  MetaParser(Cursor& cursor, GgufFile& file) : cursor_(cursor), file_(file) {}
  void read(uint64_t count);

 private:
  void read_scalar(uint32_t type, std::string_view key, tenon_value& value);
  void read_array(std::string_view key, tenon_value& value);

  Cursor& cursor_;
  GgufFile& file_;
  uint64_t n_elements_ = 0;  // of the arrays read so far
};

// A name that stands in messages and maps: not empty, at most `limit` bytes, no control bytes. Throws CORRUPT.
void check_name(const Cursor& cursor, std::string_view name, const std::string& field, uint64_t offset, uint64_t limit);

}  // namespace tenon::gguf
