//! Filters as dictionaries in the style of MongoDB, as users of LangChain and Chroma know them.
//!
//! `{"a": 1, "b": {"$gte": 3, "$lt": 5}}` asks that all of these hold.
//!
//! | operator | holds if |
//! |---|---|
//! | `{"a": v}`, `$eq` | the value is v; a list has v; with `null`: there is no value |
//! | `$ne` | `$eq` does not hold; so it holds for a row without a value. With `null`: there is a value |
//! | `$gt $gte $lt $lte` | the number or timestamp is in the range |
//! | `$in` | the value is one of these; a list has one of these |
//! | `$nin` | `$in` does not hold; so it holds for a row without a value |
//! | `$exists` | there is a value, or with `false`: there is none |
//! | `$contains` | the list has this text |
//! | `$any`, `$all` | the list has one of these texts, or all |
//! | `$prefix` | the keyword begins with this |
//! | `$not` | its operators do not hold together; so it holds for a row without a value |
//! | `$and $or $nor` with a list of dictionaries, `$not` with one | all, one, none hold; this does not hold |
//!
//! `"id"` is the id of the row, with `$eq`, `$ne`, `$in` and `$nin`, unless an attribute has that
//! name.

use serde_json::{Map, Value as Json};

use crate::error::{shown, Refused};
use crate::filter::leaf::{self, Column};
use crate::filter::limits::{bad, FILTER_DEPTH_MAX};
use crate::filter::literal::{Literal, Order};
use crate::filter::place::Place;
use crate::filter::Filter;
use crate::name::Names;

impl Filter {
    /// Reads a dictionary: see the table in `src/filter/dict.rs`.
    ///
    /// * `names`: a `&Schema`, or [`Names`] where the filter may name string ids.
    ///
    /// Cost and errors: as [`Filter::from_json`].
    pub fn from_dict<'a>(names: impl Into<Names<'a>>, dict: &Json) -> Result<Filter, Refused> {
        let reader = Reader { names: names.into() };
        let filter = reader.dict(dict, &Place::ROOT, 1)?;
        filter.check_limits()?;
        Ok(filter)
    }
}

struct Reader<'a> {
    names: Names<'a>,
}

/// What the operators of an entry are about.
enum Subject<'a> {
    Attribute(Column<'a>),
    Id,
}

impl Reader<'_> {
    fn dict(&self, json: &Json, place: &Place<'_>, level: usize) -> Result<Filter, Refused> {
        check_level(place, level)?;
        let Json::Object(object) = json else {
            return Err(place.bad("A filter is a dictionary of attributes and operators."));
        };
        let entry = |(key, value): (&String, &Json)| {
            let below = place.key(key);
            match key.as_str() {
                "$and" => Ok(Filter::And(self.dicts(value, &below, level)?)),
                "$or" => Ok(Filter::Or(self.dicts(value, &below, level)?)),
                "$nor" => Ok(Filter::Or(self.dicts(value, &below, level)?).negated()),
                "$not" => Ok(self.dict(value, &below, level + 1)?.negated()),
                other if other.starts_with('$') => {
                    let other = shown(other);
                    Err(place.bad(format!("'{other}' joins nothing: use $and, $or, $nor, $not.")))
                }
                name => self.entry(name, value, &below, level),
            }
        };
        Ok(all(object.iter().map(entry).collect::<Result<_, _>>()?))
    }

    fn dicts(&self, json: &Json, place: &Place<'_>, level: usize) -> Result<Vec<Filter>, Refused> {
        let list = json.as_array().filter(|list| !list.is_empty());
        let list = list.ok_or_else(|| place.bad("Give a list of at least one dictionary."))?;
        let numbered = list.iter().enumerate();
        numbered.map(|(i, one)| self.dict(one, &place.at(i), level + 1)).collect()
    }

    fn entry(
        &self,
        name: &str,
        json: &Json,
        place: &Place<'_>,
        level: usize,
    ) -> Result<Filter, Refused> {
        let subject = match Column::find(&self.names, name) {
            Ok(column) => Subject::Attribute(column),
            Err(_) if name == "id" => Subject::Id,
            Err(refused) => return Err(place.refused(&refused)),
        };
        match json {
            Json::Object(operators) => self.operators(&subject, operators, place, level),
            plain => self.operator(&subject, "$eq", plain, place),
        }
    }

    fn operators(
        &self,
        subject: &Subject<'_>,
        operators: &Map<String, Json>,
        place: &Place<'_>,
        level: usize,
    ) -> Result<Filter, Refused> {
        check_level(place, level)?;
        if operators.is_empty() {
            return Err(place.bad("Give an operator such as $eq."));
        }
        let (mut parts, mut bounds) = (Vec::new(), Vec::new());
        for (key, value) in operators {
            let below = place.key(key);
            if key == "$not" {
                let Json::Object(inner) = value else {
                    return Err(below.bad("'$not' has a dictionary of operators."));
                };
                parts.push(self.operators(subject, inner, &below, level + 1)?.negated());
            } else if let Some(order) = order(key) {
                bounds.push((order, literal(value, &below)?));
            } else {
                parts.push(self.operator(subject, key, value, &below)?);
            }
        }
        if !bounds.is_empty() {
            let range = match subject {
                Subject::Attribute(column) => column.range(&bounds),
                Subject::Id => Err(bad("An id has no order: use $eq, $ne, $in or $nin.")),
            };
            parts.push(range.map_err(|refused| place.refused(&refused))?);
        }
        Ok(all(parts))
    }

    fn operator(
        &self,
        subject: &Subject<'_>,
        operator: &str,
        json: &Json,
        place: &Place<'_>,
    ) -> Result<Filter, Refused> {
        let one_of = |literals: &[Literal<'_>]| match subject {
            Subject::Attribute(column) => column.one_of(literals),
            Subject::Id => leaf::ids(&self.names, literals),
        };
        let filter = match (operator, subject) {
            ("$eq", Subject::Attribute(column)) if json.is_null() => Ok(column.exists().negated()),
            ("$ne", Subject::Attribute(column)) if json.is_null() => Ok(column.exists()),
            ("$eq", _) => one_of(&[literal(json, place)?]),
            ("$ne", _) => one_of(&[literal(json, place)?]).map(Filter::negated),
            ("$in", _) => one_of(&literals(json, place)?),
            ("$nin", _) => one_of(&literals(json, place)?).map(Filter::negated),
            (_, Subject::Id) => Err(bad("An id is compared by $eq, $ne, $in and $nin.")),
            ("$exists", Subject::Attribute(column)) => match json {
                Json::Bool(true) => Ok(column.exists()),
                Json::Bool(false) => Ok(column.exists().negated()),
                _ => Err(bad("Give true or false.")),
            },
            ("$contains", Subject::Attribute(column)) => column.any_of(&[literal(json, place)?]),
            ("$any", Subject::Attribute(column)) => column.any_of(&literals(json, place)?),
            ("$all", Subject::Attribute(column)) => column.all_of(&literals(json, place)?),
            ("$prefix", Subject::Attribute(column)) => match json.as_str() {
                Some(prefix) => column.prefix(prefix),
                None => Err(bad("A prefix is a text.")),
            },
            (other, _) => Err(bad(format!("'{}' is no operator.", shown(other)))),
        };
        filter.map_err(|refused| place.refused(&refused))
    }
}

fn check_level(place: &Place<'_>, level: usize) -> Result<(), Refused> {
    if level > FILTER_DEPTH_MAX {
        return Err(place.bad(format!("A filter has at most {FILTER_DEPTH_MAX} levels.")));
    }
    Ok(())
}

/// All of these hold; a single one stands for itself.
fn all(mut parts: Vec<Filter>) -> Filter {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        Some(last) => {
            parts.push(last);
            Filter::And(parts)
        }
        None => Filter::ALL,
    }
}

fn order(operator: &str) -> Option<Order> {
    match operator {
        "$gt" => Some(Order::Greater),
        "$gte" => Some(Order::GreaterOrEqual),
        "$lt" => Some(Order::Less),
        "$lte" => Some(Order::LessOrEqual),
        _ => None,
    }
}

fn literal<'a>(json: &'a Json, place: &Place<'_>) -> Result<Literal<'a>, Refused> {
    Literal::of_json(json).ok_or_else(|| place.bad("Give a text, a number, true or false."))
}

fn literals<'a>(json: &'a Json, place: &Place<'_>) -> Result<Vec<Literal<'a>>, Refused> {
    let list = json.as_array().ok_or_else(|| place.bad("Give a list of values."))?;
    list.iter().enumerate().map(|(i, one)| literal(one, &place.at(i))).collect()
}
