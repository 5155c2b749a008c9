//! The whole job at one moment: actors, channels, checkpoints, and what may happen next.
//!
//! * A channel is first in, first out. Barriers travel in it, and a partition that has read one
//!   waits until all its channels brought theirs: checkpoints are aligned.
//! * A place task reads its stream as it goes; the barrier of the stream is there whenever that of
//!   the control task is.
//! * What partitions report to the control task travels outside of the channels: in any order,
//!   late, not at all, or from a life of the job that is over.
//! * A crash takes everything back to the last complete checkpoint. Sealed files stay.

use super::actors::{
    Command, Control, Message, Place, Position, Router, Rows, SealedRow, Search, Work,
};
use super::{Defect, Op, Setup, Step, CELLS, PARTITIONS};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Something that may happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The control task begins the next hand-over.
    Plan,
    /// A place task does the next op of its stream.
    Write { place: usize },
    /// A router routes a query for a cell.
    Route { router: usize, cell: u8 },
    /// A place task or a router reads what the control task sent.
    Obey { place: bool, task: usize },
    /// A partition reads what a place task or a router sent.
    Read { place: bool, task: usize, partition: usize },
    /// All barriers are in: the partition takes its part of the checkpoint.
    Align { partition: usize },
    /// The partition takes in a sealed row.
    Adopt { partition: usize },
    /// The partition tells the control task how far it is.
    Report { partition: usize },
    /// The control task hears what a partition said in some run.
    Hear { run: u8, partition: usize, at: Position },
    /// Nobody will hear it.
    Lose { run: u8, partition: usize, at: Position },
    /// A checkpoint begins.
    Checkpoint,
    /// Everything is lost but the last checkpoint.
    Crash,
}

/// From the control task to place tasks and routers.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Signal {
    Command(Command),
    Barrier,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Cut {
    control: (Position, u8),
    places: Vec<Option<Place>>,
    routers: Vec<Option<Router>>,
    rows: Vec<Option<Rows>>,
}

/// A query on its way. For every row that nothing happens to meanwhile, the answer is known.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Query {
    cell: u8,
    waiting: u8,
    found: BTreeMap<u8, u8>,
    expected: BTreeMap<u8, Option<u8>>,
}

/// The job at one moment.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct World {
    control: Control,
    places: Vec<Place>,
    routers: Vec<Router>,
    searches: Vec<Search>,
    signals: [Vec<VecDeque<Signal>>; 2],
    /// By kind of sender (routers, places), sender and partition.
    channels: [Vec<Vec<VecDeque<Message>>>; 2],
    reports: BTreeSet<(u8, usize, Position)>,
    files: BTreeMap<(u8, u8, usize), Vec<SealedRow>>,
    run: u8,
    cut: Option<Cut>,
    last: Cut,
    query: Option<Query>,
    crashes: u8,
    checkpoints: u8,
    queries: u8,
    losses: u8,
}

impl World {
    /// The world before anything happened.
    pub fn new(setup: &Setup) -> World {
        let (places, routers) = (setup.streams.len(), setup.routers);
        let start = (0, Step::Done);
        let place = Place { next: 0, clock: 0, located: BTreeMap::new(), epoch: 0, pending: false };
        let last = Cut {
            control: (start, 0),
            places: vec![Some(place); places],
            routers: vec![Some(Router { at: start }); routers],
            rows: vec![Some(Rows::new()); PARTITIONS],
        };
        let mut world = World {
            control: Control { at: start, heard: vec![None; PARTITIONS], files: 0 },
            places: Vec::new(),
            routers: Vec::new(),
            searches: Vec::new(),
            signals: [vec![VecDeque::new(); routers], vec![VecDeque::new(); places]],
            channels: [Vec::new(), Vec::new()],
            reports: BTreeSet::new(),
            files: BTreeMap::new(),
            run: 0,
            cut: None,
            last,
            query: None,
            crashes: setup.crashes,
            checkpoints: setup.checkpoints,
            queries: setup.queries,
            losses: setup.losses,
        };
        world.restore(setup);
        world
    }

    /// Everything that may happen next. Without `trouble` neither crashes, losses, checkpoints nor
    /// new queries: what is left comes to an end.
    pub fn actions(&self, setup: &Setup, trouble: bool) -> Vec<Action> {
        let mut out = Vec::new();
        if self.control.at.1 == Step::Done && self.control.at.0 < setup.epochs {
            out.push(Action::Plan);
        }
        for (place, stream) in setup.streams.iter().enumerate() {
            if self.places[place].next < stream.len() {
                out.push(Action::Write { place });
            }
        }
        for place in [false, true] {
            for (task, signals) in self.signals[usize::from(place)].iter().enumerate() {
                if !signals.is_empty() {
                    out.push(Action::Obey { place, task });
                }
            }
            for (task, channels) in self.channels[usize::from(place)].iter().enumerate() {
                for (partition, channel) in channels.iter().enumerate() {
                    if channel.front().is_some_and(|m| *m != Message::Barrier) {
                        out.push(Action::Read { place, task, partition });
                    }
                }
            }
        }
        for (partition, search) in self.searches.iter().enumerate() {
            if self.heads(partition).all(|head| head == Some(&Message::Barrier)) {
                out.push(Action::Align { partition });
            }
            if search.begun != search.done && search.begun.is_some_and(|b| b.1 == Step::Adopt) {
                out.push(Action::Adopt { partition });
            }
            if self.may_report(setup, partition) {
                out.push(Action::Report { partition });
            }
        }
        for &(run, partition, at) in &self.reports {
            out.push(Action::Hear { run, partition, at });
            if trouble && self.losses > 0 {
                out.push(Action::Lose { run, partition, at });
            }
        }
        if trouble {
            self.trouble(&mut out);
        }
        out
    }

    fn trouble(&self, out: &mut Vec<Action>) {
        if self.queries > 0 && self.query.is_none() {
            let routers = 0..self.routers.len();
            out.extend(
                routers
                    .flat_map(|router| (0..CELLS).map(move |cell| Action::Route { router, cell })),
            );
        }
        if self.checkpoints > 0 && self.cut.is_none() {
            out.push(Action::Checkpoint);
        }
        if self.crashes > 0 {
            out.push(Action::Crash);
        }
    }

    /// Lets one thing happen. Errors: a sentence about the rule that is broken by it.
    pub fn apply(&mut self, setup: &Setup, action: Action) -> Result<(), String> {
        let defect = setup.defect;
        match action {
            Action::Plan => {
                self.control.at = (self.control.at.0 + 1, Step::Announce);
                self.command();
                self.advance(defect);
            }
            Action::Write { place } => {
                let op = setup.streams[place][self.places[place].next];
                if let Some(query) = &mut self.query {
                    query.expected.remove(&op.id());
                }
                for (to, message) in self.places[place].write(op, defect) {
                    self.channels[1][place][to].push_back(message);
                }
            }
            Action::Route { router, cell } => self.route(router, cell, defect),
            Action::Obey { place, task } => self.obey(place, task),
            Action::Read { place, task, partition } => {
                return self.read(setup, (place, task), partition);
            }
            Action::Align { partition } => self.align(partition),
            Action::Adopt { partition } => self.searches[partition].adopt_one(defect),
            Action::Report { partition } => {
                let search = &mut self.searches[partition];
                search.reported = search.done;
                if let Some(at) = search.done {
                    self.reports.insert((search.run, partition, at));
                }
            }
            Action::Hear { run, partition, at } => {
                self.reports.remove(&(run, partition, at));
                if run == self.run || defect == Some(Defect::TrustEarlierRun) {
                    let heard = &mut self.control.heard[partition];
                    *heard = (*heard).max(Some(at));
                    self.advance(defect);
                }
            }
            Action::Lose { run, partition, at } => {
                self.reports.remove(&(run, partition, at));
                self.losses -= 1;
            }
            Action::Checkpoint => self.checkpoint(),
            Action::Crash => {
                self.crashes -= 1;
                self.run += 1;
                self.restore(setup);
            }
        }
        Ok(())
    }

    /// What must hold when nothing is left to happen. Errors: a sentence about what does not.
    pub fn check_quiet(&self, setup: &Setup) -> Result<(), String> {
        let end = if setup.epochs == 0 { (0, Step::Done) } else { (setup.epochs, Step::Done) };
        if self.control.at != end {
            return Err(format!("The hand-over stands at {:?} for ever.", self.control.at));
        }
        let mut held = BTreeMap::new();
        for (partition, search) in self.searches.iter().enumerate() {
            for (&id, &(version, code)) in &search.rows {
                if held.insert(id, (partition, version, code)).is_some() {
                    return Err(format!("Row {id} is in two partitions."));
                }
            }
            if search.recording || !search.tombstones.is_empty() {
                return Err(format!("Partition {partition} still remembers deletes."));
            }
        }
        let mut due = BTreeMap::new();
        for place in &self.places {
            for (&id, &(code, version)) in &place.located {
                due.insert(id, (super::owner(setup.epochs, code), version, code));
            }
        }
        if held != due {
            return Err(format!("Partitions hold {held:?} where {due:?} is right."));
        }
        for cell in 0..CELLS {
            for router in &self.routers {
                let codes = super::codes_of(setup.epochs, cell);
                let mut owners: Vec<usize> =
                    codes.map(|code| super::owner(setup.epochs, code)).collect();
                owners.sort_unstable();
                owners.dedup();
                if router.visits(cell, None) != owners {
                    return Err(format!("Queries for cell {cell} still visit old owners."));
                }
            }
        }
        Ok(())
    }

    /// True if the control task does not know what the partition has done.
    fn may_report(&self, setup: &Setup, partition: usize) -> bool {
        let search = &self.searches[partition];
        let Some(at) = search.done else { return false };
        if setup.defect == Some(Defect::DropAcknowledgement) && search.reported == search.done {
            return false;
        }
        self.control.heard[partition] != search.done
            && !self.reports.contains(&(search.run, partition, at))
    }

    fn heads(&self, partition: usize) -> impl Iterator<Item = Option<&Message>> {
        self.channels.iter().flatten().map(move |channels| channels[partition].front())
    }

    fn advance(&mut self, defect: Option<Defect>) {
        while self.control.advance(defect) {
            self.command();
        }
    }

    fn command(&mut self) {
        let Control { at, files, .. } = self.control;
        let command = Command { run: self.run, at, files };
        for signals in self.signals.iter_mut().flatten() {
            signals.push_back(Signal::Command(command));
        }
    }

    fn obey(&mut self, place: bool, task: usize) {
        let kind = usize::from(place);
        let message = match self.signals[kind][task].pop_front() {
            Some(Signal::Command(command)) => {
                match place {
                    true => self.places[task].obey(command.at),
                    false => self.routers[task].at = command.at,
                }
                Message::Mark(command)
            }
            _ => {
                if let Some(cut) = &mut self.cut {
                    match place {
                        true => cut.places[task] = Some(self.places[task].clone()),
                        false => cut.routers[task] = Some(self.routers[task].clone()),
                    }
                }
                Message::Barrier
            }
        };
        for channel in &mut self.channels[kind][task] {
            channel.push_back(message);
        }
        self.complete();
    }

    fn read(
        &mut self,
        setup: &Setup,
        (place, task): (bool, usize),
        partition: usize,
    ) -> Result<(), String> {
        let defect = setup.defect;
        let message = self.channels[usize::from(place)][task][partition].pop_front();
        let search = &mut self.searches[partition];
        match message {
            Some(Message::Upsert { id, version, code }) => search.upsert(id, version, code),
            Some(Message::Delete { id, version }) => search.delete(id, version, defect),
            Some(Message::Ask { cell }) => return self.answer(partition, cell),
            Some(Message::Mark(command)) => match search.mark(place, task, command, defect) {
                Work::None => {}
                Work::Seal(epoch) => {
                    let sealed = search.sealed(epoch);
                    search.done = search.begun;
                    self.files.insert((search.run, epoch, partition), sealed);
                }
                Work::Adopt(epoch) => {
                    let other = (command.files, epoch, 1 - partition);
                    search.awaited = self.files.get(&other).cloned().unwrap_or_default();
                }
            },
            Some(Message::Barrier) | None => {}
        }
        Ok(())
    }

    fn route(&mut self, router: usize, cell: u8, defect: Option<Defect>) {
        self.queries -= 1;
        let mut expected = BTreeMap::new();
        for (at, place) in self.places.iter().enumerate() {
            for id in (at as u8..).step_by(self.places.len()).take(super::explore::ROWS) {
                let channels = &self.channels[1][at];
                let of = |message: &Message| match message {
                    Message::Upsert { id, .. } | Message::Delete { id, .. } => Some(*id),
                    _ => None,
                };
                let moving = channels.iter().flatten().any(|message| of(message) == Some(id));
                if !moving {
                    let row = place.located.get(&id).filter(|row| super::cell_of(row.0) == cell);
                    expected.insert(id, row.map(|row| row.1));
                }
            }
        }
        let mut waiting = 0;
        for partition in self.routers[router].visits(cell, defect) {
            waiting |= 1 << partition;
            self.channels[0][router][partition].push_back(Message::Ask { cell });
        }
        self.query = Some(Query { cell, waiting, found: BTreeMap::new(), expected });
    }

    fn answer(&mut self, partition: usize, cell: u8) -> Result<(), String> {
        let Some(query) = &mut self.query else { return Ok(()) };
        let asked = |row: &(&u8, &(u8, u8))| super::cell_of(row.1 .1) == cell;
        for (&id, &(version, _)) in self.searches[partition].rows.iter().filter(asked) {
            let newest = query.found.entry(id).or_insert(version);
            *newest = version.max(*newest);
        }
        query.waiting &= !(1 << partition);
        if query.waiting != 0 {
            return Ok(());
        }
        for (id, expected) in &query.expected {
            let found = query.found.get(id).copied();
            if found != *expected {
                return Err(format!(
                    "A query for cell {} found row {id} as {found:?} where {expected:?} is right.",
                    query.cell
                ));
            }
        }
        self.query = None;
        Ok(())
    }

    fn checkpoint(&mut self) {
        self.checkpoints -= 1;
        self.cut = Some(Cut {
            control: (self.control.at, self.control.files),
            places: vec![None; self.places.len()],
            routers: vec![None; self.routers.len()],
            rows: vec![None; PARTITIONS],
        });
        for signals in self.signals.iter_mut().flatten() {
            signals.push_back(Signal::Barrier);
        }
    }

    fn align(&mut self, partition: usize) {
        for channels in self.channels.iter_mut().flatten() {
            channels[partition].pop_front();
        }
        if let Some(cut) = &mut self.cut {
            cut.rows[partition] = Some(self.searches[partition].rows.clone());
        }
        self.complete();
    }

    /// Makes the checkpoint the last one once all its parts are there.
    fn complete(&mut self) {
        let whole = self.cut.as_ref().is_some_and(|cut| {
            cut.rows.iter().all(Option::is_some)
                && cut.places.iter().all(Option::is_some)
                && cut.routers.iter().all(Option::is_some)
        });
        if whole {
            if let Some(cut) = self.cut.take() {
                self.last = cut;
            }
        }
    }

    /// Begins a life of the job with the last checkpoint.
    fn restore(&mut self, setup: &Setup) {
        let Cut { control: (mut at, mut files), places, routers, rows } = self.last.clone();
        self.places = places.into_iter().flatten().collect();
        self.routers = routers.into_iter().flatten().collect();
        let (from_places, from_routers) = (self.places.len(), self.routers.len());
        let empty = |senders| vec![vec![VecDeque::new(); PARTITIONS]; senders];
        self.channels = [empty(from_routers), empty(from_places)];
        self.signals.iter_mut().flatten().for_each(VecDeque::clear);
        let partition = |(me, rows)| Search::new(me, rows, from_places, from_routers);
        self.searches = rows.into_iter().flatten().enumerate().map(partition).collect();
        if setup.defect != Some(Defect::ResumeWithOldFiles) {
            files = self.run;
            // What was sealed is as old as the checkpoint is not: it is sealed again. Also what was
            // adopted, as owners may have become one partition that keeps either copy.
            if matches!(at.1, Step::Adopt | Step::Settle) {
                at.1 = Step::Switch;
            }
        }
        self.control = Control { at, heard: vec![None; PARTITIONS], files };
        (self.cut, self.query) = (None, None);
        self.command();
    }

    /// True if each place task has the ids that are its number modulo the number of place tasks.
    pub fn fits(setup: &Setup) -> bool {
        let places = setup.streams.len();
        setup.streams.iter().enumerate().all(|(place, ops)| {
            ops.iter().map(|op: &Op| usize::from(op.id())).all(|id| id % places == place)
        })
    }
}
