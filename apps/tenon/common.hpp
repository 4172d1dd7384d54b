// common.hpp: what several verbs do: options for the engine, loading with progress, checks.
#pragma once

#include <memory>
#include <string>
#include <tenon/engine.hpp>
#include <vector>

#include "arguments.hpp"
#include "console.hpp"
#include "token_ids.hpp"

namespace tenon::launcher {

EngineOptions engine_options(const Arguments& arguments);

// Throws Error(kUsage) without a model or where flags contradict each other. `needed` is the context in tokens that the
// request takes: without --ctx-size the model gets that, at least 8192, and no more than it was trained for.
ModelOptions model_options(const Arguments& arguments, int64_t needed);

// What moves values between ranks: what a flag says, or mpi where several processes were started; "" = what fits the backend.
std::string collective_of(const Arguments& arguments);
uint32_t rank_timeout_ms(const Arguments& arguments);

// Loads with a progress bar and says on standard error what runs where.
std::unique_ptr<Model> load_model(Engine& engine, const Arguments& arguments, ModelOptions options);

// Tokens that a sequence of `model` may hold: its context, without --ctx-size no more than it was trained for.
int64_t context_limit(const Model& model, const Arguments& arguments);

// Throws Error(kCapacity) with the numbers when `needed` tokens do not fit.
void check_context(const Model& model, const Arguments& arguments, int64_t needed, const std::string& what);

std::string text_or_usage_error(const Arguments& arguments, std::string_view option);

// Says on standard error what the user should know about a vocabulary.
void warn_about(const Tokenizer& tokenizer);

// Throws Error(kInterrupted) after Ctrl-C.
void stop_if_interrupted();

}  // namespace tenon::launcher
