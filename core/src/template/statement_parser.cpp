// Statements and text.
#include <algorithm>

#include "template/fault.hpp"
#include "template/parser.hpp"

namespace tenon::templating {
namespace {

constexpr uint32_t kMaxNesting = 300;

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kData:
      return "text";
    case TokenKind::kVariableBegin:
      return "'{{'";
    case TokenKind::kVariableEnd:
      return "'}}'";
    case TokenKind::kBlockBegin:
      return "'{%'";
    case TokenKind::kBlockEnd:
      return "'%}'";
    case TokenKind::kString:
      return "a string";
    case TokenKind::kFloat:
      return "a number";
    case TokenKind::kEnd:
      return "the end of the template";
    case TokenKind::kName:
    case TokenKind::kInteger:
    case TokenKind::kOperator:
      break;
  }
  return "'" + token.text + "'";
}

}  // namespace

Parser::Nesting::Nesting(Parser& parser) : parser_(parser) {
  if (++parser_.nesting_ > kMaxNesting) {
    --parser_.nesting_;
    parser_.fail("the template is nested deeper than " + std::to_string(kMaxNesting) + " levels");
  }
}

std::unique_ptr<Program> Parser::run() {
  program_->body = body_until({});
  if (!unknown_.empty()) throw unknown_.front();
  return std::move(program_);
}

bool Parser::skip_name(std::string_view name) {
  if (!current().is_name(name)) return false;
  take();
  return true;
}

bool Parser::skip_operator(std::string_view name) {
  if (!current().is_operator(name)) return false;
  take();
  return true;
}

void Parser::expect_operator(std::string_view name) {
  if (!skip_operator(name)) fail_unexpected("'" + std::string(name) + "'");
}

std::string Parser::expect_name(std::string_view what) {
  if (current().kind != TokenKind::kName) fail_unexpected(what);
  return take().text;
}

void Parser::fail(const std::string& message) const { throw SyntaxFault(current().position, message); }

void Parser::fail_unexpected(std::string_view expected) const {
  fail("expected " + std::string(expected) + ", found " + describe(current()));
}

void Parser::expect_block_end() {
  if (current().kind != TokenKind::kBlockEnd) fail_unexpected("'%}'");
  take();
}

Body Parser::body_until(Words ends) {
  const Nesting nesting(*this);
  Body body;
  OutputStmt* output = nullptr;
  const auto part = [&]() -> OutputStmt::Part& {
    if (!output) body.push_back(output = program_->make<OutputStmt>(current().line));
    return output->parts.emplace_back();
  };
  while (true) {
    switch (current().kind) {
      case TokenKind::kData:
        part().text = current().text;
        take();
        break;
      case TokenKind::kVariableBegin: {
        take();
        OutputStmt::Part& place = part();
        place.expression = tuple();
        if (current().kind != TokenKind::kVariableEnd) fail_unexpected("'}}'");
        take();
        break;
      }
      case TokenKind::kBlockBegin:
        take();
        output = nullptr;
        for (std::string_view end : ends)
          if (current().is_name(end)) return body;
        body.push_back(statement());
        expect_block_end();
        break;
      default: {
        if (ends.size() == 0 && current().kind == TokenKind::kEnd) return body;
        std::string names;
        for (std::string_view end : ends) names += (names.empty() ? "" : " or ") + std::string(end);
        fail_unexpected("the block " + names);
      }
    }
  }
}

Body Parser::block(Words ends) {
  skip_operator(":");
  expect_block_end();
  return body_until(ends);
}

Stmt* Parser::statement() {
  struct Rule {
    std::string_view name;
    Stmt* (Parser::*parse)();
  };
  static constexpr Rule kRules[] = {{"if", &Parser::if_statement},
                                    {"for", &Parser::for_statement},
                                    {"set", &Parser::set_statement},
                                    {"macro", &Parser::macro_statement},
                                    {"call", &Parser::call_statement},
                                    {"filter", &Parser::filter_statement},
                                    {"with", &Parser::with_statement},
                                    {"print", &Parser::print_statement},
                                    {"generation", &Parser::generation_statement}};
  const std::string name = current().text;
  if (current().kind != TokenKind::kName) fail_unexpected("the name of a block");
  for (const Rule& rule : kRules)
    if (rule.name == name) return (this->*rule.parse)();
  if (name == "break") return flow_statement(StmtKind::kBreak, name);
  if (name == "continue") return flow_statement(StmtKind::kContinue, name);
  for (std::string_view other : {"include", "import", "from", "extends", "block", "autoescape"})
    if (name == other) fail("chat templates cannot use '" + name + "': it is not supported");
  fail("unknown block '" + name + "'");
}

Stmt* Parser::print_statement() {
  auto* output = program_->make<OutputStmt>(take().line);
  while (current().kind != TokenKind::kBlockEnd) {
    if (!output->parts.empty()) expect_operator(",");
    Expr* value = expression();
    output->parts.emplace_back().expression = value;
  }
  return output;
}

Stmt* Parser::if_statement() {
  auto* node = program_->make<IfStmt>(current().line);
  ++conditions_;
  do {
    take();  // if, elif
    IfStmt::Branch branch;
    branch.test = tuple(Items::kUnconditional);
    branch.body = block({"elif", "else", "endif"});
    node->branches.push_back(std::move(branch));
  } while (current().is_name("elif"));
  if (skip_name("else")) node->otherwise = block({"endif"});
  take();  // endif
  --conditions_;
  return node;
}

Stmt* Parser::for_statement() {
  auto* node = program_->make<ForStmt>(take().line);
  ++enclosing_loops_;
  const size_t target_begin = next_;
  node->target = target(false);
  const size_t target_end = next_;
  if (!skip_name("in")) fail_unexpected("'in'");
  node->iterable = tuple(Items::kUnconditional);
  if (skip_name("if")) {
    node->test = expression();
    const size_t resume = next_;
    next_ = target_begin;
    node->test_target = target(false);
    if (next_ != target_end) fail("a loop's target is not clear");
    next_ = resume;
  }
  node->recursive = skip_name("recursive");
  const uint32_t outer_conditions = std::exchange(conditions_, 0);
  ++loops_;
  node->body = block({"endfor", "else"});
  --loops_;
  if (skip_name("else")) {
    node->has_else = true;
    // A recursive loop is a function of its own, which a break in its else part cannot leave.
    const uint32_t outer_loops = node->recursive ? std::exchange(loops_, 0) : loops_;
    node->otherwise = block({"endfor"});
    loops_ = outer_loops;
  }
  take();  // endfor
  conditions_ = outer_conditions;
  --enclosing_loops_;
  return node;
}

Stmt* Parser::set_statement() {
  const uint32_t line = take().line;
  Expr* place = target(true);
  if (skip_operator("=")) {
    auto* node = program_->make<SetStmt>(line);
    node->target = place;
    node->value = tuple();
    return node;
  }
  auto* node = program_->make<SetBlockStmt>(line);
  node->target = place;
  node->filter = static_cast<FilterExpr*>(filter_chain(nullptr, false));
  node->body = block({"endset"});
  take();
  return node;
}

void Parser::signature(std::vector<Parameter>& parameters) {
  expect_operator("(");
  while (!current().is_operator(")")) {
    if (!parameters.empty()) expect_operator(",");
    Parameter parameter;
    parameter.name = expect_name("a parameter's name");
    if (skip_operator("="))
      parameter.default_value = expression();
    else if (!parameters.empty() && parameters.back().default_value)
      fail("a parameter without a default follows one that has a default");
    for (const Parameter& other : parameters)
      if (other.name == parameter.name) fail("the parameter '" + parameter.name + "' is given twice");
    parameters.push_back(std::move(parameter));
  }
  take();
}

// A macro's body: neither loops nor conditions around it reach into it.
Body Parser::callable_body(Words ends) {
  const uint32_t outer_loops = std::exchange(loops_, 0);
  const uint32_t outer_conditions = std::exchange(conditions_, 0);
  Body body = block(ends);
  loops_ = outer_loops;
  conditions_ = outer_conditions;
  return body;
}

Stmt* Parser::macro_statement() {
  auto* node = program_->make<MacroStmt>(take().line);
  node->callable.name = expect_name("the macro's name");
  signature(node->callable.parameters);
  node->callable.body = callable_body({"endmacro"});
  take();
  return node;
}

Stmt* Parser::call_statement() {
  auto* node = program_->make<CallBlockStmt>(take().line);
  if (current().is_operator("(")) signature(node->callable.parameters);
  Expr* call = expression();
  if (call->kind != ExprKind::kCall) fail("expected a call");
  node->call = static_cast<CallExpr*>(call);
  node->callable.name = "caller";
  node->callable.body = callable_body({"endcall"});
  take();
  return node;
}

Stmt* Parser::generation_statement() {
  auto* node = program_->make<CallBlockStmt>(take().line);
  node->callable.name = "caller";
  node->callable.body = callable_body({"endgeneration"});
  take();
  return node;
}

Stmt* Parser::filter_statement() {
  auto* node = program_->make<FilterBlockStmt>(take().line);
  node->filter = static_cast<FilterExpr*>(filter_chain(nullptr, true));
  const uint32_t outer_conditions = std::exchange(conditions_, 0);
  node->body = block({"endfilter"});
  conditions_ = outer_conditions;
  take();
  return node;
}

Stmt* Parser::with_statement() {
  auto* node = program_->make<WithStmt>(take().line);
  while (current().kind != TokenKind::kBlockEnd) {
    if (!node->assignments.empty()) expect_operator(",");
    Expr* place = tuple(Items::kTargets);
    check_target(*place);
    expect_operator("=");
    Expr* value = expression();
    node->assignments.emplace_back(place, value);
  }
  node->body = block({"endwith"});
  take();
  return node;
}

Stmt* Parser::flow_statement(StmtKind kind, std::string_view name) {
  if (loops_ == 0) fail("'" + std::string(name) + "' stands outside of a loop");
  return program_->make<FlowStmt>(take().line, kind);
}

void Parser::check_target(const Expr& target) {
  switch (target.kind) {
    case ExprKind::kName:
    case ExprKind::kNamespaceRef:
      return;
    case ExprKind::kTuple:
      for (const Expr* item : static_cast<const ItemsExpr&>(target).items) check_target(*item);
      return;
    default:
      fail("this cannot be assigned to");
  }
}

Expr* Parser::target(bool with_namespace) {
  Expr* place = tuple(with_namespace ? Items::kNamespaceTargets : Items::kTargets);
  check_target(*place);
  if (enclosing_loops_ > 0) {
    const auto names_loop = [](const Expr* item) {
      return item->kind == ExprKind::kName && static_cast<const NameExpr*>(item)->name == "loop";
    };
    const auto* items = place->kind == ExprKind::kTuple ? &static_cast<const ItemsExpr*>(place)->items : nullptr;
    if (names_loop(place) || (items && std::any_of(items->begin(), items->end(), names_loop)))
      fail("the variable 'loop' of a loop cannot be assigned to");
  }
  return place;
}

}  // namespace tenon::templating
