// prompt.hpp: conversations to prompts, with the chat template of a model file.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <tenon/chat_template.hpp>
#include <vector>

#include "common.hpp"

namespace tenon::launcher {

// A conversation and what goes with it.
struct Conversation {
  std::string messages = "[]";  // a JSON list
  std::string tools;            // a JSON list; "" = none
  std::string variables;        // a JSON object; "" = none
  bool add_generation_prompt = true;
};

// The template of a model file; none if the file has none. Throws Error(kFile) naming the file for one that is broken.
std::optional<ChatTemplate> load_template(Engine& engine, const std::string& path);

// --template-args, checked to be a JSON object; "" when not given.
std::string template_arguments(const Arguments& arguments);

// A list of messages, or {"messages": …, "tools": …, "add_generation_prompt": …} where further members are variables of
// the template. `more`: variables that win over those of the file. Throws Error naming the file.
Conversation read_conversation(const std::string& path, const std::string& more);

// The prompt's text. Without a tokenizer the texts of the special tokens are taken to be empty: for an estimate.
std::string render(const ChatTemplate& chat_template, const Conversation& conversation, const Tokenizer* tokenizer);

// Tokens of a rendered prompt. Most templates write the beginning-of-text token themselves: there is only one in any
// case.
std::vector<int32_t> encode_rendered(const Tokenizer& tokenizer, const std::string& text);

// A JSON text.
std::string dump(const nlohmann::ordered_json& value);

}  // namespace tenon::launcher
