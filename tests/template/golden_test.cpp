// Texts that jinja2 gave, in goldens/ (see make_goldens.py).
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tenon/chat_template.hpp>

namespace tenon {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kSecond = 9, kMinute = 5, kHour = 14;

const fs::path kFolder = TENON_TEMPLATE_TESTS;

// 7 March 2025, 14:05:09 on the local clock.
std::time_t now() {
  std::tm parts{};
  parts.tm_year = 125;
  parts.tm_mon = 2;
  parts.tm_mday = 7;
  parts.tm_hour = kHour;
  parts.tm_min = kMinute;
  parts.tm_sec = kSecond;
  parts.tm_isdst = -1;
  return std::mktime(&parts);
}

std::vector<json> read_lines(const fs::path& path) {
  std::ifstream file(path);
  std::vector<json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line));
  return lines;
}

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void check(const std::string& source, const std::string& variables, const json& golden) {
  if (golden.contains("fails")) {
    EXPECT_THROW(ChatTemplate::parse(source).render(variables, {}, now()), Error) << source;
    return;
  }
  try {
    EXPECT_EQ(ChatTemplate::parse(source).render(variables, {}, now()), golden.at("text").get<std::string>()) << source;
  } catch (const Error& error) {
    ADD_FAILURE() << source << "\n" << error.what();
  }
}

TEST(TemplateGolden, SnippetsGiveTheTextOfPython) {
  const std::vector<json> lines = read_lines(kFolder / "goldens" / "snippets.jsonl");
  ASSERT_GE(lines.size(), 400u);
  const std::string variables = lines.front().at("variables");
  for (size_t i = 1; i < lines.size(); ++i) check(lines[i].at("template").get<std::string>(), variables, lines[i]);
}

TEST(TemplateGolden, ChatTemplatesGiveTheTextOfPython) {
  std::map<std::string, std::string> conversations;
  for (const json& line : read_lines(kFolder / "goldens" / "conversations.jsonl"))
    conversations[line.at("name")] = line.at("variables");
  int n_templates = 0;
  for (const auto& entry : fs::directory_iterator(kFolder / "templates")) {
    ++n_templates;
    const std::string source = read_text(entry.path());
    const std::vector<json> lines = read_lines(kFolder / "goldens" / (entry.path().stem().string() + ".jsonl"));
    EXPECT_EQ(lines.size(), conversations.size()) << entry.path();
    for (const json& line : lines) {
      SCOPED_TRACE(entry.path().filename().string() + ": " + line.at("name").get<std::string>());
      check(source, conversations.at(line.at("name")), line);
    }
  }
  EXPECT_GE(n_templates, 3);
}

}  // namespace
}  // namespace tenon
