// eval_draft.hpp: `tenon eval --entry draft.N`: the model over the tokens, and its drafts over what it leaves.
#pragma once

#include <cstdint>
#include <string>
#include <tenon/engine.hpp>
#include <vector>

#include "arguments.hpp"
#include "eval_output.hpp"

namespace tenon::launcher {

// The entries that lead to `entry`: draft.0 … draft.N for draft.N, else the name alone.
std::vector<std::string> draft_chain(const std::string& entry);

// Row t of draft.k joins token t + 1 + k and the hidden row t of the entry before it, main or draft.k-1; its logits are
// for token t + 2 + k. All are fed part by part, so that a window's keys are still there when a draft reads them. The
// last of `drafts` is written, with taps of its own.
void evaluate_draft(Model& model, const Arguments& arguments, const std::vector<int32_t>& tokens,
                    const std::vector<std::string>& drafts, EvalOutput& output);

}  // namespace tenon::launcher
