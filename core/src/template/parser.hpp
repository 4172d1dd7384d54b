// parser.hpp: tokens to nodes. One use.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "template/ast.hpp"
#include "template/fault.hpp"
#include "template/lexer.hpp"

namespace tenon::templating {

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)), program_(std::make_unique<Program>()) {}

  // Throws SyntaxFault. Names have no places yet: see symbols.hpp.
  std::unique_ptr<Program> run();

 private:
  using Words = std::initializer_list<std::string_view>;

  // Counts how deep rules call each other, so that no text overflows the stack.
  class Nesting {
   public:
    explicit Nesting(Parser& parser);
    ~Nesting() { --parser_.nesting_; }

   private:
    Parser& parser_;
  };

  // Tokens.
  const Token& current() const { return tokens_[next_]; }
  const Token& following() const { return tokens_[std::min(next_ + 1, tokens_.size() - 1)]; }
  const Token& take() { return tokens_[next_ + 1 < tokens_.size() ? next_++ : next_]; }
  bool skip_name(std::string_view name);
  bool skip_operator(std::string_view name);
  void expect_operator(std::string_view name);
  std::string expect_name(std::string_view what);
  [[noreturn]] void fail(const std::string& message) const;
  [[noreturn]] void fail_unexpected(std::string_view expected) const;

  // Statements: statement_parser.cpp.
  Body body_until(Words ends);  // leaves the end's name as the current token
  Body block(Words ends);       // from the end of the opening tag
  void expect_block_end();
  Stmt* statement();
  Stmt* print_statement();
  Stmt* if_statement();
  Stmt* for_statement();
  Stmt* set_statement();
  Stmt* macro_statement();
  Stmt* call_statement();
  Stmt* generation_statement();
  Stmt* filter_statement();
  Stmt* with_statement();
  Stmt* flow_statement(StmtKind kind, std::string_view name);
  void signature(std::vector<Parameter>& parameters);
  Body callable_body(Words ends);
  void check_target(const Expr& target);

  // Expressions: expression_parser.cpp.
  Expr* expression();
  Expr* conditional();
  Expr* disjunction();
  Expr* conjunction();
  Expr* negation();
  Expr* comparison();
  Expr* sum();
  Expr* concatenation();
  Expr* product();
  Expr* power();
  Expr* unary(bool with_filter = true);
  Expr* primary(bool with_namespace = false);
  Expr* string_literal();
  Expr* number_literal();
  Expr* list_literal();
  Expr* dict_literal();
  Expr* postfix(Expr* base);
  Expr* filters_and_tests(Expr* base);
  Expr* subscript(Expr* base);
  Expr* subscript_item();
  Expr* call(Expr* callee);
  ArgumentList call_arguments();
  // Filters as long as there is a "|"; with `begins_inline` the first has none. Null if there are none.
  Expr* filter_chain(Expr* base, bool begins_inline);
  Expr* test(Expr* base);
  std::string dotted_name(std::string_view what);
  void note_unknown(size_t position, const std::string& message);

  enum class Items { kExpressions, kUnconditional, kTargets, kNamespaceTargets };
  // Expressions with commas between them become a tuple.
  Expr* tuple(Items items = Items::kExpressions, bool in_parentheses = false);
  bool ends_tuple() const;
  Expr* target(bool with_namespace);
  Expr* literal(uint32_t line, Constant value);
  template <typename T>
  T* finished(T* expr);  // with its height set and checked
  Expr* operation(ExprKind kind, Operator op, uint32_t line, Expr* left, Expr* right = nullptr);

  std::vector<Token> tokens_;
  size_t next_ = 0;
  std::unique_ptr<Program> program_;
  uint32_t nesting_ = 0;
  uint32_t loops_ = 0;                // that a break would leave
  uint32_t enclosing_loops_ = 0;      // through macros too
  uint32_t conditions_ = 0;           // inside, unknown filters and tests are an error only when reached
  std::vector<SyntaxFault> unknown_;  // filters and tests, outside of conditions
};

}  // namespace tenon::templating
