#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "generation.hpp"
#include "prompt.hpp"
#include "verbs.hpp"

namespace tenon::launcher {
namespace {

using nlohmann::ordered_json;

constexpr const char* kHelp =
    "Type a message and press Enter. Commands: /clear begins a new conversation, /exit ends (so does the end of the\n"
    "input), /help prints this.\n";

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

// Messages from standard input and the model's answers, until the input ends. One use.
class Chat {
 public:
  Chat(Model& model, const Arguments& arguments, const SamplingOptions& sampling, const ChatTemplate& chat_template)
      : model_(model),
        arguments_(arguments),
        sampling_(sampling),
        chat_template_(chat_template),
        variables_(template_arguments(arguments)),
        kept_(model),
        generator_(model, arguments, sampling, -1) {
    clear();
  }

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
      if (line.front() != '/') {
        answer(line);
      } else if (line == "/exit" || line == "/quit") {
        break;
      } else if (line == "/clear") {
        clear();
      } else if (line == "/help") {
        print(kHelp);
      } else {
        note("unknown command '" + line + "'; /help lists them, and a message cannot begin with '/'");
      }
    }
  }

 private:
  void clear() {
    messages_ = ordered_json::array();
    if (arguments_.has("system")) messages_.push_back({{"role", "system"}, {"content", arguments_.text("system")}});
  }

  // A message that cannot be answered is taken back: the conversation can go on.
  void answer(const std::string& line) {
    messages_.push_back({{"role", "user"}, {"content", line}});
    std::vector<int32_t> prompt;
    try {
      Conversation conversation;
      conversation.messages = dump(messages_);
      conversation.variables = variables_;
      prompt = encode_rendered(model_.tokenizer(), render(chat_template_, conversation, &model_.tokenizer()));
      check_context(model_, arguments_, static_cast<int64_t>(prompt.size()) + 1, "the conversation");
    } catch (const Error& error) {
      messages_.erase(messages_.size() - 1);
      note(std::string(error.what()) + "; the message is dropped, /clear begins a new conversation");
      return;
    }
    Generation generation;
    generator_.run(kept_, prompt, generation);
    print("\n");
    if (arguments_.on("verbose") || generation.error) note(summary(generation, prompt.size(), sampling_));
    if (generation.error) throw *generation.error;
    messages_.push_back({{"role", "assistant"}, {"content", generation.marked_text}});
  }

  Model& model_;
  const Arguments& arguments_;
  const SamplingOptions& sampling_;
  const ChatTemplate& chat_template_;
  std::string variables_;
  KeptSequence kept_;
  Generator generator_;
  ordered_json messages_;
};

ChatTemplate needed_template(Engine& engine, const std::string& path) {
  std::optional<ChatTemplate> chat_template = load_template(engine, path);
  if (!chat_template)
    throw Error(
        ErrorKind::kFile,
        path + ": the file has no chat template, which chat needs; `tenon run --raw` completes texts without one");
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
  const std::unique_ptr<Model> model = load_model(engine, arguments, model_options(arguments, needed));
  warn_about(model->tokenizer());
  check_context(*model, arguments, static_cast<int64_t>(prompt.size()), "the conversation");
  KeptSequence kept(*model);
  Generation generation;
  Generator(*model, arguments, sampling, -1).run(kept, prompt, generation);
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
  Chat(*model, arguments, sampling, chat_template).run();
  return 0;
}

}  // namespace tenon::launcher
