// runtime.hpp: one rendering: its memory, its limits, and the walk over the nodes. One thread, one use.
#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <tenon/chat_template.hpp>

#include "template/ast.hpp"
#include "template/fault.hpp"
#include "template/value.hpp"

namespace tenon::templating {

class Runtime {
 public:
  Runtime(const Program& program, const RenderLimits& limits, std::optional<std::time_t> now);

  // `variables` is a Dict with texts as keys. Throws Fault.
  std::string render(const Value& variables);
  uint32_t line() const { return line_; }  // of the node that is or was being worked on
  Heap& heap() { return heap_; }
  std::time_t now() const { return now_ ? *now_ : std::time(nullptr); }

  // New values. Throw Fault(kLimit).
  Value text(std::string text, bool markup = false);
  Value list(Values items);
  Value tuple(Values items);
  Value iterator(Values items);
  Value dict();
  Value undefined(std::string reason);
  Value big_integer(std::string digits);
  template <typename T, typename... Args>
  Value object(Args&&... args) {
    return Value::of(heap_.make<T>(sizeof(T), std::forward<Args>(args)...));
  }

  // Counts work. Throw Fault(kLimit).
  void step(uint64_t steps = 1);
  void step_text(size_t bytes) { step(1 + bytes / 256); }
  void check_stack() const;
  // Before a text of `bytes` is built.
  void check_size(uint64_t bytes);

  Value call(const Value& callee, Arguments& arguments);
  Value apply_filter(std::string_view name, const Value& input, Arguments& arguments);
  bool apply_test(std::string_view name, const Value& input, Arguments& arguments);

  // Containers that are being shown right now: inside themselves they are only "...".
  std::vector<const Object*>& showing() { return showing_; }

  // Loops: the next item that passes the loop's test.
  bool fetch(Loop& loop, Value& item);
  bool peek(Loop& loop, Value& item);
  int64_t loop_length(Loop& loop);

 private:
  enum class Flow : uint8_t { kNext, kBreak, kContinue };
  class FrameScope;
  class Capture;
  class Deeper;

  // Statements: execute.cpp.
  Flow execute(const Body& body);
  Flow execute(const Stmt& stmt);
  void output(const OutputStmt& stmt);
  void emit(std::string_view text);
  Flow run_if(const IfStmt& stmt);
  Flow run_for(const ForStmt& stmt);
  Flow run_loop(const ForStmt& stmt, Value iterable, int64_t depth0);
  bool passes_test(Loop& loop, const Value& item);
  Flow run_set_block(const SetBlockStmt& stmt);
  void run_call_block(const CallBlockStmt& stmt);
  Flow run_filter_block(const FilterBlockStmt& stmt);
  Flow run_with(const WithStmt& stmt);
  void assign(const Expr& target, Value value);
  void check_namespaces(const Expr& target);

  // Scopes.
  Value enter(const Scope& scope);  // a new frame inside the current one
  void reset(ScopeFrame& frame);    // its slots as they begin
  Value& slot(Place place);
  Value variable(const std::string& name);
  ScopeFrame& frame() { return frame_.as<ScopeFrame>(); }

  // Expressions: evaluate.cpp.
  Value evaluate(const Expr& expr);
  Value constant(uint32_t index);
  Value evaluate_compare(const CompareExpr& expr);
  Value evaluate_slice(const Value& base, const SliceExpr& slice);
  Value evaluate_call(const CallExpr& expr, const Value* caller);
  Value evaluate_filter(const FilterExpr& expr, const Value* input);
  Value evaluate_dict(const DictExpr& expr);
  Arguments evaluate_arguments(const ArgumentList& list);

  // Calls: call.cpp.
  Value call_macro(const Macro& macro, Arguments& arguments);
  Value call_loop(Loop& loop, Arguments& arguments);

  const Program& program_;
  RenderLimits limits_;
  std::optional<std::time_t> now_;
  Heap heap_;  // before all values
  Value variables_, globals_, frame_;
  Values constants_;
  std::vector<const Object*> showing_;
  std::string* out_ = nullptr;
  uint64_t steps_ = 0, output_bytes_ = 0;
  uint32_t depth_ = 0, line_ = 0;
  const char* stack_base_ = nullptr;
};

}  // namespace tenon::templating
