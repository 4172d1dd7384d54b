// weights.cpp: dtypes by name, and packing at the boundary.
#include <string>

#include "kernels.hpp"
#include "pack.hpp"

namespace tenon::block {

std::optional<Type> type_of_dtype(uint32_t dtype) {
  const std::string_view name = sdk::dtype_name(dtype);
  for (int i = 0; i < kTypes; ++i)
    if (name == kTypeInfo[i].name) return static_cast<Type>(i);
  return std::nullopt;
}

void pack_weight(const sdk::PackSlice& slice) {
  tenon_pack& table = *slice.table;
  const tenon_weight& src = slice.src();
  if (!is_layout(table.layout)) {
    throw sdk::Error(TENON_INVALID_ARGUMENT, sdk::text("block: layout %u is none of this family's", table.layout));
  }
  const Type type = type_of_layout(table.layout);
  if (type_of_dtype(src.dtype) != type || src.cols <= 0 || src.cols % info(type).file_cols || src.rows <= 0) {
    throw sdk::Error(TENON_INVALID_ARGUMENT,
                     sdk::text("block: a %s weight of %lld x %lld does not fit layout %s",
                               std::string(sdk::dtype_name(src.dtype)).c_str(), static_cast<long long>(src.rows),
                               static_cast<long long>(src.cols), info(type).name));
  }
  if (table.dst == 0) {
    table.bytes = static_cast<uint64_t>((src.rows + kPanelRows - 1) / kPanelRows * panel_bytes(type, src.cols));
    table.align = 64;
    table.tail_pad = 0;
    return;
  }
  const int64_t row0 = slice.row0(), rows = slice.rows();
  if (src.layout != 0 || table.on_device || row0 < 0 || row0 % kPanelRows || rows < 0 || rows > src.rows - row0 ||
      (rows % kPanelRows && row0 + rows != src.rows)) {
    throw sdk::Error(TENON_INVALID_ARGUMENT,
                     sdk::text("block: cannot pack rows %lld … %lld of %lld: slices begin and end at multiples of %d, "
                               "in host memory, from the file's layout",
                               static_cast<long long>(row0), static_cast<long long>(row0 + rows),
                               static_cast<long long>(src.rows), kPanelRows));
  }
  pack_rows(type, src, row0, rows, slice.dst());
}

}  // namespace tenon::block
