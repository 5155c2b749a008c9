//! Segments whose rows carry names, attributes and payloads.

mod blocks;
mod filters;
mod limits;
mod rows;
mod stored;

pub(crate) use blocks::field_blocks;
pub(crate) use rows::{filter, small_segment, Rows};
