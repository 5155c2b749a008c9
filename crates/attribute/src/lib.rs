//! What a row carries beside its vector, and questions about it: schema, values, filters.
//! *Not useful for* knowing where a row is stored.
//!
//! 1. A [`Schema`] says which attributes the rows of a collection have.
//! 2. [`Attributes`] are the values of one row in one byte string, as logs, files and batches hold
//!    them. [`AttributesBuilder`] writes it and refuses what the schema does not allow.
//! 3. A [`Filter`] is a tree of conditions on attributes and ids. It holds or does not hold for a
//!    row; there is no third value. It is read from JSON as Qdrant has it, from a SQL `where`, from a
//!    dictionary as MongoDB has it, and from bytes.
//! 4. A [`NameHash`] turns a string id into the number that stands for it.
//!
//! A good first change: read `{"key": "tags", "match": {"except": [...]}}` for lists
//! (`src/filter/json.rs`).
#![forbid(unsafe_code)]

mod buffer;
mod error;
mod fields;
mod filter;
mod json;
mod moment;
mod name;
mod record;
mod row_id;
mod schema;
mod strict;
mod update;
mod value;

pub use buffer::FieldsBuffer;
pub use error::{Malformed, Refused, RefusedKind};
pub use fields::Fields;
pub use filter::{
    Filter, Range, Test, FILTER_BYTES_MAX, FILTER_DEPTH_MAX, FILTER_NODES_MAX,
    FILTER_TEXT_BYTES_MAX, FILTER_VALUES_MAX,
};
pub use json::attributes_to_json;
pub use name::{HashedName, NameHash, Names};
pub use record::{Attributes, AttributesBuilder};
pub use row_id::RowId;
pub use schema::{
    Attribute, AttributeKind, Grouping, IdKind, Schema, ATTRIBUTES_BYTES_MAX, ATTRIBUTES_MAX,
    GROUP_ATTRIBUTE, NAME_BYTES_MAX, PAYLOAD_BYTES_MAX, STRING_ID_BYTES_MAX,
};
pub use update::{PayloadChange, Update};
pub use value::{Value, ValueRef};
