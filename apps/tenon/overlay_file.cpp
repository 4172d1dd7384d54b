#include "overlay_file.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

namespace tenon::launcher {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kLongestHeader = uint64_t{1} << 20;  // of three tensors and some notes
constexpr std::pair<const char*, uint64_t> kElementBytes[] = {
    {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I32", 4}, {"I64", 8}};

float from_f16(uint16_t bits) {
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  float value = mantissa ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
  if (exponent < 31) value = std::ldexp(float(exponent ? mantissa + 1024 : mantissa), exponent ? exponent - 25 : -24);
  return bits & 0x8000 ? -value : value;
}

// Names come from the file: as JSON writes them, and no longer than a line.
std::string shown(const Json& value) {
  const std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() <= 80 ? text : text.substr(0, 77) + "...";
}

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) fail(error ? error.message() : "is no file");
    file_bytes_ = std::filesystem::file_size(path, error);
    if (error) fail(error.message());
    stream_.open(path, std::ios::binary);
    if (!stream_) fail(std::strerror(errno));
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::kFile, "overlay file '" + path_ + "': " + what);
  }

  std::map<std::string, OverlayTensor> tensors() {
    uint64_t length = 0;
    if (file_bytes_ < sizeof(length))
      fail("has " + std::to_string(file_bytes_) + " bytes, but a safetensors file begins with 8");
    read(0, &length, sizeof(length));
    const uint64_t most = std::min(kLongestHeader, file_bytes_ - sizeof(length));
    if (length > most)
      fail("a header of " + std::to_string(length) + " bytes, expected at most " + std::to_string(most) +
           " (is it a safetensors file, and complete?)");
    std::string text(length, '\0');
    read(sizeof(length), text.data(), length);
    const Json header = Json::parse(text, nullptr, false);
    if (!header.is_object()) fail("the header is no JSON object");
    std::map<std::string, OverlayTensor> out;
    for (const auto& [name, entry] : header.items())
      if (name != "__metadata__") out[name] = tensor(name, entry, sizeof(length) + length);
    return out;
  }

  void read(uint64_t begin, void* out, uint64_t bytes) {
    stream_.seekg(static_cast<std::streamoff>(begin));
    stream_.read(static_cast<char*>(out), static_cast<std::streamsize>(bytes));
    if (!stream_) fail("bytes " + std::to_string(begin) + " to " + std::to_string(begin + bytes) + " cannot be read");
  }

  std::vector<int32_t> integers(const std::string& name, const OverlayTensor& tensor) {
    std::vector<int32_t> out(static_cast<size_t>(tensor.shape.at(0)));
    if (tensor.dtype == "I32") {
      read(tensor.begin, out.data(), tensor.bytes);
      return out;
    }
    std::vector<int64_t> wide(out.size());
    read(tensor.begin, wide.data(), tensor.bytes);
    for (size_t i = 0; i < wide.size(); ++i) {
      if (wide[i] < INT32_MIN || wide[i] > INT32_MAX)
        fail("tensor " + name + ": entry " + std::to_string(i) + " is " + std::to_string(wide[i]));
      out[i] = static_cast<int32_t>(wide[i]);
    }
    return out;
  }

 private:
  OverlayTensor tensor(const std::string& name, const Json& entry, uint64_t data_begin) const {
    const std::string what = "tensor " + shown(name) + ": ";
    const auto numbers = [&](const char* member) {
      std::vector<uint64_t> out;
      if (!entry.is_object() || !entry.contains(member) || !entry[member].is_array())
        fail(what + "expected a list " + member);
      for (const Json& number : entry[member]) {
        if (!number.is_number_unsigned() || number.get<uint64_t>() > uint64_t{INT64_MAX})
          fail(what + member + " has " + shown(number) + ", expected a whole number from 0");
        out.push_back(number.get<uint64_t>());
      }
      return out;
    };
    OverlayTensor out;
    if (entry.is_object() && entry.contains("dtype") && entry["dtype"].is_string()) out.dtype = entry["dtype"];
    uint64_t bytes = 0;
    for (const auto& [dtype, size] : kElementBytes)
      if (out.dtype == dtype) bytes = size;
    if (bytes == 0) fail(what + "dtype " + shown(out.dtype) + ", expected F32, F16, BF16, I32 or I64");
    bool overflow = false;
    for (const uint64_t n : numbers("shape")) {
      out.shape.push_back(static_cast<int64_t>(n));
      overflow |= __builtin_mul_overflow(bytes, n, &bytes);
    }
    const std::vector<uint64_t> ends = numbers("data_offsets");
    const uint64_t data_bytes = file_bytes_ - data_begin;
    if (ends.size() != 2 || ends[0] > ends[1] || ends[1] > data_bytes)
      fail(what + "data_offsets " + shown(entry["data_offsets"]) + ", but the file has " + std::to_string(data_bytes) +
           " bytes of data");
    if (overflow || bytes != ends[1] - ends[0])
      fail(what + std::to_string(ends[1] - ends[0]) + " bytes, but shape " + shown(entry["shape"]) + " of " +
           out.dtype + " means " + (overflow ? "more than 2^64" : std::to_string(bytes)));
    out.begin = data_begin + ends[0], out.bytes = bytes;
    return out;
  }

  const std::string& path_;
  std::ifstream stream_;
  uint64_t file_bytes_ = 0;
};

}  // namespace

OverlayFile::OverlayFile(std::string path, int64_t n_tokens) : path_(std::move(path)) {
  Reader reader(path_);
  const auto tensors = reader.tensors();
  for (const auto& [name, tensor] : tensors)
    if (name != "rows" && name != "positions" && name != "spans")
      reader.fail("tensor " + shown(name) + " is none of rows, positions and spans");
  for (const char* name : {"rows", "positions"})
    if (!tensors.contains(name)) reader.fail("tensor " + std::string(name) + " is missing");
  row_tensor_ = tensors.at("rows");
  if (row_tensor_.shape.size() != 2 || row_tensor_.dtype.starts_with('I'))
    reader.fail("tensor rows: " + std::to_string(row_tensor_.shape.size()) + " dimensions of " + row_tensor_.dtype +
                ", expected [n, width] of F32, F16 or BF16");
  const int64_t n = row_tensor_.shape[0];
  for (const auto& [name, tensor] : tensors)
    if (name != "rows" && (tensor.shape != std::vector{n} || !tensor.dtype.starts_with('I')))
      reader.fail("tensor " + name + ": expected [" + std::to_string(n) + "] of I32 or I64, a number for each row");
  if (n > n_tokens)
    reader.fail("tensor rows: " + std::to_string(n) + " rows for " + std::to_string(n_tokens) + " tokens");
  positions_ = reader.integers("positions", tensors.at("positions"));
  if (tensors.contains("spans")) spans_ = reader.integers("spans", tensors.at("spans"));
  for (size_t i = 0; i < positions_.size(); ++i)
    if (positions_[i] < 0 || positions_[i] >= n_tokens)
      reader.fail("tensor positions: entry " + std::to_string(i) + " is " + std::to_string(positions_[i]) +
                  ", expected a position of the " + std::to_string(n_tokens) + " tokens");
  try {
    longest_span_ = tenon::longest_span(overlay());
  } catch (const Error& error) {
    reader.fail(error.what());
  }
}

void OverlayFile::read_rows(int64_t width) {
  Reader reader(path_);
  const int64_t n = row_tensor_.shape[0];
  if (row_tensor_.shape[1] != width)
    reader.fail("tensor rows: " + std::to_string(row_tensor_.shape[1]) + " columns, but the model's embeddings have " +
                std::to_string(width));
  rows_.resize(static_cast<size_t>(n * width));
  if (row_tensor_.dtype == "F32") {
    reader.read(row_tensor_.begin, rows_.data(), row_tensor_.bytes);
  } else {
    std::vector<uint16_t> halves(rows_.size());
    reader.read(row_tensor_.begin, halves.data(), row_tensor_.bytes);
    const bool is_bf16 = row_tensor_.dtype == "BF16";
    for (size_t i = 0; i < halves.size(); ++i)
      rows_[i] = is_bf16 ? std::bit_cast<float>(uint32_t{halves[i]} << 16) : from_f16(halves[i]);
  }
  for (size_t i = 0; i < rows_.size(); ++i)
    if (!std::isfinite(rows_[i]))
      reader.fail("tensor rows: row " + std::to_string(i / static_cast<size_t>(width)) + " has " +
                  std::to_string(rows_[i]) + " in column " + std::to_string(i % static_cast<size_t>(width)));
}

}  // namespace tenon::launcher
