//! A shared state behind the border: files to upload, a manifest, and a pin on both.

use std::fmt::Write;
use std::path::Path;

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
    ///
    /// * `whole`: without pointers to a far store; the files that are there have no path.
    pub(crate) fn files(&self, whole: bool) -> Result<String, Failure> {
        self.poison.guard(|| {
            let mut lines = String::new();
            let mut line = |name: &str, key: &str, bytes: u64, path: &str| {
                writeln!(lines, "{name}\t{key}\t{bytes}\t{path}")
                    .expect("a string takes every line");
            };
            match &self.state {
                State::Rows(state) => {
                    let files = if whole { state.whole_files()? } else { state.files()? };
                    files
                        .iter()
                        .for_each(|file| line(&file.name, &file.key, file.bytes, &file.path));
                }
                State::Groups(state) => state
                    .files()
                    .iter()
                    .for_each(|file| line(&file.name, &file.key, file.bytes, &file.path)),
            }
            Ok(lines)
        })
    }

    /// Copies a file that has no path into a directory.
    pub(crate) fn bring(&self, name: &str, into: &Path) -> Result<(), Failure> {
        self.poison.guard(|| match &self.state {
            State::Rows(state) => Ok(state.bring(name, into)?),
            State::Groups(_) => {
                Err(Failure::invalid("Every file of a store of groups has a path."))
            }
        })
    }

    /// Makes the far copies of earlier engines this engine's own.
    pub(crate) fn make_own(&self) -> Result<(), Failure> {
        self.poison.guard(|| match &self.state {
            State::Rows(state) => Ok(state.make_own()?),
            State::Groups(_) => Ok(()),
        })
    }

    /// Lets go of the files that were copied; returns whether the others must be kept as long as a copy
    /// of the state may be opened.
    pub(crate) fn release_copied(&self) -> Result<bool, Failure> {
        self.poison.guard(|| {
            Ok(match &self.state {
                State::Rows(state) => {
                    state.release_copied();
                    state.has_pointers()
                }
                State::Groups(_) => false,
            })
        })
    }

    /// Has no far copy deleted from now on.
    pub(crate) fn end_deletes(&self) {
        if let State::Rows(state) = &self.state {
            state.end_deletes();
        }
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
