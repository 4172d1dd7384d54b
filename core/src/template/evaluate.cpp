// Expressions.
#include "template/builtins.hpp"
#include "template/operations.hpp"
#include "template/runtime.hpp"

namespace tenon::templating {

Value Runtime::constant(uint32_t index) {
  Value& value = constants_[index];
  if (!value.is(Kind::kMissing)) return value;
  struct Maker {
    Runtime& runtime;
    Value operator()(std::monostate) { return Value::none(); }
    Value operator()(bool b) { return Value::boolean(b); }
    Value operator()(int64_t number) { return Value::integer(number); }
    Value operator()(double number) { return Value::real(number); }
    Value operator()(const std::string& text) { return runtime.text(text); }
    Value operator()(const BigInteger& number) { return runtime.big_integer(number.digits); }
  };
  return value = std::visit(Maker{*this}, program_.constants[index]);
}

Value Runtime::evaluate(const Expr& expr) {
  step();
  check_stack();
  switch (expr.kind) {
    case ExprKind::kLiteral:
      return constant(static_cast<const LiteralExpr&>(expr).constant);
    case ExprKind::kName: {
      const auto& name = static_cast<const NameExpr&>(expr);
      const Value& value = slot(name.place);
      return value.is(Kind::kMissing) ? undefined("'" + name.name + "' is undefined") : value;
    }
    case ExprKind::kList:
    case ExprKind::kTuple: {
      Values items;
      for (const Expr* item : static_cast<const ItemsExpr&>(expr).items) items.push_back(evaluate(*item));
      return expr.kind == ExprKind::kList ? list(std::move(items)) : tuple(std::move(items));
    }
    case ExprKind::kConcat: {
      std::string joined;
      for (const Expr* item : static_cast<const ItemsExpr&>(expr).items) {
        append_text(*this, joined, evaluate(*item));
        check_size(joined.size());
      }
      step_text(joined.size());
      return text(std::move(joined));
    }
    case ExprKind::kDict:
      return evaluate_dict(static_cast<const DictExpr&>(expr));
    case ExprKind::kAttribute: {
      const auto& attribute = static_cast<const AttributeExpr&>(expr);
      const Value base = evaluate(*attribute.base);
      line_ = expr.line;
      return get_attribute(*this, base, attribute.name);
    }
    case ExprKind::kItem: {
      const auto& item = static_cast<const ItemExpr&>(expr);
      const Value base = evaluate(*item.base);
      if (item.index->kind == ExprKind::kSlice) return evaluate_slice(base, static_cast<const SliceExpr&>(*item.index));
      const Value index = evaluate(*item.index);
      line_ = expr.line;
      return get_item(*this, base, index);
    }
    case ExprKind::kCall:
      return evaluate_call(static_cast<const CallExpr&>(expr), nullptr);
    case ExprKind::kFilter:
      return evaluate_filter(static_cast<const FilterExpr&>(expr), nullptr);
    case ExprKind::kTest: {
      const auto& test = static_cast<const TestExpr&>(expr);
      const Value subject = evaluate(*test.base);
      Arguments arguments = evaluate_arguments(test.arguments);
      line_ = expr.line;
      if (!test.spec) throw Fault("there is no test '" + test.name + "'");
      return Value::boolean(test.spec->apply(*this, subject, arguments));
    }
    case ExprKind::kUnary: {
      const auto& unary = static_cast<const OperatorExpr&>(expr);
      const Value operand = evaluate(*unary.left);
      line_ = expr.line;
      return unary.op == Operator::kNegate ? negate(*this, operand) : plus(operand);
    }
    case ExprKind::kNot:
      return Value::boolean(!truthy(evaluate(*static_cast<const OperatorExpr&>(expr).left)));
    case ExprKind::kAnd:
    case ExprKind::kOr: {
      const auto& both = static_cast<const OperatorExpr&>(expr);
      Value left = evaluate(*both.left);
      return truthy(left) == (expr.kind == ExprKind::kOr) ? left : evaluate(*both.right);
    }
    case ExprKind::kBinary: {
      const auto& both = static_cast<const OperatorExpr&>(expr);
      const Value left = evaluate(*both.left);
      const Value right = evaluate(*both.right);
      line_ = expr.line;
      return binary(*this, both.op, left, right);
    }
    case ExprKind::kCompare:
      return evaluate_compare(static_cast<const CompareExpr&>(expr));
    case ExprKind::kConditional: {
      const auto& conditional = static_cast<const ConditionalExpr&>(expr);
      if (truthy(evaluate(*conditional.test))) return evaluate(*conditional.then);
      if (conditional.otherwise) return evaluate(*conditional.otherwise);
      return undefined("the inline if-expression on line " + std::to_string(expr.line) +
                       " evaluated to false and no else section was defined.");
    }
    case ExprKind::kSlice:
    case ExprKind::kNamespaceRef:
      break;
  }
  throw Fault("this expression has no value of its own");
}

Value Runtime::evaluate_dict(const DictExpr& expr) {
  Value result = dict();
  for (const auto& [key, item] : expr.items) {
    Value name = evaluate(*key);
    Value value = evaluate(*item);
    line_ = expr.line;
    dict_set(*this, result.as<Dict>(), std::move(name), std::move(value));
  }
  return result;
}

// a < b < c: each once, and no further than needed.
Value Runtime::evaluate_compare(const CompareExpr& expr) {
  Value left = evaluate(*expr.first);
  for (const auto& [op, operand] : expr.rest) {
    Value right = evaluate(*operand);
    line_ = expr.line;
    if (!compare_with(*this, op, left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Runtime::evaluate_slice(const Value& base, const SliceExpr& expr) {
  const auto part = [&](const Expr* bound) { return bound ? evaluate(*bound) : Value::none(); };
  const Value start = part(expr.start), stop = part(expr.stop), step_value = part(expr.step);
  line_ = expr.line;
  return slice(*this, base, start, stop, step_value);
}

Arguments Runtime::evaluate_arguments(const ArgumentList& list) {
  Arguments arguments;
  for (const Expr* item : list.positional) arguments.positional.push_back(evaluate(*item));
  for (const auto& [name, item] : list.named) arguments.named.emplace_back(name, evaluate(*item));
  if (list.star) {
    Cursor cursor(*this, evaluate(*list.star));
    for (Value item; cursor.next(*this, item);) arguments.positional.push_back(std::move(item));
  }
  if (list.double_star) {
    const Value more = evaluate(*list.double_star);
    if (!more.is(Kind::kDict)) throw Fault("argument after ** must be a mapping, not " + std::string(type_name(more)));
    for (const auto& [key, value] : more.as<Dict>().entries) {
      if (!key.is_text()) throw Fault("keywords must be strings");
      for (const auto& [name, other] : arguments.named)
        if (name == text_of(key)) throw Fault("got multiple values for keyword argument '" + name + "'");
      arguments.named.emplace_back(std::string(text_of(key)), value);
    }
  }
  return arguments;
}

Value Runtime::evaluate_call(const CallExpr& expr, const Value* caller) {
  const Value callee = evaluate(*expr.callee);
  Arguments arguments = evaluate_arguments(expr.arguments);
  if (caller) arguments.named.emplace_back("caller", *caller);
  line_ = expr.line;
  return call(callee, arguments);
}

// `input`: the text of the block around, for a filter that has no expression before it.
Value Runtime::evaluate_filter(const FilterExpr& expr, const Value* input) {
  Value base;
  if (!expr.base)
    base = *input;
  else if (input && expr.base->kind == ExprKind::kFilter)
    base = evaluate_filter(static_cast<const FilterExpr&>(*expr.base), input);
  else
    base = evaluate(*expr.base);
  Arguments arguments = evaluate_arguments(expr.arguments);
  line_ = expr.line;
  if (!expr.spec) throw Fault("there is no filter '" + expr.name + "'");
  return expr.spec->apply(*this, base, arguments);
}

}  // namespace tenon::templating
