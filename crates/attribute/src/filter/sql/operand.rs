//! The sides of a comparison: names of attributes, and values.

use sqlparser::ast::{Expr, UnaryOperator, Value as Sql};

use crate::error::{shown, Refused};
use crate::filter::leaf::Column;
use crate::filter::limits::bad;
use crate::filter::literal::Literal;
use crate::name::Names;
use crate::value::Value;

/// Compiles an expression: what it needs to know.
pub(super) struct Compiler<'a> {
    pub(super) names: Names<'a>,
    pub(super) parameters: &'a [Value],
}

/// One side of a comparison.
pub(super) enum Operand<'a> {
    Attribute(Column<'a>),
    Id,
    Literal(Literal<'a>),
}

impl<'a> Compiler<'a> {
    pub(super) fn operand(&self, expr: &'a Expr) -> Result<Operand<'a>, Refused> {
        let name = match unnested(expr) {
            Expr::Identifier(name) => name.value.clone(),
            Expr::CompoundIdentifier(parts) => {
                let parts: Vec<&str> = parts.iter().map(|part| part.value.as_str()).collect();
                parts.join(".")
            }
            other => return self.literal(other).map(Operand::Literal),
        };
        match Column::find(&self.names, &name) {
            Ok(column) => Ok(Operand::Attribute(column)),
            Err(_) if name.eq_ignore_ascii_case("id") => Ok(Operand::Id),
            Err(refused) => Err(refused),
        }
    }

    pub(super) fn literal(&self, expr: &'a Expr) -> Result<Literal<'a>, Refused> {
        match unnested(expr) {
            Expr::Value(value) => match &value.value {
                Sql::Number(digits, _) => number(digits),
                Sql::SingleQuotedString(text) => Ok(Literal::Text(text)),
                Sql::Boolean(is_true) => Ok(Literal::Bool(*is_true)),
                Sql::Null => Ok(Literal::Null),
                Sql::Placeholder(place) => self.parameter(place)?.ok_or_else(|| {
                    bad("A list as parameter stands in IN, has_any or has_all alone.")
                }),
                _ => Err(bad("A value of this kind has no meaning in a filter.")),
            },
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match self.literal_digits(expr)? {
                Literal::Integer(number) => Ok(Literal::Integer(-number)),
                Literal::Number(number) => Ok(Literal::Number(-number)),
                _ => Err(bad("Only a number has a sign.")),
            },
            _ => Err(bad("A comparison has an attribute on one side and a value on the other.")),
        }
    }

    /// The number behind a sign; one sign alone, so that signs do not nest.
    fn literal_digits(&self, expr: &'a Expr) -> Result<Literal<'a>, Refused> {
        match unnested(expr) {
            Expr::Value(_) => self.literal(expr),
            _ => Err(bad("Only a number has a sign.")),
        }
    }

    /// Values, with the texts of a parameter that is a list.
    pub(super) fn literals(
        &self,
        exprs: impl IntoIterator<Item = &'a Expr>,
    ) -> Result<Vec<Literal<'a>>, Refused> {
        let mut literals = Vec::new();
        for expr in exprs {
            if let Some(Value::Keywords(texts)) = self.bound(expr) {
                literals.extend(texts.iter().map(|text| Literal::Text(text)));
            } else {
                literals.push(self.literal(expr)?);
            }
        }
        Ok(literals)
    }

    /// The parameter that an expression is.
    fn bound(&self, expr: &Expr) -> Option<&'a Value> {
        let Expr::Value(value) = unnested(expr) else { return None };
        let Sql::Placeholder(place) = &value.value else { return None };
        let number: usize = place.strip_prefix('$')?.parse().ok()?;
        self.parameters.get(number.checked_sub(1)?)
    }

    /// The value of a placeholder; none if it is a list.
    fn parameter(&self, place: &str) -> Result<Option<Literal<'a>>, Refused> {
        let number: Option<usize> = place.strip_prefix('$').and_then(|digits| digits.parse().ok());
        let value = number.and_then(|n| self.parameters.get(n.checked_sub(1)?));
        let value = value.ok_or_else(|| bad("A parameter has no value."))?;
        Ok(match value {
            Value::Keyword(text) | Value::Text(text) => Some(Literal::Text(text)),
            Value::I64(number) => Some(Literal::Integer(i128::from(*number))),
            Value::F64(number) if number.is_finite() => Some(Literal::Number(*number)),
            Value::F64(_) => return Err(bad("A parameter is a number that is not finite.")),
            Value::Bool(is_true) => Some(Literal::Bool(*is_true)),
            Value::Timestamp(millis) => Some(Literal::Moment(*millis)),
            Value::Keywords(_) => None,
        })
    }
}

fn unnested(mut expr: &Expr) -> &Expr {
    while let Expr::Nested(inner) = expr {
        expr = inner;
    }
    expr
}

fn number(digits: &str) -> Result<Literal<'static>, Refused> {
    let integer = digits.parse().map(Literal::Integer).ok();
    let number = || digits.parse().ok().filter(|number: &f64| number.is_finite());
    integer
        .or_else(|| number().map(Literal::Number))
        .ok_or_else(|| bad(format!("'{}' is no number that fits.", shown(digits))))
}
