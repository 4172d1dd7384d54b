// Conversations as chat clients send them.
#include <gtest/gtest.h>

#include <tenon/chat_template.hpp>

namespace tenon {
namespace {

constexpr const char* kSource =
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% for c in m.tool_calls or [] %}"
    "{% for k, v in c.function.arguments | items %}({{ k }}={{ v }}){% endfor %}{% endfor %}{% endfor %}"
    "{% if tools %}{{ tools | length }}{% endif %}{% if add_generation_prompt %}>{% endif %}"
    "{{ enable_thinking | default('unset') }}";

std::string chat(const ChatRequest& request, const char* source = kSource) {
  return render_chat(ChatTemplate::parse(source), request);
}

std::string refusal(std::string_view messages) {
  try {
    chat({.messages = messages});
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "no error";
}

TEST(Chat, GivesTheVariablesOfTheModelsMakers) {
  EXPECT_EQ(chat({.messages = R"([{"role": "user", "content": "Hi"}])", .bos_token = "<s>"}), "<s>[user]Hi>unset");
  EXPECT_EQ(chat({.messages = "[]",
                  .tools = R"([{}, {}])",
                  .add_generation_prompt = false,
                  .variables = R"({"enable_thinking": false})"}),
            "2False");
  EXPECT_EQ(chat({.messages = "[]"}, "{{ tools is none }}{{ documents is none }}{{ eos_token is defined }}"),
            "TrueTrueFalse");
}

TEST(Chat, ArgumentsThatAreTextBecomeMappings) {
  EXPECT_EQ(chat({.messages = R"([{"role": "assistant", "content": null, "tool_calls": [
                    {"function": {"name": "f", "arguments": "{\"a\": 1, \"b\": [true]}"}},
                    {"function": {"name": "g", "arguments": {"c": "d"}}}]}])"}),
            "[assistant](a=1)(b=[True])(c=d)>unset");
  EXPECT_EQ(chat({.messages = R"([{"role": "assistant", "content": "", "tool_calls": [
                    {"function": {"name": "f", "arguments": "no JSON"}}]}])"},
                 "{{ messages[0].tool_calls[0].function.arguments }}"),
            "no JSON");
}

TEST(Chat, PartsBecomeTextForTemplatesThatTakeOnlyText) {
  constexpr const char* kParts =
      R"([{"role": "user", "content": [{"type": "text", "text": "One"}, {"type": "text", "text": "two"}]}])";
  EXPECT_EQ(chat({.messages = kParts}, "{{ messages[0].content.upper() }}"), "ONE\nTWO");
  EXPECT_EQ(chat({.messages = kParts}, "{{ messages[0].content }}"), "One\ntwo");
  EXPECT_EQ(chat({.messages = kParts}, "{{ messages[0].content | tojson }}"), "\"One\\ntwo\"");
  EXPECT_EQ(chat({.messages = kParts}, "{% for p in messages[0].content %}{{ p.text }},{% endfor %}"), "One,two,");
  try {
    chat({.messages = R"([{"role": "user", "content": [{"type": "image"}]}])"}, "{{ messages[0].content }}");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find("messages[0].content"), std::string::npos);
  }
}

TEST(Chat, WrongShapesNameTheMessage) {
  EXPECT_EQ(refusal("{}"), "messages: expected a JSON list, found dict");
  EXPECT_NE(refusal("[").find("messages: no valid JSON"), std::string::npos);
  EXPECT_EQ(refusal(R"([{"role": "user", "content": ""}, 5])"), "messages[1]: expected an object, found int");
  EXPECT_EQ(refusal(R"([{"content": ""}])"), "messages[0].role: expected a text such as \"user\"");
}

TEST(Chat, TheClockCanBeGiven) {
  EXPECT_EQ(render_chat(ChatTemplate::parse("{{ strftime_now('%Y') }}"), {.messages = "[]"}, {}, 86400 * 366), "1971");
}

}  // namespace
}  // namespace tenon
