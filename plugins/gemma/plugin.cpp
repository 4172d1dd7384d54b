#include "gemma.hpp"

TENON_PLUGIN("gemma", "0.1.0") {
  tenon::sdk::register_architecture<tenon::gemma::Gemma>(registrar, {{"gemma3", {"gemma3", "gemma3_text"}}});
}
