//! A text query: words, prefixes and phrases, joined by and, or, not.

use vstream_attribute::{AttributeKind, Schema};

use crate::error::{QueryError, QueryErrorKind};

/// Most bytes of a text query.
pub const TEXT_QUERY_BYTES_MAX: usize = 4 << 10;
/// Most words, prefixes and phrases of a query.
pub(crate) const TERMS_MAX: usize = 64;
/// Most terms times attributes that they search.
pub(crate) const SLOTS_MAX: usize = 1 << 10;
/// Most words of a phrase: one bit each.
pub(crate) const PHRASE_WORDS_MAX: usize = 32;
/// Most levels of a tree. A text gives fewer, because its groups within groups are limited.
pub(crate) const DEPTH_MAX: usize = 32;
/// Most nodes of a tree.
pub(crate) const NODES_MAX: usize = 1 << 10;

/// A tree of terms. A term searches the attribute of `column`, or without one all attributes of
/// type text; it holds if it occurs in one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextQuery {
    /// The word occurs. A text of several words, such as `e-mail`, is a phrase.
    Word {
        /// The attribute.
        column: Option<u16>,
        /// The word, in any case.
        text: String,
    },
    /// A word that begins with this occurs.
    Prefix {
        /// The attribute.
        column: Option<u16>,
        /// The beginning, in any case.
        text: String,
    },
    /// The words occur one after the other.
    Phrase {
        /// The attribute.
        column: Option<u16>,
        /// The words; signs between them do not matter.
        text: String,
    },
    /// All of these hold; `And` of nothing holds for every row.
    And(Vec<TextQuery>),
    /// One of these holds; `Or` of nothing holds for no row.
    Or(Vec<TextQuery>),
    /// At least so many of these hold; with 0 they count for the score alone.
    AtLeast(usize, Vec<TextQuery>),
    /// This does not hold. Terms below it do not count for the score.
    Not(Box<TextQuery>),
}

/// Checks that a column is a text. `at` is where the name is.
pub(crate) fn require_text(schema: &Schema, column: u16, at: usize) -> Result<(), QueryError> {
    match schema.attributes.get(usize::from(column)) {
        Some(attribute) if attribute.kind == AttributeKind::Text => Ok(()),
        Some(attribute) => {
            let (name, kind) = (&attribute.name, attribute.kind.name());
            let what = format!(
                "The attribute '{name}' is of type {kind}; words are searched in attributes of \
                 type text. Use a filter."
            );
            Err(QueryError::new(QueryErrorKind::WrongType, at, what))
        }
        None => {
            let what = format!("The collection has no column {column}.");
            Err(QueryError::new(QueryErrorKind::UnknownAttribute, at, what))
        }
    }
}
