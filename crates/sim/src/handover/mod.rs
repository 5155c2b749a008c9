//! A model of the hand-over of code ranges between partitions, small enough to be explored.
//!
//! [`world`] is the protocol: every actor and every channel of the job, with one action at a time.
//! [`actors`] says what each actor does with a message. [`explore`] walks through the actions:
//! breadth first over all of them, or at random over larger worlds. `docs/design/handover.md`
//! tells the protocol; the names of the steps are the same in the job.

pub mod actors;
pub mod explore;
pub mod world;

#[cfg(test)]
mod tests;

/// Partitions of the model.
pub const PARTITIONS: usize = 2;
/// Cells of the model. The first two change sides with every epoch, the others stay.
pub const CELLS: u8 = 4;
/// The cell that the first new template splits.
const SPLIT: u8 = 2;
/// The code of its second part, which goes to the other side at once. The first one keeps the code of
/// the cell, and with it every row that was there before.
const PART: u8 = CELLS;
/// Codes of rows: those of the cells, and that of the part.
pub const CODES: u8 = CELLS + 1;

/// The partition that owns `code` at `epoch`.
pub fn owner(epoch: u8, code: u8) -> usize {
    if code == PART {
        let whole = owner(epoch, SPLIT);
        return if epoch == 0 { whole } else { 1 - whole };
    }
    let home = usize::from(code % 2);
    if code < 2 && epoch % 2 == 1 {
        1 - home
    } else {
        home
    }
}

/// The code that row `id` gets in `cell` at `epoch`. Every other row is nearer to the second part.
pub fn placed(epoch: u8, cell: u8, id: u8) -> u8 {
    if cell == SPLIT && epoch > 0 && id.is_multiple_of(2) {
        PART
    } else {
        cell
    }
}

/// The cell whose interval holds `code`.
pub fn cell_of(code: u8) -> u8 {
    if code == PART {
        SPLIT
    } else {
        code
    }
}

/// The codes that rows of `cell` may have, of whatever epoch they are, as `epoch` knows them.
pub fn codes_of(epoch: u8, cell: u8) -> impl Iterator<Item = u8> {
    let second = (cell == SPLIT && epoch > 0).then_some(PART);
    std::iter::once(cell).chain(second)
}

/// What is done to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// `id` is in `cell` from now on.
    Upsert { id: u8, cell: u8 },
    /// `id` is gone.
    Delete { id: u8 },
}

impl Op {
    /// The row that it changes.
    pub fn id(self) -> u8 {
        match self {
            Op::Upsert { id, .. } | Op::Delete { id } => id,
        }
    }
}

/// Steps of a hand-over, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// Queries visit the old owner and the new one.
    Announce,
    /// Writes go to the new owner, which begins to remember deletes; the old one seals its rows.
    Switch,
    /// The new owner takes the sealed rows in.
    Adopt,
    /// Queries visit the new owner alone; the old one drops the rows.
    Settle,
    /// Deletes visit the new owner alone.
    Done,
}

/// Deliberate mistakes in the protocol, each of which must be noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Defect {
    /// A partition says only once how far it is, and that can be lost.
    DropAcknowledgement,
    /// The control task takes what an earlier run said for the present one.
    TrustEarlierRun,
    /// Place tasks switch before all routers visit both owners.
    SwitchBeforeAnnounce,
    /// The old owner seals at the first place task's mark.
    SealBeforeAllMarks,
    /// The new owner adopts at the first place task's mark.
    AdoptBeforeAllMarks,
    /// The new owner takes every sealed row, whatever it knows of later.
    ServeBeforeReconcile,
    /// The new owner forgets deletes of rows that it does not hold.
    ForgetTombstones,
    /// A delete that an update left behind also kills the row of that very update.
    TombstoneKillsItsOwnVersion,
    /// Deletes no longer visit the old owner once place has switched.
    DeleteAtNewOwnerOnly,
    /// The old owner drops its rows when the new one begins to adopt.
    ReleaseBeforeSettle,
    /// The old owner drops its rows at the first router's mark.
    ReleaseBeforeAllMarks,
    /// After a restore in the middle of adopting, the files of the run before are adopted.
    ResumeWithOldFiles,
    /// Queries for a cell that was split visit the part where its new rows go, not its older rows.
    ForgetOlderRows,
}

impl Defect {
    /// All of them.
    pub const ALL: [Defect; 13] = [
        Defect::DropAcknowledgement,
        Defect::TrustEarlierRun,
        Defect::SwitchBeforeAnnounce,
        Defect::SealBeforeAllMarks,
        Defect::AdoptBeforeAllMarks,
        Defect::ServeBeforeReconcile,
        Defect::ForgetTombstones,
        Defect::TombstoneKillsItsOwnVersion,
        Defect::DeleteAtNewOwnerOnly,
        Defect::ReleaseBeforeSettle,
        Defect::ReleaseBeforeAllMarks,
        Defect::ResumeWithOldFiles,
        Defect::ForgetOlderRows,
    ];
}

/// The world to explore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// What each place task's part of the stream says. A row belongs to one of them.
    pub streams: Vec<Vec<Op>>,
    /// Routers of queries.
    pub routers: usize,
    /// Hand-overs, one after another.
    pub epochs: u8,
    /// Crashes of the whole job, each followed by a restore.
    pub crashes: u8,
    /// Checkpoints that may begin.
    pub checkpoints: u8,
    /// Queries.
    pub queries: u8,
    /// Reports that may be lost.
    pub losses: u8,
    /// A mistake, to see whether it is noticed.
    pub defect: Option<Defect>,
}
