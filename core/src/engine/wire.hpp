// wire.hpp: what rank 0 and the other ranks say to each other where they are processes, as messages.
#pragma once

#include "command.hpp"
#include "parallel/message.hpp"

#include <tenon/engine.hpp>
#include <tenon/error.hpp>

#include <cstdint>
#include <exception>
#include <span>
#include <string>

namespace tenon::engine::wire {

// The first number of every message.
enum class Kind : uint64_t {
  kLoad = 1,  // from rank 0: Load
  kCommand,   // serial number, asks (whether answers come), Command
  kVerdict,   // serial number: the command has ended on all ranks; sent where one failed
  kBeat,      // rank 0 is still there
  kEnd,       // there is no model any more
  kHello,     // from the others: protocol, host
  kProgress,  // Progress
  kResult,    // serial number, Result
};
constexpr uint64_t kProtocol = 3;

struct Load {
  ModelOptions options;     // without callbacks
  uint32_t ranks_here = 1;  // that share the cores of the receiver's machine
};

// A rank's share of ModelInfo's sums.
struct Share {
  uint64_t weight_bytes = 0, packed_bytes = 0, decode_weight_bytes = 0, arena_bytes = 0, store_bytes = 0, threads = 0;
};

struct Result {
  bool failed = false;
  ErrorKind kind = ErrorKind::kRuntime;
  bool is_alike = false, is_aftermath = false;
  std::string message;  // of a failure
  Outcome outcome;
  Share share;  // where it was a load
};
// A failure as a result, and the other way round.
Result failure(const std::exception_ptr& error, bool is_aftermath);
std::exception_ptr error_of(const Result& result);

void write(parallel::Writer& to, const Load& load);
Load read_load(parallel::Reader& from);
void write(parallel::Writer& to, const Command& command);
Command read_command(parallel::Reader& from);  // borrows the message
void write(parallel::Writer& to, const Result& result);
Result read_result(parallel::Reader& from);
void write(parallel::Writer& to, const Progress& progress);
Progress read_progress(parallel::Reader& from);

}  // namespace tenon::engine::wire
