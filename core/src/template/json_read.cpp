// JSON to values.
#include <nlohmann/json.hpp>

#include "template/numbers.hpp"
#include "template/operations.hpp"
#include "template/runtime.hpp"

namespace tenon::templating {
namespace {

constexpr size_t kMaxDepth = 400;

// Built from events: numbers keep all their digits, and depth costs no stack.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Builder(Runtime& runtime) : runtime_(runtime) {}
  Value result;
  std::string problem;

  bool null() override { return add(Value::none()); }
  bool boolean(bool value) override { return add(Value::boolean(value)); }
  bool number_integer(number_integer_t value) override { return add(Value::integer(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<uint64_t>(INT64_MAX)) return add(runtime_.big_integer(std::to_string(value)));
    return add(Value::integer(static_cast<int64_t>(value)));
  }
  bool number_float(number_float_t value, const string_t& digits) override {
    if (digits.find_first_of(".eE") == std::string::npos) return add(runtime_.big_integer(digits));
    return add(Value::real(value));
  }
  bool string(string_t& value) override { return add(runtime_.text(std::move(value))); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(runtime_.dict()); }
  bool key(string_t& value) override {
    keys_.back() = runtime_.text(std::move(value));
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(runtime_.list({})); }
  bool end_array() override { return close(); }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    const std::string text = error.what();
    const size_t begin = text.find("] ");
    problem =
        "at byte " + std::to_string(position) + ": " + (begin == std::string::npos ? text : text.substr(begin + 2));
    return false;
  }

 private:
  bool add(Value value) {
    if (open_.empty()) {
      result = std::move(value);
    } else if (open_.back().is(Kind::kList)) {
      open_.back().as<Sequence>().items.push_back(std::move(value));
    } else {
      dict_set(runtime_, open_.back().as<Dict>(), keys_.back(), std::move(value));
    }
    return true;
  }

  bool open(Value container) {
    if (open_.size() >= kMaxDepth) {
      problem = "nested deeper than " + std::to_string(kMaxDepth) + " levels";
      return false;
    }
    open_.push_back(std::move(container));
    keys_.emplace_back();
    return true;
  }

  bool close() {
    Value container = std::move(open_.back());
    open_.pop_back();
    keys_.pop_back();
    if (container.is(Kind::kList))
      runtime_.heap().recharge(*container.object(),
                               sizeof(Sequence) + container.as<Sequence>().items.size() * sizeof(Value));
    return add(std::move(container));
  }

  Runtime& runtime_;
  Values open_, keys_;
};

}  // namespace

Value from_json(Runtime& runtime, std::string_view json) {
  Builder builder(runtime);
  if (!nlohmann::json::sax_parse(json, &builder)) throw Fault(builder.problem.empty() ? "no JSON" : builder.problem);
  return builder.result;
}

}  // namespace tenon::templating
