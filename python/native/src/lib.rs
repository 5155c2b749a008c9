//! The native half of the `vstream` Python package: the engine with numpy in and out.
//!
//! Everything here works without the interpreter lock, except taking arguments apart and putting
//! answers together. The Python half (`src/vstream`) makes every argument the exact type that is
//! asked for here, so a wrong type here is a defect of that half.
#![forbid(unsafe_code)]

mod answers;
mod collection;
mod counts;
mod embed;
mod failure;
mod fields;
mod filters;
mod found;
mod groups;
mod ids;
mod job;
mod named;
mod rows;
mod schema;
mod stretches;
mod versions;
mod writer;

use pyo3::prelude::*;

/// The native module, `vstream._native`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::collection::Collection;
    #[pymodule_export]
    use super::embed::{sentences, split, Model};
    #[pymodule_export]
    use super::groups::{Group, Groups};
    #[pymodule_export]
    use super::job::Job;

    /// Version of the package.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
