// The functions of one instruction set for ops whose store is a state.
#include "recurrent_chunk.hpp"
#include "recurrent_conv.hpp"
#include "recurrent_delta.hpp"

namespace tenon::cpu::TENON_ISA {

const RecurrentTable kRecurrent = {conv, delta_sequential, delta_chunked};

}  // namespace tenon::cpu::TENON_ISA
