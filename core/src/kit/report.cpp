// The kit's report, as text and as JSON.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <tenon/kit.hpp>

namespace tenon::kit {
namespace {

const char* word(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPass:
      return "pass";
    case Verdict::kFail:
      return "fail";
    case Verdict::kSkip:
      return "skip";
  }
  return "";
}

size_t count(const KitReport& report, Verdict verdict) {
  return size_t(std::count_if(report.checks.begin(), report.checks.end(),
                              [&](const CheckResult& c) { return c.verdict == verdict; }));
}

// A plugin may put any bytes into a message; a terminal gets those that it can show.
std::string printable(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      out += c;
    } else {
      out += c == '\n' ? "; " : "?";
    }
  }
  return out;
}

}  // namespace

bool KitReport::passed() const { return count(*this, Verdict::kFail) == 0 && count(*this, Verdict::kPass) > 0; }

std::string text_head(const KitReport& report) {
  return report.name + " " + report.version + " (" + report.kind + ")  " + report.library + "\n\n";
}

std::string text_of_check(const CheckResult& check) {
  std::string text = std::string(word(check.verdict)) + "  " + printable(check.name);
  if (!check.duties.empty()) text += "  [" + check.duties + "]";
  if (!check.reason.empty()) text += (check.verdict == Verdict::kFail ? "\n      " : "  ") + printable(check.reason);
  return text + "\n";
}

std::string text_tail(const KitReport& report) {
  return "\n" + std::to_string(count(report, Verdict::kPass)) + " passed, " +
         std::to_string(count(report, Verdict::kFail)) + " failed, " + std::to_string(count(report, Verdict::kSkip)) +
         " left out\n";
}

std::string to_text(const KitReport& report) {
  std::string text = text_head(report);
  for (const CheckResult& check : report.checks) text += text_of_check(check);
  return text + text_tail(report);
}

std::string to_json(const KitReport& report) {
  using Json = nlohmann::ordered_json;
  Json checks = Json::array();
  for (const CheckResult& check : report.checks)
    checks.push_back({{"name", check.name},
                      {"duties", check.duties},
                      {"result", word(check.verdict)},
                      {"reason", check.reason},
                      {"seconds", check.seconds}});
  const Json out = {{"library", report.library},
                    {"name", report.name},
                    {"version", report.version},
                    {"kind", report.kind},
                    {"passed", report.passed()},
                    {"n_passed", count(report, Verdict::kPass)},
                    {"n_failed", count(report, Verdict::kFail)},
                    {"n_skipped", count(report, Verdict::kSkip)},
                    {"checks", checks}};
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tenon::kit
