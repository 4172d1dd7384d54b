#include "llama.hpp"

TENON_PLUGIN("llama", "0.1.0") {
  tenon::sdk::register_architecture<tenon::llama::Llama>(
      registrar, {{"llama", {"llama", "mistral"}}, {"qwen2", {"qwen2"}}, {"qwen3", {"qwen3"}}});
}
