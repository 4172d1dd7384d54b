#include "quantize.hpp"

#include "convert.hpp"
#include "model_file.hpp"
#include "recipe.hpp"
#include "write_tensors.hpp"

#include <tenon/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

namespace tenon::quantize {
namespace {

constexpr std::string_view kFileType = "general.file_type", kQuantizationVersion = "general.quantization_version";
constexpr uint32_t kBlocksVersion = 2;  // of the block types' layouts

std::string_view view(tenon_str text) { return {text.data, size_t(text.size)}; }

// The format that writes files of that name.
const tenon_format& output_format(plugin::PluginHost& plugins, const std::string& path) {
  const std::string name = std::filesystem::path(path).filename();
  plugins.open_formats({}, name);
  std::vector<std::string> endings;
  for (const plugin::PluginRecord& record : plugins.plugins()) {
    if (!record.refusal.empty()) continue;
    const auto& known = record.format_extensions;
    const bool fits = std::any_of(known.begin(), known.end(), [&](const std::string& ending) { return name.ends_with(ending); });
    for (const tenon_format* format : plugins.registry().formats) {
      const bool own = std::find(record.formats.begin(), record.formats.end(), view(format->name)) != record.formats.end();
      if (fits && own && format->layout) return *format;
    }
  }
  throw Error(ErrorKind::kUsage, "'" + path + "': no installed format writes files of that name; expected OUT.gguf");
}

// A recipe by its name, or a dtype by its own: a stranger's may have an encoder, too.
Recipe recipe_of(plugin::PluginHost& plugins, const std::string& name) {
  if (const Recipe* known = find_recipe(name)) return *known;
  plugins.open_dtype(name);
  const tenon_dtype* dtype = plugins.registry().dtype(plugins.registry().dtype_id(name));
  if (!dtype)
    throw Error(ErrorKind::kUsage, fmt::format("type '{}' is unknown; expected one of {}", name, recipe_names()));
  if (!dtype->encode || dtype->n_plane != 1)
    throw Error(ErrorKind::kUsage, fmt::format("type '{}' cannot be written: it has no encoder, or several planes; expected one of {}", name, recipe_names()));
  return {view(dtype->name), view(dtype->name), -1, {}};
}

void refuse_input_as_output(const source::ModelSource& source, const std::string& out_path) {
  for (const std::string& path : source.file_paths()) {
    std::error_code error;
    if (std::filesystem::equivalent(path, out_path, error))
      throw Error(ErrorKind::kUsage, "'" + out_path + "' is a file of the model that is read; name another one to write");
  }
}

// Of GGUF's keys, a number or the largest of an array.
int64_t largest(const FileKeys& keys, const std::string& key) {
  const tenon_value* value = keys.find(key);
  if (!value) return 0;
  if (value->type != TENON_VALUE_ARRAY) return value->type >= TENON_VALUE_U8 && value->type <= TENON_VALUE_I64 ? value->integer : 0;
  int64_t most = 0;
  if (value->element == TENON_VALUE_I32 || value->element == TENON_VALUE_U32)
    for (uint64_t i = 0; i < value->count; ++i) most = std::max<int64_t>(most, static_cast<const int32_t*>(value->data)[i]);
  return most;
}

ModelFacts facts_of(const FileKeys& keys) {
  const tenon_value* name = keys.find("general.architecture");
  if (!name || name->type != TENON_VALUE_STRING) return {};
  const std::string prefix(view(name->string));
  ModelFacts out = {largest(keys, prefix + ".block_count"), largest(keys, prefix + ".expert_count"), 1};
  const int64_t queries = largest(keys, prefix + ".attention.head_count"), shared = largest(keys, prefix + ".attention.head_count_kv");
  if (queries > 0 && shared > 0) out.queries_per_key = queries / shared;
  return out;
}

void set_dtypes(const Recipe& recipe, const plugin::Registry& registry, FileContents& file) {
  const auto block_cols = [&](std::string_view name) -> int64_t {
    const tenon_dtype* dtype = registry.dtype(registry.dtype_id(name));
    if (!dtype || !dtype->encode)
      throw Error(ErrorKind::kUsage, fmt::format("type '{}' cannot be written: no installed plugin has an encoder for it", name));
    return dtype->block_cols;
  };
  std::vector<TensorShape> shapes;
  for (const FileTensor& tensor : file.tensors) shapes.push_back({tensor.name, tensor.dim});
  const std::vector<std::string> names = choose_dtypes(recipe, facts_of(file.keys), shapes, block_cols);
  for (size_t i = 0; i < names.size(); ++i) {
    FileTensor& tensor = file.tensors[i];
    // Numbers that are no weights, such as token ids, stay what they are.
    const uint32_t own = tensor.whole ? tensor.whole->dtype : uint32_t(TENON_DTYPE_F32);
    const bool is_whole_number = own >= TENON_DTYPE_I8 && own <= TENON_DTYPE_U8;
    const bool stays = is_whole_number || (names[i].empty() && own >= TENON_DTYPE_F32 && own <= TENON_DTYPE_BF16);
    tensor.dtype = stays ? own : names[i].empty() ? uint32_t(TENON_DTYPE_F32) : registry.dtype_id(names[i]);
  }
}

// A format's answers: tensors behind the begin, in order, apart, inside the file.
void check_offsets(const std::vector<uint64_t>& offsets, const FileContents& file, uint64_t begin, const plugin::Registry& registry) {
  uint64_t end = begin;
  for (size_t i = 0; i < offsets.size(); ++i) {
    if (offsets[i] < end || offsets[i] > uint64_t(INT64_MAX))
      throw Error(ErrorKind::kRuntime, "the format's plugin lays tensors over one another");
    if (i < file.tensors.size()) end = offsets[i] + tensor_bytes(file.tensors[i], registry);
  }
}

// Writes what stands before the tensors, and the file's last byte; answers where each begins, and the file's size.
std::vector<uint64_t> write_begin(const tenon_format& format, const FileContents& file, const plugin::Registry& registry,
                                  const QuantizeSink& sink) {
  std::vector<tenon_tensor> records;
  for (const FileTensor& tensor : file.tensors) {
    tenon_tensor record = {};
    record.struct_size = sizeof record, record.dtype = tensor.dtype;
    record.name = {tensor.name.data(), tensor.name.size()}, record.n_dim = uint32_t(tensor.dim.size());
    std::fill(record.dim, record.dim + 4, 1);
    std::copy(tensor.dim.begin(), tensor.dim.end(), record.dim);
    records.push_back(record);
  }
  std::string begin;
  std::vector<uint64_t> offsets(records.size() + 1);
  const auto& entries = file.keys.entries();
  tenon_layout layout = {};
  layout.struct_size = sizeof layout, layout.entry = entries.data(), layout.n_entry = entries.size();
  layout.tensor = records.data(), layout.n_tensor = records.size(), layout.offset = offsets.data(), layout.arg = &begin;
  layout.put = [](void* arg, const void* bytes, uint64_t n) {
    static_cast<std::string*>(arg)->append(static_cast<const char*>(bytes), size_t(n));
  };
  plugin::check_status(format.layout(format.self, &layout), std::string(view(format.name)));
  check_offsets(offsets, file, begin.size(), registry);
  const uint8_t zero = 0;
  if (offsets.back() > begin.size()) sink(offsets.back() - 1, {&zero, 1});
  sink(0, {reinterpret_cast<const uint8_t*>(begin.data()), begin.size()});
  return offsets;
}

QuantizeReport report_of(const source::ModelSource& source, const FileContents& file, const plugin::Registry& registry) {
  QuantizeReport report;
  report.bytes_before = source.file_bytes();
  for (const FileTensor& tensor : file.tensors) {
    const uint64_t bytes = tensor_bytes(tensor, registry);
    auto& type = report.types[std::string(view(registry.dtype(tensor.dtype)->name))];
    ++type.tensors, type.bytes += bytes;
    report.tensor_bytes += bytes, report.values += uint64_t(tensor.n_rows()) * uint64_t(tensor.dim[0]);
  }
  return report;
}

}  // namespace

QuantizeReport quantize(plugin::PluginHost& plugins, const QuantizeOptions& options, const QuantizeSink& sink) {
  const tenon_format& format = output_format(plugins, options.out_path);
  const Recipe recipe = recipe_of(plugins, options.type);
  const auto source = source::ModelSource::open(options.path, plugins);
  refuse_input_as_output(*source, options.out_path);
  FileContents file;
  std::unique_ptr<Conversion> conversion;
  if (source->scheme() == view(format.scheme)) {
    copy_contents(*source, plugins.registry(), file);
  } else {
    conversion = std::make_unique<Conversion>(plugins, *source, view(format.scheme), file);
  }
  set_dtypes(recipe, plugins.registry(), file);
  if (recipe.file_type >= 0) {
    file.keys.set_u32(kFileType, uint32_t(recipe.file_type));
  } else {
    file.keys.erase(kFileType);
  }
  file.keys.set_u32(kQuantizationVersion, kBlocksVersion);
  QuantizeReport report = report_of(*source, file, plugins.registry());
  report.has_tokenizer = file.keys.find("tokenizer.ggml.model") != nullptr;
  if (conversion) report.tensors_left_out = conversion->n_left_out();
  write_tensors(file.tensors, write_begin(format, file, plugins.registry(), sink), *source, plugins.registry(), options, sink);
  return report;
}

}  // namespace tenon::quantize
