// The JSON reader: what it takes, and what it refuses with the byte.
#include "json.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <tenon/sdk/base.hpp>

#include "fake_host.hpp"

namespace tenon::safetensors {
namespace {

std::string refusal(const std::string& text) {
  try {
    JsonDocument document("x.json", text, 100);
  } catch (const sdk::Error& error) {
    return error.what();
  }
  return "";
}

void expect_refused(const std::string& text, const std::string& what, size_t byte) {
  const std::string message = refusal(text);
  EXPECT_NE(message.find(what), std::string::npos) << text << ": " << message;
  EXPECT_NE(message.find("'x.json': JSON at byte " + std::to_string(100 + byte) + ":"), std::string::npos)
      << text << ": " << message;
}

TEST(Json, ReadsEveryKindOfValue) {
  const JsonDocument document(
      "x.json", R"( {"a": [1, -2, 18446744073709551615, 1e-6, true, null, "x"], "b\n\u00e9\ud83d\ude00": {}} )");
  const JsonValue& a = document.root().items.at(0);
  EXPECT_EQ(a.key, "a");
  EXPECT_EQ(a.items.at(1).integer, -2);
  EXPECT_TRUE(a.items.at(2).is_unsigned);
  EXPECT_EQ(uint64_t(a.items.at(2).integer), UINT64_MAX);
  EXPECT_EQ(a.items.at(3).real, 1e-6);
  EXPECT_EQ(a.items.at(4).integer, 1);
  EXPECT_TRUE(a.items.at(5).is(JsonValue::Kind::kNull));
  EXPECT_EQ(a.items.at(6).text, "x");
  EXPECT_EQ(document.root().items.at(1).key, "b\n\xc3\xa9\xf0\x9f\x98\x80");
}

TEST(Json, ReadsWhatPythonWritesForNumbersThatAreNotFinite) {
  const JsonDocument document("x.json", "[NaN, Infinity, -Infinity]");
  EXPECT_TRUE(std::isnan(document.root().items.at(0).real));
  EXPECT_TRUE(std::isinf(document.root().items.at(2).real));
}

TEST(Json, RefusesWhatIsNoJson) {
  expect_refused("", "found its end", 0);
  expect_refused("[1,]", "expected a value, found ']'", 3);
  expect_refused("[1 2]", "expected ','", 3);
  expect_refused("{1:2}", "expected a key in quotes", 1);
  expect_refused("{\"a\" 1}", "expected ':'", 5);
  expect_refused("[01]", "begins with 0", 3);
  expect_refused("[1.]", "ends behind its point", 3);
  expect_refused("[1e]", "exponent", 3);
  expect_refused("[1e999]", "too large", 1);
  expect_refused("nul", "expected a value", 0);
  expect_refused("{} x", "expected the end", 3);
  expect_refused("\"abc", "no end", 4);
  expect_refused("\"\\x\"", "means nothing", 2);
  expect_refused("\"\\u12g4\"", "four hexadecimal digits", 2);
  expect_refused("\"\\ud800\"", "surrogate", 7);
  expect_refused("\"\\ud800\\u0041\"", "surrogate", 13);
  expect_refused(std::string("\"a\nb\""), "control byte", 2);
  expect_refused("\"\xc0\xaf\"", "UTF-8", 1);
  expect_refused("\"\xed\xa0\x80\"", "UTF-8", 1);
}

TEST(Json, RefusesAKeyThatStandsTwiceHoweverItIsSpelled) {
  expect_refused(R"({"a":1,"a":2})", "'a' stands in one object twice", 7);
  expect_refused(R"({"a":1,"\u0061":2})", "'a' stands in one object twice", 7);
}

TEST(Json, RefusesDepthWithoutUsingTheStackForIt) {
  EXPECT_EQ(refusal(std::string(60, '[') + std::string(60, ']')), "");
  expect_refused(std::string(1 << 20, '['), "nested more than 64 deep", 65);
}

TEST(Json, RefusesMoreValuesThanAnyFileHas) {
  std::string text = "[0";
  for (int i = 0; i < (1 << 22); ++i) text += ",0";
  EXPECT_NE(refusal(text + "]").find("more than 4194304 values"), std::string::npos);
}

}  // namespace
}  // namespace tenon::safetensors
