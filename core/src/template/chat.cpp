// Conversations in the form of the OpenAI chat interface, made ready for templates.
#include <tenon/chat_template.hpp>

#include "template/border.hpp"

namespace tenon {

using templating::Dict;
using templating::Kind;
using templating::Runtime;
using templating::Sequence;
using templating::Value;

namespace {

[[noreturn]] void fail_message(size_t index, const std::string& message) {
  throw Error(ErrorKind::kUsage, "messages[" + std::to_string(index) + "]" + message);
}

// {"arguments": "{\"a\": 1}"} becomes {"arguments": {"a": 1}}. Text that is no JSON object stays.
void read_arguments(Runtime& runtime, const Value& call) {
  if (!call.is(Kind::kDict)) return;
  if (const Value* function = dict_find(call.as<Dict>(), "function")) read_arguments(runtime, Value(*function));
  const Value* arguments = dict_find(call.as<Dict>(), "arguments");
  if (!arguments || !arguments->is_text()) return;
  try {
    Value read = from_json(runtime, text_of(*arguments));
    if (read.is(Kind::kDict)) dict_set(runtime, call.as<Dict>(), "arguments", std::move(read));
  } catch (const templating::Fault& fault) {
    if (fault.kind == templating::FaultKind::kLimit) throw;
  }
}

// The texts of the parts, joined with newlines.
std::string joined_parts(const Value& parts, size_t index) {
  std::string text;
  bool is_first = true;
  for (const Value& part : parts.as<Sequence>().items) {
    const Value* piece = part.is(Kind::kDict) ? dict_find(part.as<Dict>(), "text") : nullptr;
    if (part.is_text()) piece = &part;
    if (!piece || !piece->is_text())
      fail_message(index, ".content: this model's chat template takes only text, but a part is something else");
    if (!is_first) text += '\n';
    is_first = false;
    text += text_of(*piece);
  }
  return text;
}

void prepare(Runtime& runtime, const Value& message, size_t index, const ChatTemplate& chat_template,
             std::optional<bool>& takes_parts) {
  if (!message.is(Kind::kDict)) fail_message(index, ": expected an object, found " + std::string(type_name(message)));
  Dict& fields = message.as<Dict>();
  const Value* role = dict_find(fields, "role");
  if (!role || !role->is_text()) fail_message(index, ".role: expected a text such as \"user\"");
  bool has_calls = false;
  if (const Value* calls = dict_find(fields, "tool_calls"); calls && calls->is(Kind::kList)) {
    has_calls = true;
    for (const Value& call : calls->as<Sequence>().items) read_arguments(runtime, call);
  }
  const Value* content = dict_find(fields, "content");
  if (!content) return;
  if (content->is_none() && has_calls) return dict_set(runtime, fields, "content", runtime.text(""));
  if (!content->is(Kind::kList)) return;
  if (!takes_parts) takes_parts = chat_template.takes_content_parts();
  if (!*takes_parts) dict_set(runtime, fields, "content", runtime.text(joined_parts(Value(*content), index)));
}

}  // namespace

std::string render_chat(const ChatTemplate& chat_template, const ChatRequest& request, const RenderLimits& limits,
                        std::optional<std::time_t> now) {
  Runtime runtime(*chat_template.program_, limits, now);
  const Value variables = runtime.dict();
  Dict& names = variables.as<Dict>();
  try {
    const Value messages = read_input(runtime, request.messages, "messages", Kind::kList);
    std::optional<bool> takes_parts;
    const auto& items = messages.as<Sequence>().items;
    for (size_t i = 0; i < items.size(); ++i) prepare(runtime, items[i], i, chat_template, takes_parts);
    dict_set(runtime, names, "messages", messages);
    dict_set(runtime, names, "tools",
             request.tools.empty() ? Value::none() : read_input(runtime, request.tools, "tools", Kind::kList));
    dict_set(runtime, names, "documents", Value::none());
    dict_set(runtime, names, "add_generation_prompt", Value::boolean(request.add_generation_prompt));
    if (request.bos_token) dict_set(runtime, names, "bos_token", runtime.text(*request.bos_token));
    if (request.eos_token) dict_set(runtime, names, "eos_token", runtime.text(*request.eos_token));
    if (!request.variables.empty()) {
      const Value more = read_input(runtime, request.variables, "variables", Kind::kDict);
      for (const auto& [name, value] : more.as<Dict>().entries) dict_set(runtime, names, name, value);
    }
  } catch (const templating::Fault& fault) {
    throw_error(runtime, fault);
  }
  return rendered(runtime, variables);
}

}  // namespace tenon
