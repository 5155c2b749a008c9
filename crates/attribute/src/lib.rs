//! What a row carries beside its vector, and questions about it: schema, values, filters.
//! *Not useful for* knowing where a row is stored.
//!
//! 1. A [`Schema`] says which attributes the rows of a collection have.
//! 2. [`Attributes`] are the values of one row in one byte string, as logs, files and batches hold
//!    them. [`AttributesBuilder`] writes it and refuses what the schema does not allow.
//! 3. A [`Filter`] is a tree of conditions on attributes and ids. It holds or does not hold for a
//!    row; there is no third value.
//!
//! A good first change: let `AttributesBuilder` accept an `i64` where the schema has an `f64`
//! (`src/record.rs`).
#![forbid(unsafe_code)]

mod buffer;
mod error;
mod fields;
mod filter;
mod record;
mod schema;
mod value;

pub use buffer::FieldsBuffer;
pub use error::{Refused, RefusedKind};
pub use fields::Fields;
pub use filter::{Filter, Range, Test};
pub use record::{Attributes, AttributesBuilder, Malformed};
pub use schema::{
    Attribute, AttributeKind, Grouping, IdKind, Schema, ATTRIBUTES_BYTES_MAX, ATTRIBUTES_MAX,
    NAME_BYTES_MAX, PAYLOAD_BYTES_MAX, STRING_ID_BYTES_MAX,
};
pub use value::{Value, ValueRef};
