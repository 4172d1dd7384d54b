// Values as JSON, as Python's json.dumps() writes it.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "template/numbers.hpp"
#include "template/operations.hpp"
#include "template/runtime.hpp"
#include "text/code_points.hpp"

namespace tenon::templating {
namespace {

class Writer {
 public:
  Writer(Runtime& runtime, const JsonStyle& style) : runtime_(runtime), style_(style) {}

  void write(const Value& value) {
    runtime_.step();
    switch (value.kind()) {
      case Kind::kNone:
        out_ += "null";
        return;
      case Kind::kBool:
        out_ += value.as_bool() ? "true" : "false";
        return;
      case Kind::kInteger:
        out_ += std::to_string(value.as_integer());
        return;
      case Kind::kBigInteger:
        out_ += value.as<BigNumber>().digits;
        return;
      case Kind::kFloat:
        out_ += real(value.as_real());
        return;
      case Kind::kText:
        return write_text(text_of(value));
      case Kind::kList:
      case Kind::kTuple:
        return write_items(value.as<Sequence>().items);
      case Kind::kDict:
        return write_entries(value.as<Dict>());
      default:
        throw Fault("Object of type " + std::string(type_name(value)) + " is not JSON serializable");
    }
  }

  std::string out_;

 private:
  static std::string real(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return float_text(value);
  }

  void new_line() {
    if (!style_.pretty) return;
    out_ += '\n';
    for (size_t i = 0; i < level_; ++i) out_ += style_.indent;
    runtime_.check_size(out_.size());
  }

  template <typename Items, typename WriteItem>
  void write_all(const Items& items, char open, char close, WriteItem write_item) {
    runtime_.check_stack();
    out_ += open;
    if (!items.empty()) {
      ++level_;
      bool first = true;
      for (const auto& item : items) {
        if (!first) out_ += style_.item_separator;
        first = false;
        new_line();
        write_item(item);
      }
      --level_;
      new_line();
    }
    out_ += close;
  }

  void write_items(const Values& items) {
    write_all(items, '[', ']', [&](const Value& item) { write(item); });
  }

  void write_entries(const Dict& dict) {
    const auto write_entry = [&](const std::pair<Value, Value>& entry) {
      write_key(entry.first);
      out_ += style_.key_separator;
      write(entry.second);
    };
    if (!style_.sort_keys) return write_all(dict.entries, '{', '}', write_entry);
    auto entries = dict.entries;
    std::stable_sort(entries.begin(), entries.end(), [&](const auto& left, const auto& right) {
      return compare(runtime_, left.first, right.first) == Order::kLess;
    });
    write_all(entries, '{', '}', write_entry);
  }

  void write_key(const Value& key) {
    switch (key.kind()) {
      case Kind::kText:
        return write_text(text_of(key));
      case Kind::kNone:
        return write_text("null");
      case Kind::kBool:
        return write_text(key.as_bool() ? "true" : "false");
      case Kind::kInteger:
        return write_text(std::to_string(key.as_integer()));
      case Kind::kBigInteger:
        return write_text(key.as<BigNumber>().digits);
      case Kind::kFloat:
        return write_text(real(key.as_real()));
      default:
        throw Fault("keys must be str, int, float, bool or None, not " + std::string(type_name(key)));
    }
  }

  void escape(char32_t unit) {
    char buffer[16];
    std::snprintf(buffer, sizeof(buffer), "\\u%04x", static_cast<unsigned>(unit));
    out_ += buffer;
  }

  void write_text(std::string_view text) {
    runtime_.check_size(out_.size() + text.size());
    runtime_.step_text(text.size());
    out_ += '"';
    for (size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      switch (c) {
        case '"':
          out_ += "\\\"";
          continue;
        case '\\':
          out_ += "\\\\";
          continue;
        case '\n':
          out_ += "\\n";
          continue;
        case '\r':
          out_ += "\\r";
          continue;
        case '\t':
          out_ += "\\t";
          continue;
        case '\f':
          out_ += "\\f";
          continue;
        case '\b':
          out_ += "\\b";
          continue;
        default:
          break;
      }
      if (static_cast<unsigned char>(c) < 0x20 || (style_.ensure_ascii && c == 0x7F)) {
        escape(static_cast<unsigned char>(c));
      } else if (style_.ensure_ascii && static_cast<unsigned char>(c) >= 0x80) {
        const text::CodePoint point = text::decode_at(text, i);
        if (point.value >= 0x10000) {
          escape(0xD800 + ((point.value - 0x10000) >> 10));
          escape(0xDC00 + ((point.value - 0x10000) & 0x3FF));
        } else {
          escape(point.value);
        }
        i += point.size - 1;
      } else {
        out_ += c;
      }
    }
    out_ += '"';
  }

  Runtime& runtime_;
  const JsonStyle& style_;
  size_t level_ = 0;
};

}  // namespace

std::string to_json(Runtime& runtime, const Value& value, const JsonStyle& style) {
  Writer writer(runtime, style);
  writer.write(value);
  return std::move(writer.out_);
}

}  // namespace tenon::templating
