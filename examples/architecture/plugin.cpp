// plugin.cpp: the entry. Name and version are those of tenon_add_plugin().
#include "qwen3.hpp"

TENON_PLUGIN("example-qwen3", "0.1.0") {
  tenon::sdk::register_architecture<example::Qwen3>(registrar, {{"qwen3", {"qwen3"}}});
}
