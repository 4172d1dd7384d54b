#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "dialogue.hpp"
#include "generation.hpp"
#include "prompt.hpp"
#include "verbs.hpp"

namespace tenon::launcher {
namespace {

constexpr const char* kHelp =
    "Type a message and press Enter. Commands: /retry answers the last message again, /undo takes it and its answer\n"
    "back, /clear begins a new conversation, /exit ends (so does the end of the input), /help prints this.\n";

constexpr size_t kMostLineBytes = size_t{16} << 20;

// Lines of standard input. Ctrl-C ends waiting for one: throws Error(kInterrupted).
class LineReader {
 public:
  // False at the end of the input.
  bool next(std::string& line) {
    size_t end = 0, searched = 0;
    while ((end = pending_.find('\n', searched)) == std::string::npos) {
      searched = pending_.size();
      if (searched > kMostLineBytes)
        throw Error(ErrorKind::kRuntime, "standard input: a line of more than 16 MiB, which is no message");
      if (!fill()) {
        line = std::exchange(pending_, {});
        return !line.empty();
      }
    }
    line = pending_.substr(0, end);
    pending_.erase(0, end + 1);
    if (line.ends_with('\r')) line.pop_back();
    return true;
  }

 private:
  bool fill() {
    char block[4096];
    while (true) {
      stop_if_interrupted();
      pollfd ready = {STDIN_FILENO, POLLIN, 0};
      // A short wait, since a signal just before it would not end a long one.
      if (poll(&ready, 1, 100) <= 0) continue;
      const ssize_t count = read(STDIN_FILENO, block, sizeof(block));
      if (count > 0) pending_.append(block, static_cast<size_t>(count));
      stop_if_interrupted();
      if (count >= 0) return count > 0;
      if (errno == EINTR || errno == EAGAIN) continue;
      throw Error(ErrorKind::kRuntime, std::string("standard input: ") + std::strerror(errno));
    }
  }

  std::string pending_;
};

// What was reused for an answer and what the cache holds.
std::string reuse_summary(const Resumed& resumed, size_t n_prompt, const PrefixCacheInfo& cache) {
  return "reused " + std::to_string(resumed.reused) + " of " + std::to_string(n_prompt) +
         " tokens, known up to token " + std::to_string(resumed.matched) +
         (resumed.reused == 0 ? ""
          : resumed.is_equal  ? ", as a cold run computes them"
                              : ", in part made by decode steps") +
         "; all prompts: " + std::to_string(cache.reused_tokens) + " of " + std::to_string(cache.prompt_tokens) +
         "; prefix cache: " + std::to_string(cache.pages) + " pages, " + std::to_string(cache.checkpoints) + " of " +
         std::to_string(cache.most_checkpoints) + " checkpoints, " + size_text(cache.held_bytes) + " held, limit " +
         size_text(cache.limit_bytes);
}

// Messages from standard input and the model's answers, until the input ends. One use.
class Chat {
 public:
  Chat(Model& model, const Arguments& arguments, const SamplingOptions& sampling, const ChatTemplate& chat_template)
      : model_(model),
        arguments_(arguments),
        sampling_(sampling),
        sequence_(model.sequence()),
        generator_(model, arguments, sampling, -1),
        dialogue_(model.tokenizer(), chat_template, template_arguments(arguments),
                  arguments.has("system") ? std::optional(arguments.text("system")) : std::nullopt) {}

  void run() {
    const bool asks = isatty(STDIN_FILENO) == 1;
    if (asks) print(kHelp);
    LineReader reader;
    std::string line;
    while (true) {
      if (asks) print("> ");
      if (!reader.next(line)) {
        if (asks) print("\n");
        break;
      }
      if (line.empty()) continue;
      if (line == "/exit" || line == "/quit") break;
      if (line.front() == '/') {
        command(line);
      } else {
        dialogue_.ask(line);
        answer();
      }
    }
  }

 private:
  void command(const std::string& line) {
    if (line == "/clear") {
      dialogue_.clear();
    } else if (line == "/undo") {
      if (dialogue_.drop_answer())
        dialogue_.drop_question();
      else
        note("there is nothing to take back");
    } else if (line == "/retry") {
      if (!dialogue_.drop_answer()) return note("there is no answer yet");
      generator_.set_seed(++sampling_.seed);  // the same seed would give the same answer
      answer();
    } else if (line == "/help") {
      print(kHelp);
    } else {
      note("unknown command '" + line + "'; /help lists them, and a message cannot begin with '/'");
    }
  }

  // A message that cannot be answered is taken back: the conversation can go on.
  void answer() {
    Prompt prompt;
    try {
      prompt = dialogue_.prompt();
      check_context(model_, arguments_, static_cast<int64_t>(prompt.ids.size()) + 1, "the conversation");
    } catch (const Error& error) {
      dialogue_.drop_question();
      note(std::string(error.what()) + "; the message is dropped, /clear begins a new conversation");
      return;
    }
    ResumeOptions resume;
    resume.only_equal = arguments_.on("recompute");
    resume.static_prefix = prompt.static_prefix;
    resume.message_ends = prompt.message_ends;
    Generation generation;
    generator_.run(sequence_, prompt.ids, resume, generation);
    print("\n");
    if (arguments_.on("verbose") || generation.error) note(summary(generation, prompt.ids.size(), sampling_));
    if (arguments_.on("verbose")) note(reuse_summary(generation.resumed, prompt.ids.size(), model_.prefix_cache()));
    if (generation.error) throw *generation.error;
    dialogue_.answered(prompt, generation);
  }

  Model& model_;
  const Arguments& arguments_;
  SamplingOptions sampling_;
  Sequence sequence_;
  Generator generator_;
  Dialogue dialogue_;
};

// A limit that holds nothing would otherwise look like one that changes nothing.
void warn_about_cache(const PrefixCacheInfo& cache) {
  if (cache.limit_bytes == 0 || cache.most_checkpoints > 0 || cache.checkpoint_bytes == 0) return;
  note("warning: --prefix-cache " + std::to_string(cache.limit_bytes) + " is less than the " +
       std::to_string(cache.checkpoint_bytes) +
       " bytes that resuming takes with this model: texts that part are computed from their begin");
}

ChatTemplate needed_template(Engine& engine, const std::string& path) {
  std::optional<ChatTemplate> chat_template = load_template(engine, path);
  if (!chat_template)
    throw Error(
        ErrorKind::kFile,
        path + ": the file has no chat template, which chat needs: take an instruction-tuned model with one; "
               "`tenon run --raw` completes texts without");
  return *chat_template;
}

// The text of the conversation that --messages names. Errors name that file.
std::string render_file(const Arguments& arguments, const ChatTemplate& chat_template, const Conversation& conversation,
                        const Tokenizer& tokenizer) {
  try {
    return render(chat_template, conversation, &tokenizer);
  } catch (const Error& error) {
    throw Error(error.kind(), arguments.text("messages") + ": " + error.what());
  }
}

// One answer to the conversation of a file.
int answer_file(Engine& engine, const Arguments& arguments, const SamplingOptions& sampling,
                const ChatTemplate& chat_template, const Conversation& conversation) {
  const std::vector<int32_t> prompt = [&] {
    const std::shared_ptr<const Tokenizer> tokenizer = engine.load_tokenizer(arguments.text("model"));
    return encode_rendered(*tokenizer, render_file(arguments, chat_template, conversation, *tokenizer));
  }();
  const int64_t needed =
      static_cast<int64_t>(prompt.size()) + std::max<int64_t>(1, arguments.integer("n-predict", 1024));
  ModelOptions options = model_options(arguments, needed);
  options.prefix_cache_bytes = 0;  // there is no second prompt
  const std::unique_ptr<Model> model = load_model(engine, arguments, options);
  warn_about(model->tokenizer());
  check_context(*model, arguments, static_cast<int64_t>(prompt.size()), "the conversation");
  Sequence sequence = model->sequence();
  Generation generation;
  Generator(*model, arguments, sampling, -1).run(sequence, prompt, {}, generation);
  print("\n");
  note(summary(generation, prompt.size(), sampling));
  if (generation.error) throw *generation.error;
  return 0;
}

}  // namespace

int chat(const Arguments& arguments) {
  const std::string path = text_or_usage_error(arguments, "model");
  if (arguments.on("render") && !arguments.has("messages"))
    throw Error(ErrorKind::kUsage, "--render prints what --messages FILE gives, which is missing");
  const SamplingOptions sampling = sampling_options(arguments);
  const std::string variables = template_arguments(arguments);
  Engine engine(engine_options(arguments));
  if (arguments.has("messages")) {
    const Conversation conversation = read_conversation(arguments.text("messages"), variables);
    const ChatTemplate chat_template = needed_template(engine, path);
    if (!arguments.on("render")) return answer_file(engine, arguments, sampling, chat_template, conversation);
    const std::shared_ptr<const Tokenizer> tokenizer = engine.load_tokenizer(path);
    print(render_file(arguments, chat_template, conversation, *tokenizer));
    return 0;
  }
  const ChatTemplate chat_template = needed_template(engine, path);
  const std::unique_ptr<Model> model = load_model(engine, arguments, model_options(arguments, 0));
  warn_about(model->tokenizer());
  warn_about_cache(model->prefix_cache());
  Chat(*model, arguments, sampling, chat_template).run();
  return 0;
}

}  // namespace tenon::launcher
