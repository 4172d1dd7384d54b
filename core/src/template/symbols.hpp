// symbols.hpp: gives every name its place, by Jinja's rules.
#pragma once

#include "template/ast.hpp"

namespace tenon::templating {

// Fills scopes and places. Throws SyntaxFault for a scope with too many names.
void place_names(Program& program);

}  // namespace tenon::templating
