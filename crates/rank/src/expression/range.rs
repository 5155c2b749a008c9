//! The values that an expression may have while a distance is known up to an interval.
//!
//! Interval arithmetic: every value on the stack is a range, and every operation gives a range that
//! holds all results for values of its operands. Addition, multiplication, division and the square
//! root round correctly, so the ends of ranges are ends of results. Other functions may be wrong in
//! the last digits, and their ranges are widened by [`SLACK`]. Where nothing useful can be said, the
//! range holds every number.

use super::features::{closeness, Found, RankRow};
use super::program::{is_true, One, Operation, Program, Two, STACK_MAX};

/// Part of a result by which functions that do not round correctly may be wrong; they are wrong by
/// less than 1e-15.
const SLACK: f64 = 1e-12;

/// The values that an expression may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreRange {
    /// No value that is a number is less.
    pub least: f64,
    /// No value that is a number is greater.
    pub most: f64,
    /// True if the value may be no number.
    pub may_be_nan: bool,
}

impl ScoreRange {
    /// Every number, and none.
    const ANY: ScoreRange =
        ScoreRange { least: f64::NEG_INFINITY, most: f64::INFINITY, may_be_nan: true };
    const TRUTH: ScoreRange = ScoreRange { least: 0.0, most: 1.0, may_be_nan: false };

    fn point(value: f64) -> ScoreRange {
        if value.is_nan() {
            return ScoreRange::ANY;
        }
        ScoreRange { least: value, most: value, may_be_nan: false }
    }

    fn new(least: f64, most: f64, may_be_nan: bool) -> ScoreRange {
        if least.is_nan() || most.is_nan() || least > most {
            return ScoreRange::ANY;
        }
        ScoreRange { least, most, may_be_nan }
    }

    /// The value, if there is but one.
    fn value(&self) -> Option<f64> {
        (self.least == self.most && !self.may_be_nan).then_some(self.least)
    }

    /// Whether the value counts as true, if that is certain.
    fn truth(&self) -> Option<bool> {
        if self.may_be_nan {
            return None;
        }
        match (self.least > 0.0 || self.most < 0.0, self.value()) {
            (true, _) => Some(true),
            (false, Some(value)) => Some(is_true(value)),
            (false, None) => None,
        }
    }

    /// Both ends through a function that ascends.
    fn ascending(self, apply: impl Fn(f64) -> f64) -> ScoreRange {
        ScoreRange::new(apply(self.least), apply(self.most), self.may_be_nan)
    }

    fn widened(self) -> ScoreRange {
        let slack = |x: f64| if x.is_finite() { x.abs() * SLACK + f64::MIN_POSITIVE } else { 0.0 };
        // An end that became infinite may stand for the greatest number.
        let least = if self.least == f64::INFINITY { f64::MAX } else { self.least };
        ScoreRange::new(least - slack(least), self.most + slack(self.most), self.may_be_nan)
    }
}

impl Program {
    /// The values of the expression for a row whose distance lies between two ends; the row's own
    /// distance is not used. Panics as [`Program::evaluate`].
    ///
    /// Cost: some three times that of `evaluate`.
    pub fn range(&self, row: &RankRow<'_>, distance: (f32, f32)) -> ScoreRange {
        let found = Found::read(&self.by_column, row.attributes);
        let (near, far) = distance;
        let (nearest, farthest) = (f64::from(near), f64::from(far));
        let mut stack = Stack { values: [ScoreRange::ANY; STACK_MAX], height: 0 };
        let mut at = 0;
        while let Some(operation) = self.operations.get(at) {
            at += 1;
            let point = match *operation {
                Operation::Number(number) => number,
                Operation::Parameter(_) => unreachable!("parameters have values"),
                Operation::Distance => {
                    stack.push(ScoreRange::new(nearest, farthest, false));
                    continue;
                }
                Operation::Closeness => {
                    let (least, most) = (closeness(self.metric, far), closeness(self.metric, near));
                    stack.push(ScoreRange::new(least, most, false));
                    continue;
                }
                Operation::Bm25 => row.bm25.map_or(0.0, |(bm25, row)| bm25.score(row)),
                Operation::Bm25Of(column) => {
                    row.bm25.map_or(0.0, |(bm25, row)| bm25.score_of(row, column))
                }
                Operation::Value(lookup) => found.get(lookup).unwrap_or(0.0),
                Operation::ValueOr(lookup) => {
                    let default = stack.pop();
                    stack.push(found.get(lookup).map_or(default, ScoreRange::point));
                    continue;
                }
                Operation::Has(lookup) => f64::from(found.get(lookup).is_some()),
                Operation::Freshness(lookup) => {
                    let age_max = stack.pop();
                    stack.push(match (found.get(lookup), age_max.value()) {
                        (None, _) => ScoreRange::point(0.0),
                        (Some(ms), Some(age_max)) => ScoreRange::point(self.freshness(ms, age_max)),
                        (Some(_), None) => ScoreRange::TRUTH,
                    });
                    continue;
                }
                Operation::One(function) => {
                    let a = stack.pop();
                    stack.push(one(function, a));
                    continue;
                }
                Operation::Two(function) => {
                    let b = stack.pop();
                    let a = stack.pop();
                    stack.push(two(function, a, b));
                    continue;
                }
                Operation::JumpUnless(target) => {
                    match stack.pop().truth() {
                        Some(true) => {}
                        Some(false) => at = usize::from(target),
                        // Either side may be chosen, and they are not followed both.
                        None => return ScoreRange::ANY,
                    }
                    continue;
                }
                Operation::Jump(target) => {
                    at = usize::from(target);
                    continue;
                }
            };
            stack.push(ScoreRange::point(point));
        }
        stack.pop()
    }
}

fn one(function: One, a: ScoreRange) -> ScoreRange {
    if let Some(value) = a.value() {
        return ScoreRange::point(function.apply(value));
    }
    let apply = |x: f64| function.apply(x);
    match function {
        One::Negate => ScoreRange::new(-a.most, -a.least, a.may_be_nan),
        One::Not => a.truth().map_or(ScoreRange::TRUTH, |is| ScoreRange::point(f64::from(!is))),
        One::Abs if a.least >= 0.0 => a,
        One::Abs if a.most <= 0.0 => ScoreRange::new(-a.most, -a.least, a.may_be_nan),
        One::Abs => ScoreRange::new(0.0, a.most.max(-a.least), a.may_be_nan),
        One::Ceil | One::Floor | One::Relu => a.ascending(apply),
        One::Exp | One::Tanh | One::Atan | One::Sigmoid => a.ascending(apply).widened(),
        // Roots and logarithms of negative numbers are no numbers.
        One::Sqrt | One::Log | One::Log10 if a.most < 0.0 => ScoreRange::ANY,
        One::Sqrt | One::Log | One::Log10 => {
            let inside = ScoreRange { least: a.least.max(0.0), ..a };
            let found = inside.ascending(apply).widened();
            ScoreRange { may_be_nan: a.may_be_nan || a.least < 0.0, ..found }
        }
    }
}

fn two(function: Two, a: ScoreRange, b: ScoreRange) -> ScoreRange {
    if let (Some(a), Some(b)) = (a.value(), b.value()) {
        return ScoreRange::point(function.apply(a, b));
    }
    let nan = a.may_be_nan || b.may_be_nan;
    let certain =
        |is: Option<bool>| is.map_or(ScoreRange::TRUTH, |is| ScoreRange::point(is.into()));
    match function {
        Two::Or => match (a.truth(), b.truth()) {
            (Some(true), _) | (_, Some(true)) => ScoreRange::point(1.0),
            (Some(false), other) | (other, Some(false)) => certain(other),
            _ => ScoreRange::TRUTH,
        },
        Two::And => match (a.truth(), b.truth()) {
            (Some(false), _) | (_, Some(false)) => ScoreRange::point(0.0),
            (Some(true), other) | (other, Some(true)) => certain(other),
            _ => ScoreRange::TRUTH,
        },
        // What is no number is not less, not greater and not equal.
        _ if nan && function.compares() => ScoreRange::TRUTH,
        Two::Less => certain(below(a, b)),
        Two::Greater => certain(below(b, a)),
        Two::GreaterOrEqual => certain(below(a, b).map(|is| !is)),
        Two::LessOrEqual => certain(below(b, a).map(|is| !is)),
        Two::Equal if a.most < b.least || b.most < a.least => ScoreRange::point(0.0),
        Two::NotEqual if a.most < b.least || b.most < a.least => ScoreRange::point(1.0),
        Two::Equal | Two::NotEqual => ScoreRange::TRUTH,
        Two::Add => sum(a, b),
        Two::Subtract => sum(a, ScoreRange { least: -b.most, most: -b.least, ..b }),
        Two::Multiply => corners(a, b, |a, b| a * b),
        Two::Divide if b.least > 0.0 || b.most < 0.0 => corners(a, b, |a, b| a / b),
        Two::Divide | Two::Remainder => ScoreRange::ANY,
        Two::Power => power(a, b),
        // Both pass over what is no number, so the result may be either operand.
        Two::Min if !nan => ScoreRange::new(a.least.min(b.least), a.most.min(b.most), false),
        Two::Max if !nan => ScoreRange::new(a.least.max(b.least), a.most.max(b.most), false),
        Two::Min | Two::Max => {
            ScoreRange::new(a.least.min(b.least), a.most.max(b.most), a.may_be_nan && b.may_be_nan)
        }
    }
}

/// Whether `a < b`, if that is certain for numbers.
fn below(a: ScoreRange, b: ScoreRange) -> Option<bool> {
    match (a.most < b.least, a.least >= b.most) {
        (true, _) => Some(true),
        (false, true) => Some(false),
        (false, false) => None,
    }
}

fn sum(a: ScoreRange, b: ScoreRange) -> ScoreRange {
    // An infinite end may meet one of the other sign.
    let meets =
        |a: ScoreRange, b: ScoreRange| a.most == f64::INFINITY && b.least == f64::NEG_INFINITY;
    if meets(a, b) || meets(b, a) {
        return ScoreRange::ANY;
    }
    ScoreRange::new(a.least + b.least, a.most + b.most, a.may_be_nan || b.may_be_nan)
}

/// The range of a function that is monotonic in each operand, from the ends of both.
fn corners(a: ScoreRange, b: ScoreRange, apply: impl Fn(f64, f64) -> f64) -> ScoreRange {
    let ends = [
        apply(a.least, b.least),
        apply(a.least, b.most),
        apply(a.most, b.least),
        apply(a.most, b.most),
    ];
    let infinite = [a.least, a.most, b.least, b.most].iter().any(|end| end.is_infinite());
    if infinite || ends.iter().any(|end| end.is_nan()) {
        return ScoreRange::ANY;
    }
    let least = ends.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ends.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    ScoreRange::new(least, most, a.may_be_nan || b.may_be_nan)
}

/// Powers with a fixed exponent and a base that is not negative.
fn power(a: ScoreRange, b: ScoreRange) -> ScoreRange {
    let Some(exponent) = b.value().filter(|_| a.least > 0.0 && a.most.is_finite()) else {
        return ScoreRange::ANY;
    };
    let (low, high) = (a.least.powf(exponent), a.most.powf(exponent));
    ScoreRange::new(low.min(high), low.max(high), a.may_be_nan).widened()
}

struct Stack {
    values: [ScoreRange; STACK_MAX],
    height: usize,
}

impl Stack {
    fn push(&mut self, value: ScoreRange) {
        self.values[self.height] = value;
        self.height += 1;
    }

    fn pop(&mut self) -> ScoreRange {
        self.height -= 1;
        self.values[self.height]
    }
}
