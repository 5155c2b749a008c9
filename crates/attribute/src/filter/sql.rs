//! SQL's `where` as a filter.
//!
//! ```sql
//! (price BETWEEN ? AND ? OR NOT sold) AND colour IN ('red', 'blue') AND name LIKE 'ab%'
//! AND born >= '2024-05-01T00:00:00Z' AND has_any(tags, 'new', 'sale') AND id <> 7
//! ```
//!
//! - Operators: `= <> != < <= > >=`, `AND OR NOT`, `[NOT] IN`, `[NOT] BETWEEN`, `[NOT] LIKE` with a
//!   prefix, `IS [NOT] NULL`, `IS [NOT] TRUE`, `IS [NOT] FALSE`. A comparison has an attribute on
//!   one side and a value on the other. An attribute of type bool is a condition by itself.
//! - `has_any(list, …)` and `has_all(list, …)`: the list has one of the texts, or all.
//! - `id` is the id of the row, with `=`, `<>`, `[NOT] IN`, unless an attribute has that name.
//! - Values: numbers, `'texts'`, `TRUE`, `FALSE`, `NULL`, and bound parameters, either `?` in order
//!   or `$1`, `$2`, …. A list as parameter stands for its texts, in `IN (?)` and `has_any(tags, ?)`.
//! - Names are compared with case. A name with other characters stands in `"double quotes"`; words
//!   of SQL that have no meaning here, such as `user`, are names.
//!
//! Conditions on `NULL` are unknown, as in SQL, and a row is found if the whole is true. A filter
//! knows no "unknown", so each expression is compiled to the filter that holds where it is true,
//! and under `NOT` to the one that holds where it is false.

mod compile;
mod operand;
mod tokens;

use crate::error::Refused;
use crate::filter::limits::check_text;
use crate::filter::Filter;
use crate::name::Names;
use crate::value::Value;

impl Filter {
    /// Reads a `where` expression, without the word: see `src/filter/sql.rs`.
    ///
    /// * `names`: a `&Schema`, or [`Names`] where the filter may name string ids.
    /// * `text`: at most [`crate::FILTER_TEXT_BYTES_MAX`] bytes.
    /// * `parameters`: the values of `?` or `$1`, `$2`, …; each must be used.
    ///
    /// Cost: one pass over the text; memory of up to about 100 bytes per byte of text while it is
    /// read. Errors: `BadFilter` if it cannot be read or is beyond the limits, `UnknownAttribute`,
    /// `WrongType` if a condition does not fit its attribute, `BadId`.
    pub fn from_sql<'a>(
        names: impl Into<Names<'a>>,
        text: &str,
        parameters: &[Value],
    ) -> Result<Filter, Refused> {
        check_text(text)?;
        let expression = tokens::parse(text, parameters.len())?;
        let filter = compile::compile(names.into(), parameters, &expression)?;
        filter.check_limits()?;
        Ok(filter)
    }
}
