// Statements, scopes, and what a rendering as a whole needs.
#include "template/builtins.hpp"
#include "template/operations.hpp"
#include "template/runtime.hpp"

namespace tenon::templating {

// Makes a frame the current one for as long as it lives.
class Runtime::FrameScope {
 public:
  FrameScope(Runtime& runtime, Value frame) : runtime_(runtime), outer_(std::move(frame)) {
    outer_.swap(runtime_.frame_);
  }
  ~FrameScope() { outer_.swap(runtime_.frame_); }
  FrameScope(const FrameScope&) = delete;
  FrameScope& operator=(const FrameScope&) = delete;

 private:
  Runtime& runtime_;
  Value outer_;
};

// Sends output into a text of its own for as long as it lives.
class Runtime::Capture {
 public:
  explicit Capture(Runtime& runtime) : runtime_(runtime), outer_(runtime.out_) { runtime.out_ = &text_; }
  ~Capture() { runtime_.out_ = outer_; }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  std::string take() { return std::move(text_); }

 private:
  Runtime& runtime_;
  std::string* outer_;
  std::string text_;
};

// Counts calls inside each other.
class Runtime::Deeper {
 public:
  explicit Deeper(Runtime& runtime) : runtime_(runtime) {
    if (++runtime_.depth_ <= runtime_.limits_.max_depth) return;
    --runtime_.depth_;
    throw Fault("macros call each other more than " + std::to_string(runtime_.limits_.max_depth) + " levels deep",
                FaultKind::kLimit);
  }
  ~Deeper() { --runtime_.depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  Runtime& runtime_;
};

Runtime::Runtime(const Program& program, const RenderLimits& limits, std::optional<std::time_t> now)
    : program_(program),
      limits_(limits),
      now_(now),
      heap_(limits.max_memory_bytes),
      stack_base_(static_cast<const char*>(__builtin_frame_address(0))) {
  constants_.resize(program.constants.size());
}

Value Runtime::text(std::string text, bool markup) {
  return Value::of(heap_.make<Text>(sizeof(Text) + text.size(), std::move(text), markup));
}
Value Runtime::list(Values items) {
  const size_t bytes = sizeof(Sequence) + items.size() * sizeof(Value);
  return Value::of(heap_.make<Sequence>(bytes, Kind::kList, std::move(items)));
}
Value Runtime::tuple(Values items) {
  const size_t bytes = sizeof(Sequence) + items.size() * sizeof(Value);
  return Value::of(heap_.make<Sequence>(bytes, Kind::kTuple, std::move(items)));
}
Value Runtime::iterator(Values items) {
  const size_t bytes = sizeof(Iterator) + items.size() * sizeof(Value);
  return Value::of(heap_.make<Iterator>(bytes, std::move(items)));
}
Value Runtime::dict() { return object<Dict>(); }
Value Runtime::undefined(std::string reason) {
  return Value::of(heap_.make<Reason>(sizeof(Reason) + reason.size(), std::move(reason)), Kind::kUndefined);
}
Value Runtime::big_integer(std::string digits) {
  return Value::of(heap_.make<BigNumber>(sizeof(BigNumber) + digits.size(), std::move(digits)));
}

void Runtime::step(uint64_t steps) {
  steps_ += steps;
  if (steps_ > limits_.max_steps || steps_ < steps)
    throw Fault("rendering takes more than " + std::to_string(limits_.max_steps) + " steps", FaultKind::kLimit);
}

void Runtime::check_stack() const {
  const auto* here = static_cast<const char*>(__builtin_frame_address(0));
  const auto used = static_cast<uint64_t>(here < stack_base_ ? stack_base_ - here : here - stack_base_);
  if (used > limits_.max_stack_bytes) throw Fault("calls or values are nested too deep", FaultKind::kLimit);
}

void Runtime::check_size(uint64_t bytes) { heap_.check(bytes); }

std::string Runtime::render(const Value& variables) {
  variables_ = variables;
  globals_ = dict();
  for (const FunctionSpec& function : functions())
    dict_set(*this, globals_.as<Dict>(), function.name, object<Function>(function.name, function.body));
  std::string result;
  out_ = &result;
  frame_ = enter(program_.scope);
  execute(program_.body);
  return result;
}

Value Runtime::variable(const std::string& name) {
  if (const Value* value = dict_find(variables_.as<Dict>(), name)) return *value;
  if (const Value* value = dict_find(globals_.as<Dict>(), name)) return *value;
  return Value();
}

Value Runtime::enter(const Scope& scope) {
  const size_t bytes = sizeof(ScopeFrame) + scope.loads.size() * sizeof(Value);
  Value frame = Value::of(heap_.make<ScopeFrame>(bytes, scope, frame_));
  frame.as<ScopeFrame>().slots.resize(scope.loads.size());
  reset(frame.as<ScopeFrame>());
  return frame;
}

void Runtime::reset(ScopeFrame& frame) {
  for (size_t i = 0; i < frame.slots.size(); ++i) {
    const SlotLoad& load = frame.scope.loads[i];
    switch (load.kind) {
      case SlotLoad::kMissing:
      case SlotLoad::kParameter:
        frame.slots[i] = Value();
        break;
      case SlotLoad::kVariable:
        frame.slots[i] = variable(frame.scope.names[i]);
        break;
      case SlotLoad::kCopy: {
        ScopeFrame* from = &frame;
        for (uint32_t hops = load.from.hops; hops > 0; --hops) from = &from->outer.as<ScopeFrame>();
        frame.slots[i] = from->slots[load.from.slot];
        break;
      }
    }
  }
}

Value& Runtime::slot(Place place) {
  ScopeFrame* from = &frame();
  for (uint32_t hops = place.hops; hops > 0; --hops) from = &from->outer.as<ScopeFrame>();
  return from->slots[place.slot];
}

void Runtime::emit(std::string_view text) {
  output_bytes_ += text.size();
  if (output_bytes_ > limits_.max_output_bytes)
    throw Fault("rendering gives more than " + std::to_string(limits_.max_output_bytes) + " bytes of text",
                FaultKind::kLimit);
  step_text(text.size());
  *out_ += text;
}

Runtime::Flow Runtime::execute(const Body& body) {
  for (const Stmt* stmt : body) {
    const Flow flow = execute(*stmt);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Runtime::Flow Runtime::execute(const Stmt& stmt) {
  step();
  check_stack();
  line_ = stmt.line;
  switch (stmt.kind) {
    case StmtKind::kOutput:
      output(static_cast<const OutputStmt&>(stmt));
      return Flow::kNext;
    case StmtKind::kIf:
      return run_if(static_cast<const IfStmt&>(stmt));
    case StmtKind::kFor:
      return run_for(static_cast<const ForStmt&>(stmt));
    case StmtKind::kSet: {
      const auto& set = static_cast<const SetStmt&>(stmt);
      check_namespaces(*set.target);
      Value value = evaluate(*set.value);
      line_ = stmt.line;
      assign(*set.target, std::move(value));
      return Flow::kNext;
    }
    case StmtKind::kSetBlock:
      return run_set_block(static_cast<const SetBlockStmt&>(stmt));
    case StmtKind::kMacro: {
      const auto& macro = static_cast<const MacroStmt&>(stmt);
      slot(macro.place) = object<Macro>(macro.callable, frame_);
      return Flow::kNext;
    }
    case StmtKind::kCallBlock:
      run_call_block(static_cast<const CallBlockStmt&>(stmt));
      return Flow::kNext;
    case StmtKind::kFilterBlock:
      return run_filter_block(static_cast<const FilterBlockStmt&>(stmt));
    case StmtKind::kWith:
      return run_with(static_cast<const WithStmt&>(stmt));
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

void Runtime::output(const OutputStmt& stmt) {
  for (const OutputStmt::Part& part : stmt.parts) {
    if (!part.expression) {
      emit(part.text);
      continue;
    }
    line_ = part.expression->line;
    const Value value = evaluate(*part.expression);
    if (value.is_text())
      emit(text_of(value));
    else
      emit(to_text(*this, value));
  }
}

Runtime::Flow Runtime::run_if(const IfStmt& stmt) {
  for (const IfStmt::Branch& branch : stmt.branches) {
    line_ = branch.test->line;
    if (truthy(evaluate(*branch.test))) return execute(branch.body);
  }
  return execute(stmt.otherwise);
}

Runtime::Flow Runtime::run_for(const ForStmt& stmt) {
  Value iterable = evaluate(*stmt.iterable);
  line_ = stmt.line;
  return run_loop(stmt, std::move(iterable), 0);
}

// A break or continue in the body is dealt with here; one in the else part is passed on.
Runtime::Flow Runtime::run_loop(const ForStmt& stmt, Value iterable, int64_t depth0) {
  const Value loop_value = object<Loop>();
  Loop& loop = loop_value.as<Loop>();
  loop.statement = &stmt;
  loop.frame = frame_;
  loop.depth0 = depth0;
  loop.source = Cursor(*this, std::move(iterable));
  bool finished_one = false;  // a body that ends early does not count
  {
    const FrameScope scope(*this, enter(stmt.scope));
    bool is_first = true;
    for (Value item; fetch(loop, item);) {
      if (!is_first) reset(frame());
      is_first = false;
      if (stmt.loop_slot >= 0) frame().slots[static_cast<size_t>(stmt.loop_slot)] = loop_value;
      line_ = stmt.line;
      assign(*stmt.target, item);
      const Flow flow = execute(stmt.body);
      if (flow == Flow::kBreak) break;
      if (flow == Flow::kNext) finished_one = true;
    }
  }
  if (!stmt.has_else || finished_one) return Flow::kNext;
  const FrameScope scope(*this, enter(stmt.else_scope));
  return execute(stmt.otherwise);
}

bool Runtime::passes_test(Loop& loop, const Value& item) {
  if (!loop.statement->test) return true;
  const FrameScope around(*this, loop.frame);
  const FrameScope scope(*this, enter(loop.statement->test_scope));
  assign(*loop.statement->test_target, item);
  return truthy(evaluate(*loop.statement->test));
}

bool Runtime::peek(Loop& loop, Value& item) {
  if (loop.next_pending < loop.pending.size()) {
    item = loop.pending[loop.next_pending];
    return true;
  }
  while (loop.source.next(*this, item)) {
    if (!passes_test(loop, item)) continue;
    loop.pending.clear();
    loop.next_pending = 0;
    loop.pending.push_back(item);
    return true;
  }
  return false;
}

bool Runtime::fetch(Loop& loop, Value& item) {
  if (!peek(loop, item)) return false;
  ++loop.next_pending;
  ++loop.index0;
  loop.before = std::move(loop.current);
  loop.current = item;
  return true;
}

int64_t Runtime::loop_length(Loop& loop) {
  if (loop.length >= 0) return loop.length;
  if (!loop.statement->test && loop.source.size() >= 0) return loop.length = loop.source.size();
  // Go through the rest; the loop then gets it from `pending`.
  Values rest(loop.pending.begin() + static_cast<std::ptrdiff_t>(loop.next_pending), loop.pending.end());
  for (Value item; loop.source.next(*this, item);)
    if (passes_test(loop, item)) rest.push_back(item);
  loop.pending = std::move(rest);
  loop.next_pending = 0;
  return loop.length = loop.index0 + 1 + static_cast<int64_t>(loop.pending.size());
}

Runtime::Flow Runtime::run_set_block(const SetBlockStmt& stmt) {
  const Value block = enter(stmt.scope);
  Value value;
  {
    const FrameScope scope(*this, block);
    Capture capture(*this);
    const Flow flow = execute(stmt.body);
    if (flow != Flow::kNext) return flow;
    value = text(capture.take());
    if (stmt.filter) value = evaluate_filter(*stmt.filter, &value);
  }
  line_ = stmt.line;
  check_namespaces(*stmt.target);
  assign(*stmt.target, std::move(value));
  return Flow::kNext;
}

void Runtime::run_call_block(const CallBlockStmt& stmt) {
  const Value caller = object<Macro>(stmt.callable, frame_);
  Arguments none;
  const Value result = stmt.call ? evaluate_call(*stmt.call, &caller) : call(caller, none);
  emit(to_text(*this, result));
}

Runtime::Flow Runtime::run_filter_block(const FilterBlockStmt& stmt) {
  Value value;
  {
    const FrameScope scope(*this, enter(stmt.scope));
    Capture capture(*this);
    const Flow flow = execute(stmt.body);
    if (flow != Flow::kNext) return flow;
    value = text(capture.take());
    value = evaluate_filter(*stmt.filter, &value);
  }
  emit(to_text(*this, value));
  return Flow::kNext;
}

Runtime::Flow Runtime::run_with(const WithStmt& stmt) {
  const Value inner = enter(stmt.scope);
  for (const auto& [target, expr] : stmt.assignments) {
    Value value = evaluate(*expr);
    const FrameScope scope(*this, inner);
    assign(*target, std::move(value));
  }
  const FrameScope scope(*this, inner);
  return execute(stmt.body);
}

void Runtime::check_namespaces(const Expr& target) {
  if (target.kind == ExprKind::kNamespaceRef) {
    if (!slot(static_cast<const NamespaceRefExpr&>(target).base->place).is(Kind::kNamespace))
      throw Fault("cannot assign attribute on non-namespace object");
  } else if (target.kind == ExprKind::kTuple) {
    for (const Expr* item : static_cast<const ItemsExpr&>(target).items) check_namespaces(*item);
  }
}

void Runtime::assign(const Expr& target, Value value) {
  if (target.kind == ExprKind::kName) {
    slot(static_cast<const NameExpr&>(target).place) = std::move(value);
    return;
  }
  if (target.kind == ExprKind::kNamespaceRef) {
    const auto& reference = static_cast<const NamespaceRefExpr&>(target);
    const Value space = slot(reference.base->place);
    if (!space.is(Kind::kNamespace)) throw Fault("cannot assign attribute on non-namespace object");
    auto& attributes = space.as<Namespace>().attributes;
    for (auto& [name, item] : attributes) {
      if (name != reference.attribute) continue;
      item = std::move(value);
      return;
    }
    attributes.emplace_back(reference.attribute, std::move(value));
    return;
  }
  const auto& targets = static_cast<const ItemsExpr&>(target).items;
  if (value.is_undefined() && !targets.empty()) fail_undefined(value);
  Values items = to_values(*this, value);
  if (items.size() < targets.size())
    throw Fault("not enough values to unpack (expected " + std::to_string(targets.size()) + ", got " +
                std::to_string(items.size()) + ")");
  if (items.size() > targets.size())
    throw Fault("too many values to unpack (expected " + std::to_string(targets.size()) + ")");
  for (size_t i = 0; i < targets.size(); ++i) assign(*targets[i], std::move(items[i]));
}

// A macro's parameters, then its body. Errors are those of Python's calls.
Value Runtime::call_macro(const Macro& macro, Arguments& arguments) {
  const Deeper deeper(*this);
  const Callable& callable = macro.callable;
  const Value pinned_frame = macro.frame;
  const FrameScope around(*this, pinned_frame);
  const FrameScope scope(*this, enter(callable.scope));
  const auto take = [&](const std::string& name) {
    for (size_t i = 0; i < arguments.named.size(); ++i) {
      if (arguments.named[i].first != name) continue;
      Value value = std::move(arguments.named[i].second);
      arguments.named.erase(arguments.named.begin() + static_cast<std::ptrdiff_t>(i));
      return value;
    }
    return Value();
  };
  const size_t n = callable.parameters.size();
  const size_t n_given = std::min(n, arguments.positional.size());
  for (size_t i = 0; i < n; ++i)
    frame().slots[callable.parameters[i].slot] =
        i < n_given ? arguments.positional[i] : take(callable.parameters[i].name);
  if (callable.caller_slot >= 0) {
    Value caller = take("caller");
    frame().slots[static_cast<size_t>(callable.caller_slot)] =
        caller.is(Kind::kMissing) || caller.is_none() ? undefined("No caller defined") : std::move(caller);
  }
  if (callable.kwargs_slot >= 0) {
    Value rest = dict();
    for (auto& [name, value] : arguments.named) dict_set(*this, rest.as<Dict>(), name, std::move(value));
    frame().slots[static_cast<size_t>(callable.kwargs_slot)] = std::move(rest);
  } else if (!arguments.named.empty()) {
    const std::string& name = arguments.named.front().first;
    throw Fault("macro '" + callable.name + "' takes no keyword argument '" + name + "'");
  }
  if (callable.varargs_slot >= 0) {
    Values rest(arguments.positional.begin() + static_cast<std::ptrdiff_t>(n_given), arguments.positional.end());
    frame().slots[static_cast<size_t>(callable.varargs_slot)] = tuple(std::move(rest));
  } else if (arguments.positional.size() > n) {
    throw Fault("macro '" + callable.name + "' takes not more than " + std::to_string(n) + " argument(s)");
  }
  for (const Parameter& parameter : callable.parameters) {
    if (!frame().slots[parameter.slot].is(Kind::kMissing)) continue;
    Value value = parameter.default_value ? evaluate(*parameter.default_value)
                                          : undefined("parameter '" + parameter.name + "' was not provided");
    frame().slots[parameter.slot] = std::move(value);
  }
  Capture capture(*this);
  execute(callable.body);
  return text(capture.take());
}

// loop(children): the loop again, for other items.
Value Runtime::call_loop(Loop& loop, Arguments& arguments) {
  if (!loop.statement->recursive) throw Fault("The loop must have the 'recursive' marker to be called recursively.");
  const auto [iterable] = bind(arguments, "loop", {"iterable"}, 1);
  const Deeper deeper(*this);
  const Value pinned_frame = loop.frame;
  const FrameScope around(*this, pinned_frame);
  Capture capture(*this);
  run_loop(*loop.statement, iterable, loop.depth0 + 1);
  return text(capture.take());
}

}  // namespace tenon::templating
