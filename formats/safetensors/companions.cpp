#include "companions.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "dtype/records.hpp"
#include "fault.hpp"

namespace tenon::safetensors {
namespace {

constexpr int64_t kFp8Block = 128, kNvfp4Group = 16;
constexpr size_t kMostDims = 4;

bool cut_tail(std::string_view& name, std::string_view tail) {
  if (!name.ends_with(tail)) return false;
  name.remove_suffix(tail.size());
  return true;
}

// Of a quantized matrix: [experts][rows][cols].
struct Extent {
  int64_t experts = 1, rows = 1, cols = 1;
};

class Joiner {
 public:
  Joiner(const std::vector<const RawTensor*>& tensors, const std::vector<std::string>& file_names)
      : tensors_(tensors), file_names_(file_names) {
    for (const RawTensor* tensor : tensors) by_name_.emplace(tensor->name, tensor);
  }

  std::vector<ModelTensor> run() {
    for (const RawTensor* tensor : tensors_) join(*tensor);
    if (!missing_.empty())
      fail(file_names_.front(),
           listed(missing_, "companion tensor") + " missing: without its scale a quantized tensor has no values");
    for (const RawTensor* tensor : tensors_)
      if (!taken_.contains(tensor->name) && !is_for_activations(tensor->name)) plain(*tensor);
    std::stable_sort(out_.begin(), out_.end(), [](const ModelTensor& a, const ModelTensor& b) {
      const tenon_plane &p = a.planes[0], &q = b.planes[0];
      return p.file != q.file ? p.file < q.file : p.offset < q.offset;
    });
    return std::move(out_);
  }

 private:
  const RawTensor* find(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }
  [[noreturn]] void fail_tensor(const RawTensor& tensor, const std::string& message,
                                tenon_status status = TENON_CORRUPT) const {
    fail_at(file_names_[tensor.file], "tensor " + quoted(tensor.name), tensor.header_offset, message, status);
  }
  static std::string shape_text(const RawTensor& tensor) {
    std::string out = "[";
    for (size_t i = 0; i < tensor.shape.size(); ++i) out += (i ? ", " : "") + std::to_string(tensor.shape[i]);
    return out + "]";
  }

  void join(const RawTensor& tensor) {
    const std::string name(tensor.name);
    if (tensor.type == "F8_E4M3" && !is_scale(name)) return fp8(tensor);
    if (std::string_view base = tensor.name; cut_tail(base, ".weight_packed")) return packed(tensor, std::string(base));
    if (tensor.type != "U8") return;
    const RawTensor *scale = find(name + "_scale"), *macro = find(name + "_scale_2");
    if (!scale && !macro) return;  // bytes that are no weight
    if (!scale) return missing_.push_back(name + "_scale");
    if (!macro) return missing_.push_back(name + "_scale_2");
    nvfp4(tensor, name, *scale, *macro, Dtype::kNvfp4ModelOpt);
  }

  // A scale of type F8_E4M3 belongs to what its name says; it is no weight.
  bool is_scale(const std::string& name) const {
    std::string_view base = name;
    return cut_tail(base, "_scale") && (by_name_.contains(base) || by_name_.contains(std::string(base) + "_packed"));
  }

  void packed(const RawTensor& codes, const std::string& base) {
    if (codes.type != "U8")
      fail_tensor(codes, "packed codes of type " + std::string(codes.type) + " are not served, only NVFP4's U8",
                  TENON_UNSUPPORTED);
    const RawTensor *scale = find(base + ".weight_scale"), *macro = find(base + ".weight_global_scale");
    if (scale && scale->type != "F8_E4M3")
      fail_tensor(codes, "with a scale of type " + std::string(scale->type) + " is not served, only NVFP4's F8_E4M3",
                  TENON_UNSUPPORTED);
    if (!scale) missing_.push_back(base + ".weight_scale");
    if (!macro) missing_.push_back(base + ".weight_global_scale");
    if (scale && macro) nvfp4(codes, base + ".weight", *scale, *macro, Dtype::kNvfp4Ct);
  }

  Extent extent_of(const RawTensor& tensor) const {
    if (tensor.shape.size() != 2 && tensor.shape.size() != 3)
      fail_tensor(tensor, "shape " + shape_text(tensor) + ", expected two dimensions, or three for a stack of experts");
    const size_t first = tensor.shape.size() - 2;
    return {first ? tensor.shape[0] : 1, tensor.shape[first], tensor.shape[first + 1]};
  }

  void fp8(const RawTensor& codes) {
    const std::string name(codes.name);
    std::string_view base = codes.name;
    const bool is_weight = cut_tail(base, ".weight");
    const RawTensor* scale = find(name + "_scale_inv");
    if (!scale) scale = find(name + "_scale");
    if (!scale && is_weight) scale = find(std::string(base) + ".qscale_weight");
    if (!scale) return missing_.push_back(name + "_scale_inv");
    if (scale->type != "F32" && scale->type != "BF16")
      fail_tensor(*scale, "type " + std::string(scale->type) + ", expected F32 or BF16");
    const bool is_bf16 = scale->type == "BF16";
    const Extent e = extent_of(codes);
    const int64_t tile_rows = (e.rows + kFp8Block - 1) / kFp8Block, tile_cols = (e.cols + kFp8Block - 1) / kFp8Block;
    std::vector<int64_t> grid = {tile_rows, tile_cols};
    if (codes.shape.size() == 3) grid.insert(grid.begin(), e.experts);
    ModelTensor out = matrix(codes, name, e);
    if (scale->shape == grid) {
      out.dtype = dtype_id(is_bf16 ? Dtype::kFp8Block128Bf16 : Dtype::kFp8Block128);
      add_plane(out, TENON_PLANE_SCALES, *scale, {tile_cols, tile_rows, e.experts});
    } else if (scale->elements() == e.experts) {
      out.dtype = dtype_id(is_bf16 ? Dtype::kFp8TensorBf16 : Dtype::kFp8Tensor);
      add_plane(out, TENON_PLANE_MACRO, *scale, {e.experts});
    } else if (scale->elements() == e.experts * e.rows) {
      out.dtype = dtype_id(is_bf16 ? Dtype::kFp8RowBf16 : Dtype::kFp8Row);
      add_plane(out, TENON_PLANE_SCALES, *scale, {1, e.rows, e.experts});
    } else {
      fail_tensor(*scale,
                  "shape " + shape_text(*scale) + " does not fit the codes' " + shape_text(codes) +
                      sdk::text(": expected one scale, one a row, or a grid of %lld x %lld (blocks of 128 x 128)",
                                (long long)tile_rows, (long long)tile_cols));
    }
    finish(std::move(out), codes, *scale, nullptr);
  }

  void nvfp4(const RawTensor& codes, const std::string& name, const RawTensor& scale, const RawTensor& macro,
             Dtype dtype) {
    Extent e = extent_of(codes);
    e.cols *= 2;  // two codes a byte
    if (scale.type != "F8_E4M3") fail_tensor(scale, "type " + std::string(scale.type) + ", expected F8_E4M3");
    if (macro.type != "F32") fail_tensor(macro, "type " + std::string(macro.type) + ", expected F32");
    std::vector<int64_t> grid = codes.shape;
    grid.back() = e.cols / kNvfp4Group;
    if (e.cols % kNvfp4Group != 0 || scale.shape != grid)
      fail_tensor(scale, "shape " + shape_text(scale) + " does not fit the codes' " + shape_text(codes) +
                             ": expected one scale for 16 columns, which are 8 bytes of codes");
    if (macro.elements() != e.experts)
      fail_tensor(macro, "shape " + shape_text(macro) + ", expected " + std::to_string(e.experts) + " number" +
                             (e.experts > 1 ? "s" : ""));
    if (find(name.substr(0, name.rfind('.')) + ".pre_quant_scale"))
      fail_tensor(codes, "has a pre_quant_scale (NVFP4_AWQ), which is not served", TENON_UNSUPPORTED);
    ModelTensor out = matrix(codes, name, e);
    out.dtype = dtype_id(dtype);
    add_plane(out, TENON_PLANE_SCALES, scale, {e.cols / kNvfp4Group, e.rows, e.experts});
    add_plane(out, TENON_PLANE_MACRO, macro, {e.experts});
    finish(std::move(out), codes, scale, &macro);
  }

  static ModelTensor matrix(const RawTensor& codes, const std::string& name, const Extent& e) {
    ModelTensor out;
    out.name = name;
    out.dim = {e.cols, e.rows};
    if (codes.shape.size() == 3) out.dim.push_back(e.experts);
    return out;
  }

  void add_plane(ModelTensor& out, uint32_t role, const RawTensor& from, std::vector<int64_t> dim) const {
    while (dim.size() > 1 && dim.back() == 1) dim.pop_back();
    tenon_plane plane = {
        role, element_dtype(from.type), from.file, uint32_t(dim.size()), {1, 1, 1, 1}, from.offset, from.bytes};
    std::copy(dim.begin(), dim.end(), plane.dim);
    out.planes.push_back(plane);
  }

  void finish(ModelTensor out, const RawTensor& codes, const RawTensor& scale, const RawTensor* macro) {
    tenon_plane plane = {TENON_PLANE_CODES, out.dtype,    codes.file, uint32_t(out.dim.size()),
                         {1, 1, 1, 1},      codes.offset, codes.bytes};
    std::copy(out.dim.begin(), out.dim.end(), plane.dim);
    out.planes.insert(out.planes.begin(), plane);
    if (find(out.name) && out.name != codes.name)
      fail_tensor(codes, "stands beside " + quoted(out.name) + ", which is the same weight");
    taken_.insert({codes.name, scale.name});
    if (macro) taken_.insert(macro->name);
    std::string_view base = out.name;
    cut_tail(base, ".weight");
    quantized_.insert(std::string(base));
    out_.push_back(std::move(out));
  }

  // Scales of activations and of K and V beside a quantized weight. Activations keep 16 or more bits here.
  bool is_for_activations(std::string_view name) const {
    for (std::string_view tail : {".input_scale", ".input_global_scale", ".input_activation_scale", ".activation_scale",
                                  ".qscale_act", ".output_scale", ".k_scale", ".v_scale"})
      if (std::string_view base = name; cut_tail(base, tail)) return quantized_.contains(std::string(base));
    return false;
  }

  void plain(const RawTensor& tensor) {
    const uint32_t dtype = element_dtype(tensor.type);
    if (dtype == TENON_DTYPE_NONE)
      fail_tensor(tensor, "type " + std::string(tensor.type) + " is not served", TENON_UNSUPPORTED);
    ModelTensor out;
    out.name = tensor.name, out.dtype = dtype;
    out.dim.assign(tensor.shape.rbegin(), tensor.shape.rend());
    if (out.dim.empty()) out.dim = {1};  // a scalar
    while (out.dim.size() > kMostDims) {
      out.dim[out.dim.size() - 2] *= out.dim.back();
      out.dim.pop_back();
    }
    tenon_plane plane = {TENON_PLANE_CODES, dtype,         tensor.file, uint32_t(out.dim.size()),
                         {1, 1, 1, 1},      tensor.offset, tensor.bytes};
    std::copy(out.dim.begin(), out.dim.end(), plane.dim);
    out.planes.push_back(plane);
    out_.push_back(std::move(out));
  }

  const std::vector<const RawTensor*>& tensors_;
  const std::vector<std::string>& file_names_;
  std::unordered_map<std::string_view, const RawTensor*> by_name_;
  std::unordered_set<std::string_view> taken_;
  std::unordered_set<std::string> quantized_;
  std::vector<std::string> missing_;
  std::vector<ModelTensor> out_;
};

}  // namespace

std::vector<ModelTensor> join_companions(const std::vector<const RawTensor*>& tensors,
                                         const std::vector<std::string>& file_names) {
  return Joiner(tensors, file_names).run();
}

}  // namespace tenon::safetensors
