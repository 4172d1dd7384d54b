#include "prompt.hpp"

#include <nlohmann/json.hpp>

namespace tenon::launcher {

using nlohmann::ordered_json;

namespace {

constexpr int kMostDepth = 400;  // the engine's own limit; far below what the writer of JSON, which recurses, can take

// Throws ordered_json::exception.
ordered_json parse_json(const std::string& text) {
  return ordered_json::parse(text, [](int depth, ordered_json::parse_event_t, ordered_json&) {
    if (depth > kMostDepth)
      throw ordered_json::other_error::create(501, "nested deeper than " + std::to_string(kMostDepth) + " levels",
                                              nullptr);
    return true;
  });
}

}  // namespace

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
  ordered_json value;
  try {
    value = parse_json(text);
  } catch (const ordered_json::exception&) {
    value = nullptr;
  }
  if (!value.is_object()) {
    constexpr size_t kShown = 60;
    throw Error(ErrorKind::kUsage,
                "--template-args: expected a JSON object such as {\"enable_thinking\": false}, found '" +
                    (text.size() > kShown ? text.substr(0, kShown) + " …" : text) + "'");
  }
  if (value.contains("messages"))
    throw Error(ErrorKind::kUsage, "--template-args: messages are the conversation itself, and cannot be given here");
  return text;
}

Conversation read_conversation(const std::string& path, const std::string& more) {
  const std::string text = read_file(path);
  ordered_json value;
  try {
    value = parse_json(text);
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
  if (!more.empty()) variables.update(parse_json(more));
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
