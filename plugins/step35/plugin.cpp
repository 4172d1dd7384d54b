#include "step35.hpp"

TENON_PLUGIN("step35", "0.1.0") {
  tenon::sdk::register_architecture<tenon::step35::Step35>(registrar, {{"step35", {"step3p5", "step3p7"}}});
}
