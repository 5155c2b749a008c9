//! What place tasks, routers, partitions and the control task do with what they are told.

use super::{codes_of, owner, placed, Defect, Op, Step, CODES, PARTITIONS};
use std::collections::BTreeMap;

/// Where the hand-overs are: steps of one epoch, then those of the next.
pub type Position = (u8, Step);

/// What the control task tells everyone, through place tasks and routers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Command {
    /// Which life of the job says so: a restore begins a new one.
    pub run: u8,
    /// Epoch of the new template, and the step towards it.
    pub at: Position,
    /// Whose sealed files to adopt, by run.
    pub files: u8,
}

/// What travels to partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// A row.
    Upsert { id: u8, version: u8, code: u8 },
    /// The row is dead or elsewhere.
    Delete { id: u8, version: u8 },
    /// The sender has obeyed this.
    Mark(Command),
    /// A query for the rows of a cell.
    Ask { cell: u8 },
    /// The checkpoint's barrier.
    Barrier,
}

/// Id, version and code of a sealed row.
pub type SealedRow = (u8, u8, u8);

/// Rows of a partition by id: version and code.
pub type Rows = BTreeMap<u8, (u8, u8)>;

/// The control task: one, and its position is in every checkpoint.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Control {
    /// The command that stands.
    pub at: Position,
    /// What each partition has said last in this run.
    pub heard: Vec<Option<Position>>,
    /// Run whose files are to be adopted.
    pub files: u8,
}

impl Control {
    /// Takes the next step if every partition has done this one; true if it did.
    pub fn advance(&mut self, defect: Option<Defect>) -> bool {
        let (epoch, step) = self.at;
        let early = defect == Some(Defect::SwitchBeforeAnnounce) && step == Step::Announce;
        if !early && !self.heard.iter().all(|heard| heard.is_some_and(|at| at >= self.at)) {
            return false;
        }
        let next = match step {
            Step::Announce => Step::Switch,
            Step::Switch => Step::Adopt,
            Step::Adopt => Step::Settle,
            Step::Settle => Step::Done,
            Step::Done => return false,
        };
        self.at = (epoch, next);
        true
    }
}

/// A place task. All of it is in a checkpoint.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Place {
    /// Ops of its stream that it has done.
    pub next: usize,
    /// Last version it gave.
    pub clock: u8,
    /// Code and version of its live rows.
    pub located: BTreeMap<u8, (u8, u8)>,
    /// Epoch of the template that it places by.
    pub epoch: u8,
    /// True from its switch until the old owners have dropped their rows.
    pub pending: bool,
}

impl Place {
    /// Obeys a command, before its mark goes out.
    pub fn obey(&mut self, (epoch, step): Position) {
        if step == Step::Switch && epoch > self.epoch {
            self.epoch = epoch;
            self.pending = true;
        }
        if step == Step::Done && epoch == self.epoch {
            self.pending = false;
        }
    }

    /// Partitions that may hold a row of `code`, its owner first.
    pub fn holders(&self, code: u8, defect: Option<Defect>) -> Vec<usize> {
        let mut holders = vec![owner(self.epoch, code)];
        if self.pending && defect != Some(Defect::DeleteAtNewOwnerOnly) {
            let old = owner(self.epoch - 1, code);
            if old != holders[0] {
                holders.push(old);
            }
        }
        holders
    }

    /// Does the next op: what goes to which partition.
    pub fn write(&mut self, op: Op, defect: Option<Defect>) -> Vec<(usize, Message)> {
        self.next += 1;
        let id = op.id();
        let before = self.located.get(&id).copied();
        if before.is_none() && matches!(op, Op::Delete { .. }) {
            return Vec::new();
        }
        self.clock += 1;
        let version = self.clock;
        let mut out = Vec::new();
        let mut target = PARTITIONS;
        if let Op::Upsert { cell, .. } = op {
            let code = placed(self.epoch, cell, id);
            target = owner(self.epoch, code);
            out.push((target, Message::Upsert { id, version, code }));
            self.located.insert(id, (code, version));
        } else {
            self.located.remove(&id);
        }
        if let Some((code, _)) = before {
            for holder in self.holders(code, defect).into_iter().filter(|&h| h != target) {
                out.push((holder, Message::Delete { id, version }));
            }
        }
        out
    }
}

/// A router of queries. All of it is in a checkpoint.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Router {
    /// The command that it obeyed last.
    pub at: Position,
}

impl Router {
    /// Partitions that a query for `cell` visits.
    pub fn visits(&self, cell: u8, defect: Option<Defect>) -> Vec<usize> {
        let (epoch, step) = self.at;
        let skipped = if defect == Some(Defect::ForgetOlderRows) { 1 } else { 0 };
        let owners = |epoch| {
            let codes = codes_of(epoch, cell);
            let known = codes_of(epoch, cell).count();
            codes.skip(skipped.min(known - 1)).map(move |code| owner(epoch, code))
        };
        let mut visits: Vec<usize> = owners(epoch).collect();
        if matches!(step, Step::Announce | Step::Switch | Step::Adopt) {
            visits.extend(owners(epoch - 1));
        }
        visits.sort_unstable();
        visits.dedup();
        visits
    }
}

/// A partition. Only its rows are in a checkpoint.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Search {
    pub me: usize,
    pub rows: Rows,
    /// Versions of deletes since the first place task switched, while rows are awaited.
    pub tombstones: BTreeMap<u8, u8>,
    pub recording: bool,
    /// Run that the marks are of.
    pub run: u8,
    /// What each place task and each router has said last.
    pub places: Vec<Option<Position>>,
    pub routers: Vec<Option<Position>>,
    /// The position whose work has begun, and the one whose work is done.
    pub begun: Option<Position>,
    pub done: Option<Position>,
    /// Last one that was reported; only the defect of dropped acknowledgements looks at it.
    pub reported: Option<Position>,
    /// Sealed rows that are not adopted yet.
    pub awaited: Vec<SealedRow>,
}

/// What a partition must do after a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Nothing.
    None,
    /// Seal what changes hands.
    Seal(u8),
    /// Adopt the files of this epoch.
    Adopt(u8),
}

impl Search {
    /// A partition with these rows and nothing else, as after a restore.
    pub fn new(me: usize, rows: Rows, places: usize, routers: usize) -> Search {
        Search {
            me,
            rows,
            tombstones: BTreeMap::new(),
            recording: false,
            run: 0,
            places: vec![None; places],
            routers: vec![None; routers],
            begun: None,
            done: None,
            reported: None,
            awaited: Vec::new(),
        }
    }

    /// Adds or replaces a row unless a newer one is there.
    pub fn upsert(&mut self, id: u8, version: u8, code: u8) {
        if self.rows.get(&id).is_none_or(|row| row.0 <= version) {
            self.rows.insert(id, (version, code));
        }
    }

    /// Removes a row unless it is newer.
    pub fn delete(&mut self, id: u8, version: u8, defect: Option<Defect>) {
        if self.rows.get(&id).is_some_and(|row| row.0 <= version) {
            self.rows.remove(&id);
        }
        if self.recording && defect != Some(Defect::ForgetTombstones) {
            let last = self.tombstones.entry(id).or_insert(version);
            *last = version.max(*last);
        }
    }

    /// Takes the mark of place task or router number `from`.
    pub fn mark(
        &mut self,
        place: bool,
        from: usize,
        command: Command,
        defect: Option<Defect>,
    ) -> Work {
        if command.run != self.run {
            let rows = std::mem::take(&mut self.rows);
            *self = Search::new(self.me, rows, self.places.len(), self.routers.len());
            self.run = command.run;
        }
        let marks = if place { &mut self.places } else { &mut self.routers };
        marks[from] = Some(command.at);
        let (_, step) = command.at;
        if place && matches!(step, Step::Switch | Step::Adopt) && self.done < Some(command.at) {
            self.recording = true;
        }
        let reached = self.reached(step, defect);
        if reached.is_none_or(|at| self.begun.is_some_and(|begun| begun >= at)) {
            return Work::None;
        }
        self.begun = reached;
        self.begin(defect)
    }

    /// The position that everyone has told us of, as far as `step` asks for it.
    fn reached(&self, step: Step, defect: Option<Defect>) -> Option<Position> {
        let least = |marks: &[Option<Position>]| marks.iter().copied().min().flatten();
        let most = |marks: &[Option<Position>]| marks.iter().copied().max().flatten();
        match (defect, step) {
            (Some(Defect::SealBeforeAllMarks), Step::Switch)
            | (Some(Defect::AdoptBeforeAllMarks), Step::Adopt) => most(&self.places),
            (Some(Defect::ReleaseBeforeAllMarks), Step::Settle) => {
                most(&self.routers).max(most(&self.places))
            }
            _ => least(&self.places).min(least(&self.routers)),
        }
    }

    fn begin(&mut self, defect: Option<Defect>) -> Work {
        let Some((epoch, step)) = self.begun else { return Work::None };
        match step {
            Step::Switch => return Work::Seal(epoch),
            Step::Adopt => {
                if defect == Some(Defect::ReleaseBeforeSettle) {
                    self.release(epoch);
                }
                return Work::Adopt(epoch);
            }
            Step::Settle => self.release(epoch),
            Step::Announce | Step::Done => {}
        }
        self.done = self.begun;
        Work::None
    }

    /// Rows that this partition gives away at `epoch`.
    pub fn sealed(&self, epoch: u8) -> Vec<SealedRow> {
        let leaves = |code| owner(epoch - 1, code) == self.me && owner(epoch, code) != self.me;
        let rows = self.rows.iter().filter(|(_, &(_, code))| leaves(code));
        rows.map(|(&id, &(version, code))| (id, version, code)).collect()
    }

    /// Takes in one sealed row; recording ends with the last.
    pub fn adopt_one(&mut self, defect: Option<Defect>) {
        if let Some((id, version, code)) = self.awaited.pop() {
            let own = u8::from(defect == Some(Defect::TombstoneKillsItsOwnVersion));
            let dead = self.tombstones.get(&id).is_some_and(|&t| t + own > version);
            if defect == Some(Defect::ServeBeforeReconcile) {
                self.rows.insert(id, (version, code));
            } else if !dead {
                self.upsert(id, version, code);
            }
        }
        if self.awaited.is_empty() {
            self.recording = false;
            self.tombstones.clear();
            self.done = self.begun;
        }
    }

    fn release(&mut self, epoch: u8) {
        for code in 0..CODES {
            if owner(epoch - 1, code) == self.me && owner(epoch, code) != self.me {
                self.rows.retain(|_, row| row.1 != code);
            }
        }
    }
}
