#include "prompt.hpp"

#include <nlohmann/json.hpp>

namespace tenon::launcher {

using nlohmann::ordered_json;

std::optional<ChatTemplate> load_template(Engine& engine, const std::string& path) {
  const std::string source = engine.load_chat_template(path);
  if (source.empty()) return std::nullopt;
  try {
    return ChatTemplate::parse(source);
  } catch (const Error& error) {
    throw Error(error.kind(), path + ": " + error.what());
  }
}

std::string template_arguments(const Arguments& arguments) {
  const std::string text = arguments.text("template-args");
  if (text.empty()) return text;
  const ordered_json value = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!value.is_object())
    throw Error(ErrorKind::kUsage,
                "--template-args: expected a JSON object such as {\"enable_thinking\": false}, found '" + text + "'");
  return text;
}

Conversation read_conversation(const std::string& path, const std::string& more) {
  const std::string text = read_file(path);
  ordered_json value;
  try {
    value = ordered_json::parse(text);
  } catch (const ordered_json::exception& error) {
    throw Error(ErrorKind::kFile, path + ": no valid JSON: " + error.what());
  }
  Conversation conversation;
  ordered_json variables = ordered_json::object();
  if (value.is_array()) {
    conversation.messages = dump(value);
  } else {
    if (!value.is_object() || !value.contains("messages"))
      throw Error(ErrorKind::kFile, path + ": expected a list of messages, or an object with \"messages\"");
    for (const auto& [name, item] : value.items()) {
      if (name == "messages") {
        conversation.messages = dump(item);
      } else if (name == "tools") {
        if (!item.is_null()) conversation.tools = dump(item);
      } else if (name == "add_generation_prompt") {
        if (!item.is_boolean()) throw Error(ErrorKind::kFile, path + ": add_generation_prompt: expected true or false");
        conversation.add_generation_prompt = item.get<bool>();
      } else {
        variables[name] = item;
      }
    }
  }
  if (!more.empty()) variables.update(ordered_json::parse(more));
  if (!variables.empty()) conversation.variables = dump(variables);
  return conversation;
}

std::string render(const ChatTemplate& chat_template, const Conversation& conversation, const Tokenizer* tokenizer) {
  const auto text_of = [&](std::optional<int32_t> id) -> std::optional<std::string> {
    if (!id) return std::nullopt;
    return std::string(tokenizer->token(*id));
  };
  ChatRequest request;
  request.messages = conversation.messages;
  request.tools = conversation.tools;
  request.variables = conversation.variables;
  request.add_generation_prompt = conversation.add_generation_prompt;
  request.bos_token = tokenizer ? text_of(tokenizer->bos()) : "";
  request.eos_token = tokenizer ? text_of(tokenizer->eos()) : "";
  return render_chat(chat_template, request);
}

std::vector<int32_t> encode_rendered(const Tokenizer& tokenizer, const std::string& text) {
  EncodeOptions options;
  options.add_bos = !(tokenizer.bos() && text.starts_with(tokenizer.token(*tokenizer.bos())));
  std::vector<int32_t> ids = tokenizer.encode(text, options);
  if (ids.empty()) throw Error(ErrorKind::kUsage, "the chat template makes an empty prompt of this conversation");
  return ids;
}

std::string dump(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace tenon::launcher
