// Errors while rendering, limits, and what differs from Python on purpose.
#include <gtest/gtest.h>

#include <chrono>
#include <tenon/chat_template.hpp>
#include <thread>

namespace tenon {
namespace {

std::string render(const std::string& source, const std::string& variables = "{}", const RenderLimits& limits = {}) {
  return ChatTemplate::parse(source).render(variables, limits);
}

struct Failure {
  ErrorKind kind;
  std::string message;
  bool operator==(const Failure&) const = default;
};
void PrintTo(const Failure& failure, std::ostream* out) {
  *out << static_cast<int>(failure.kind) << " " << failure.message;
}

Failure failure(const std::string& source, const std::string& variables = "{}", const RenderLimits& limits = {}) {
  try {
    return {ErrorKind::kInterrupted, "no error, but " + render(source, variables, limits).substr(0, 100)};
  } catch (const Error& error) {
    return {error.kind(), error.what()};
  }
}

TEST(TemplateRender, FailuresNameTheLine) {
  EXPECT_EQ(failure("\n{{ x.y.z }}", R"({"x": {}})"),
            (Failure{ErrorKind::kRuntime, "chat template, line 2: 'dict object' has no attribute 'y'"}));
  EXPECT_EQ(failure("{{ x.y }}"), (Failure{ErrorKind::kRuntime, "chat template, line 1: 'x' is undefined"}));
  EXPECT_EQ(
      failure("a\n\n{{ 'a'\n + 1 }}"),
      (Failure{ErrorKind::kRuntime, "chat template, line 3: unsupported operand type(s) for +: 'str' and 'int'"}));
  EXPECT_EQ(
      failure("{% macro m() %}\n{{ [] < 1 }}{% endmacro %}\n{{ m() }}"),
      (Failure{ErrorKind::kRuntime, "chat template, line 2: '<' not supported between instances of 'list' and 'int'"}));
}

TEST(TemplateRender, WhatTheTemplateRefusesIsAUsageError) {
  EXPECT_EQ(failure("x\n{{ raise_exception('System role not supported') }}"),
            (Failure{ErrorKind::kUsage, "chat template, line 2: System role not supported"}));
}

TEST(TemplateRender, VariablesMustBeAJsonObject) {
  EXPECT_EQ(failure("", "[]").kind, ErrorKind::kUsage);
  EXPECT_EQ(failure("", "{").kind, ErrorKind::kUsage);
  EXPECT_EQ(failure("", "").kind, ErrorKind::kUsage);
  EXPECT_EQ(failure("", "{\"a\": \"\xff\"}").kind, ErrorKind::kUsage);
  EXPECT_EQ(failure("", "{} {}").kind, ErrorKind::kUsage);
  EXPECT_EQ(failure("", "{\"a\": " + std::string(100000, '[')).kind, ErrorKind::kUsage);
  EXPECT_NE(failure("", "5").message.find("expected a JSON object, found int"), std::string::npos);
}

TEST(TemplateRender, JsonKeepsOrderAndDigits) {
  EXPECT_EQ(
      render(
          "{{ x | tojson }} {{ x.z + 1 }}",
          R"({"x": {"z": 9007199254740993, "a": 18446744073709551615, "b": 1.0, "c": 1e22, "a": -99999999999999999999}})"),
      R"({"z": 9007199254740993, "a": -99999999999999999999, "b": 1.0, "c": 1e+22} 9007199254740994)");
}

TEST(TemplateRender, EndlessWorkHitsALimit) {
  const std::string nested = "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}";
  for (const std::string& source :
       {nested,
        std::string("{% for a in range(100000) %}{% for b in range(100000) %}{{ b }}{% endfor %}{% endfor %}"),
        std::string("{{ 'a' * 10000000000000 }}"),
        std::string("{{ [1] * 10000000000000 }}"),
        std::string("{{ 'a'.center(10000000000000) }}"),
        std::string("{{ '%2000000000d' % 1 }}"),
        std::string("{{ '{:2000000000}'.format(1) }}"),
        std::string("{{ 'a'.zfill(10000000000000) }}"),
        std::string("{{ 'a\\nb' | indent(10000000000000) }}"),
        std::string("{{ [1] | batch(10000000000000, 1) | list }}"),
        std::string("{{ [1] | slice(10000000000000) | list }}"),
        std::string("{{ {} | tojson(indent=10000000000000) }}"),
        std::string(
            "{% set n = namespace(t='0123456789') %}{% for i in range(100) %}{% set n.t = n.t + n.t %}{% endfor %}"),
        std::string("{% set n = namespace(t='0123456789') %}{% for i in range(100) %}{% set n.t = n.t.replace('0', "
                    "n.t) %}{% endfor %}"),
        std::string("{% set n = namespace(t=['x']) %}{% for i in range(100) %}{% set n.t = n.t + n.t %}{% endfor %}"),
        std::string(
            "{% set n = namespace(t=['x']) %}{% for i in range(100) %}{% set n.t = [n.t, n.t] %}{% endfor %}{{ n.t }}"),
        std::string("{% set n = namespace(t=['x']) %}{% for i in range(100) %}{% set n.t = [n.t, n.t] %}{% endfor %}{{ "
                    "n.t == [n.t] }}{{ n.t|tojson }}"),
        std::string("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
        std::string("{% macro m() %}{{ m() ~ m() }}{% endmacro %}{{ m() }}"),
        std::string("{% for x in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}"),
        std::string("{% macro m() %}{{ caller() }}{% endmacro %}{% macro r() %}{% call m() %}{{ r() }}{% endcall %}{% "
                    "endmacro %}{{ r() }}"),
        std::string("{% set l = [] %}{{ l.append(l) }}{{ l | tojson }}"),
        std::string("{% set l = [] %}{% for x in [1] %}{{ l.append(1) }}{% endfor %}{% for x in l %}{{ l.append(1) or "
                    "'' }}{% endfor %}"),
        std::string("{% set k = [] %}{% set l = [] %}{{ l.append(l) or k.append(k) or '' }}{{ k == l }}"),
        std::string("{% set k = [] %}{% set l = [] %}{{ l.append(l) or k.append(k) or '' }}{{ k < l }}")}) {
    const auto begin = std::chrono::steady_clock::now();
    const Failure found = failure(source, "{}", {.max_steps = 5'000'000, .max_memory_bytes = 256u << 20});
    EXPECT_EQ(found.kind, ErrorKind::kCapacity) << source << "\n" << found.message;
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20)) << source;
  }
}

TEST(TemplateRender, LimitsAreThoseGiven) {
  EXPECT_EQ(failure("{{ 'abc' }}", "{}", {.max_output_bytes = 2}).kind, ErrorKind::kCapacity);
  EXPECT_EQ(render("{{ 'abc' }}", "{}", {.max_output_bytes = 3}), "abc");
  EXPECT_EQ(failure("{% for x in range(1000) %}{% endfor %}", "{}", {.max_steps = 900}).kind, ErrorKind::kCapacity);
  EXPECT_EQ(failure("{{ 'a' * 100000 }}", "{}", {.max_memory_bytes = 50000}).kind, ErrorKind::kCapacity);
  const std::string deep = "{% macro m(n) %}{{ m(n - 1) if n else 'end' }}{% endmacro %}{{ m(20) }}";
  EXPECT_EQ(failure(deep, "{}", {.max_depth = 20}).kind, ErrorKind::kCapacity);
  EXPECT_EQ(render(deep, "{}", {.max_depth = 21}), "end");
}

// Memory that a value took is free again: what counts is what is alive.
TEST(TemplateRender, FreedValuesDoNotCount) {
  EXPECT_EQ(
      render("{% for i in range(1000) %}{% set x = 'a' * 100000 %}{% endfor %}ok", "{}", {.max_memory_bytes = 1000000}),
      "ok");
}

TEST(TemplateRender, LongChainsOfValuesAreFreed) {
  EXPECT_EQ(render("{% set n = namespace(t=none) %}{% for i in range(100000) %}{% set n.t = [n.t] %}{% endfor %}ok"),
            "ok");
  EXPECT_EQ(
      render(
          "{% set n = namespace(t=none) %}{% for i in range(100000) %}{% set n.t = namespace(t=n.t) %}{% endfor %}ok"),
      "ok");
}

// The stack of another thread is smaller than what the program begins with.
TEST(TemplateRender, RunsInAThread) {
  Failure found{ErrorKind::kFile, ""};
  std::thread([&] {
    found = failure("{% macro m(n) %}{% if true %}{{ m(n + 1) }}{% endif %}{% endmacro %}{{ m(0) }}");
  }).join();
  EXPECT_EQ(found.kind, ErrorKind::kCapacity);
}

TEST(TemplateRender, ListsCanGrowAndShrink) {
  EXPECT_EQ(render("{% set l = [1] %}{% set _ = l.append(2) %}{{ l }}{{ l.pop() }}{{ l.pop(0) }}{{ l }}"),
            "[1, 2]21[]");
  EXPECT_EQ(render("{% set d = {'a': 1, 'b': 2} %}{{ d.pop('a') }}{{ d.pop('x', 'none') }}{{ d }}"), "1none{'b': 2}");
  EXPECT_EQ(failure("{{ [].pop() }}").kind, ErrorKind::kRuntime);
  EXPECT_EQ(failure("{{ [1].extend([2]) }}").kind, ErrorKind::kRuntime);
}

TEST(TemplateRender, ValuesInsideThemselvesAreShownOnce) {
  EXPECT_EQ(render("{% set l = [1] %}{% set _ = l.append(l) %}{{ l }}{{ [l, l] }}"),
            "[1, [...]][[1, [...]], [1, [...]]]");
  EXPECT_EQ(render("{% set n = namespace() %}{% set n.n = n %}{{ n }}"), "<Namespace {'n': <Namespace {...}>}>");
}

TEST(TemplateRender, WholeNumbersBeyond64BitsAreCarriedNotCalculated) {
  EXPECT_EQ(render("{{ 99999999999999999999 }}{{ [99999999999999999999] }}{{ 99999999999999999999 > 1 }}"),
            "99999999999999999999[99999999999999999999]True");
  EXPECT_EQ(failure("{{ 99999999999999999999 + 1 }}").kind, ErrorKind::kRuntime);
  EXPECT_EQ(failure("{{ 9223372036854775807 + 1 }}").kind, ErrorKind::kRuntime);
  EXPECT_EQ(failure("{{ 2 ** 64 }}").kind, ErrorKind::kRuntime);
}

TEST(TemplateRender, IsSafeInSeveralThreads) {
  const ChatTemplate chat_template = ChatTemplate::parse("{% for x in xs %}{{ x }}{{ 'k' }}{% endfor %}");
  std::vector<std::thread> threads;
  std::vector<std::string> texts(4);
  for (std::string& text : texts)
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) text = chat_template.render(R"({"xs": [1, "a"]})");
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : texts) EXPECT_EQ(text, "1kak");
}

}  // namespace
}  // namespace tenon
