// What is no template, and where.
#include <gtest/gtest.h>

#include <tenon/chat_template.hpp>

namespace tenon {
namespace {

std::string refusal(const std::string& source) {
  try {
    ChatTemplate::parse(source);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kFile);
    return error.what();
  }
  return "no error";
}

TEST(TemplateParse, NamesLineColumnAndReason) {
  EXPECT_EQ(refusal("a\n  {{ 1 + }}"), "chat template, line 2, column 10: expected an expression, found '}}'");
  EXPECT_EQ(refusal("{% if a %}\n{% for x in y %}"),
            "chat template, line 2, column 17: expected the block endfor or else, found the end of the template");
  EXPECT_EQ(refusal("{{ x | nothing }}"), "chat template, line 1, column 8: there is no filter 'nothing'");
  EXPECT_EQ(refusal("{{ x is nothing }}"), "chat template, line 1, column 9: there is no test 'nothing'");
  EXPECT_EQ(refusal("\n\n{% include 'x' %}"),
            "chat template, line 3, column 4: chat templates cannot use 'include': it is not supported");
  EXPECT_EQ(refusal("{{ 'abc"), "chat template, line 1, column 4: a string is not closed");
  EXPECT_EQ(refusal("{# abc"), "chat template, line 1, column 1: a comment is not closed with #}");
  EXPECT_EQ(refusal("{% break %}"), "chat template, line 1, column 4: 'break' stands outside of a loop");
  EXPECT_EQ(refusal("ab\xff"), "chat template, line 1, column 3: the bytes are no UTF-8");
}

TEST(TemplateParse, UnknownFiltersInConditionsMatterOnlyWhenReached) {
  const ChatTemplate chat_template = ChatTemplate::parse("{% if x %}{{ 1 | nothing }}{% endif %}ok");
  EXPECT_EQ(chat_template.render(R"({"x": false})"), "ok");
  EXPECT_THROW(chat_template.render(R"({"x": true})"), Error);
}

std::string repeated(const std::string& text, size_t n) {
  std::string result;
  for (size_t i = 0; i < n; ++i) result += text;
  return result;
}

// None of them may overflow the stack.
TEST(TemplateParse, DeepNestingIsRefused) {
  constexpr size_t kMany = 100000;
  for (const char* open : {"(", "[", "{1:", "not ", "-", "a[", "f(", "1 if ", "a|d(", "a is eq [", "x if y else "})
    EXPECT_NE(refusal("{{ " + repeated(open, kMany)), "no error") << open;
  for (const char* rest : {"+1", ".a", "[0]", "|d", "()", "*1", "**1", " and 1", " or 1", " if 1", " is odd is odd"})
    EXPECT_NE(refusal("{{ a" + repeated(rest, kMany) + " }}"), "no error") << rest;
  for (const char* block : {"{% if a %}", "{% for x in y %}", "{% macro m() %}", "{% set x %}", "{% call m() %}",
                            "{% filter upper %}", "{% with %}", "{% generation %}"})
    EXPECT_NE(refusal(repeated(block, kMany)), "no error") << block;
  EXPECT_EQ(refusal("{{ '' " + repeated("~1", 1000) + " }}"), "no error");
  EXPECT_EQ(refusal("{% if a %}" + repeated("{% elif b %}", 1000) + "{% endif %}"), "no error");
  EXPECT_EQ(refusal("{{ " + repeated("(", 60) + "1" + repeated(")", 60) + " }}"), "no error");
}

TEST(TemplateParse, TooManyNamesAreRefused) {
  std::string source;
  for (int i = 0; i < 5000; ++i) source += "{% if a %}{% set v" + std::to_string(i) + " = 1 %}{% endif %}";
  EXPECT_NE(refusal(source), "no error");
}

TEST(TemplateParse, ATemplateOutlivesItsText) {
  std::optional<ChatTemplate> chat_template;
  {
    std::string source = "{{ x ~ 'abc' }} and text";
    chat_template = ChatTemplate::parse(source);
    std::fill(source.begin(), source.end(), '#');
  }
  EXPECT_EQ(chat_template->render(R"({"x": 1})"), "1abc and text");
}

}  // namespace
}  // namespace tenon
