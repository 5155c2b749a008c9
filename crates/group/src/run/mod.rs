//! Runs: immutable, checksummed files of rows in the order of (group, id).

mod ahead;
mod arrange;
mod column;
mod format;
mod head;
mod load;
mod part;
mod pending;
mod presence;
mod read;
mod values;
mod write;

pub(crate) use column::IdEntry;
pub(crate) use format::{Header, Shape};
pub(crate) use load::LoadedPart;
pub(crate) use part::{LeafAttributes, Part};
pub(crate) use pending::{attributes, Content, StoredRow};
pub(crate) use read::{GroupWalk, Run};
pub(crate) use write::{RunSummary, RunWriter, Thresholds};
