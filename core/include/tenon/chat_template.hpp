// chat_template.hpp: the templates in model files that turn a conversation into the model's prompt text.
//
// They are written in Jinja and were made for Python: rendering gives, byte for byte, what Jinja2 3.1 gives in the
// environment that models are published for: sandboxed, trim_blocks, lstrip_blocks, `break` and `continue`, a
// `generation` block, raise_exception(), strftime_now() and a `tojson` without HTML escapes. Where that environment
// fails at run time, so does rendering; only list.append and the dict and list pop, which it forbids, work here.
// Not served, with an error that says so: template inheritance and imports, and whole numbers of more than 64 bits
// in arithmetic.
#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tenon/error.hpp>

namespace tenon {

namespace templating {
struct Program;
}

// What a template may use up: it comes with a file that nobody has checked. Rendering beyond a limit ends with
// Error(kCapacity).
struct RenderLimits {
  uint64_t max_steps = 100'000'000;           // nodes evaluated, items visited, and 256 bytes of text looked at
  uint64_t max_output_bytes = 256ull << 20;   // text of all blocks together
  uint64_t max_memory_bytes = 1024ull << 20;  // values alive at a time
  uint32_t max_depth = 200;                   // macro calls and recursive loops inside each other
  uint64_t max_stack_bytes = 1ull << 20;      // of the calling thread
};

struct ChatRequest;

// A parsed template. Immutable, cheap to copy; any thread.
class ChatTemplate {
 public:
  // Throws Error(kFile) with line and column for text that is no template.
  static ChatTemplate parse(std::string_view source);

  // `variables`: a JSON object. Members keep their order; numbers without fraction and exponent are integers.
  // `now` is the time that strftime_now() tells, in local time; none = the clock's.
  // Throws Error with the template's line: kUsage for what the template refuses with raise_exception() and for JSON
  // that is none, kRuntime for undefined values and types that do not fit, kCapacity beyond a limit.
  std::string render(std::string_view variables, const RenderLimits& limits = {},
                     std::optional<std::time_t> now = {}) const;

  // Whether messages may have a list of parts as content, [{"type": "text", "text": …}, …]: found out by rendering a
  // small conversation. Templates that cannot take lists fail on them or print them as Python would.
  bool takes_content_parts() const;

 private:
  friend std::string render_chat(const ChatTemplate&, const ChatRequest&, const RenderLimits&,
                                 std::optional<std::time_t>);
  explicit ChatTemplate(std::shared_ptr<const templating::Program> program) : program_(std::move(program)) {}
  std::shared_ptr<const templating::Program> program_;
};

// A conversation to render, in the form of the OpenAI chat interface.
struct ChatRequest {
  std::string_view messages;    // a JSON list
  std::string_view tools = {};  // a JSON list; "" = none
  bool add_generation_prompt = true;
  std::optional<std::string> bos_token = {}, eos_token = {};  // their texts; none = the variable is undefined
  std::string_view variables = {};  // a JSON object of more variables, such as enable_thinking; "" = none
};

// Renders a conversation. Before that it brings messages to the form that templates are written for: `arguments` of
// tool calls that are the text of a JSON object become that object, a content of null beside tool calls becomes "", and
// where the template takes no lists of parts, the texts of parts are joined with newlines. Throws what render() throws;
// kUsage also names the message whose shape is wrong.
std::string render_chat(const ChatTemplate& chat_template, const ChatRequest& request, const RenderLimits& limits = {},
                        std::optional<std::time_t> now = {});

}  // namespace tenon
