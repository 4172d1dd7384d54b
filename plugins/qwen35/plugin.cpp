#include "qwen35.hpp"

TENON_PLUGIN("qwen35", "0.1.0") {
  tenon::sdk::register_architecture<tenon::qwen35::Qwen35>(
      registrar,
      {{"qwen35", {"qwen3_5", "qwen3_5_text"}}, {"qwen35moe", {"qwen3_5_moe", "qwen3_5_moe_text"}}, {"qwen3next"}});
}
