// The one table of bounds on a kernel's distance from the reference.
#include <iterator>
#include <stdexcept>

#include "cases.hpp"

namespace tenon::kit {
namespace {

constexpr Tolerance kTolerances[] = {
    {"add", 0, "one operation, rounded once"},
    {"mul", 0, "one operation, rounded once"},
    {"scale", 0, "one operation, rounded once"},
    {"concat", 0, "moves values"},
    {"select_rows", 0, "moves values"},
    {"embed", 0, "decoding is exact and scaling rounds once"},
    {"encode", 0, "abi.h defines every bit"},
    {"kv_write", 0, "the dtype's encoder defines every bit"},
    {"norm", 2e-6, "an f32 sum of up to a few thousand squares in any order, one root"},
    {"glu", 1e-6, "an exponential or tanh to a few units in the last place"},
    {"gate", 1e-6, "an exponential to a few units in the last place"},
    {"softcap", 1e-6, "a tanh to a few units in the last place"},
    {"logits_tail", 1e-6, "a tanh to a few units in the last place"},
    {"rope", 1e-6, "sine and cosine of an f32 angle to a few units in the last place"},
    {"linear", 1e-5, "an f32 sum of up to a thousand products in any order: a few times √K × 2^-24"},
    {"attention", 1e-5, "f32 exponentials and sums of up to a thousand weighted values in any order"},
    {"latent_attention", 1e-5, "as attention"},
    {"route", 1e-6, "an f32 softmax; the ids are compared exactly"},
    {"expert_ffn", 1e-5, "two f32 sums of up to a thousand products in any order, an exponential, a sum over slots"},
    {"expert_ffn, encoded", 3e-3, "a hidden number that lies between two codes may be rounded to the other one"},
    {"fold_slots", 0, "docs/ops.md defines every bit"},
    {"short_conv", 1e-6, "an f32 sum of a few products, one exponential"},
    {"gated_delta_rule", 2e-5, "an f32 state that is rounded at each of a few hundred rows, or once a chunk"},
};

// Half of the distance between two numbers of the encoding, over the number; of q8_32, over the usual number of a
// block.
constexpr struct {
  uint32_t encoding;
  double relative_rms;
} kEncodings[] = {{TENON_ENC_BF16, 0x1p-9}, {TENON_ENC_F16, 0x1p-12}, {TENON_ENC_Q8_32, 0.02}};

}  // namespace

double encoding_bound(uint32_t encoding) {
  for (const auto& one : kEncodings)
    if (one.encoding == encoding) return one.relative_rms;
  return 0;
}

const Tolerance& tolerance_of(std::string_view op) {
  for (const Tolerance& one : kTolerances)
    if (one.op == op) return one;
  throw std::runtime_error("the kit has no tolerance for op " + std::string(op));
}

}  // namespace tenon::kit
