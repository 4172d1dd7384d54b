#include "config.hpp"

#include <algorithm>

#include "fault.hpp"

namespace tenon::safetensors {
namespace {

using Kind = JsonValue::Kind;

constexpr size_t kLongestJson = size_t{64} << 20, kLongestTemplate = size_t{4} << 20,
                 kLongestTokenizer = size_t{512} << 20;
constexpr size_t kLongestKey = 1024, kMostKeys = 1 << 16;
constexpr std::string_view kTemplateKey = "tokenizer.chat_template";

void check_size(std::string_view name, std::string_view text, size_t most) {
  if (text.size() > most) fail(name, sdk::text("has %zu bytes, expected at most %zu", text.size(), most));
}

}  // namespace

// The template's file comes before the configuration of the tokenizer, whose template it replaces.
const std::vector<std::string>& companion_files() {
  static const std::vector<std::string> names = {"config.json",           "generation_config.json",
                                                 "hf_quant_config.json",  "chat_template.jinja",
                                                 "tokenizer_config.json", "tokenizer.json"};
  return names;
}

void Config::add_file(std::string_view name, std::string_view text) {
  if (name == "config.json") {
    add_json(name, text, "");
  } else if (name == "generation_config.json" || name == "hf_quant_config.json" || name == "tokenizer_config.json") {
    add_json(name, text, std::string(name.substr(0, name.size() - 4)));
  } else if (name == "chat_template.jinja") {
    check_size(name, text, kLongestTemplate);
    add_string(std::string(kTemplateKey), text);
  } else if (name == "tokenizer.json") {
    check_size(name, text, kLongestTokenizer);
    add_string("tokenizer.huggingface.json", text);
  }
}

void Config::add_header(const JsonValue& metadata) {
  for (const JsonValue& item : metadata.items)
    if (!item.key.empty() && item.key.size() <= kLongestKey)
      add_string("safetensors." + std::string(item.key), item.text);
}

void Config::add_json(std::string_view file, std::string_view text, const std::string& prefix) {
  check_size(file, text, kLongestJson);
  const JsonValue& root = documents_.emplace_back(file, text).root();
  if (!root.is(Kind::kObject))
    fail_at(file, "JSON", root.offset, std::string("is ") + kind_name(root.kind) + ", expected an object");
  for (const JsonValue& item : root.items) {
    if (file == "tokenizer_config.json" && item.key == "chat_template") {
      add_chat_template(item);
    } else {
      flatten(file, prefix + std::string(item.key), item);
    }
  }
}

// One text, or several with names, of which "default" is meant when nobody chooses.
void Config::add_chat_template(const JsonValue& config) {
  if (std::any_of(entries_.begin(), entries_.end(), [](const MetaEntry& e) { return e.key == kTemplateKey; })) return;
  if (config.is(Kind::kString)) return add_string(std::string(kTemplateKey), config.text);
  for (const JsonValue& item : config.items) {
    const JsonValue *name = item.find("name"), *text = item.find("template");
    if (name && text && name->text == "default" && text->is(Kind::kString))
      return add_string(std::string(kTemplateKey), text->text);
  }
}

void Config::flatten(std::string_view file, const std::string& key, const JsonValue& value) {
  if (key.size() > kLongestKey) fail_at(file, "key " + quoted(key), value.offset, "is longer than any configuration's");
  if (entries_.size() >= kMostKeys)
    fail_at(file, "key " + quoted(key), value.offset, sdk::text("more than %zu keys", kMostKeys));
  tenon_value out = {};
  out.struct_size = sizeof out;
  switch (value.kind) {
    case Kind::kObject:
      for (const JsonValue& item : value.items) flatten(file, key + "." + std::string(item.key), item);
      return;
    case Kind::kArray:
      return add_array(key, value);
    case Kind::kString:
      return add_string(key, value.text);
    case Kind::kNull:
      return;
    case Kind::kBool:
      out.type = TENON_VALUE_BOOL, out.integer = value.integer;
      break;
    case Kind::kInteger:
      out.type = value.is_unsigned ? TENON_VALUE_U64 : TENON_VALUE_I64, out.integer = value.integer;
      break;
    case Kind::kReal:
      out.type = TENON_VALUE_F64, out.real = value.real;
      break;
  }
  entries_.push_back({key, out});
}

void Config::add_array(const std::string& key, const JsonValue& value) {
  const auto all = [&value](auto&& test) { return std::all_of(value.items.begin(), value.items.end(), test); };
  const auto is_small = [](const JsonValue& v) { return v.is(Kind::kInteger) && !v.is_unsigned; };
  tenon_value out = {};
  out.struct_size = sizeof out, out.type = TENON_VALUE_ARRAY, out.count = value.items.size();
  if (all(is_small)) {
    auto& numbers = integers_.emplace_back();
    for (const JsonValue& item : value.items) numbers.push_back(item.integer);
    out.element = TENON_VALUE_I64, out.data = numbers.data();
  } else if (all([&](const JsonValue& v) { return is_small(v) || v.is(Kind::kReal); })) {
    auto& numbers = reals_.emplace_back();
    for (const JsonValue& item : value.items)
      numbers.push_back(item.is(Kind::kReal) ? item.real : double(item.integer));
    out.element = TENON_VALUE_F64, out.data = numbers.data();
  } else if (all([](const JsonValue& v) { return v.is(Kind::kBool); })) {
    auto& bits = bools_.emplace_back();
    for (const JsonValue& item : value.items) bits.push_back(uint8_t(item.integer));
    out.element = TENON_VALUE_BOOL, out.data = bits.data();
  } else if (all([](const JsonValue& v) { return v.is(Kind::kString); })) {
    auto& texts = strings_.emplace_back();
    for (const JsonValue& item : value.items) texts.push_back(sdk::to_str(item.text));
    out.element = TENON_VALUE_STRING, out.data = texts.data();
  } else {
    return;
  }
  entries_.push_back({key, out});
}

void Config::add_string(std::string key, std::string_view text) {
  tenon_value out = {};
  out.struct_size = sizeof out, out.type = TENON_VALUE_STRING, out.string = sdk::to_str(text);
  entries_.push_back({std::move(key), out});
}

}  // namespace tenon::safetensors
