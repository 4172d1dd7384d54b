// metadata.hpp: what a model's files say, read with types, bounds and messages. Valid during configure() only.
//
// Spellings. A parameter has one name in GGUF ("block_count", found as "<architecture>.block_count") and others in a
// Hugging Face config ("num_hidden_layers", found under "text_config." or at the top; nested objects are joined by
// dots). The getters of Keys take the GGUF name first and then the config's names; the source's scheme picks among
// them.
//
// Errors: every failure is CORRUPT and names the key, what was expected and what was found.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <tenon/sdk/base.hpp>
#include <type_traits>
#include <vector>

namespace tenon::sdk {

// Bounds of a parameter, both included.
struct Bounds {
  int64_t low, high;
};
inline constexpr Bounds kAnyCount{1, int64_t{1} << 24};  // heads, widths, vocabulary: products of three stay in 64 bits
inline constexpr Bounds kLayers{1, 512};

// Dimensions of a tensor as the file has them; the first is contiguous.
struct Shape {
  std::vector<int64_t> dim;
  int64_t cols() const { return dim.empty() ? 1 : dim[0]; }
  int64_t rows() const { return dim.size() < 2 ? 1 : dim[1]; }
  int64_t experts() const { return dim.size() < 3 ? 1 : dim[2]; }
  int64_t count() const {
    int64_t n = 1;
    for (int64_t d : dim) n *= d;
    return n;
  }
  std::string text() const {
    std::string out = "[";
    for (size_t i = 0; i < dim.size(); ++i) out += (i ? ", " : "") + std::to_string(dim[i]);
    return out + "]";
  }
};

namespace detail {

inline bool is_integer(uint32_t type) {
  return (type >= TENON_VALUE_U8 && type <= TENON_VALUE_I64) || type == TENON_VALUE_BOOL;
}

inline std::string type_text(uint32_t type) {
  switch (type) {
    case TENON_VALUE_F32:
    case TENON_VALUE_F64:
      return "real number";
    case TENON_VALUE_BOOL:
      return "bool";
    case TENON_VALUE_STRING:
      return "string";
    case TENON_VALUE_ARRAY:
      return "array";
    default:
      return is_integer(type) ? "integer" : "value of an unknown type";
  }
}

inline std::string value_text(const tenon_value& v) {
  if (v.type == TENON_VALUE_ARRAY) return "an array of " + std::to_string(v.count);
  if (v.type == TENON_VALUE_STRING) return "the string \"" + std::string(to_view(v.string).substr(0, 80)) + "\"";
  if (v.type == TENON_VALUE_F32 || v.type == TENON_VALUE_F64) return text("%g", v.real);
  if (v.type == TENON_VALUE_BOOL) return v.integer ? "true" : "false";
  if (v.type == TENON_VALUE_U64) return text("%llu", static_cast<unsigned long long>(v.integer));
  return is_integer(v.type) ? text("%lld", static_cast<long long>(v.integer)) : type_text(v.type);
}

// Element i of an array as a value of its own.
inline tenon_value element(const tenon_value& array, uint64_t i) {
  tenon_value v = {};
  v.struct_size = sizeof v;
  v.type = array.element;
  switch (array.element) {
    case TENON_VALUE_U8:
    case TENON_VALUE_BOOL:
      v.integer = static_cast<const uint8_t*>(array.data)[i];
      break;
    case TENON_VALUE_I8:
      v.integer = static_cast<const int8_t*>(array.data)[i];
      break;
    case TENON_VALUE_U16:
      v.integer = static_cast<const uint16_t*>(array.data)[i];
      break;
    case TENON_VALUE_I16:
      v.integer = static_cast<const int16_t*>(array.data)[i];
      break;
    case TENON_VALUE_U32:
      v.integer = static_cast<const uint32_t*>(array.data)[i];
      break;
    case TENON_VALUE_I32:
      v.integer = static_cast<const int32_t*>(array.data)[i];
      break;
    case TENON_VALUE_U64:
    case TENON_VALUE_I64:
      v.integer = static_cast<const int64_t*>(array.data)[i];
      break;
    case TENON_VALUE_F32:
      v.real = static_cast<const float*>(array.data)[i];
      break;
    case TENON_VALUE_F64:
      v.real = static_cast<const double*>(array.data)[i];
      break;
    case TENON_VALUE_STRING:
      v.string = static_cast<const tenon_str*>(array.data)[i];
      break;
    default:
      v.type = TENON_VALUE_NONE;
  }
  return v;
}

[[noreturn]] inline void bad_value(std::string_view key, std::string_view expected, const std::string& found) {
  throw Error(TENON_CORRUPT, std::string(key) + ": expected " + std::string(expected) + ", found " + found);
}

template <typename T>
struct is_vector : std::false_type {};
template <typename T>
struct is_vector<std::vector<T>> : std::true_type {};

}  // namespace detail

// One value under its full key.
struct Found {
  std::string key;
  tenon_value value;

  // The value as T: bool, int64_t, float, double, std::string, or a std::vector of these. Integers serve as reals.
  template <typename T>
  T as() const {
    return convert<T>(key, value);
  }

 private:
  template <typename T>
  static T convert(const std::string& key, const tenon_value& v) {
    if constexpr (detail::is_vector<T>::value) {
      if (v.type != TENON_VALUE_ARRAY) detail::bad_value(key, "an array", detail::value_text(v));
      T out;
      out.reserve(static_cast<size_t>(v.count));
      for (uint64_t i = 0; i < v.count; ++i)
        out.push_back(convert<typename T::value_type>(key + "[" + std::to_string(i) + "]", detail::element(v, i)));
      return out;
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (v.type != TENON_VALUE_STRING) detail::bad_value(key, "a string", detail::value_text(v));
      return std::string(to_view(v.string));
    } else if constexpr (std::is_floating_point_v<T>) {
      const bool real = v.type == TENON_VALUE_F32 || v.type == TENON_VALUE_F64;
      if (!real && !detail::is_integer(v.type)) detail::bad_value(key, "a real number", detail::value_text(v));
      const double number = real ? v.real : static_cast<double>(v.integer);
      if (!std::isfinite(number)) detail::bad_value(key, "a finite number", detail::value_text(v));
      return static_cast<T>(number);
    } else if constexpr (std::is_same_v<T, bool>) {
      if (!detail::is_integer(v.type) || v.integer < 0 || v.integer > 1)
        detail::bad_value(key, "true or false", detail::value_text(v));
      return v.integer == 1;
    } else {
      static_assert(std::is_same_v<T, int64_t>, "ask for bool, int64_t, float, double, std::string or vectors of them");
      if (!detail::is_integer(v.type)) detail::bad_value(key, "an integer", detail::value_text(v));
      if (v.type == TENON_VALUE_U64 && v.integer < 0)
        detail::bad_value(key, "an integer below 2^63", detail::value_text(v));
      return v.integer;
    }
  }
};

class Keys;

// Metadata and tensor list of a source. Borrows the handle.
class Metadata {
 public:
  explicit Metadata(const tenon_meta* handle) : handle_(handle) {
    tenon_str scheme = {};
    check(host().meta_scheme(host().self, handle, &scheme));
    scheme_ = to_view(scheme);
  }

  const std::string& scheme() const { return scheme_; }  // "gguf", "hf"
  bool is_gguf() const { return scheme_ == "gguf"; }

  // The value under exactly this key; absent and null are the same.
  std::optional<Found> find(std::string_view key) const {
    tenon_value value = {};
    value.struct_size = sizeof value;
    const tenon_status status = host().meta_find(host().self, handle_, to_str(key), &value);
    if (status == TENON_NOT_FOUND || (status == TENON_OK && value.type == TENON_VALUE_NONE)) return std::nullopt;
    check(status);
    return Found{std::string(key), value};
  }

  std::optional<Shape> tensor(std::string_view name) const {
    tenon_tensor tensor = {};
    tensor.struct_size = sizeof tensor;
    const tenon_status status = host().meta_tensor(host().self, handle_, to_str(name), &tensor);
    if (status == TENON_NOT_FOUND) return std::nullopt;
    check(status);
    return Shape{std::vector<int64_t>(tensor.dim, tensor.dim + (tensor.n_dim < 4 ? tensor.n_dim : 4))};
  }

  // Calls visit(name) for every tensor of the source.
  template <typename Visit>
  void each_tensor(Visit&& visit) const {
    for (uint64_t i = 0;; ++i) {
      tenon_tensor tensor = {};
      tensor.struct_size = sizeof tensor;
      const tenon_status status = host().meta_tensor_at(host().self, handle_, i, &tensor);
      if (status == TENON_NOT_FOUND) return;
      check(status);
      visit(to_view(tensor.name));
    }
  }

  // GGUF: `general.architecture`. Else the text model's `model_type`. Empty when the source does not say.
  std::string architecture() const {
    for (std::string_view key : {"general.architecture", "text_config.model_type", "model_type"})
      if (const auto found = find(key)) return found->as<std::string>();
    return {};
  }

  // A config that says that the head is a table of its own: some place says no, and none yes. In GGUF the file itself
  // does.
  bool unties_head() const {
    bool unties = false;
    for (std::string_view key : {"text_config.tie_word_embeddings", "tie_word_embeddings"})
      if (const auto found = is_gguf() ? std::nullopt : find(key)) {
        if (found->as<bool>()) return false;
        unties = true;
      }
    return unties;
  }

  // Ids that the tokenizer of a GGUF file marks as unused (type 5): rows of the embedding that stand for no text.
  std::vector<int32_t> unused_tokens() const {
    constexpr int64_t kUnused = 5;
    std::vector<int32_t> out;
    if (const auto found = find("tokenizer.ggml.token_type")) {
      const auto types = found->as<std::vector<int64_t>>();
      for (size_t i = 0; i < types.size(); ++i)
        if (types[i] == kUnused) out.push_back(static_cast<int32_t>(i));
    }
    return out;
  }

  // Getters for one architecture's parameters; `name` is the prefix that GGUF uses.
  Keys keys(std::string name) const;

 private:
  const tenon_meta* handle_;
  std::string scheme_;
};

// Typed getters. Each takes the parameter's spellings, GGUF's first.
class Keys {
 public:
  Keys(const Metadata& meta, std::string prefix) : meta_(&meta), prefix_(std::move(prefix)) {}

  template <typename... Names>
  std::optional<Found> find(Names... names) const {
    for (const std::string& key : spellings({std::string_view(names)...}))
      if (auto found = meta_->find(key)) return found;
    return std::nullopt;
  }
  template <typename T, typename... Names>
  std::optional<T> optional(Names... names) const {
    const auto found = find(names...);
    return found ? std::optional<T>(found->template as<T>()) : std::nullopt;
  }
  template <typename T, typename... Names>
  T value_or(T fallback, Names... names) const {
    return optional<T>(names...).value_or(std::move(fallback));
  }
  template <typename T, typename... Names>
  T required(Names... names) const {
    return require(names...).template as<T>();
  }

  // An integer within bounds.
  template <typename... Names>
  int64_t integer(Bounds bounds, Names... names) const {
    return within(bounds, require(names...));
  }
  template <typename... Names>
  int64_t integer_or(int64_t fallback, Bounds bounds, Names... names) const {
    const auto found = find(names...);
    return found ? within(bounds, *found) : fallback;
  }
  // A real number above 0.
  template <typename... Names>
  float positive(Names... names) const {
    return above_zero(require(names...));
  }
  template <typename... Names>
  float positive_or(float fallback, Names... names) const {
    const auto found = find(names...);
    return found ? above_zero(*found) : fallback;
  }
  // One integer for every layer: a single one is repeated, an array must have `n` entries.
  template <typename... Names>
  std::vector<int64_t> per_layer(int64_t n, Bounds bounds, Names... names) const {
    const Found found = require(names...);
    if (found.value.type != TENON_VALUE_ARRAY)
      return std::vector<int64_t>(static_cast<size_t>(n), within(bounds, found));
    auto values = found.template as<std::vector<int64_t>>();
    if (static_cast<int64_t>(values.size()) != n)
      detail::bad_value(found.key, "one number or an array of " + std::to_string(n) + " (one a layer)",
                        detail::value_text(found.value));
    for (size_t i = 0; i < values.size(); ++i)
      check_bounds(bounds, found.key + "[" + std::to_string(i) + "]", values[i]);
    return values;
  }

  // The key under which a parameter stands or would stand, for messages of checks across parameters.
  template <typename... Names>
  std::string name(Names... names) const {
    const auto found = find(names...);
    return found ? found->key : spellings({std::string_view(names)...}).back();
  }

  const Metadata& metadata() const { return *meta_; }
  const std::string& prefix() const { return prefix_; }

 private:
  std::vector<std::string> spellings(std::initializer_list<std::string_view> names) const {
    std::vector<std::string> out;
    if (meta_->is_gguf()) return {prefix_ + "." + std::string(*names.begin())};
    const size_t first = names.size() > 1 ? 1 : 0;
    for (size_t i = first; i < names.size(); ++i) {
      const std::string name(names.begin()[i]);
      out.push_back("text_config." + name);
      out.push_back(name);
    }
    return out;
  }
  template <typename... Names>
  Found require(Names... names) const {
    if (auto found = find(names...)) return *std::move(found);
    detail::bad_value(name(names...), "a value (" + prefix_ + " needs it)", "no such key");
  }
  static void check_bounds(Bounds bounds, std::string_view key, int64_t value) {
    if (value < bounds.low || value > bounds.high)
      detail::bad_value(key, "an integer from " + std::to_string(bounds.low) + " to " + std::to_string(bounds.high),
                        std::to_string(value));
  }
  static int64_t within(Bounds bounds, const Found& found) {
    const auto value = found.as<int64_t>();
    check_bounds(bounds, found.key, value);
    return value;
  }
  static float above_zero(const Found& found) {
    const auto value = found.as<float>();
    if (!(value > 0) || !std::isfinite(value))
      detail::bad_value(found.key, "a number above 0", detail::value_text(found.value));
    return value;
  }

  const Metadata* meta_;
  std::string prefix_;
};

inline Keys Metadata::keys(std::string name) const { return Keys(*this, std::move(name)); }

}  // namespace tenon::sdk
