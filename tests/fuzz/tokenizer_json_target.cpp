// A tokenizer.json. Fields: the file, then, where it is there, a text to encode.
#include <algorithm>
#include <tenon/error.hpp>
#include <tenon/tokenizer.hpp>

#include "allocation_watch.hpp"
#include "fake_metadata.hpp"
#include "fields.hpp"
#include "target.hpp"
#include "text/tokenizer_json.hpp"

namespace {

using tenon::fuzz::AllocationWatch;
using tenon::fuzz::require;

void check(const tenon::Tokenizer& tokenizer, std::string_view text) {
  const std::vector<int32_t> ids = tokenizer.encode(text, {});
  require(std::all_of(ids.begin(), ids.end(), [&](int32_t id) { return id >= 0 && id < tokenizer.size(); }),
          "ids are in the vocabulary");
  require(tokenizer.encode(text, {}) == ids, "encoding repeats");
  tokenizer.decode(ids, true);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  [[maybe_unused]] static const bool installed = (AllocationWatch::install(), true);
  const auto fields = tenon::fuzz::fields_of(data, size);
  tenon::test::FakeMetadata metadata;
  metadata.set_string(std::string(tenon::text::kTokenizerJsonKey), fields[0]);
  metadata.set_string("tokenizer_config.bos_token", "<s>");
  metadata.set_i32s("generation_config.eos_token_id", {1, 4});
  AllocationWatch::begin();
  try {
    check(*tenon::make_tokenizer(metadata), fields.size() > 1 ? fields[1]
                                                              : "a \xc3\xa9"
                                                                "e\xcc\x81<s> b\n12");
  } catch (const tenon::Error& error) {
    require(error.kind() == tenon::ErrorKind::kFile, std::string("kind of: ") + error.what());
    const std::string_view what = error.what();
    require(what.starts_with("tokenizer.json: ") || what.starts_with("tokenizer."), "place of: " + std::string(what));
  }
  require(AllocationWatch::peak_bytes() <= size + tenon::fuzz::kAllowedBytes,
          "at most " + std::to_string(tenon::fuzz::kAllowedBytes) + " bytes beyond the file's, not " +
              std::to_string(AllocationWatch::peak_bytes()));
  return 0;
}
