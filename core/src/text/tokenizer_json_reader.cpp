#include "text/tokenizer_json_reader.hpp"

#include <tenon/error.hpp>

namespace tenon::text {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostDepth = 64, kMostTokens = size_t{1} << 22, kMostMerges = size_t{1} << 22;
// Values outside of vocabulary and merges: added tokens have eight each.
constexpr size_t kMostValues = size_t{1} << 20;

class Reader : public nlohmann::json_sax<Json> {
 public:
  explicit Reader(TokenizerFile& out) : out_(out) {}
  std::string problem;

  bool null() override { return add(Json()); }
  bool boolean(bool value) override { return add(Json(value)); }
  bool number_integer(number_integer_t value) override { return in_vocabulary() ? token(value) : add(Json(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    return in_vocabulary() ? token(value > INT64_MAX ? -1 : int64_t(value)) : add(Json(value));
  }
  bool number_float(number_float_t value, const string_t&) override { return add(Json(value)); }
  bool binary(binary_t&) override { return false; }
  bool string(string_t& value) override {
    if (!in_merges()) return add(Json(std::move(value)));
    // A rule is "left right", or an array of the two.
    if (depth_ == 3) return merge(value, {});
    if (depth_ != 4 || n_sides_ == 2) return fail("a merge is no pair of texts");
    sides_[n_sides_++] = std::move(value);
    return true;
  }
  bool key(string_t& value) override {
    if (depth_ <= 2) path_[depth_ - 1] = value;
    key_ = std::move(value);
    return true;
  }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override {
    if (in_merges() && depth_ == 4) {
      --depth_;
      return n_sides_ == 2 ? merge(sides_[0], sides_[1]) : fail("a merge is no pair of texts");
    }
    return close();
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    const std::string text = error.what();
    const size_t begin = text.find("] ");
    return fail("at byte " + std::to_string(position) + ": " + (begin == text.npos ? text : text.substr(begin + 2)));
  }

 private:
  bool fail(std::string what) {
    if (problem.empty()) problem = std::move(what);
    return false;
  }
  bool in_model(std::string_view member) const { return depth_ >= 3 && path_[0] == "model" && path_[1] == member; }
  bool in_vocabulary() const { return depth_ == 3 && in_model("vocab"); }
  bool in_merges() const { return in_model("merges"); }

  bool token(int64_t id) {
    if (out_.vocabulary.size() >= kMostTokens) return fail("more than " + std::to_string(kMostTokens) + " tokens");
    out_.vocabulary.push_back({keep(out_, key_), id});
    return true;
  }
  bool merge(const std::string& left, const std::string& right) {
    n_sides_ = 0;
    if (out_.merges.size() >= kMostMerges) return fail("more than " + std::to_string(kMostMerges) + " merges");
    if (right.empty()) return out_.merges.push_back(keep(out_, left)), true;
    if (left.find(' ') != left.npos || right.find(' ') != right.npos)
      return fail("merge " + std::to_string(out_.merges.size()) +
                  " joins texts with spaces in them, which is not served");
    out_.merges.push_back(keep(out_, left + ' ' + right));
    return true;
  }

  bool add(Json value) {
    if (in_vocabulary()) return fail("the id of token '" + key_.substr(0, 80) + "' is no integer");
    if (in_merges()) return fail("a merge is no pair of texts");
    if (++n_values_ > kMostValues) return fail("more than " + std::to_string(kMostValues) + " values");
    if (open_.empty()) {
      out_.rest = std::move(value);
    } else {
      put(*open_.back(), std::move(value));
    }
    return true;
  }
  Json& put(Json& parent, Json value) {
    if (parent.is_array()) return parent.emplace_back(std::move(value));
    Json& slot = parent[key_];
    slot = std::move(value);
    return slot;
  }
  bool open(Json container) {
    if (depth_ >= kMostDepth) return fail("nested deeper than " + std::to_string(kMostDepth) + " levels");
    ++depth_;
    if (in_merges() && depth_ == 4 && container.is_array()) return n_sides_ = 0, true;
    if ((in_vocabulary() || in_merges()) && depth_ > 3) return fail("vocabulary or merges hold what they must not");
    if (depth_ == 3 && in_model("merges") && !container.is_array()) return fail("the merges are no list");
    if (in_model("vocab") && container.is_array())
      return fail("the vocabulary is a list, as a Unigram model has it, which is not served");
    if (depth_ >= 4 && in_model("vocab")) return fail("the vocabulary is no object of ids");
    if (++n_values_ > kMostValues) return fail("more than " + std::to_string(kMostValues) + " values");
    if (open_.empty()) {
      out_.rest = std::move(container);
      open_.push_back(&out_.rest);
    } else {
      open_.push_back(&put(*open_.back(), std::move(container)));
    }
    return true;
  }
  bool close() {
    --depth_;
    open_.pop_back();
    return true;
  }

  TokenizerFile& out_;
  std::vector<Json*> open_;  // containers in progress; a parent does not grow while its child is open
  std::string path_[2], key_, sides_[2];
  size_t depth_ = 0, n_sides_ = 0, n_values_ = 0;
};

}  // namespace

std::string_view keep(TokenizerFile& file, std::string_view text) {
  const size_t begin = file.arena.size();
  if (text.size() > file.arena.capacity() - begin) throw Error(ErrorKind::kFile, "tokenizer.json: its texts exceed it");
  file.arena += text;
  return std::string_view(file.arena).substr(begin);
}

TokenizerFile read_tokenizer_file(std::string_view text) {
  TokenizerFile out;
  out.arena.reserve(text.size() + 64);
  Reader reader(out);
  if (!Json::sax_parse(text, &reader) || !out.rest.is_object())
    throw Error(ErrorKind::kFile, "tokenizer.json: " + (reader.problem.empty() ? "is no object" : reader.problem));
  return out;
}

}  // namespace tenon::text
