#include "json.hpp"

#include <charconv>
#include <limits>
#include <unordered_set>

#include "fault.hpp"

namespace tenon::safetensors {
namespace {

constexpr int kMostDepth = 64;
// A value takes about a hundred bytes of memory and two of text at least.
constexpr size_t kMostValues = size_t{1} << 22;

// Bytes of the well-formed character that begins at `text` (Unicode, table 3-7); 0 when there is none.
size_t utf8_size(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t size = lead >= 0xC2 && lead <= 0xDF   ? 2
                      : lead >= 0xE0 && lead <= 0xEF ? 3
                      : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                     : 0;
  if (size == 0 || text.size() < size) return 0;
  uint8_t low = 0x80, high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  for (size_t i = 1; i < size; ++i, low = 0x80, high = 0xBF)
    if (byte(i) < low || byte(i) > high) return 0;
  return size;
}

void append_utf8(std::string& out, uint32_t c) {
  if (c < 0x80) {
    out += char(c);
  } else if (c < 0x800) {
    out += char(0xC0 | c >> 6), out += char(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += char(0xE0 | c >> 12), out += char(0x80 | (c >> 6 & 0x3F)), out += char(0x80 | (c & 0x3F));
  } else {
    out += char(0xF0 | c >> 18), out += char(0x80 | (c >> 12 & 0x3F));
    out += char(0x80 | (c >> 6 & 0x3F)), out += char(0x80 | (c & 0x3F));
  }
}

}  // namespace

const char* kind_name(JsonValue::Kind kind) {
  static constexpr const char* kNames[] = {"null",     "true or false", "an integer", "a real number",
                                           "a string", "an array",      "an object"};
  return kNames[static_cast<size_t>(kind)];
}

class JsonReader {
 public:
  JsonReader(std::string_view file, std::string_view text, uint64_t begin, JsonDocument& out)
      : file_(file), text_(text), begin_(begin), out_(out) {}

  void run() {
    skip_spaces();
    value(out_.root_, 0);
    skip_spaces();
    if (pos_ != text_.size()) fault("expected the end of the JSON text, found " + here());
  }

 private:
  using Kind = JsonValue::Kind;

  [[noreturn]] void fault(const std::string& message) const { fail_at(file_, "JSON", begin_ + pos_, message); }
  std::string here() const {
    if (pos_ >= text_.size()) return "its end";
    const auto byte = static_cast<unsigned char>(text_[pos_]);
    return byte > 0x20 && byte < 0x7f ? "'" + std::string(1, char(byte)) + "'" : sdk::text("byte %02x", unsigned(byte));
  }
  bool at(char c) const { return pos_ < text_.size() && text_[pos_] == c; }
  void skip_spaces() {
    while (at(' ') || at('\t') || at('\n') || at('\r')) ++pos_;
  }
  void expect(char c) {
    if (!at(c)) fault("expected '" + std::string(1, c) + "', found " + here());
    ++pos_;
  }
  bool take(std::string_view word) {
    if (text_.substr(pos_, word.size()) != word) return false;
    pos_ += word.size();
    return true;
  }

  void value(JsonValue& out, int depth) {
    if (depth > kMostDepth) fault("nested more than " + std::to_string(kMostDepth) + " deep");
    if (++n_values_ > kMostValues) fault("more than " + std::to_string(kMostValues) + " values");
    out.offset = begin_ + pos_;
    if (at('{')) return object(out, depth);
    if (at('[')) return array(out, depth);
    if (at('"')) {
      out.kind = Kind::kString, out.text = string();
    } else if (take("null")) {
      out.kind = Kind::kNull;
    } else if (take("true")) {
      out.kind = Kind::kBool, out.integer = 1;
    } else if (take("false")) {
      out.kind = Kind::kBool;
    } else if (take("NaN")) {
      out.kind = Kind::kReal, out.real = std::numeric_limits<double>::quiet_NaN();
    } else if (take("Infinity")) {
      out.kind = Kind::kReal, out.real = std::numeric_limits<double>::infinity();
    } else if (take("-Infinity")) {
      out.kind = Kind::kReal, out.real = -std::numeric_limits<double>::infinity();
    } else {
      number(out);
    }
  }

  void array(JsonValue& out, int depth) {
    out.kind = Kind::kArray;
    ++pos_;
    skip_spaces();
    if (at(']')) return void(++pos_);
    for (;;) {
      skip_spaces();
      value(out.items.emplace_back(), depth + 1);
      skip_spaces();
      if (at(']')) return void(++pos_);
      expect(',');
    }
  }

  void object(JsonValue& out, int depth) {
    out.kind = Kind::kObject;
    ++pos_;
    skip_spaces();
    if (at('}')) return void(++pos_);
    std::unordered_set<std::string_view> keys;
    for (;;) {
      skip_spaces();
      const size_t key_at = pos_;
      if (!at('"')) fault("expected a key in quotes, found " + here());
      const std::string_view key = string();
      if (!keys.insert(key).second) {
        pos_ = key_at;
        fault("the key " + quoted(key) + " stands in one object twice");
      }
      skip_spaces();
      expect(':');
      skip_spaces();
      value(out.items.emplace_back(), depth + 1);
      out.items.back().key = key;
      skip_spaces();
      if (at('}')) return void(++pos_);
      expect(',');
    }
  }

  std::string_view string() {
    const size_t first = ++pos_;
    while (pos_ < text_.size() && text_[pos_] != '"' && text_[pos_] != '\\') character();
    if (at('"')) return text_.substr(first, pos_++ - first);
    std::string& out = out_.decoded_.emplace_back(text_.substr(first, pos_ - first));
    while (!at('"')) {
      if (pos_ >= text_.size()) fault("a string has no end");
      if (at('\\')) {
        escape(out);
      } else {
        const size_t begin = pos_;
        character();
        out += text_.substr(begin, pos_ - begin);
      }
    }
    ++pos_;
    return out;
  }

  void character() {
    if (static_cast<unsigned char>(text_[pos_]) < 0x20) fault("a control byte in a string");
    const size_t size = utf8_size(text_.substr(pos_, 4));
    if (size == 0) fault("a string is no valid UTF-8");
    pos_ += size;
  }

  void escape(std::string& out) {
    static constexpr std::string_view kLetters = "\"\\/bfnrt", kMeaning = "\"\\/\b\f\n\r\t";
    ++pos_;
    if (pos_ >= text_.size()) fault("a string has no end");
    if (const size_t i = kLetters.find(text_[pos_]); i != kLetters.npos) {
      out += kMeaning[i];
      ++pos_;
      return;
    }
    if (!at('u')) fault("'\\' before " + here() + " means nothing");
    uint32_t code = hex4();
    if (code >= 0xD800 && code < 0xDC00 && take("\\")) {
      if (!at('u')) fault("the first half of a surrogate pair without the second");
      const uint32_t low = hex4();
      if (low < 0xDC00 || low > 0xDFFF) fault("the first half of a surrogate pair without the second");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    if (code >= 0xD800 && code < 0xE000) fault("half of a surrogate pair");
    append_utf8(out, code);
  }

  // Behind "\", at the "u".
  uint32_t hex4() {
    uint32_t code = 0;
    const std::string_view digits = text_.substr(pos_ + 1, 4);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (digits.size() != 4 || error != std::errc() || end != digits.data() + 4)
      fault("'\\u' needs four hexadecimal digits");
    pos_ += 5;
    return code;
  }

  void number(JsonValue& out) {
    const size_t first = pos_;
    const auto digits = [this] {
      const size_t begin = pos_;
      while (pos_ < text_.size() && text_[pos_] >= '0' && text_[pos_] <= '9') ++pos_;
      return pos_ - begin;
    };
    if (at('-')) ++pos_;
    const bool is_zero = at('0');
    const size_t n = digits();
    if (n == 0) {
      pos_ = first;
      fault("expected a value, found " + here());
    }
    if (is_zero && n > 1) fault("a number begins with 0");
    bool is_real = false;
    if (at('.')) {
      is_real = true, ++pos_;
      if (digits() == 0) fault("a number ends behind its point");
    }
    if (at('e') || at('E')) {
      is_real = true, ++pos_;
      if (at('+') || at('-')) ++pos_;
      if (digits() == 0) fault("a number ends in its exponent");
    }
    const char *begin = text_.data() + first, *end = text_.data() + pos_;
    out.kind = Kind::kInteger;
    if (!is_real && std::from_chars(begin, end, out.integer).ec == std::errc()) return;
    if (uint64_t bits = 0; !is_real && *begin != '-' && std::from_chars(begin, end, bits).ec == std::errc()) {
      out.integer = int64_t(bits), out.is_unsigned = true;
      return;
    }
    out.kind = Kind::kReal;
    if (std::from_chars(begin, end, out.real).ec != std::errc()) {
      pos_ = first;
      fault("a number is too large or too small");
    }
  }

  std::string_view file_, text_;
  uint64_t begin_;
  JsonDocument& out_;
  size_t pos_ = 0, n_values_ = 0;
};

JsonDocument::JsonDocument(std::string_view file, std::string_view text, uint64_t begin) {
  JsonReader(file, text, begin, *this).run();
}

}  // namespace tenon::safetensors
