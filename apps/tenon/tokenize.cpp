#include <nlohmann/json.hpp>

#include "common.hpp"
#include "verbs.hpp"

namespace tenon::launcher {
namespace {

using nlohmann::ordered_json;

// A piece may hold a part of a character: replaced, since JSON is text.
std::string json_text(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

int decode(const Tokenizer& tokenizer, const Arguments& arguments) {
  const std::vector<int32_t> ids = parse_ids("--decode", arguments.text("decode"));
  for (int32_t id : ids)
    if (id >= tokenizer.size())
      throw Error(ErrorKind::kUsage, "--decode: token id " + std::to_string(id) + ", but the vocabulary has " +
                                         std::to_string(tokenizer.size()) + " tokens");
  TextStream stream;
  std::string text = stream.push(tokenizer.decode(ids));
  text += stream.finish();
  print(arguments.on("json") ? json_text({{"text", text}}) : text + "\n");
  return 0;
}

}  // namespace

int tokenize(const Arguments& arguments) {
  const bool decodes = arguments.has("decode");
  if (decodes == !arguments.positional().empty())
    throw Error(ErrorKind::kUsage,
                decodes ? "--decode and TEXT contradict each other" : "TEXT or --decode IDS is missing");
  if (decodes && arguments.on("no-bos")) throw Error(ErrorKind::kUsage, "--decode and --no-bos contradict each other");

  Engine engine(engine_options(arguments));
  const std::shared_ptr<const Tokenizer> tokenizer = engine.load_tokenizer(text_or_usage_error(arguments, "model"));
  warn_about(*tokenizer);
  if (decodes) return decode(*tokenizer, arguments);

  EncodeOptions options;
  options.add_bos = !arguments.on("no-bos");
  const std::vector<int32_t> ids = tokenizer->encode(arguments.positional().front(), options);
  if (arguments.on("json")) {
    ordered_json answer = {{"ids", ids}, {"pieces", ordered_json::array()}};
    for (int32_t id : ids) answer["pieces"].push_back(tokenizer->piece(id, /*show_control=*/true));
    print(json_text(answer));
    return 0;
  }
  std::string text;
  for (int32_t id : ids) {
    const std::string piece = json_text(tokenizer->piece(id, /*show_control=*/true));  // quoted: spaces can be seen
    const std::string number = std::to_string(id);
    text += std::string(number.size() < 7 ? 7 - number.size() : 0, ' ') + number + "  " + piece;
  }
  print(text);
  return 0;
}

}  // namespace tenon::launcher
