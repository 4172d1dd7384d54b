#include <algorithm>
#include <tenon/chat_template.hpp>

#include "template/border.hpp"
#include "template/lexer.hpp"
#include "template/parser.hpp"
#include "template/symbols.hpp"
#include "text/code_points.hpp"

namespace tenon {
namespace {

constexpr size_t kMaxSource = 4u << 20;

[[noreturn]] void fail_at(std::string_view source, size_t position, const std::string& message) {
  position = std::min(position, source.size());
  const std::string_view before = source.substr(0, position);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t newline = before.rfind('\n');
  const size_t column = position - (newline == std::string_view::npos ? 0 : newline + 1) + 1;
  throw Error(ErrorKind::kFile,
              "chat template, line " + std::to_string(line) + ", column " + std::to_string(column) + ": " + message);
}

void check_encoding(std::string_view source) {
  for (size_t i = 0; i < source.size();) {
    const text::CodePoint point = text::decode_at(source, i);
    if (!point.valid) fail_at(source, i, "the bytes are no UTF-8");
    i += point.size;
  }
}

}  // namespace

ChatTemplate ChatTemplate::parse(std::string_view source) {
  if (source.size() > kMaxSource)
    throw Error(ErrorKind::kFile, "chat template: " + std::to_string(source.size()) + " bytes, but at most " +
                                      std::to_string(kMaxSource) + " are read");
  check_encoding(source);
  const std::string text = templating::normalize_source(source);
  try {
    std::shared_ptr<templating::Program> program = templating::Parser(templating::tokenize(text)).run();
    templating::place_names(*program);
    return ChatTemplate(std::move(program));
  } catch (const templating::SyntaxFault& fault) {
    fail_at(text, fault.position, fault.what());
  }
}

std::string ChatTemplate::render(std::string_view variables, const RenderLimits& limits,
                                 std::optional<std::time_t> now) const {
  templating::Runtime runtime(*program_, limits, now);
  return templating::rendered(
      runtime, templating::read_input(runtime, variables, "chat template variables", templating::Kind::kDict));
}

bool ChatTemplate::takes_content_parts() const {
  static constexpr std::string_view kProbe =
      R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "<probe>"}]}],)"
      R"( "tools": null, "add_generation_prompt": true, "bos_token": "", "eos_token": ""})";
  try {
    const std::string text = render(kProbe);
    return text.find("<probe>") != std::string::npos && text.find("'type'") == std::string::npos &&
           text.find("\"type\"") == std::string::npos;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace tenon
