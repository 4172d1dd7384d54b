// lexer.hpp: template text to tokens, with the whitespace rules of trim_blocks and lstrip_blocks already applied.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::templating {

enum class TokenKind : uint8_t {
  kData,           // text: text outside tags
  kVariableBegin,  // {{
  kVariableEnd,
  kBlockBegin,  // {%
  kBlockEnd,
  kName,      // text
  kString,    // text: the value, escapes resolved
  kInteger,   // text: decimal digits
  kFloat,     // number
  kOperator,  // text: the operator
  kEnd
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  uint32_t line = 1;
  size_t position = 0;  // in bytes
  std::string text;
  double number = 0;

  bool is_operator(std::string_view name) const { return kind == TokenKind::kOperator && text == name; }
  bool is_name(std::string_view name) const { return kind == TokenKind::kName && text == name; }
};

// "\r\n" and "\r" become "\n", and one newline at the end goes.
std::string normalize_source(std::string_view source);

// `source` is normalised. The last token is kEnd. Throws SyntaxFault.
std::vector<Token> tokenize(std::string_view source);

}  // namespace tenon::templating
