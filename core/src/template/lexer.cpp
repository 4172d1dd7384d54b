#include "template/lexer.hpp"

#include <algorithm>
#include <charconv>

#include "template/fault.hpp"
#include "template/numbers.hpp"
#include "template/unicode.hpp"
#include "text/code_points.hpp"

namespace tenon::templating {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (position_ < source_.size()) text_and_tag();
    emit(TokenKind::kEnd, position_);
    return std::move(tokens_);
  }

 private:
  char at(size_t position) const { return position < source_.size() ? source_[position] : '\0'; }
  bool starts(size_t position, std::string_view what) const {
    return position <= source_.size() && source_.substr(position).starts_with(what);
  }

  // Tokens come in the order of their positions: lines are counted on the way.
  Token& emit(TokenKind kind, size_t position) {
    line_ += static_cast<uint32_t>(
        std::count(source_.begin() + counted_, source_.begin() + static_cast<std::ptrdiff_t>(position), '\n'));
    counted_ = static_cast<std::ptrdiff_t>(position);
    Token& token = tokens_.emplace_back();
    token.kind = kind;
    token.line = line_;
    token.position = position;
    return token;
  }

  // Text up to `end`, where a tag with the whitespace mark `mark` begins.
  void emit_data(size_t begin, size_t end, char mark, bool strips_blanks) {
    std::string_view text = source_.substr(begin, end - begin);
    if (mark == '-') {
      text = strip_end(text);
    } else if (mark != '+' && strips_blanks) {
      const size_t newline = text.rfind('\n');
      const size_t line = newline == std::string_view::npos ? 0 : newline + 1;
      if ((line > 0 || line_start_) && strip_begin(text.substr(line)).empty()) text = text.substr(0, line);
    }
    if (!text.empty()) emit(TokenKind::kData, begin).text = text;
  }

  // Behind the end of a tag: after `-` goes all white space, else after blocks and comments one newline.
  void end_tag(size_t position, char mark, bool trims) {
    const size_t end = position;
    if (mark == '-') {
      position = source_.size() - strip_begin(source_.substr(position)).size();
    } else if (mark != '+' && trims && at(position) == '\n') {
      ++position;
    }
    line_start_ = position > end && source_[position - 1] == '\n';
    position_ = position;
  }

  void text_and_tag() {
    size_t tag = position_;
    while (true) {
      tag = source_.find('{', tag);
      if (tag == std::string_view::npos) {
        emit(TokenKind::kData, position_).text = source_.substr(position_);
        position_ = source_.size();
        return;
      }
      const char kind = at(tag + 1);
      if (kind == '{' || kind == '%' || kind == '#') break;
      ++tag;
    }
    const char kind = at(tag + 1);
    size_t inside = tag + 2;
    const char mark = at(inside) == '-' || at(inside) == '+' ? at(inside) : '\0';
    if (mark) ++inside;
    emit_data(position_, tag, mark, kind != '{');
    if (kind == '#') {
      comment(tag, inside);
    } else if (const size_t raw = kind == '%' ? raw_begin(inside) : 0) {
      raw_block(tag, raw);
    } else {
      emit(kind == '{' ? TokenKind::kVariableBegin : TokenKind::kBlockBegin, tag);
      position_ = inside;
      tag_tokens(tag, kind == '{');
    }
  }

  void comment(size_t tag, size_t inside) {
    const size_t end = source_.find("#}", inside);
    if (end == std::string_view::npos) throw SyntaxFault(tag, "a comment is not closed with #}");
    end_tag(end + 2, end > inside ? mark_before(end) : '\0', true);
  }

  char mark_before(size_t position) const {
    const char c = source_[position - 1];
    return c == '-' || c == '+' ? c : '\0';
  }

  size_t skip_space(size_t position) const { return source_.size() - strip_begin(source_.substr(position)).size(); }

  // The position behind the opening tag of a raw block whose inside begins here; 0 if this is none.
  size_t raw_begin(size_t inside) const {
    size_t position = skip_space(inside);
    if (!starts(position, "raw")) return 0;
    position = skip_space(position + 3);
    if (starts(position, "-%}")) return skip_space(position + 3);
    return starts(position, "%}") ? position + 2 : 0;
  }

  void raw_block(size_t tag, size_t begin) {
    line_start_ = source_[begin - 1] == '\n';
    for (size_t end = source_.find("{%", begin); end != std::string_view::npos; end = source_.find("{%", end + 1)) {
      size_t position = end + 2;
      const char mark = at(position) == '-' || at(position) == '+' ? at(position) : '\0';
      position = skip_space(position + (mark ? 1 : 0));
      if (!starts(position, "endraw")) continue;
      position = skip_space(position + 6);
      const char end_mark = at(position) == '-' || at(position) == '+' ? at(position) : '\0';
      if (end_mark) ++position;
      if (!starts(position, "%}")) continue;
      emit_data(begin, end, mark, true);
      end_tag(position + 2, end_mark, true);
      return;
    }
    throw SyntaxFault(tag, "a raw block is not closed with {% endraw %}");
  }

  // Tokens of an opened tag, up to and with its end.
  void tag_tokens(size_t tag, bool is_variable) {
    std::vector<char> open;
    while (true) {
      if (position_ >= source_.size())
        throw SyntaxFault(tag, is_variable ? "an expression is not closed with }}" : "a block is not closed with %}");
      if (open.empty() && tag_end(is_variable)) return;
      const size_t space = skip_space(position_);
      if (space > position_) {
        position_ = space;
        continue;
      }
      if (!number() && !name() && !string()) operator_token(open);
    }
  }

  bool tag_end(bool is_variable) {
    const char c = at(position_);
    const size_t marked = c == '-' || (c == '+' && !is_variable) ? 1 : 0;
    if (!starts(position_ + marked, is_variable ? "}}" : "%}")) return false;
    emit(is_variable ? TokenKind::kVariableEnd : TokenKind::kBlockEnd, position_);
    end_tag(position_ + marked + 2, marked ? c : '\0', !is_variable);
    return true;
  }

  // Behind the digits that begin at `position`, single underscores between them allowed; `position` if there are none.
  template <typename IsDigit>
  size_t digits(size_t position, IsDigit is) const {
    if (!is(at(position))) return position;
    while (is(at(position)) || (at(position) == '_' && is(at(position + 1)))) ++position;
    return position;
  }

  std::string without_underscores(size_t begin, size_t end) const {
    std::string text(source_.substr(begin, end - begin));
    std::erase(text, '_');
    return text;
  }

  bool number() {
    const size_t begin = position_;
    if (!is_digit(at(begin))) return false;
    size_t end = digits(begin, is_digit);
    if (begin == 0 || at(begin - 1) != '.') {
      size_t real = end;
      if (at(real) == '.') {
        const size_t fraction = digits(real + 1, is_digit);
        real = fraction > real + 1 ? fraction : end;
      }
      if (at(real) == 'e' || at(real) == 'E') {
        const size_t sign = at(real + 1) == '+' || at(real + 1) == '-' ? 1 : 0;
        const size_t exponent = digits(real + 1 + sign, is_digit);
        if (exponent > real + 1 + sign) real = exponent;
      }
      if (real > end) {
        emit(TokenKind::kFloat, begin).number = parse_double(without_underscores(begin, real));
        position_ = real;
        return true;
      }
    }
    if (prefixed_integer(begin)) return true;
    if (at(begin) == '0') {  // 0, 00, 0_0: a digit that follows begins another number
      end = digits(begin, [](char c) { return c == '0'; });
      emit(TokenKind::kInteger, begin).text = "0";
    } else {
      emit(TokenKind::kInteger, begin).text = without_underscores(begin, end);
    }
    position_ = end;
    return true;
  }

  // 0x1F, 0o17, 0b11; an underscore may follow the letter.
  bool prefixed_integer(size_t begin) {
    if (at(begin) != '0') return false;
    const char letter = static_cast<char>(at(begin + 1) | 0x20);
    const int base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (base == 0) return false;
    const auto is = [base](char c) {
      const int value = is_digit(c) ? c - '0' : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : 99;
      return value < base;
    };
    const size_t first = begin + 2 + (at(begin + 2) == '_' ? 1 : 0);
    const size_t end = digits(first, is);
    if (end == first) return false;
    const std::string text = without_underscores(first, end);
    uint64_t value = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (parsed.ec != std::errc()) throw SyntaxFault(begin, "a number needs more than 64 bits");
    emit(TokenKind::kInteger, begin).text = std::to_string(value);
    position_ = end;
    return true;
  }

  bool name() {
    size_t end = position_;
    while (end < source_.size()) {
      const text::CodePoint c = text::decode_at(source_, end);
      const bool belongs =
          c.value == '_' ||
          (text::classes_of(c.value) & (text::kLetter | text::kMark | (end > position_ ? text::kNumber : 0))) != 0;
      if (!belongs) break;
      end += c.size;
    }
    if (end == position_) return false;
    emit(TokenKind::kName, position_).text = source_.substr(position_, end - position_);
    position_ = end;
    return true;
  }

  bool string() {
    const char quote = at(position_);
    if (quote != '\'' && quote != '"') return false;
    size_t end = position_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) throw SyntaxFault(position_, "a string is not closed");
    std::string value = unescape(position_ + 1, end);
    emit(TokenKind::kString, position_).text = std::move(value);
    position_ = end + 1;
    return true;
  }

  std::string unescape(size_t begin, size_t end) const {
    std::string value;
    for (size_t i = begin; i < end; ++i) {
      if (source_[i] != '\\') {
        value += source_[i];
        continue;
      }
      const char c = at(++i);
      switch (c) {
        case '\n':
          break;
        case '\\':
        case '\'':
        case '"':
          value += c;
          break;
        case 'a':
          value += '\a';
          break;
        case 'b':
          value += '\b';
          break;
        case 'f':
          value += '\f';
          break;
        case 'n':
          value += '\n';
          break;
        case 'r':
          value += '\r';
          break;
        case 't':
          value += '\t';
          break;
        case 'v':
          value += '\v';
          break;
        case 'x':
          i += hex_escape(i, 2, end, value);
          break;
        case 'u':
          i += hex_escape(i, 4, end, value);
          break;
        case 'U':
          i += hex_escape(i, 8, end, value);
          break;
        case 'N':
          throw SyntaxFault(i - 1, "the escape \\N{…} is not supported");
        default:
          if (c >= '0' && c <= '7') {
            uint32_t code = 0;
            size_t n = 0;
            while (n < 3 && i + n < end && source_[i + n] >= '0' && source_[i + n] <= '7')
              code = code * 8 + static_cast<uint32_t>(source_[i + n++] - '0');
            append_code_point(value, code);
            i += n - 1;
          } else if (static_cast<unsigned char>(c) >= 0x80) {
            // Python turns such a character into an escape first, whose backslash this one then protects.
            const text::CodePoint point = text::decode_at(source_, i);
            value += python_escape(point.value);
            i += point.size - 1;
          } else {
            value += '\\';
            value += c;
          }
      }
    }
    return value;
  }

  // Appends the character of the `n` hexadecimal digits behind position `i`; answers n.
  size_t hex_escape(size_t i, size_t n, size_t end, std::string& value) const {
    uint32_t code = 0;
    const char* first = source_.data() + i + 1;
    const auto parsed =
        i + 1 + n <= end ? std::from_chars(first, first + n, code, 16) : std::from_chars_result{first, {}};
    if (parsed.ptr != first + n)
      throw SyntaxFault(i - 1, "an escape needs " + std::to_string(n) + " hexadecimal digits");
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) throw SyntaxFault(i - 1, "an escape names no character");
    append_code_point(value, code);
    return n;
  }

  void operator_token(std::vector<char>& open) {
    static constexpr std::string_view kDouble[] = {"//", "**", "==", "!=", ">=", "<="};
    static constexpr std::string_view kSingle = "+-/*%~[](){}><=.:|,;";
    size_t size = kSingle.find(at(position_)) != std::string_view::npos ? 1 : 0;
    for (std::string_view name : kDouble)
      if (starts(position_, name)) size = 2;
    if (size == 0) {
      const text::CodePoint c = text::decode_at(source_, position_);
      throw SyntaxFault(position_, "unexpected character '" + std::string(source_.substr(position_, c.size)) + "'");
    }
    const char c = source_[position_];
    if (size == 1 && (c == '(' || c == '[' || c == '{')) open.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    if (size == 1 && (c == ')' || c == ']' || c == '}')) {
      if (open.empty()) throw SyntaxFault(position_, std::string("unexpected '") + c + "'");
      if (open.back() != c)
        throw SyntaxFault(position_, std::string("unexpected '") + c + "', expected '" + open.back() + "'");
      open.pop_back();
    }
    emit(TokenKind::kOperator, position_).text = source_.substr(position_, size);
    position_ += size;
  }

  std::string_view source_;
  size_t position_ = 0;
  std::ptrdiff_t counted_ = 0;  // lines are counted up to here
  uint32_t line_ = 1;
  bool line_start_ = true;  // what stands before position_ ended with a newline that belongs to a tag
  std::vector<Token> tokens_;
};

}  // namespace

std::string normalize_source(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      text += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      text += source[i];
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace tenon::templating
