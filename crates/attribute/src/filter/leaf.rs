//! Conditions on one attribute, made from the values that a text has.

use std::ops::Bound;

use crate::error::{shown, Refused, RefusedKind};
use crate::filter::limits::{bad, FILTER_VALUES_MAX};
use crate::filter::literal::{Literal, Order};
use crate::filter::{Filter, Range, Test};
use crate::moment;
use crate::name::Names;
use crate::schema::{AttributeKind, IdKind};

/// An attribute that a condition names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column<'a> {
    pub(super) name: &'a str,
    pub(super) at: u16,
    pub(super) kind: AttributeKind,
}

impl<'a> Column<'a> {
    pub(super) fn find(names: &Names<'a>, name: &str) -> Result<Column<'a>, Refused> {
        let Some(at) = names.schema.column(name) else {
            let what = format!("The collection has no attribute '{}'.", shown(name));
            return Err(Refused::new(RefusedKind::UnknownAttribute, what));
        };
        let attribute = &names.schema.attributes[usize::from(at)];
        Ok(Column { name: &attribute.name, at, kind: attribute.kind })
    }

    pub(super) fn test(&self, test: Test) -> Filter {
        Filter::Attribute(self.at, test)
    }

    pub(super) fn exists(&self) -> Filter {
        self.test(Test::Exists)
    }

    /// Holds for a row that has a value for which `filter` does not hold.
    pub(super) fn exists_and_not(&self, filter: Filter) -> Filter {
        Filter::And(vec![self.exists(), filter.negated()])
    }

    fn wrong(&self, literal: &Literal<'_>) -> Refused {
        let wanted = match self.kind {
            AttributeKind::Keyword | AttributeKind::Keywords => "a text",
            AttributeKind::I64 => "an integer from -2^63 to 2^63 - 1",
            AttributeKind::F64 => "a number",
            AttributeKind::Bool => "true or false",
            AttributeKind::Timestamp => "an RFC 3339 text or integer milliseconds",
            AttributeKind::Text => return self.unfit("compared"),
        };
        let what = format!(
            "The attribute '{}' is of type {}: compare it with {wanted}, not {literal}.",
            self.name,
            self.kind.name()
        );
        Refused::new(RefusedKind::WrongType, what)
    }

    /// A refusal of a condition that this kind does not have. `how` completes "cannot be …".
    pub(super) fn unfit(&self, how: &str) -> Refused {
        let (name, kind) = (self.name, self.kind.name());
        let what = format!("The attribute '{name}' is of type {kind} and cannot be {how}.");
        Refused::new(RefusedKind::WrongType, what)
    }

    /// Equal to one of the values; a list has one of them.
    pub(super) fn one_of(&self, literals: &[Literal<'_>]) -> Result<Filter, Refused> {
        check_count(literals.len())?;
        let typed = |wrong: &Literal<'_>| self.wrong(wrong);
        let test = match self.kind {
            AttributeKind::Keyword => Test::KeywordIn(self.texts(literals)?),
            AttributeKind::Keywords => Test::AnyOf(self.texts(literals)?),
            AttributeKind::I64 | AttributeKind::Timestamp => {
                let number = |one: &Literal<'_>| self.i64(*one).ok_or_else(|| typed(one));
                Test::I64In(sorted(literals.iter().map(number).collect::<Result<_, _>>()?))
            }
            AttributeKind::F64 => {
                let number = |one: &Literal<'_>| one.f64().ok_or_else(|| typed(one));
                let mut numbers = literals.iter().map(number).collect::<Result<Vec<_>, _>>()?;
                numbers.sort_by(f64::total_cmp);
                numbers.dedup();
                Test::F64In(numbers)
            }
            AttributeKind::Bool => {
                let (mut yes, mut no) = (false, false);
                for one in literals {
                    match one {
                        Literal::Bool(true) => yes = true,
                        Literal::Bool(false) => no = true,
                        other => return Err(self.wrong(other)),
                    }
                }
                return Ok(match (yes, no) {
                    (true, true) => self.exists(),
                    (false, false) => Filter::NONE,
                    (yes, _) => self.test(Test::Bool(yes)),
                });
            }
            AttributeKind::Text => return Err(self.unfit("compared: it is searched by words")),
        };
        Ok(self.test(test))
    }

    /// A list that has all of these texts.
    pub(super) fn all_of(&self, literals: &[Literal<'_>]) -> Result<Filter, Refused> {
        check_count(literals.len())?;
        if self.kind != AttributeKind::Keywords {
            return Err(self.unfit("searched for several entries: it is no list"));
        }
        Ok(self.test(Test::AllOf(self.texts(literals)?)))
    }

    /// A list that has one of these texts; refused for other kinds.
    pub(super) fn any_of(&self, literals: &[Literal<'_>]) -> Result<Filter, Refused> {
        if self.kind != AttributeKind::Keywords {
            return Err(self.unfit("searched for entries: it is no list"));
        }
        self.one_of(literals)
    }

    /// A keyword that begins with a text.
    pub(super) fn prefix(&self, prefix: &str) -> Result<Filter, Refused> {
        if self.kind != AttributeKind::Keyword {
            return Err(self.unfit("compared with a prefix"));
        }
        Ok(self.test(Test::KeywordPrefix(prefix.to_owned())))
    }

    /// A list without entries, or no value.
    pub(super) fn is_empty(&self) -> Filter {
        let missing = self.exists().negated();
        match self.kind {
            AttributeKind::Keywords => Filter::Or(vec![missing, self.test(Test::IsEmpty)]),
            _ => missing,
        }
    }

    /// A value in a range; several bounds on one side keep the narrowest.
    pub(super) fn range(&self, bounds: &[(Order, Literal<'_>)]) -> Result<Filter, Refused> {
        let test = match self.kind {
            AttributeKind::I64 | AttributeKind::Timestamp => {
                Test::I64Range(narrowed(bounds, |order, one| {
                    self.i64_bound(order, one).ok_or_else(|| self.wrong(&one))
                })?)
            }
            AttributeKind::F64 => Test::F64Range(narrowed(bounds, |order, one| {
                let number = one.f64().ok_or_else(|| self.wrong(&one))?;
                Ok(order.bound(number))
            })?),
            _ => return Err(self.unfit("compared by order")),
        };
        Ok(self.test(test))
    }

    fn texts(&self, literals: &[Literal<'_>]) -> Result<Vec<String>, Refused> {
        let text = |one: &Literal<'_>| match one {
            Literal::Text(text) => Ok((*text).to_owned()),
            other => Err(self.wrong(other)),
        };
        Ok(sorted(literals.iter().map(text).collect::<Result<_, _>>()?))
    }

    /// The value as a whole number or a timestamp, if it fits.
    fn i64(&self, literal: Literal<'_>) -> Option<i64> {
        match (literal.integral(), self.kind) {
            (Literal::Integer(number), _) => i64::try_from(number).ok(),
            (Literal::Text(text), AttributeKind::Timestamp) => moment::millis(text),
            (Literal::Moment(millis), AttributeKind::Timestamp) => Some(millis),
            _ => None,
        }
    }

    /// A bound on whole numbers. One with a fraction or beyond 64 bits is moved to where it holds
    /// for the same whole numbers.
    fn i64_bound(&self, order: Order, literal: Literal<'_>) -> Option<Bound<i64>> {
        let lower = order.is_lower_bound();
        match literal.integral() {
            Literal::Integer(number) => Some(match i64::try_from(number) {
                Ok(number) => order.bound(number),
                Err(_) if lower == (number < 0) => Bound::Unbounded,
                Err(_) if lower => Bound::Excluded(i64::MAX),
                Err(_) => Bound::Excluded(i64::MIN),
            }),
            Literal::Number(number) if lower => Some(Bound::Included(number.ceil() as i64)),
            Literal::Number(number) => Some(Bound::Included(number.floor() as i64)),
            other => self.i64(other).map(|number| order.bound(number)),
        }
    }
}

fn check_count(values: usize) -> Result<(), Refused> {
    if values > FILTER_VALUES_MAX {
        return Err(bad(format!(
            "A condition has {values} values; the limit is {FILTER_VALUES_MAX}."
        )));
    }
    Ok(())
}

fn sorted<T: Ord>(mut list: Vec<T>) -> Vec<T> {
    list.sort_unstable();
    list.dedup();
    list
}

fn narrowed<'a, T: PartialOrd + Copy>(
    bounds: &[(Order, Literal<'a>)],
    bound: impl Fn(Order, Literal<'a>) -> Result<Bound<T>, Refused>,
) -> Result<Range<T>, Refused> {
    let mut range = Range { from: Bound::Unbounded, to: Bound::Unbounded };
    for (order, literal) in bounds {
        let one = bound(*order, *literal)?;
        if order.is_lower_bound() {
            range.from = later(range.from, one);
        } else {
            range.to = earlier(range.to, one);
        }
    }
    Ok(range)
}

/// The narrower of two bounds from below.
pub(super) fn later<T: PartialOrd + Copy>(a: Bound<T>, b: Bound<T>) -> Bound<T> {
    narrower(a, b, |x, y| x > y)
}

/// The narrower of two bounds from above.
pub(super) fn earlier<T: PartialOrd + Copy>(a: Bound<T>, b: Bound<T>) -> Bound<T> {
    narrower(a, b, |x, y| x < y)
}

fn narrower<T: PartialOrd + Copy>(
    a: Bound<T>,
    b: Bound<T>,
    is_inside: impl Fn(T, T) -> bool,
) -> Bound<T> {
    let value = |bound| match bound {
        Bound::Unbounded => None,
        Bound::Included(value) | Bound::Excluded(value) => Some(value),
    };
    match (value(a), value(b)) {
        (None, _) => b,
        (_, None) => a,
        (Some(x), Some(y)) if is_inside(x, y) => a,
        (Some(x), Some(y)) if is_inside(y, x) => b,
        _ if matches!(a, Bound::Excluded(_)) => a,
        _ => b,
    }
}

/// Rows with one of these ids. A text stands for its hash.
pub(super) fn ids(names: &Names<'_>, literals: &[Literal<'_>]) -> Result<Filter, Refused> {
    check_count(literals.len())?;
    let wrong = |wanted: &str, one: &Literal<'_>| {
        Refused::new(RefusedKind::BadId, format!("The ids are {wanted}: {one} is none."))
    };
    let id = |one: &Literal<'_>| match (names.schema.id, *one) {
        (IdKind::U64, Literal::Integer(number)) => {
            u64::try_from(number).map_err(|_| wrong("whole numbers from 0 to 2^64 - 1", one))
        }
        (IdKind::U64, _) => Err(wrong("whole numbers from 0 to 2^64 - 1", one)),
        (IdKind::String, Literal::Text(text)) => match names.hash {
            Some(hash) => hash.hash(text).map(|hashed| hashed.id),
            None => Err(bad("A filter that names string ids needs the hash of the collection.")),
        },
        (IdKind::String, _) => Err(wrong("texts", one)),
    };
    Ok(Filter::Ids(sorted(literals.iter().map(id).collect::<Result<_, _>>()?)))
}
