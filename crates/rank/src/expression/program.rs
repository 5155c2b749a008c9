//! The program of an expression, and the stack machine that runs it.

use vstream_vector::Metric;

use super::features::{closeness, Found, Lookup, RankRow};
use crate::error::{QueryError, QueryErrorKind};

/// Most operations of a program.
pub(super) const OPERATIONS_MAX: usize = 1 << 10;
/// Most values on the stack.
pub(super) const STACK_MAX: usize = 32;

/// One step. Values are taken from the stack, and the result is put there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Operation {
    Number(f64),
    Parameter(u16),
    Distance,
    Closeness,
    Bm25,
    Bm25Of(u16),
    /// The value of a lookup, or 0.
    Value(u8),
    /// The value of a lookup, or the value on the stack.
    ValueOr(u8),
    Has(u8),
    /// Takes the largest age in seconds from the stack.
    Freshness(u8),
    One(One),
    Two(Two),
    /// Takes a value, and goes on at the target unless it is true.
    JumpUnless(u16),
    Jump(u16),
}

/// Functions of one value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum One {
    Negate,
    Not,
    Abs,
    Ceil,
    Floor,
    Exp,
    Log,
    Log10,
    Sqrt,
    Tanh,
    Atan,
    Sigmoid,
    Relu,
}

/// Functions of two values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Two {
    Or,
    And,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Power,
    Min,
    Max,
}

pub(super) fn is_true(value: f64) -> bool {
    value != 0.0 && !value.is_nan()
}

impl One {
    #[inline]
    pub fn apply(self, a: f64) -> f64 {
        match self {
            One::Negate => -a,
            One::Not => f64::from(!is_true(a)),
            One::Abs => a.abs(),
            One::Ceil => a.ceil(),
            One::Floor => a.floor(),
            One::Exp => a.exp(),
            One::Log => a.ln(),
            One::Log10 => a.log10(),
            One::Sqrt => a.sqrt(),
            One::Tanh => a.tanh(),
            One::Atan => a.atan(),
            One::Sigmoid => 1.0 / (1.0 + (-a).exp()),
            One::Relu if a < 0.0 => 0.0,
            One::Relu => a,
        }
    }
}

impl Two {
    pub(super) fn compares(self) -> bool {
        use Two::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        matches!(self, Less | LessOrEqual | Greater | GreaterOrEqual | Equal | NotEqual)
    }

    #[inline]
    pub fn apply(self, a: f64, b: f64) -> f64 {
        match self {
            Two::Or => f64::from(is_true(a) || is_true(b)),
            Two::And => f64::from(is_true(a) && is_true(b)),
            Two::Less => f64::from(a < b),
            Two::LessOrEqual => f64::from(a <= b),
            Two::Greater => f64::from(a > b),
            Two::GreaterOrEqual => f64::from(a >= b),
            Two::Equal => f64::from(a == b),
            Two::NotEqual => f64::from(a != b),
            Two::Add => a + b,
            Two::Subtract => a - b,
            Two::Multiply => a * b,
            Two::Divide => a / b,
            Two::Remainder => a % b,
            Two::Power => a.powf(b),
            Two::Min => a.min(b),
            Two::Max => a.max(b),
        }
    }
}

/// A compiled expression whose parameters have no values yet. See the module for its grammar.
///
/// ```
/// # use vstream_attribute::{AttributeKind, Attributes, Schema};
/// # use vstream_rank::{Expression, RankInputs, RankRow};
/// # use vstream_vector::Metric;
/// let schema = Schema::new([("sent", AttributeKind::Timestamp)])?;
/// let text = "$w * closeness + (1 - $w) * bm25 + 0.1 * freshness(sent, 86400)";
/// let expression = Expression::parse(&schema, text)?;
/// let inputs = RankInputs { parameters: &[("w", 0.5)], metric: Metric::L2, now_ms: 0 };
/// let program = expression.bind(&inputs)?;
/// let row = RankRow { distance: Some(9.0), ..RankRow::default() };
/// assert_eq!(program.evaluate(&row), 0.5 * (1.0 / (1.0 + 3.0)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    pub(super) operations: Vec<Operation>,
    pub(super) lookups: Vec<Lookup>,
    pub(super) parameters: Vec<String>,
}

/// What a query gives to an expression.
#[derive(Clone, Copy, Debug)]
pub struct RankInputs<'a> {
    /// Names, without `$`, and finite values of all parameters.
    pub parameters: &'a [(&'a str, f64)],
    /// The collection's metric.
    pub metric: Metric,
    /// The time of the query in milliseconds since 1970-01-01 UTC, for `freshness`.
    pub now_ms: i64,
}

impl Expression {
    /// Names of the parameters, without `$`, in the order in which they occur.
    pub fn parameters(&self) -> impl Iterator<Item = &str> {
        self.parameters.iter().map(String::as_str)
    }

    /// True if the expression asks for the distance or the closeness.
    pub fn uses_distance(&self) -> bool {
        self.has(|one| matches!(one, Operation::Distance | Operation::Closeness))
    }

    /// True if the expression asks for scores of the text query.
    pub fn uses_bm25(&self) -> bool {
        self.has(|one| matches!(one, Operation::Bm25 | Operation::Bm25Of(_)))
    }

    /// True if the expression asks for values of attributes.
    pub fn uses_attributes(&self) -> bool {
        !self.lookups.is_empty()
    }

    fn has(&self, which: impl Fn(&Operation) -> bool) -> bool {
        self.operations.iter().any(which)
    }

    /// Gives the parameters their values.
    ///
    /// Errors: `BadParameter` if a parameter has no value, or there is a value without a parameter,
    /// a second value, or one that is not finite. Cost: a copy of the program.
    pub fn bind(&self, inputs: &RankInputs<'_>) -> Result<Program, QueryError> {
        let bad = |what: String| Err(QueryError::new(QueryErrorKind::BadParameter, 0, what));
        for (at, (name, value)) in inputs.parameters.iter().enumerate() {
            if !value.is_finite() {
                return bad(format!("The parameter '{name}' is {value}: give a finite number."));
            }
            if inputs.parameters[..at].iter().any(|(before, _)| before == name) {
                return bad(format!("The parameter '{name}' has two values."));
            }
            if !self.parameters.iter().any(|parameter| parameter == name) {
                return bad(format!("The expression has no parameter '{name}'."));
            }
        }
        let mut values = Vec::with_capacity(self.parameters.len());
        for parameter in &self.parameters {
            match inputs.parameters.iter().find(|(name, _)| name == parameter) {
                Some((_, value)) => values.push(*value),
                None => return bad(format!("The parameter '{parameter}' has no value.")),
            }
        }
        let operations = self.operations.iter().map(|operation| match operation {
            Operation::Parameter(parameter) => Operation::Number(values[usize::from(*parameter)]),
            other => *other,
        });
        let mut by_column: Vec<(u8, Lookup)> = (0..).zip(self.lookups.iter().cloned()).collect();
        by_column.sort_by_key(|(_, lookup)| lookup.column);
        let (metric, now_ms) = (inputs.metric, inputs.now_ms);
        Ok(Program { operations: operations.collect(), by_column, metric, now_ms })
    }
}

/// An expression that is ready to be evaluated, on any number of threads.
#[derive(Clone, Debug)]
pub struct Program {
    pub(super) operations: Vec<Operation>,
    pub(super) by_column: Vec<(u8, Lookup)>,
    pub(super) metric: Metric,
    now_ms: i64,
}

impl Program {
    /// The value of the expression for a row: any number, or not a number. Panics if the row's
    /// number in the scores is none. Cost: one pass over operations and attributes, no allocation
    /// but for lists of keywords.
    pub fn evaluate(&self, row: &RankRow<'_>) -> f64 {
        let found = Found::read(&self.by_column, row.attributes);
        let mut stack = Stack { values: [0.0; STACK_MAX], height: 0 };
        let mut at = 0;
        while let Some(operation) = self.operations.get(at) {
            at += 1;
            match *operation {
                Operation::Number(number) => stack.push(number),
                Operation::Parameter(_) => unreachable!("parameters have values"),
                Operation::Distance => stack.push(row.distance.map_or(f64::INFINITY, f64::from)),
                Operation::Closeness => {
                    stack.push(
                        row.distance.map_or(0.0, |distance| closeness(self.metric, distance)),
                    );
                }
                Operation::Bm25 => stack.push(row.bm25.map_or(0.0, |(bm25, row)| bm25.score(row))),
                Operation::Bm25Of(column) => {
                    stack.push(row.bm25.map_or(0.0, |(bm25, row)| bm25.score_of(row, column)));
                }
                Operation::Value(lookup) => stack.push(found.get(lookup).unwrap_or(0.0)),
                Operation::ValueOr(lookup) => {
                    let default = stack.pop();
                    stack.push(found.get(lookup).unwrap_or(default));
                }
                Operation::Has(lookup) => stack.push(f64::from(found.get(lookup).is_some())),
                Operation::Freshness(lookup) => {
                    let age_max = stack.pop();
                    stack.push(found.get(lookup).map_or(0.0, |ms| self.freshness(ms, age_max)));
                }
                Operation::One(function) => {
                    let a = stack.pop();
                    stack.push(function.apply(a));
                }
                Operation::Two(function) => {
                    let b = stack.pop();
                    let a = stack.pop();
                    stack.push(function.apply(a, b));
                }
                Operation::JumpUnless(target) => {
                    if !is_true(stack.pop()) {
                        at = usize::from(target);
                    }
                }
                Operation::Jump(target) => at = usize::from(target),
            }
        }
        stack.pop()
    }

    /// 1 − age ⁄ `age_max`, both in seconds, within 0 to 1. A moment in the future is fresh; an
    /// `age_max` of 0 or less, or not a number, lets nothing be fresh.
    pub(super) fn freshness(&self, moment_ms: f64, age_max: f64) -> f64 {
        let age = (self.now_ms as f64 - moment_ms).max(0.0) / 1000.0;
        if age_max > 0.0 {
            (1.0 - age / age_max).max(0.0)
        } else {
            0.0
        }
    }
}

struct Stack {
    values: [f64; STACK_MAX],
    height: usize,
}

impl Stack {
    #[inline]
    fn push(&mut self, value: f64) {
        self.values[self.height] = value;
        self.height += 1;
    }

    #[inline]
    fn pop(&mut self) -> f64 {
        self.height -= 1;
        self.values[self.height]
    }
}
