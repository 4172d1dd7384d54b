// Expressions, from the loosest to the tightest operator.
#include <algorithm>
#include <charconv>

#include "template/builtins.hpp"
#include "template/fault.hpp"
#include "template/parser.hpp"

namespace tenon::templating {
namespace {

constexpr uint32_t kMaxHeight = 400;

}  // namespace

template <typename T>
T* Parser::finished(T* expr) {
  uint32_t below = 0;
  for_each_child(*expr, [&](const Expr& child) { below = std::max(below, child.height); });
  expr->height = below + 1;
  if (expr->height > kMaxHeight) fail("an expression is more than " + std::to_string(kMaxHeight) + " operations deep");
  return expr;
}

Expr* Parser::operation(ExprKind kind, Operator op, uint32_t line, Expr* left, Expr* right) {
  auto* node = program_->make<OperatorExpr>(line, kind);
  node->op = op;
  node->left = left;
  node->right = right;
  return finished(node);
}

Expr* Parser::literal(uint32_t line, Constant value) {
  auto* node = program_->make<LiteralExpr>(line);
  node->constant = static_cast<uint32_t>(program_->constants.size());
  program_->constants.push_back(std::move(value));
  return node;
}

Expr* Parser::expression() { return conditional(); }

Expr* Parser::conditional() {
  const Nesting nesting(*this);
  uint32_t line = current().line;
  const size_t n_unknown = unknown_.size();
  Expr* value = disjunction();
  while (skip_name("if")) {
    auto* node = program_->make<ConditionalExpr>(line);
    node->then = value;
    node->test = disjunction();
    if (skip_name("else")) node->otherwise = conditional();
    value = finished(node);
    line = current().line;
    unknown_.erase(unknown_.begin() + static_cast<std::ptrdiff_t>(n_unknown), unknown_.end());  // may never be reached
  }
  return value;
}

Expr* Parser::disjunction() {
  uint32_t line = current().line;
  Expr* left = conjunction();
  while (skip_name("or")) {
    left = operation(ExprKind::kOr, {}, line, left, conjunction());
    line = current().line;
  }
  return left;
}

Expr* Parser::conjunction() {
  uint32_t line = current().line;
  Expr* left = negation();
  while (skip_name("and")) {
    left = operation(ExprKind::kAnd, {}, line, left, negation());
    line = current().line;
  }
  return left;
}

Expr* Parser::negation() {
  const Nesting nesting(*this);
  const uint32_t line = current().line;
  if (skip_name("not")) return operation(ExprKind::kNot, {}, line, negation());
  return comparison();
}

Expr* Parser::comparison() {
  static constexpr std::pair<std::string_view, Operator> kOperators[] = {
      {"==", Operator::kEqual},     {"!=", Operator::kNotEqual}, {"<", Operator::kLess},
      {"<=", Operator::kLessEqual}, {">", Operator::kGreater},   {">=", Operator::kGreaterEqual}};
  const uint32_t line = current().line;
  Expr* first = sum();
  CompareExpr* node = nullptr;
  while (true) {
    Operator op = Operator::kIn;
    const auto found = std::find_if(std::begin(kOperators), std::end(kOperators),
                                    [&](const auto& known) { return current().is_operator(known.first); });
    if (found != std::end(kOperators)) {
      op = found->second;
      take();
    } else if (current().is_name("not") && following().is_name("in")) {
      op = Operator::kNotIn;
      take();
      take();
    } else if (!skip_name("in")) {
      break;
    }
    if (!node) {
      node = program_->make<CompareExpr>(line);
      node->first = first;
    }
    node->rest.emplace_back(op, sum());
  }
  return node ? finished(node) : first;
}

Expr* Parser::sum() {
  uint32_t line = current().line;
  Expr* left = concatenation();
  while (current().is_operator("+") || current().is_operator("-")) {
    const Operator op = take().text == "+" ? Operator::kAdd : Operator::kSubtract;
    left = operation(ExprKind::kBinary, op, line, left, concatenation());
    line = current().line;
  }
  return left;
}

Expr* Parser::concatenation() {
  const uint32_t line = current().line;
  Expr* first = product();
  if (!current().is_operator("~")) return first;
  auto* node = program_->make<ItemsExpr>(line, ExprKind::kConcat);
  node->items.push_back(first);
  while (skip_operator("~")) node->items.push_back(product());
  return finished(node);
}

Expr* Parser::product() {
  static constexpr std::pair<std::string_view, Operator> kOperators[] = {
      {"*", Operator::kMultiply}, {"/", Operator::kDivide}, {"//", Operator::kFloorDivide}, {"%", Operator::kModulo}};
  uint32_t line = current().line;
  Expr* left = power();
  while (true) {
    const auto found = std::find_if(std::begin(kOperators), std::end(kOperators),
                                    [&](const auto& known) { return current().is_operator(known.first); });
    if (found == std::end(kOperators)) return left;
    take();
    left = operation(ExprKind::kBinary, found->second, line, left, power());
    line = current().line;
  }
}

Expr* Parser::power() {
  uint32_t line = current().line;
  Expr* left = unary();
  while (skip_operator("**")) {  // to the left, and looser than a sign: unlike Python
    left = operation(ExprKind::kBinary, Operator::kPower, line, left, unary());
    line = current().line;
  }
  return left;
}

Expr* Parser::unary(bool with_filter) {
  const Nesting nesting(*this);
  const uint32_t line = current().line;
  Expr* node = nullptr;
  if (skip_operator("-"))
    node = operation(ExprKind::kUnary, Operator::kNegate, line, unary(false));
  else if (skip_operator("+"))
    node = operation(ExprKind::kUnary, Operator::kPlus, line, unary(false));
  else
    node = primary();
  node = postfix(node);
  return with_filter ? filters_and_tests(node) : node;
}

Expr* Parser::primary(bool with_namespace) {
  const Token& token = current();
  const uint32_t line = token.line;
  switch (token.kind) {
    case TokenKind::kName: {
      const std::string name = take().text;
      if (name == "true" || name == "True") return literal(line, true);
      if (name == "false" || name == "False") return literal(line, false);
      if (name == "none" || name == "None") return literal(line, std::monostate());
      auto* node = program_->make<NameExpr>(line);
      node->name = name;
      if (!with_namespace || !skip_operator(".")) return node;
      auto* reference = program_->make<NamespaceRefExpr>(line);
      reference->base = node;
      reference->attribute = expect_name("an attribute's name");
      return finished(reference);
    }
    case TokenKind::kString:
      return string_literal();
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return number_literal();
    default:
      break;
  }
  if (skip_operator("(")) {
    Expr* node = tuple(Items::kExpressions, true);
    expect_operator(")");
    return node;
  }
  if (token.is_operator("[")) return list_literal();
  if (token.is_operator("{")) return dict_literal();
  fail_unexpected("an expression");
}

Expr* Parser::string_literal() {
  const uint32_t line = current().line;
  std::string text;
  while (current().kind == TokenKind::kString) text += take().text;
  return literal(line, std::move(text));
}

Expr* Parser::number_literal() {
  const Token& token = take();
  if (token.kind == TokenKind::kFloat) return literal(token.line, token.number);
  int64_t value = 0;
  const auto parsed = std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
  if (parsed.ec != std::errc()) return literal(token.line, BigInteger{token.text});
  return literal(token.line, value);
}

Expr* Parser::list_literal() {
  auto* node = program_->make<ItemsExpr>(take().line, ExprKind::kList);
  while (!current().is_operator("]")) {
    if (!node->items.empty()) expect_operator(",");
    if (current().is_operator("]")) break;
    node->items.push_back(expression());
  }
  take();
  return finished(node);
}

Expr* Parser::dict_literal() {
  auto* node = program_->make<DictExpr>(take().line);
  while (!current().is_operator("}")) {
    if (!node->items.empty()) expect_operator(",");
    if (current().is_operator("}")) break;
    Expr* key = expression();
    expect_operator(":");
    Expr* value = expression();
    node->items.emplace_back(key, value);
  }
  take();
  return finished(node);
}

bool Parser::ends_tuple() const {
  const Token& token = current();
  return token.kind == TokenKind::kVariableEnd || token.kind == TokenKind::kBlockEnd || token.is_operator(")");
}

Expr* Parser::tuple(Items items, bool in_parentheses) {
  const uint32_t line = current().line;
  std::vector<Expr*> found;
  bool is_tuple = false;
  while (true) {
    if (!found.empty()) expect_operator(",");
    if (ends_tuple()) break;
    switch (items) {
      case Items::kExpressions:
        found.push_back(expression());
        break;
      case Items::kUnconditional:
        found.push_back(disjunction());
        break;
      case Items::kTargets:
        found.push_back(primary(false));
        break;
      case Items::kNamespaceTargets:
        found.push_back(primary(true));
        break;
    }
    if (!current().is_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!found.empty()) return found.front();
    if (!in_parentheses) fail_unexpected("an expression");
  }
  auto* node = program_->make<ItemsExpr>(line, ExprKind::kTuple);
  node->items = std::move(found);
  return finished(node);
}

Expr* Parser::postfix(Expr* base) {
  while (true) {
    if (current().is_operator(".") || current().is_operator("["))
      base = subscript(base);
    else if (current().is_operator("("))
      base = call(base);
    else
      return base;
  }
}

Expr* Parser::filters_and_tests(Expr* base) {
  while (true) {
    if (current().is_operator("|"))
      base = filter_chain(base, false);
    else if (current().is_name("is"))
      base = test(base);
    else if (current().is_operator("("))
      base = call(base);
    else
      return base;
  }
}

Expr* Parser::subscript(Expr* base) {
  const uint32_t line = current().line;
  if (skip_operator(".")) {
    if (current().kind == TokenKind::kName) {
      auto* node = program_->make<AttributeExpr>(line);
      node->base = base;
      node->name = take().text;
      return finished(node);
    }
    if (current().kind != TokenKind::kInteger) fail_unexpected("a name or a number");
    auto* node = program_->make<ItemExpr>(line);
    node->base = base;
    node->index = number_literal();
    return finished(node);
  }
  take();  // [
  std::vector<Expr*> items;
  while (!current().is_operator("]")) {
    if (!items.empty()) expect_operator(",");
    items.push_back(subscript_item());
    if (items.size() > 1 && (items.back()->kind == ExprKind::kSlice || items.front()->kind == ExprKind::kSlice))
      fail("a slice stands beside another subscript");
  }
  take();
  auto* node = program_->make<ItemExpr>(line);
  node->base = base;
  if (items.size() == 1) {
    node->index = items.front();
  } else {
    auto* all = program_->make<ItemsExpr>(line, ExprKind::kTuple);
    all->items = std::move(items);
    node->index = finished(all);
  }
  return finished(node);
}

Expr* Parser::subscript_item() {
  const uint32_t line = current().line;
  Expr* start = nullptr;
  if (!current().is_operator(":")) {
    start = expression();
    if (!current().is_operator(":")) return start;
  }
  take();  // :
  const auto at_end = [&] { return current().is_operator("]") || current().is_operator(","); };
  auto* node = program_->make<SliceExpr>(line);
  node->start = start;
  if (!current().is_operator(":") && !at_end()) node->stop = expression();
  if (skip_operator(":") && !at_end()) node->step = expression();
  return finished(node);
}

Expr* Parser::call(Expr* callee) {
  auto* node = program_->make<CallExpr>(current().line);
  node->callee = callee;
  node->arguments = call_arguments();
  return finished(node);
}

ArgumentList Parser::call_arguments() {
  ArgumentList arguments;
  expect_operator("(");
  bool first = true;
  while (!current().is_operator(")")) {
    if (!first) {
      expect_operator(",");
      if (current().is_operator(")")) break;
    }
    first = false;
    if (skip_operator("*")) {
      if (arguments.star || arguments.double_star) fail("only one '*' and then one '**' may stand in a call");
      arguments.star = expression();
    } else if (skip_operator("**")) {
      if (arguments.double_star) fail("only one '**' may stand in a call");
      arguments.double_star = expression();
    } else if (current().kind == TokenKind::kName && following().is_operator("=")) {
      if (arguments.double_star) fail("a named argument stands behind '**'");
      const std::string name = take().text;
      take();  // =
      for (const auto& [other, value] : arguments.named)
        if (other == name) fail("the argument '" + name + "' is given twice");
      arguments.named.emplace_back(name, expression());
    } else {
      if (arguments.star || arguments.double_star || !arguments.named.empty())
        fail("a positional argument stands behind a named one");
      arguments.positional.push_back(expression());
    }
  }
  take();
  return arguments;
}

void Parser::note_unknown(size_t position, const std::string& message) {
  if (conditions_ == 0) unknown_.emplace_back(position, message);
}

std::string Parser::dotted_name(std::string_view what) {
  std::string name = expect_name(what);
  while (skip_operator(".")) {
    name += '.';
    name += expect_name(what);
  }
  return name;
}

Expr* Parser::filter_chain(Expr* base, bool begins_inline) {
  while (begins_inline || current().is_operator("|")) {
    if (!begins_inline) take();
    begins_inline = false;
    auto* node = program_->make<FilterExpr>(current().line);
    const size_t position = current().position;
    node->base = base;
    node->name = dotted_name("a filter's name");
    node->spec = find_filter(node->name);
    if (!node->spec) note_unknown(position, "there is no filter '" + node->name + "'");
    if (current().is_operator("(")) node->arguments = call_arguments();
    base = finished(node);
  }
  return base;
}

Expr* Parser::test(Expr* base) {
  const uint32_t line = take().line;  // is
  const bool negated = skip_name("not");
  auto* node = program_->make<TestExpr>(line);
  const size_t position = current().position;
  node->base = base;
  node->name = dotted_name("a test's name");
  node->spec = find_test(node->name);
  if (!node->spec) note_unknown(position, "there is no test '" + node->name + "'");
  const Token& token = current();
  const bool begins_operand = token.kind == TokenKind::kName || token.kind == TokenKind::kString ||
                              token.kind == TokenKind::kInteger || token.kind == TokenKind::kFloat ||
                              token.is_operator("[") || token.is_operator("{");
  if (token.is_operator("(")) {
    node->arguments = call_arguments();
  } else if (begins_operand && !token.is_name("else") && !token.is_name("or") && !token.is_name("and")) {
    if (token.is_name("is")) fail("two tests with 'is' follow each other");
    const Nesting nesting(*this);
    node->arguments.positional.push_back(postfix(primary()));
  }
  finished(node);
  return negated ? operation(ExprKind::kNot, {}, line, node) : node;
}

}  // namespace tenon::templating
