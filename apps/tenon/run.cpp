#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "generation.hpp"
#include "prompt.hpp"
#include "verbs.hpp"

namespace tenon::launcher {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kDefaultPredict = 128;

std::string to_json(const Generation& generation, size_t n_prompt, uint64_t seed) {
  const ordered_json answer = {
      {"ids", generation.ids},
      {"text", generation.text},
      {"finish_reason", generation.finish_reason},
      {"timings",
       {{"load_seconds", generation.load_seconds},
        {"prompt_tokens", n_prompt},
        {"prompt_seconds", generation.prompt_seconds},
        {"prompt_tokens_per_second", rate(n_prompt, generation.prompt_seconds)},
        {"generated_tokens", generation.ids.size()},
        {"generated_seconds", generation.generate_seconds},
        {"generated_tokens_per_second", rate(n_decoded(generation), generation.generate_seconds)}}},
      {"seed", seed}};
  return answer.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::vector<int32_t> encode_prompt(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<int32_t> ids = tokenizer.encode(text);
  if (ids.empty())
    throw Error(ErrorKind::kUsage, "--prompt is empty, and this model has no beginning-of-text token to start from");
  return ids;
}

// The text as a user's message.
std::string render_question(const ChatTemplate& chat_template, const std::string& text, const std::string& variables,
                            const Tokenizer* tokenizer) {
  Conversation conversation;
  conversation.messages = dump(ordered_json::array({{{"role", "user"}, {"content", text}}}));
  conversation.variables = variables;
  try {
    return render(chat_template, conversation, tokenizer);
  } catch (const Error& error) {
    throw Error(error.kind(), std::string(error.what()) + "; --raw completes the text without the template");
  }
}

}  // namespace

int run(const Arguments& arguments) {
  const SamplingOptions sampling = sampling_options(arguments);
  const bool has_text = arguments.has("prompt");
  if (!has_text && !arguments.has("tokens")) throw Error(ErrorKind::kUsage, "--prompt TEXT or --tokens IDS is missing");
  const std::string text = arguments.text("prompt");
  const int64_t n_predict = std::max<int64_t>(0, arguments.integer("n-predict", kDefaultPredict));
  text_or_usage_error(arguments, "model");

  std::vector<int32_t> prompt;
  if (!has_text) prompt = parse_some_ids("--tokens", arguments.text("tokens"));
  const std::string variables = template_arguments(arguments);
  Engine engine(engine_options(arguments));
  const std::optional<ChatTemplate> chat_template =
      has_text && !arguments.on("raw") ? load_template(engine, arguments.text("model")) : std::nullopt;
  if (has_text && !chat_template && !arguments.on("raw"))
    note("the model has no chat template: the text is completed as it is (--raw says that this is wanted)");
  const auto encode = [&](const Tokenizer& tokenizer) {
    return chat_template ? encode_rendered(tokenizer, render_question(*chat_template, text, variables, &tokenizer))
                         : encode_prompt(tokenizer, text);
  };
  // The context must be known before the load. A token covers a byte at least, save for a few that the tokenizer or the
  // template adds and for spaces that it spells with three: only long texts have to be counted beforehand.
  int64_t n_prompt = static_cast<int64_t>(prompt.size());
  if (has_text) {
    const size_t n_bytes =
        chat_template ? render_question(*chat_template, text, variables, nullptr).size() : text.size();
    n_prompt = static_cast<int64_t>(3 * n_bytes + 8);
    if (n_prompt + n_predict > 8192)
      n_prompt = static_cast<int64_t>(encode(*engine.load_tokenizer(arguments.text("model"))).size());
  }

  Generation generation;
  auto begin = std::chrono::steady_clock::now();
  const std::unique_ptr<Model> model = load_model(engine, arguments, model_options(arguments, n_prompt + n_predict));
  generation.load_seconds = seconds_since(begin);
  warn_about(model->tokenizer());
  if (has_text) prompt = encode(model->tokenizer());
  check_context(*model, arguments, static_cast<int64_t>(prompt.size()), "the prompt");

  Sequence sequence = model->sequence();
  Generator(*model, arguments, sampling, kDefaultPredict).run(sequence, prompt, {}, generation);
  if (arguments.on("json"))
    print(to_json(generation, prompt.size(), sampling.seed));
  else if (output_is_terminal() && !generation.text.ends_with('\n'))
    print("\n");  // for the next prompt
  note(summary(generation, prompt.size(), sampling));
  if (generation.error) throw *generation.error;
  return 0;
}

}  // namespace tenon::launcher
