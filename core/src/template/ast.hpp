// ast.hpp: a parsed template: nodes, constants, and for each scope which variables it has and how they begin.
//
// Jinja decides before rendering which scope a name belongs to, from where it is assigned in the text. So names are
// places here: so many scopes out, slot number so-and-so.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace tenon::templating {

struct FilterSpec;
struct TestSpec;

struct Node {
  virtual ~Node() = default;
  uint32_t line = 0;
};

enum class ExprKind : uint8_t {
  kLiteral,
  kName,
  kNamespaceRef,  // only as a target
  kList,
  kTuple,
  kDict,
  kSlice,  // only as a subscript
  kAttribute,
  kItem,
  kCall,
  kFilter,
  kTest,
  kUnary,
  kNot,
  kBinary,
  kAnd,
  kOr,
  kCompare,
  kConcat,
  kConditional
};

struct Expr : Node {
  explicit Expr(ExprKind kind) : kind(kind) {}
  ExprKind kind;
  uint32_t height = 1;  // nodes on the longest way down; the parser bounds it, so that walks may recurse
};

// Where a variable lives at run time: `hops` scopes outwards.
struct Place {
  uint32_t hops = 0, slot = 0;
};

struct LiteralExpr : Expr {
  LiteralExpr() : Expr(ExprKind::kLiteral) {}
  uint32_t constant = 0;  // index into Program::constants
};

struct NameExpr : Expr {
  NameExpr() : Expr(ExprKind::kName) {}
  std::string name;
  Place place;
};

struct NamespaceRefExpr : Expr {
  NamespaceRefExpr() : Expr(ExprKind::kNamespaceRef) {}
  NameExpr* base = nullptr;
  std::string attribute;
};

struct ItemsExpr : Expr {  // kList, kTuple, kConcat
  using Expr::Expr;
  std::vector<Expr*> items;
};

struct DictExpr : Expr {
  DictExpr() : Expr(ExprKind::kDict) {}
  std::vector<std::pair<Expr*, Expr*>> items;
};

struct SliceExpr : Expr {
  SliceExpr() : Expr(ExprKind::kSlice) {}
  Expr *start = nullptr, *stop = nullptr, *step = nullptr;  // null = left out
};

struct AttributeExpr : Expr {
  AttributeExpr() : Expr(ExprKind::kAttribute) {}
  Expr* base = nullptr;
  std::string name;
};

struct ItemExpr : Expr {
  ItemExpr() : Expr(ExprKind::kItem) {}
  Expr *base = nullptr, *index = nullptr;
};

struct ArgumentList {
  std::vector<Expr*> positional;
  std::vector<std::pair<std::string, Expr*>> named;
  Expr *star = nullptr, *double_star = nullptr;
};

struct CallExpr : Expr {
  CallExpr() : Expr(ExprKind::kCall) {}
  Expr* callee = nullptr;
  ArgumentList arguments;
};

struct FilterExpr : Expr {
  FilterExpr() : Expr(ExprKind::kFilter) {}
  Expr* base = nullptr;  // null: the text of a filter or set block
  std::string name;
  const FilterSpec* spec = nullptr;  // null: unknown, which matters when it is reached
  ArgumentList arguments;
};

struct TestExpr : Expr {
  TestExpr() : Expr(ExprKind::kTest) {}
  Expr* base = nullptr;
  std::string name;
  const TestSpec* spec = nullptr;
  ArgumentList arguments;
};

enum class Operator : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
  kNegate,
  kPlus
};

struct OperatorExpr : Expr {  // kUnary, kNot: only left; kBinary, kAnd, kOr
  using Expr::Expr;
  Operator op = Operator::kAdd;
  Expr *left = nullptr, *right = nullptr;
};

struct CompareExpr : Expr {
  CompareExpr() : Expr(ExprKind::kCompare) {}
  Expr* first = nullptr;
  std::vector<std::pair<Operator, Expr*>> rest;
};

struct ConditionalExpr : Expr {
  ConditionalExpr() : Expr(ExprKind::kConditional) {}
  Expr *test = nullptr, *then = nullptr, *otherwise = nullptr;  // otherwise may be null
};

// What a slot holds when its scope is entered.
struct SlotLoad {
  enum Kind : uint8_t { kMissing, kVariable, kCopy, kParameter } kind = kMissing;
  Place from;  // kCopy: seen from this scope
};

struct Scope {
  std::vector<std::string> names;
  std::vector<SlotLoad> loads;
};

enum class StmtKind : uint8_t {
  kOutput,
  kIf,
  kFor,
  kSet,
  kSetBlock,
  kMacro,
  kCallBlock,
  kFilterBlock,
  kWith,
  kBreak,
  kContinue
};

struct Stmt : Node {
  explicit Stmt(StmtKind kind) : kind(kind) {}
  StmtKind kind;
};
using Body = std::vector<Stmt*>;

struct OutputStmt : Stmt {
  OutputStmt() : Stmt(StmtKind::kOutput) {}
  struct Part {
    std::string text;
    Expr* expression = nullptr;  // null: text
  };
  std::vector<Part> parts;
};

struct IfStmt : Stmt {
  IfStmt() : Stmt(StmtKind::kIf) {}
  struct Branch {
    Expr* test = nullptr;
    Body body;
  };
  std::vector<Branch> branches;
  Body otherwise;
};

struct ForStmt : Stmt {
  ForStmt() : Stmt(StmtKind::kFor) {}
  Expr *target = nullptr, *iterable = nullptr, *test = nullptr;  // test may be null
  bool recursive = false, has_else = false;
  Body body, otherwise;
  Scope scope, test_scope, else_scope;
  Expr* test_target = nullptr;  // a copy of target, placed in test_scope
  int32_t loop_slot = -1;       // of the variable `loop` in scope; -1 = not used
};

struct SetStmt : Stmt {
  SetStmt() : Stmt(StmtKind::kSet) {}
  Expr *target = nullptr, *value = nullptr;
};

struct SetBlockStmt : Stmt {
  SetBlockStmt() : Stmt(StmtKind::kSetBlock) {}
  Expr* target = nullptr;
  FilterExpr* filter = nullptr;  // may be null
  Body body;
  Scope scope;
};

struct Parameter {
  std::string name;
  Expr* default_value = nullptr;  // null = none
  uint32_t slot = 0;
};

// What macros and call blocks share.
struct Callable {
  std::string name;
  std::vector<Parameter> parameters;
  Body body;
  Scope scope;
  int32_t caller_slot = -1, kwargs_slot = -1, varargs_slot = -1;  // -1: the body does not ask for it
};

struct MacroStmt : Stmt {
  MacroStmt() : Stmt(StmtKind::kMacro) {}
  Callable callable;
  Place place;
};

struct CallBlockStmt : Stmt {
  CallBlockStmt() : Stmt(StmtKind::kCallBlock) {}
  CallExpr* call = nullptr;  // null: a generation block, which prints its body
  Callable callable;
};

struct FilterBlockStmt : Stmt {
  FilterBlockStmt() : Stmt(StmtKind::kFilterBlock) {}
  FilterExpr* filter = nullptr;
  Body body;
  Scope scope;
};

struct WithStmt : Stmt {
  WithStmt() : Stmt(StmtKind::kWith) {}
  std::vector<std::pair<Expr*, Expr*>> assignments;
  Body body;
  Scope scope;
};

struct FlowStmt : Stmt {
  using Stmt::Stmt;
};

// A whole number beyond 64 bits is kept as its digits.
struct BigInteger {
  std::string digits;
};
using Constant = std::variant<std::monostate, bool, int64_t, double, std::string, BigInteger>;

struct Program {
  std::vector<std::unique_ptr<Node>> nodes;  // owns them: no chain of destructors
  std::vector<Constant> constants;
  Body body;
  Scope scope;

  template <typename T, typename... Arguments>
  T* make(uint32_t line, Arguments&&... arguments) {
    auto node = std::make_unique<T>(std::forward<Arguments>(arguments)...);
    T* raw = node.get();
    raw->line = line;
    nodes.push_back(std::move(node));
    return raw;
  }
};

// Calls visit(child) for the expressions right below `expr`, in the order in which they are written. `visit` may change
// the pointer's target, not the pointer.
template <typename Visit>
void for_each_child(Expr& expr, Visit visit);

template <typename Visit>
void for_each_argument(ArgumentList& arguments, Visit visit) {
  for (Expr* item : arguments.positional) visit(*item);
  for (auto& [name, item] : arguments.named) visit(*item);
  if (arguments.star) visit(*arguments.star);
  if (arguments.double_star) visit(*arguments.double_star);
}

template <typename Visit>
void for_each_child(Expr& expr, Visit visit) {
  const auto maybe = [&](Expr* child) {
    if (child) visit(*child);
  };
  switch (expr.kind) {
    case ExprKind::kLiteral:
    case ExprKind::kName:
      return;
    case ExprKind::kNamespaceRef:
      return visit(*static_cast<NamespaceRefExpr&>(expr).base);
    case ExprKind::kList:
    case ExprKind::kTuple:
    case ExprKind::kConcat:
      for (Expr* item : static_cast<ItemsExpr&>(expr).items) visit(*item);
      return;
    case ExprKind::kDict:
      for (auto& [key, value] : static_cast<DictExpr&>(expr).items) visit(*key), visit(*value);
      return;
    case ExprKind::kSlice: {
      auto& slice = static_cast<SliceExpr&>(expr);
      maybe(slice.start), maybe(slice.stop), maybe(slice.step);
      return;
    }
    case ExprKind::kAttribute:
      return visit(*static_cast<AttributeExpr&>(expr).base);
    case ExprKind::kItem:
      visit(*static_cast<ItemExpr&>(expr).base);
      return visit(*static_cast<ItemExpr&>(expr).index);
    case ExprKind::kCall:
      visit(*static_cast<CallExpr&>(expr).callee);
      return for_each_argument(static_cast<CallExpr&>(expr).arguments, visit);
    case ExprKind::kFilter:
      maybe(static_cast<FilterExpr&>(expr).base);
      return for_each_argument(static_cast<FilterExpr&>(expr).arguments, visit);
    case ExprKind::kTest:
      visit(*static_cast<TestExpr&>(expr).base);
      return for_each_argument(static_cast<TestExpr&>(expr).arguments, visit);
    case ExprKind::kUnary:
    case ExprKind::kNot:
    case ExprKind::kBinary:
    case ExprKind::kAnd:
    case ExprKind::kOr:
      maybe(static_cast<OperatorExpr&>(expr).left);
      return maybe(static_cast<OperatorExpr&>(expr).right);
    case ExprKind::kCompare:
      visit(*static_cast<CompareExpr&>(expr).first);
      for (auto& [op, item] : static_cast<CompareExpr&>(expr).rest) visit(*item);
      return;
    case ExprKind::kConditional: {
      auto& conditional = static_cast<ConditionalExpr&>(expr);
      maybe(conditional.test), maybe(conditional.then), maybe(conditional.otherwise);
      return;
    }
  }
}

}  // namespace tenon::templating
