// console.hpp: standard output, standard error and the progress bar. One thread.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <tenon/engine.hpp>
#include <vector>

namespace tenon::launcher {

// Standard output failed. A closed pipe is not worth a message: the reader has seen what it wanted.
class OutputError : public Error {
 public:
  OutputError(const std::string& message, bool closed_pipe)
      : Error(ErrorKind::kRuntime, message), closed_pipe_(closed_pipe) {}
  bool closed_pipe() const { return closed_pipe_; }

 private:
  bool closed_pipe_;
};

// Opens /dev/null for a standard descriptor that the caller closed, so that no file of ours takes its number.
void open_console();
// How much the engine logs: 0 warnings, or what TENON_LOG says; 1 information; 2 details.
void set_verbosity(size_t verbosity);

// From now on nothing is printed or noted: another process does it. Or again everything.
void hush(bool silent);
// From now on standard output is no terminal, whatever it looks like: what started this process reads it and passes it on.
void pass_output_on();

// Writes all of `text` at once, unbuffered: what was generated is seen. Throws OutputError.
void print(std::string_view text);

// The text with '?' for control bytes other than newline and tab: names from a file must not command a terminal.
std::string printable(std::string_view text);

// A line on standard error, "tenon: " before it. Made printable.
void note(const std::string& line);

double seconds_since(std::chrono::steady_clock::time_point begin);
std::string fixed(double value, int digits);
std::string size_text(uint64_t bytes);  // "253.1 MB"

// Shows how far a load is: a bar on a terminal; elsewhere nothing, or with `verbose` a line at the end of a stage.
class ProgressBar {
 public:
  ProgressBar(bool terminal, bool verbose) : terminal_(terminal), verbose_(verbose) {}
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(const Progress& progress);
  void clear();

  // The line a terminal shows; separate for tests: of all ranks together, and how far each is. Seconds are those since the
  // stage began.
  static std::string line(std::span<const Progress> ranks, double seconds);

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Rank {
    Time begin;
    bool ended = false;
  };
  bool terminal_, verbose_, shown_ = false;
  std::vector<Progress> ranks_;  // how far each is, by its number
  std::vector<Rank> times_;      // of the same
  Time last_drawn_;
};

bool stderr_is_terminal();
bool output_is_terminal();

}  // namespace tenon::launcher
