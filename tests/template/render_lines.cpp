// Renders what standard input asks for, for comparison with another implementation. Each line is a JSON object:
// {"template": TEXT, "variables": JSON AS TEXT, "now": seconds}; each line of output is {"text": …} or {"error": …}.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <tenon/chat_template.hpp>

int main() {
  std::ios::sync_with_stdio(false);
  for (std::string line; std::getline(std::cin, line);) {
    nlohmann::json answer;
    try {
      const nlohmann::json request = nlohmann::json::parse(line);
      const auto chat_template = tenon::ChatTemplate::parse(request.at("template").get<std::string>());
      std::optional<std::time_t> now;
      if (request.contains("now")) now = request.at("now").get<std::time_t>();
      answer["text"] = chat_template.render(request.at("variables").get<std::string>(), {}, now);
    } catch (const tenon::Error& error) {
      answer["error"] = error.what();
    }
    std::cout << answer.dump() << std::endl;
  }
  return 0;
}
