//! A shared state behind the border: files to upload, a manifest, and a pin on both.

use std::fmt::Write;

use vstream_engine::SharedState;
use vstream_group::SharedGroups;

use crate::failure::{Failure, Poison};

/// The files of a partition.
pub(crate) enum State {
    /// Of an engine.
    Rows(SharedState),
    /// Of a store of groups.
    Groups(SharedGroups),
}

/// A shared state that Java holds.
pub(crate) struct SharedStateHandle {
    poison: Poison,
    state: State,
}

impl SharedStateHandle {
    pub(crate) fn new(state: State) -> SharedStateHandle {
        SharedStateHandle { poison: Poison::default(), state }
    }

    /// Waits until the files are complete; returns a line per file with tab-separated fields: name,
    /// key, length, path.
    pub(crate) fn files(&self) -> Result<String, Failure> {
        self.poison.guard(|| {
            let mut lines = String::new();
            let mut line = |name: &str, key: &str, bytes: u64, path: &str| {
                writeln!(lines, "{name}\t{key}\t{bytes}\t{path}")
                    .expect("a string takes every line");
            };
            match &self.state {
                State::Rows(state) => state
                    .files()?
                    .iter()
                    .for_each(|file| line(&file.name, &file.key, file.bytes, &file.path)),
                State::Groups(state) => state
                    .files()
                    .iter()
                    .for_each(|file| line(&file.name, &file.key, file.bytes, &file.path)),
            }
            Ok(lines)
        })
    }

    /// The manifest of the state.
    pub(crate) fn manifest(&self) -> Result<Vec<u8>, Failure> {
        self.poison.guard(|| {
            Ok(match &self.state {
                State::Rows(state) => state.manifest().to_vec(),
                State::Groups(state) => state.manifest().to_vec(),
            })
        })
    }
}
