//! Text of attributes: words, queries, matching, and BM25.

mod bm25;
mod compile;
mod matcher;
mod parse;
mod query;
mod stemming;
#[cfg(test)]
mod tests;
mod tokens;

pub use bm25::{Bm25Collector, Bm25Constants, Bm25Scores, Bm25Settings};
pub use matcher::{TermCounts, TextMatcher};
pub use parse::PlainTerms;
pub use query::{TextQuery, TEXT_QUERY_BYTES_MAX};
pub use stemming::Language;
pub use tokens::{fold, tokens, Token};
