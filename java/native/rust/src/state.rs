//! A shared state behind the border: files to upload, a manifest, and a pin on both.

use std::fmt::Write;

use vstream_engine::SharedState;

use crate::failure::{Failure, Poison};

/// A shared state that Java holds.
pub(crate) struct SharedStateHandle {
    poison: Poison,
    state: SharedState,
}

impl SharedStateHandle {
    pub(crate) fn new(state: SharedState) -> SharedStateHandle {
        SharedStateHandle { poison: Poison::default(), state }
    }

    /// Waits until the files are complete; returns a line per file with tab-separated fields: name,
    /// key, length, path.
    pub(crate) fn files(&self) -> Result<String, Failure> {
        self.poison.guard(|| {
            let mut lines = String::new();
            for file in self.state.files()? {
                let (name, key, bytes, path) = (file.name, file.key, file.bytes, file.path);
                writeln!(lines, "{name}\t{key}\t{bytes}\t{path}")
                    .expect("a string takes every line");
            }
            Ok(lines)
        })
    }

    /// The manifest of the state.
    pub(crate) fn manifest(&self) -> Result<Vec<u8>, Failure> {
        self.poison.guard(|| Ok(self.state.manifest().to_vec()))
    }
}
