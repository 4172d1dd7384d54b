// Jinja's rules for names. A scope's own text, without the scopes inside it, is read from top to bottom:
//   - a name that is read and that neither this scope nor one around it knows is a variable given from outside;
//   - a name that is assigned becomes the scope's own. If a scope around it knows the name, it begins with the value
//   from
//     there, else without a value, unless it was read before;
//   - the branches of an `if` are read separately. A name that only they assign begins with the value from around, or
//     from outside.
// What a name means in the whole scope is decided by that before anything is rendered.
#include "template/symbols.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>

#include "template/fault.hpp"

namespace tenon::templating {
namespace {

constexpr size_t kMaxNames = 1000;  // of one scope: bounds the time that branches take

// What is known of one scope while its text is read.
struct Symbols {
  Symbols(Scope& scope, Symbols* outer) : scope(scope), outer(outer) {}

  // State of a slot; copied for each branch.
  struct State {
    bool known = false, stored = false;
    SlotLoad load;
  };

  uint32_t slot(const std::string& name) {
    const auto [found, is_new] = slots.try_emplace(name, static_cast<uint32_t>(scope.names.size()));
    if (is_new) {
      if (scope.names.size() >= kMaxNames)
        throw SyntaxFault(0, "the template has more than " + std::to_string(kMaxNames) + " variables in a scope");
      scope.names.push_back(name);
      states.emplace_back();
    }
    return found->second;
  }

  // Where a name is known, seen from this scope.
  std::optional<Place> find(const std::string& name) const {
    uint32_t hops = 0;
    for (const Symbols* scope = this; scope; scope = scope->outer, ++hops) {
      const auto found = scope->slots.find(name);
      if (found != scope->slots.end() && found->second < scope->states.size() && scope->states[found->second].known)
        return Place{hops, found->second};
    }
    return std::nullopt;
  }

  // How a name that belongs to this scope begins, going by the scopes around.
  SlotLoad from_outside(const std::string& name, SlotLoad::Kind otherwise) const {
    if (outer) {
      if (const std::optional<Place> place = outer->find(name))
        return {SlotLoad::kCopy, {place->hops + 1, place->slot}};
    }
    return {otherwise, {}};
  }

  void parameter(const std::string& name) { states[slot(name)] = {true, true, {SlotLoad::kParameter, {}}}; }

  void store(const std::string& name) {
    State& state = states[slot(name)];
    state.stored = true;
    if (state.known) return;
    state.known = true;
    state.load = from_outside(name, SlotLoad::kMissing);
  }

  void load(const std::string& name) {
    if (!find(name)) states[slot(name)] = {true, false, {SlotLoad::kVariable, {}}};
  }

  Scope& scope;
  Symbols* outer;
  std::unordered_map<std::string, uint32_t> slots;
  std::vector<State> states;
};

class Placer {
 public:
  // Reads the scope's own text.
  void read(Symbols& symbols, const Body& body) {
    for (Stmt* stmt : body) read(symbols, *stmt);
  }

  // Gives places to names, in the scopes inside too.
  void place(Symbols& symbols, const Body& body) {
    for (Stmt* stmt : body) place(symbols, *stmt);
  }

  void finish(Symbols& symbols) {
    for (const Symbols::State& state : symbols.states) symbols.scope.loads.push_back(state.load);
  }

 private:
  void read(Symbols& symbols, Expr& expr) {
    if (expr.kind == ExprKind::kName) return symbols.load(static_cast<NameExpr&>(expr).name);
    for_each_child(expr, [&](Expr& child) { read(symbols, child); });
  }

  void read_target(Symbols& symbols, Expr& target, bool as_parameter) {
    if (target.kind == ExprKind::kName) {
      const std::string& name = static_cast<NameExpr&>(target).name;
      return as_parameter ? symbols.parameter(name) : symbols.store(name);
    }
    if (target.kind == ExprKind::kNamespaceRef) return read(symbols, target);
    for_each_child(target, [&](Expr& child) { read_target(symbols, child, as_parameter); });
  }

  void read(Symbols& symbols, Stmt& stmt) {
    switch (stmt.kind) {
      case StmtKind::kOutput:
        for (const OutputStmt::Part& part : static_cast<OutputStmt&>(stmt).parts)
          if (part.expression) read(symbols, *part.expression);
        return;
      case StmtKind::kIf:
        return read_if(symbols, static_cast<IfStmt&>(stmt));
      case StmtKind::kFor:
        return read(symbols, *static_cast<ForStmt&>(stmt).iterable);
      case StmtKind::kSet:
        read(symbols, *static_cast<SetStmt&>(stmt).value);
        return read_target(symbols, *static_cast<SetStmt&>(stmt).target, false);
      case StmtKind::kSetBlock:
        return read_target(symbols, *static_cast<SetBlockStmt&>(stmt).target, false);
      case StmtKind::kMacro:
        return symbols.store(static_cast<MacroStmt&>(stmt).callable.name);
      case StmtKind::kCallBlock:
        if (static_cast<CallBlockStmt&>(stmt).call) read(symbols, *static_cast<CallBlockStmt&>(stmt).call);
        return;
      case StmtKind::kFilterBlock:
        return read(symbols, *static_cast<FilterBlockStmt&>(stmt).filter);
      case StmtKind::kWith:
        for (const auto& [target, value] : static_cast<WithStmt&>(stmt).assignments) read(symbols, *value);
        return;
      case StmtKind::kBreak:
      case StmtKind::kContinue:
        return;
    }
  }

  using States = std::vector<Symbols::State>;

  // Reads with the states as they were before, and answers those after.
  template <typename Read>
  States branch(Symbols& symbols, const States& before, Read read_branch) {
    States kept = before;
    kept.resize(symbols.states.size());
    symbols.states = std::move(kept);
    read_branch();
    return symbols.states;
  }

  void read_if(Symbols& symbols, IfStmt& stmt) {
    read(symbols, *stmt.branches.front().test);
    const States before = symbols.states;
    std::vector<States> branches;
    branches.push_back(branch(symbols, before, [&] { read(symbols, stmt.branches.front().body); }));
    branches.push_back(branch(symbols, before, [&] {
      for (size_t i = 1; i < stmt.branches.size(); ++i) read_elif(symbols, stmt.branches[i]);
    }));
    branches.push_back(branch(symbols, before, [&] { read(symbols, stmt.otherwise); }));
    merge(symbols, before, branches);
  }

  // All of them are one branch of the `if`, and each is one of its own in there.
  void read_elif(Symbols& symbols, IfStmt::Branch& elif) {
    read(symbols, *elif.test);
    const States before = symbols.states;
    std::vector<States> branches;
    branches.push_back(branch(symbols, before, [&] { read(symbols, elif.body); }));
    merge(symbols, before, branches);
  }

  void merge(Symbols& symbols, States before, std::vector<States>& branches) {
    const size_t n = symbols.states.size();
    before.resize(n);
    States merged = before;
    for (States& states : branches) {
      states.resize(n);
      for (size_t i = 0; i < n; ++i) {
        if (!states[i].known) continue;
        merged[i].known = true;
        merged[i].load = states[i].load;
        merged[i].stored |= states[i].stored;
      }
    }
    for (size_t i = 0; i < n; ++i)
      if (merged[i].stored && !before[i].stored)
        merged[i].load = symbols.from_outside(symbols.scope.names[i], SlotLoad::kVariable);
    symbols.states = std::move(merged);
  }

  void place(Symbols& symbols, Expr& expr) {
    if (expr.kind == ExprKind::kName) {
      auto& name = static_cast<NameExpr&>(expr);
      if (!symbols.find(name.name)) symbols.load(name.name);  // in the filter of a set block
      name.place = *symbols.find(name.name);
      return;
    }
    for_each_child(expr, [&](Expr& child) { place(symbols, child); });
  }

  void place(Symbols& symbols, Stmt& stmt) {
    switch (stmt.kind) {
      case StmtKind::kOutput:
        for (const OutputStmt::Part& part : static_cast<OutputStmt&>(stmt).parts)
          if (part.expression) place(symbols, *part.expression);
        return;
      case StmtKind::kIf:
        for (IfStmt::Branch& branch : static_cast<IfStmt&>(stmt).branches) {
          place(symbols, *branch.test);
          place(symbols, branch.body);
        }
        return place(symbols, static_cast<IfStmt&>(stmt).otherwise);
      case StmtKind::kFor:
        return place_for(symbols, static_cast<ForStmt&>(stmt));
      case StmtKind::kSet:
        place(symbols, *static_cast<SetStmt&>(stmt).value);
        return place(symbols, *static_cast<SetStmt&>(stmt).target);
      case StmtKind::kSetBlock: {
        auto& set = static_cast<SetBlockStmt&>(stmt);
        place(symbols, *set.target);
        return inside(symbols, set.scope, set.body, [&](Symbols& inner) {
          if (set.filter) place(inner, *set.filter);
        });
      }
      case StmtKind::kMacro: {
        auto& macro = static_cast<MacroStmt&>(stmt);
        macro.place = *symbols.find(macro.callable.name);
        return place_callable(symbols, macro.callable);
      }
      case StmtKind::kCallBlock: {
        auto& block = static_cast<CallBlockStmt&>(stmt);
        if (block.call) place(symbols, *block.call);
        return place_callable(symbols, block.callable);
      }
      case StmtKind::kFilterBlock: {
        auto& block = static_cast<FilterBlockStmt&>(stmt);
        Symbols inner(block.scope, &symbols);
        read(inner, block.body);
        read(inner, *block.filter);
        place(inner, *block.filter);
        place(inner, block.body);
        return finish(inner);
      }
      case StmtKind::kWith: {
        auto& with = static_cast<WithStmt&>(stmt);
        Symbols inner(with.scope, &symbols);
        for (const auto& [target, value] : with.assignments) read_target(inner, *target, true);
        read(inner, with.body);
        for (const auto& [target, value] : with.assignments) {
          place(inner, *target);
          place(symbols, *value);
        }
        place(inner, with.body);
        return finish(inner);
      }
      case StmtKind::kBreak:
      case StmtKind::kContinue:
        return;
    }
  }

  // A scope that is nothing but its body.
  template <typename More>
  void inside(Symbols& symbols, Scope& scope, const Body& body, More more) {
    Symbols inner(scope, &symbols);
    read(inner, body);
    place(inner, body);
    more(inner);
    finish(inner);
  }

  void place_for(Symbols& symbols, ForStmt& stmt) {
    place(symbols, *stmt.iterable);
    Symbols inner(stmt.scope, &symbols);
    if (stmt.recursive || mentions(stmt.body, {"loop"})[0]) {
      inner.parameter("loop");
      stmt.loop_slot = static_cast<int32_t>(inner.slot("loop"));
    }
    read_target(inner, *stmt.target, true);
    read(inner, stmt.body);
    place(inner, *stmt.target);
    place(inner, stmt.body);
    finish(inner);
    if (stmt.test) {
      Symbols testing(stmt.test_scope, &symbols);
      read_target(testing, *stmt.test_target, true);
      read(testing, *stmt.test);
      place(testing, *stmt.test_target);
      place(testing, *stmt.test);
      finish(testing);
    }
    if (stmt.has_else) inside(symbols, stmt.else_scope, stmt.otherwise, [](Symbols&) {});
  }

  void place_callable(Symbols& symbols, Callable& callable) {
    Symbols inner(callable.scope, &symbols);
    for (Parameter& parameter : callable.parameters) {
      inner.parameter(parameter.name);
      parameter.slot = inner.slot(parameter.name);
    }
    const std::vector<bool> mentioned = mentions(callable.body, {"caller", "kwargs", "varargs"});
    const auto special = [&](size_t which, const std::string& name) -> int32_t {
      const bool is_parameter = std::any_of(callable.parameters.begin(), callable.parameters.end(),
                                            [&](const Parameter& parameter) { return parameter.name == name; });
      if (!mentioned[which] || is_parameter) return -1;
      inner.parameter(name);
      return static_cast<int32_t>(inner.slot(name));
    };
    callable.caller_slot = special(0, "caller");
    callable.kwargs_slot = special(1, "kwargs");
    callable.varargs_slot = special(2, "varargs");
    for (Parameter& parameter : callable.parameters)
      if (parameter.default_value) read(inner, *parameter.default_value);
    read(inner, callable.body);
    for (Parameter& parameter : callable.parameters)
      if (parameter.default_value) place(inner, *parameter.default_value);
    place(inner, callable.body);
    finish(inner);
  }

  // Which of `names` a body reads before it assigns them, everywhere inside.
  class Mentions {
   public:
    explicit Mentions(std::vector<std::string> names) : names_(std::move(names)), found_(names_.size()) {}

    void body(const Body& body) {
      for (const Stmt* stmt : body) statement(*const_cast<Stmt*>(stmt));
    }
    const std::vector<bool>& found() const { return found_; }

   private:
    void expression(Expr& expr) {
      if (expr.kind == ExprKind::kName) return name(static_cast<NameExpr&>(expr).name, false);
      for_each_child(expr, [&](Expr& child) { expression(child); });
    }
    void target(Expr& expr) {
      if (expr.kind == ExprKind::kName) return name(static_cast<NameExpr&>(expr).name, true);
      if (expr.kind == ExprKind::kTuple) for_each_child(expr, [&](Expr& child) { target(child); });
    }
    void name(const std::string& text, bool assigned) {
      for (size_t i = 0; i < names_.size(); ++i) {
        if (names_[i] != text) continue;
        if (assigned)
          names_[i].clear();  // what comes after means another variable
        else
          found_[i] = true;
      }
    }
    void callable(Callable& inner) {
      for (const Parameter& parameter : inner.parameters) name(parameter.name, true);
      for (const Parameter& parameter : inner.parameters)
        if (parameter.default_value) expression(*parameter.default_value);
      body(inner.body);
    }
    void statement(Stmt& stmt) {
      switch (stmt.kind) {
        case StmtKind::kOutput:
          for (const OutputStmt::Part& part : static_cast<OutputStmt&>(stmt).parts)
            if (part.expression) expression(*part.expression);
          return;
        case StmtKind::kIf:
          for (IfStmt::Branch& branch : static_cast<IfStmt&>(stmt).branches) {
            expression(*branch.test);
            body(branch.body);
          }
          return body(static_cast<IfStmt&>(stmt).otherwise);
        case StmtKind::kFor: {
          auto& loop = static_cast<ForStmt&>(stmt);
          target(*loop.target);
          expression(*loop.iterable);
          body(loop.body);
          body(loop.otherwise);
          if (loop.test) expression(*loop.test);
          return;
        }
        case StmtKind::kSet:
          target(*static_cast<SetStmt&>(stmt).target);
          return expression(*static_cast<SetStmt&>(stmt).value);
        case StmtKind::kSetBlock:
          target(*static_cast<SetBlockStmt&>(stmt).target);
          if (static_cast<SetBlockStmt&>(stmt).filter) expression(*static_cast<SetBlockStmt&>(stmt).filter);
          return body(static_cast<SetBlockStmt&>(stmt).body);
        case StmtKind::kMacro:
          return callable(static_cast<MacroStmt&>(stmt).callable);
        case StmtKind::kCallBlock:
          if (static_cast<CallBlockStmt&>(stmt).call) expression(*static_cast<CallBlockStmt&>(stmt).call);
          return callable(static_cast<CallBlockStmt&>(stmt).callable);
        case StmtKind::kFilterBlock:
          body(static_cast<FilterBlockStmt&>(stmt).body);
          return expression(*static_cast<FilterBlockStmt&>(stmt).filter);
        case StmtKind::kWith:
          for (const auto& [place, value] : static_cast<WithStmt&>(stmt).assignments) target(*place);
          for (const auto& [place, value] : static_cast<WithStmt&>(stmt).assignments) expression(*value);
          return body(static_cast<WithStmt&>(stmt).body);
        case StmtKind::kBreak:
        case StmtKind::kContinue:
          return;
      }
    }

    std::vector<std::string> names_;
    std::vector<bool> found_;
  };

  static std::vector<bool> mentions(const Body& body, std::vector<std::string> names) {
    Mentions search(std::move(names));
    search.body(body);
    return search.found();
  }
};

}  // namespace

void place_names(Program& program) {
  Placer placer;
  Symbols root(program.scope, nullptr);
  placer.read(root, program.body);
  placer.place(root, program.body);
  placer.finish(root);
}

}  // namespace tenon::templating
