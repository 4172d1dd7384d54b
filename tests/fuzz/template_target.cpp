// A chat template, as a model's file has it; behind a byte 1, the variables as JSON.
#include <tenon/chat_template.hpp>

#include "target.hpp"

using tenon::fuzz::require;

namespace {

// What the snippets of the template tests and the templates of models use.
constexpr std::string_view kVariables = R"({"messages":[{"role":"system","content":"Be brief."},
{"role":"user","content":"H\u00ebllo <b>"},{"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[
{"type":"function","function":{"name":"f","arguments":{"a":1,"b":[true,null,2.5]}}}]},{"role":"tool","content":"42"},
{"role":"user","content":[{"type":"text","text":"part"}]}],"tools":[{"type":"function","function":{"name":"f",
"parameters":{"type":"object","properties":{"a":{"type":"integer"}}}}}],"add_generation_prompt":true,
"bos_token":"<s>","eos_token":"</s>","enable_thinking":false,
"user":{"name":"Ada","age":36,"tags":["b","A","c"],"items":"own","nested":{"a":{"b":[1,2,3]}}},
"words":["banana","Apple","cherry","apple"],"numbers":[3,1,2,10,-4],"reals":[1.5,2.0,0.1,1e+16,1e-05,123456789.125],
"text":"  Hello, W\u00f6rld!\n\tLine two \u2028 end  ","html":"<b>\"Tom\" & 'Jerry'</b>","emoji":"a\ud83d\ude00\u00e9",
"empty":"","nothing":null,"yes":true,"no":false,"zero":0,"people":[{"name":"Bo","age":5,"ok":true},
{"name":"al","age":7},{"name":"Cy","age":5,"ok":false}],"mapping":{"z":1,"B":2,"a":{"x":null},"C":[true,1.0]},
"big":12345678901234567890})";

constexpr tenon::RenderLimits kLimits = {
    .max_steps = 5000, .max_output_bytes = 1 << 14, .max_memory_bytes = 4 << 20, .max_depth = 50};

// The text, or the error's.
std::string rendered(const tenon::ChatTemplate& chat_template, std::string_view variables) {
  try {
    const std::string text = chat_template.render(variables, kLimits, std::time_t(0));
    require(text.size() <= kLimits.max_output_bytes, "the output keeps its limit");
    return text;
  } catch (const tenon::Error& error) {
    require(error.kind() != tenon::ErrorKind::kFile && error.kind() != tenon::ErrorKind::kInterrupted,
            std::string("kind of: ") + error.what());
    return error.what();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t border = text.find('\1');
  const std::string_view source = text.substr(0, border);
  const std::string_view variables = border == std::string_view::npos ? kVariables : text.substr(border + 1);
  try {
    const tenon::ChatTemplate chat_template = tenon::ChatTemplate::parse(source);
    require(rendered(chat_template, variables) == rendered(chat_template, variables), "rendering repeats");
  } catch (const tenon::Error& error) {
    require(error.kind() == tenon::ErrorKind::kFile, std::string("kind of: ") + error.what());
  }
  return 0;
}
