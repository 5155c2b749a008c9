//! Text matching and ranking over the rows of one group, which are all scanned: there is no
//! inverted index, and nothing is kept between queries. *Not useful for* reading the rows.
//!
//! 1. A [`TextQuery`] is a tree of words, prefixes and phrases. [`TextMatcher`] counts its terms in
//!    the texts of a row, in one pass over the words.
//! 2. [`Bm25Collector`] sees the counts of all rows of the group and scores those that match.
//! 3. An [`Expression`] computes the rank of a row from closeness, BM25, freshness and attributes.
//! 4. [`Best`] keeps the k best rows, [`Diversify`] at most n of them per value of an attribute, and
//!    [`GroupBy`] the n best rows of the k best values. [`reciprocal_rank_fusion`] joins two lists.
//!
//! A good first change: a feature `terms`, the number of the query's terms that a row has
//! (`src/expression/parse.rs`).
#![forbid(unsafe_code)]

mod answer;
mod error;
mod expression;
mod text;

pub use answer::{
    by_score, grouping_column, reciprocal_rank_fusion, AnswerGroup, AnswerRow, Best, Diversify,
    Fused, GroupBy, Ranked, RankedList, TooManyRows, FUSION_CONSTANT,
};
pub use error::{QueryError, QueryErrorKind};
pub use expression::{
    closeness, Expression, Program, RankInputs, RankRow, ScoreRange, EXPRESSION_BYTES_MAX,
};
pub use text::{
    fold, tokens, Bm25Collector, Bm25Constants, Bm25Scores, Bm25Settings, Language, PlainTerms,
    TermCounts, TextMatcher, TextQuery, Token, TEXT_QUERY_BYTES_MAX,
};
