// Encodes what standard input asks for, for comparison with another implementation: tokenize_lines MODEL.gguf. Each
// line is a JSON object {"text": TEXT, "special": whether text of control tokens becomes the token}; each line of
// output is the list of ids, without BOS.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <tenon/tokenizer.hpp>

#include "mini_gguf.hpp"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "expected: tokenize_lines MODEL.gguf\n";
    return 2;
  }
  std::ios::sync_with_stdio(false);
  const auto metadata = tenon::test::MiniGguf::read(argv[1]);
  const auto tokenizer = tenon::make_tokenizer(*metadata);
  for (std::string line; std::getline(std::cin, line);) {
    const nlohmann::json request = nlohmann::json::parse(line);
    const tenon::EncodeOptions how = {.add_bos = false, .parse_special = request.at("special").get<bool>()};
    std::cout << nlohmann::json(tokenizer->encode(request.at("text").get<std::string>(), how)).dump() << std::endl;
  }
  return 0;
}
