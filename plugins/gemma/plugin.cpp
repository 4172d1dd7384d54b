#include "gemma.hpp"
#include "gemma4.hpp"

TENON_PLUGIN("gemma", "0.1.0") {
  tenon::sdk::register_architecture<tenon::gemma::Gemma>(registrar, {{"gemma3", {"gemma3", "gemma3_text"}}});
  tenon::sdk::register_architecture<tenon::gemma::Gemma4>(
      registrar, {{"gemma4", {"gemma4", "gemma4_text", "gemma4_unified", "gemma4_unified_text"}}});
  tenon::sdk::register_architecture<tenon::gemma::Gemma4Assistant>(
      registrar, {{tenon::gemma::kAssistant, {"gemma4_assistant", "gemma4_unified_assistant"}}});
}
