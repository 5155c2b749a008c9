//! Expression to filter, by SQL's three truth values.

use sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, UnaryOperator,
};

use crate::error::{shown, Refused};
use crate::filter::leaf;
use crate::filter::limits::bad;
use crate::filter::literal::{Literal, Order};
use crate::filter::sql::operand::{Compiler, Operand};
use crate::filter::{Filter, Test};
use crate::name::Names;
use crate::schema::AttributeKind;
use crate::value::Value;

/// Deepest nesting, beyond what the parser follows: a chain of postfix operators nests too.
const NESTING_MAX: usize = 64;

/// The filter that holds where the expression is true.
pub(super) fn compile(
    names: Names<'_>,
    parameters: &[Value],
    expression: &Expr,
) -> Result<Filter, Refused> {
    Compiler { names, parameters }.filter(expression, true, 1)
}

impl<'a> Compiler<'a> {
    /// The filter that holds where the expression is true, or where it is false.
    fn filter(&self, expr: &'a Expr, wanted: bool, level: usize) -> Result<Filter, Refused> {
        if level > NESTING_MAX {
            return Err(bad("The filter is nested too deeply."));
        }
        let level = level + 1;
        let joined = |parts: Vec<Filter>, all: bool| {
            if all == wanted {
                Filter::And(parts)
            } else {
                Filter::Or(parts)
            }
        };
        match expr {
            Expr::Nested(inner) => self.filter(inner, wanted, level),
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => self.filter(expr, !wanted, level),
            Expr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), .. } => {
                let parts = chain(expr, op).into_iter();
                let parts = parts.map(|part| self.filter(part, wanted, level));
                Ok(joined(parts.collect::<Result<_, _>>()?, *op == BinaryOperator::And))
            }
            Expr::BinaryOp { left, op, right } => {
                self.comparison(self.operand(left)?, op, self.operand(right)?, wanted)
            }
            Expr::InList { expr, list, negated } => {
                let literals = self.literals(list)?;
                self.one_of(&self.operand(expr)?, literals, wanted != *negated)
            }
            Expr::Between { expr, negated, low, high } => {
                let (low, high) = (self.literal(low)?, self.literal(high)?);
                self.between(&self.operand(expr)?, low, high, wanted != *negated)
            }
            Expr::Like { negated, any: false, expr, pattern, escape_char: None } => {
                self.like(&self.operand(expr)?, self.literal(pattern)?, wanted != *negated)
            }
            Expr::IsNull(inner) => self.is_null(inner, wanted),
            Expr::IsNotNull(inner) => self.is_null(inner, !wanted),
            Expr::IsTrue(inner) => Ok(asserted(self.filter(inner, true, level)?, wanted)),
            Expr::IsNotTrue(inner) => Ok(asserted(self.filter(inner, true, level)?, !wanted)),
            Expr::IsFalse(inner) => Ok(asserted(self.filter(inner, false, level)?, wanted)),
            Expr::IsNotFalse(inner) => Ok(asserted(self.filter(inner, false, level)?, !wanted)),
            Expr::Function(function) => self.function(function, wanted),
            other => self.truth(self.operand(other)?, wanted),
        }
    }

    /// An attribute of type bool, or a truth value, as a condition by itself.
    fn truth(&self, operand: Operand<'_>, wanted: bool) -> Result<Filter, Refused> {
        match operand {
            Operand::Attribute(column) if column.kind == AttributeKind::Bool => {
                Ok(column.test(Test::Bool(wanted)))
            }
            Operand::Attribute(column) => Err(column.unfit("a condition by itself")),
            Operand::Literal(Literal::Bool(is_true)) => {
                Ok(if is_true == wanted { Filter::ALL } else { Filter::NONE })
            }
            Operand::Literal(Literal::Null) => Ok(Filter::NONE),
            Operand::Literal(other) => Err(bad(format!("{other} is no condition."))),
            Operand::Id => Err(bad("'id' is no condition by itself.")),
        }
    }

    fn comparison(
        &self,
        left: Operand<'a>,
        op: &BinaryOperator,
        right: Operand<'a>,
        wanted: bool,
    ) -> Result<Filter, Refused> {
        let (subject, literal, mirrored) = match (left, right) {
            (Operand::Literal(_), Operand::Literal(_)) => {
                return Err(bad("A comparison of two values: one side must be an attribute."));
            }
            (subject, Operand::Literal(literal)) => (subject, literal, false),
            (Operand::Literal(literal), subject) => (subject, literal, true),
            _ => return Err(bad("A comparison of two attributes: one side must be a value.")),
        };
        let order = match op {
            BinaryOperator::Eq => return self.one_of(&subject, vec![literal], wanted),
            BinaryOperator::NotEq => return self.one_of(&subject, vec![literal], !wanted),
            BinaryOperator::Lt => Order::Less,
            BinaryOperator::LtEq => Order::LessOrEqual,
            BinaryOperator::Gt => Order::Greater,
            BinaryOperator::GtEq => Order::GreaterOrEqual,
            other => return Err(bad(format!("The operator '{other}' has no meaning here."))),
        };
        let order = if mirrored { mirror(order) } else { order };
        let order = if wanted { order } else { opposite(order) };
        self.range(&subject, &[(order, literal)])
    }

    /// A range; unknown, and so never true or false, with a null.
    fn range(
        &self,
        subject: &Operand<'_>,
        bounds: &[(Order, Literal<'_>)],
    ) -> Result<Filter, Refused> {
        match subject {
            Operand::Attribute(column) => {
                let known: Vec<_> =
                    bounds.iter().copied().filter(|(_, one)| *one != Literal::Null).collect();
                let range = column.range(&known)?;
                Ok(if known.len() == bounds.len() { range } else { Filter::NONE })
            }
            Operand::Id => Err(bad("'id' has no order: use =, <> or IN.")),
            Operand::Literal(_) => Err(bad("A comparison needs an attribute.")),
        }
    }

    fn between(
        &self,
        subject: &Operand<'_>,
        low: Literal<'_>,
        high: Literal<'_>,
        wanted: bool,
    ) -> Result<Filter, Refused> {
        if wanted {
            let bounds = [(Order::GreaterOrEqual, low), (Order::LessOrEqual, high)];
            return self.range(subject, &bounds);
        }
        let below = self.range(subject, &[(Order::Less, low)])?;
        Ok(Filter::Or(vec![below, self.range(subject, &[(Order::Greater, high)])?]))
    }

    /// Equal to one of the values. A null among them makes "none of them" unknown.
    fn one_of(
        &self,
        subject: &Operand<'_>,
        mut literals: Vec<Literal<'_>>,
        wanted: bool,
    ) -> Result<Filter, Refused> {
        let values = literals.len();
        literals.retain(|one| *one != Literal::Null);
        let has_null = literals.len() < values;
        match subject {
            Operand::Attribute(column) => {
                if column.kind == AttributeKind::Keywords {
                    return Err(column.unfit("compared as a whole: use has_any or has_all"));
                }
                let filter = column.one_of(&literals)?;
                Ok(match (wanted, has_null) {
                    (true, _) => filter,
                    (false, true) => Filter::NONE,
                    (false, false) => column.exists_and_not(filter),
                })
            }
            Operand::Id => {
                let filter = leaf::ids(&self.names, &literals)?;
                Ok(match (wanted, has_null) {
                    (true, _) => filter,
                    (false, true) => Filter::NONE,
                    (false, false) => filter.negated(),
                })
            }
            Operand::Literal(_) => Err(bad("IN needs an attribute on its left.")),
        }
    }

    fn like(
        &self,
        subject: &Operand<'_>,
        pattern: Literal<'_>,
        wanted: bool,
    ) -> Result<Filter, Refused> {
        let Operand::Attribute(column) = subject else {
            return Err(bad("LIKE needs an attribute on its left."));
        };
        let pattern = match pattern {
            Literal::Text(pattern) => pattern,
            Literal::Null => return column.prefix("").map(|_| Filter::NONE),
            _ => return Err(bad("LIKE needs a text on its right.")),
        };
        let (prefix, is_open) = match pattern.strip_suffix('%') {
            Some(prefix) => (prefix, true),
            None => (pattern, false),
        };
        if prefix.contains(['%', '_', '\\']) {
            let pattern = shown(pattern);
            return Err(bad(format!(
                "LIKE '{pattern}': only a text with one '%' at its end is supported."
            )));
        }
        let prefixed = column.prefix(prefix)?;
        let filter = if is_open { prefixed } else { column.one_of(&[Literal::Text(prefix)])? };
        Ok(if wanted { filter } else { column.exists_and_not(filter) })
    }

    fn is_null(&self, expr: &'a Expr, wanted: bool) -> Result<Filter, Refused> {
        match self.operand(expr)? {
            Operand::Attribute(column) => Ok(asserted(column.exists(), !wanted)),
            Operand::Id => Ok(if wanted { Filter::NONE } else { Filter::ALL }),
            Operand::Literal(_) => Err(bad("IS NULL needs an attribute on its left.")),
        }
    }

    fn function(&self, function: &'a Function, wanted: bool) -> Result<Filter, Refused> {
        let name = function.name.to_string().trim_matches('"').to_ascii_lowercase();
        let FunctionArguments::List(arguments) = &function.args else {
            return Err(bad("A function has its arguments in parentheses."));
        };
        let arguments = arguments.args.iter().map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Ok(expr),
            _ => Err(bad(format!("'{}' has plain arguments.", shown(&name)))),
        });
        let arguments = arguments.collect::<Result<Vec<_>, _>>()?;
        let is_all = match name.as_str() {
            "has_any" => false,
            "has_all" => true,
            _ => {
                let name = shown(&name);
                return Err(bad(format!("'{name}' is no function: use has_any or has_all.")));
            }
        };
        let Some((list, texts)) = arguments.split_first() else {
            return Err(bad(format!("'{name}' has a list and texts as arguments.")));
        };
        let Operand::Attribute(column) = self.operand(list)? else {
            return Err(bad(format!("The first argument of '{name}' is an attribute.")));
        };
        let texts = self.literals(texts.iter().copied())?;
        let filter = if is_all { column.all_of(&texts)? } else { column.any_of(&texts)? };
        Ok(if wanted { filter } else { column.exists_and_not(filter) })
    }
}

/// The operands of a chain of one operator. Without recursion, because a chain may be long.
fn chain<'a>(expr: &'a Expr, wanted: &BinaryOperator) -> Vec<&'a Expr> {
    let (mut rest, mut operands) = (expr, Vec::new());
    while let Expr::BinaryOp { left, op, right } = rest {
        if op != wanted {
            break;
        }
        operands.push(&**right);
        rest = left;
    }
    operands.push(rest);
    operands.reverse();
    operands
}

fn asserted(filter: Filter, wanted: bool) -> Filter {
    if wanted {
        filter
    } else {
        filter.negated()
    }
}

/// The order with its sides exchanged.
fn mirror(order: Order) -> Order {
    match order {
        Order::Less => Order::Greater,
        Order::LessOrEqual => Order::GreaterOrEqual,
        Order::Greater => Order::Less,
        Order::GreaterOrEqual => Order::LessOrEqual,
    }
}

/// The order that holds for a value where this one does not.
fn opposite(order: Order) -> Order {
    match order {
        Order::Less => Order::GreaterOrEqual,
        Order::LessOrEqual => Order::Greater,
        Order::Greater => Order::LessOrEqual,
        Order::GreaterOrEqual => Order::Less,
    }
}
