// dialogue.hpp: a conversation as messages and as tokens.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "generation.hpp"
#include "prompt.hpp"

namespace tenon::launcher {

// What the next answer begins from.
struct Prompt {
  std::string text;
  std::vector<int32_t> ids;
  int64_t static_prefix = 0;          // tokens that every conversation with this system message begins with
  std::vector<int64_t> message_ends;  // tokens up to the end of the last message, where the next prompt may part
};

// Messages of one conversation after the other. What the model said goes into the next prompt as the tokens that it
// said it in, wherever the template repeats it word for word: a text can be spelled in tokens in many ways, and another
// one would part from what is cached. One thread.
class Dialogue {
 public:
  // `variables`: of the template, a JSON object or "".
  Dialogue(const Tokenizer& tokenizer, const ChatTemplate& chat_template, std::string variables,
           std::optional<std::string> system);

  void clear();
  void ask(const std::string& text);
  // Throws what the template and its engine throw.
  Prompt prompt() const;
  void answered(const Prompt& prompt, const Generation& generation);
  void drop_question();
  bool drop_answer();  // false: the last message is no answer

 private:
  std::string rendered(const nlohmann::ordered_json& messages, bool add_generation_prompt) const;
  std::vector<int32_t> encoded(const std::string& text) const;

  // A prompt and its answer.
  struct Said {
    std::string text;
    std::vector<int32_t> ids;
  };
  const Tokenizer& tokenizer_;
  const ChatTemplate& chat_template_;
  std::string variables_;
  std::optional<std::string> system_;
  nlohmann::ordered_json messages_;
  std::vector<Said> said_;  // one for each answer
};

}  // namespace tenon::launcher
