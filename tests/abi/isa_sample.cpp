#include "isa_sample.hpp"

#include <cstddef>

namespace TENON_ISA {

Answers ask() { return answers(); }

}  // namespace TENON_ISA
