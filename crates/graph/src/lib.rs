//! Sealed segments with a disk graph.
#![forbid(unsafe_code)]
mod build;
mod layout;
mod vectors;
pub use layout::Layout;
