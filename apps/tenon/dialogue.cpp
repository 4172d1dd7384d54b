#include "dialogue.hpp"

#include <algorithm>

namespace tenon::launcher {
namespace {

using nlohmann::ordered_json;

size_t common_length(const std::string& a, const std::string& b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

// How many of the tokens of `text` lie within its first `bytes`.
int64_t tokens_within(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, const std::string& text,
                      size_t bytes) {
  size_t at = 0, n = 0;
  if (!ids.empty() && tokenizer.bos() == ids.front() && !text.starts_with(tokenizer.token(ids.front()))) n = 1;
  for (; n < ids.size(); ++n) {
    at += tokenizer.piece(ids[n], /*show_control=*/true).size();
    if (at > bytes) break;
  }
  return static_cast<int64_t>(n);
}

}  // namespace

Dialogue::Dialogue(const Tokenizer& tokenizer, const ChatTemplate& chat_template, std::string variables,
                   std::optional<std::string> system)
    : tokenizer_(tokenizer),
      chat_template_(chat_template),
      variables_(std::move(variables)),
      system_(std::move(system)) {
  clear();
}

void Dialogue::clear() {
  messages_ = ordered_json::array();
  if (system_) messages_.push_back({{"role", "system"}, {"content", *system_}});
  said_.clear();
}

void Dialogue::ask(const std::string& text) { messages_.push_back({{"role", "user"}, {"content", text}}); }

std::string Dialogue::rendered(const ordered_json& messages, bool add_generation_prompt) const {
  Conversation conversation;
  conversation.messages = dump(messages);
  conversation.variables = variables_;
  conversation.add_generation_prompt = add_generation_prompt;
  return render(chat_template_, conversation, &tokenizer_);
}

Prompt Dialogue::prompt() const {
  Prompt prompt;
  prompt.text = rendered(messages_, true);
  prompt.ids = encoded(prompt.text);
  const auto shared = [&](const ordered_json& messages, bool add_generation_prompt) -> int64_t {
    try {
      const std::string other = rendered(messages, add_generation_prompt);
      return tokens_within(tokenizer_, prompt.ids, prompt.text, common_length(prompt.text, other));
    } catch (const Error&) {
      return 0;  // only a hint, and not every template takes every conversation
    }
  };
  prompt.message_ends = {shared(messages_, false)};
  ordered_json another = ordered_json::array();
  if (system_) another.push_back(messages_.front());
  another.push_back({{"role", "user"}, {"content", "\x7f"}});
  prompt.static_prefix = shared(another, true);
  return prompt;
}

// The longest of the prompts and answers before that the text begins with keeps its tokens. What follows must begin
// with a special token: those stand for themselves, whatever is around them.
std::vector<int32_t> Dialogue::encoded(const std::string& text) const {
  for (auto said = said_.rbegin(); said != said_.rend(); ++said) {
    if (!text.starts_with(said->text) || text.size() == said->text.size()) continue;
    const std::string rest = text.substr(said->text.size());
    EncodeOptions options;
    options.add_bos = false;
    const std::vector<int32_t> more = tokenizer_.encode(rest, options);
    if (more.empty()) continue;
    const TokenType type = tokenizer_.type(more.front());
    if (type != TokenType::kControl && type != TokenType::kUserDefined) continue;
    if (!rest.starts_with(tokenizer_.token(more.front()))) continue;
    std::vector<int32_t> ids = said->ids;
    ids.insert(ids.end(), more.begin(), more.end());
    return ids;
  }
  return encode_rendered(tokenizer_, text);
}

void Dialogue::answered(const Prompt& prompt, const Generation& generation) {
  messages_.push_back({{"role", "assistant"}, {"content", generation.marked_text}});
  Said said = {prompt.text + generation.marked_text, prompt.ids};
  const bool ends_itself = !generation.ids.empty() && std::string_view(generation.finish_reason) == "stop";
  said.ids.insert(said.ids.end(), generation.ids.begin(), generation.ids.end() - (ends_itself ? 1 : 0));
  said_.push_back(std::move(said));
}

void Dialogue::drop_question() { messages_.erase(messages_.size() - 1); }

bool Dialogue::drop_answer() {
  if (said_.empty()) return false;
  said_.pop_back();
  messages_.erase(messages_.size() - 1);
  return true;
}

}  // namespace tenon::launcher
