//! Rank expressions: arithmetic over what is known of a row.
//!
//! ```text
//! expression  a || b, a && b            1 if one, if both are true; else 0
//!             a < b, <=, >, >=, ==, !=  1 or 0; not in a chain
//!             a + b, a - b
//!             a * b, a / b, a % b       the remainder has the sign of a
//!             -a, !a
//!             a ^ b                     from the right: 2^3^2 is 2^9, and -2^2 is -4
//!             number, $parameter, true, false, (a), feature, function(a, …)
//! ```
//!
//! Arithmetic is that of IEEE 754: 1/0 is infinite, 0/0 is not a number, and nothing traps. A number
//! is true unless it is 0 or not a number. `&&` and `||` evaluate both sides; `if` evaluates the
//! chosen one.
//!
//! | feature | value |
//! |---|---|
//! | `distance` | distance to the query vector under the collection's metric; infinite without one |
//! | `closeness` | see [`closeness`]; 0 without a query vector |
//! | `bm25`, `bm25(title)` | score of the text query, over all attributes or in one; 0 without one |
//! | `attribute(price)`, `attribute(price, a)` | number, truth value as 0 or 1, or timestamp in milliseconds; `a`, or 0, if it is missing |
//! | `freshness(sent)`, `freshness(sent, s)` | 1 − age ⁄ s, within 0 to 1; s in seconds, by default 90 days; 0 if it is missing |
//! | `has(price)` | 1 if the row has a value |
//! | `has(colour, 'red')` | 1 if the keyword is this, or the list has it |
//!
//! Functions: `if(condition, a, b)`, `abs`, `ceil`, `floor`, `exp`, `log` (natural), `log10`, `sqrt`,
//! `tanh`, `atan`, `sigmoid`, `relu`, `pow(a, b)`, and `min` and `max` of two or more, which pass
//! over what is not a number.
//!
//! The parser emits the program directly: numbers, features and operations in the order in which a
//! stack machine meets them, and jumps for `if`. It follows the height of the stack, so a program
//! that was accepted needs no check when it runs. It is our own, because the libraries that
//! evaluate expressions (`evalexpr`, `fasteval`, `meval`) resolve names by text for each row, and
//! do not say where an error is.

mod emit;
mod features;
mod lexer;
mod parse;
mod program;
mod range;
#[cfg(test)]
mod tests;

pub use features::{closeness, RankRow};
pub use parse::EXPRESSION_BYTES_MAX;
pub use program::{Expression, Program, RankInputs};
pub use range::ScoreRange;
