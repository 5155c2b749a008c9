//! One seed of a group store: a workload with faults, crashed after every step of input and output.

use std::ops::RangeInclusive;

use vstream_group::{Error, GroupStore};
use vstream_vector::SplitMix;

use super::compare::{compare, refused};
use super::defect::{active, GroupDefect};
use super::history::History;
use crate::check::{self, guarded, Violation};
use crate::crash::{fingerprint, Promise, Seen, Walk};
use crate::disk::{Content, Disk, Event, Failing, Faults};

/// Turns of a workload, each a batch of writes and what follows it, and writes of a batch at most.
const TURNS: usize = 36;
const TURN_WRITES: usize = 32;
/// Calls after which one fails at the latest.
const WRITE_CALLS: usize = 12;
const ALL_CALLS: usize = 120;
/// One state in this many is written to again and merged, one in that many crashed in its recovery.
const WRITE_ONE_IN: u64 = 8;
const RECOVERY_ONE_IN: u64 = 24;
/// Writes to a state that is written to, and rows that are tried after their deletes.
const WRITES: u64 = 6;
const LATE: usize = 8;

/// What a seed went through.
#[derive(Clone, Copy, Debug, Default)]
pub struct Crashed {
    /// Contents of disks that were opened and compared.
    pub states: u64,
    /// Calls that failed while the workload ran.
    pub faults: u64,
    /// Steps of input and output.
    pub steps: u64,
}

/// Opens the store of a disk.
pub(super) fn open(disk: &Disk, history: &History) -> Result<GroupStore, Error> {
    let mut settings = history.settings.clone();
    if active() == Some(GroupDefect::DeletesForgotten) {
        settings.deletes_remembered = None;
    }
    GroupStore::open(check::store(disk), settings)
}

/// Plays the history of `seed` and opens every state that a crash may leave of it, but for those that
/// were `seen`. Errors: a promise was broken.
pub fn crash_everywhere(seed: u64, seen: &Seen) -> Result<Crashed, Violation> {
    guarded(|| {
        let mut player = Player::new(seed)?;
        let mut random = SplitMix(seed ^ 0x5eed);
        for _ in 0..TURNS {
            player.turn(&mut random)?;
        }
        player.stop()?;
        let faults = player.disk.failed() + player.disk.full();
        let mut crashed = Crashed { faults, ..Crashed::default() };
        let Player { disk, mut history, at, .. } = player;
        history.extend_to(at + WRITES);
        let mut walk = Walk::new(&Content::new(), Promise { made: false, lsn: 0..=0 }, seed);
        for event in disk.trace() {
            crashed.steps += 1;
            if is_lost(&event) || !walk.step(&event) {
                continue;
            }
            let promise = walk.promise().clone();
            let oracle = Oracle { seed, history: &history, seen };
            for state in walk.states() {
                crashed.states += oracle.check(&state, &promise, true)?;
            }
        }
        Ok(crashed)
    })
}

/// A step that a disk with a defect only says it did.
fn is_lost(event: &Event) -> bool {
    match active() {
        Some(GroupDefect::SyncsLost) => matches!(event, Event::Sync(_)),
        Some(GroupDefect::NamesLost) => matches!(event, Event::SyncNames),
        _ => false,
    }
}

struct Player {
    disk: Disk,
    store: Option<GroupStore>,
    history: History,
    /// Writes so far, and those that are promised.
    at: u64,
    acked: u64,
    restarts: u64,
}

impl Player {
    fn new(seed: u64) -> Result<Player, Violation> {
        let disk = Disk::holding(&Content::new(), seed);
        disk.set_faults(Faults { short: seed % 3 == 1, ..Faults::default() });
        let history = History::new(seed);
        let store = open(&disk, &history).map_err(|e| refused("cannot be made", e))?;
        disk.mark(Event::Made);
        Ok(Player { disk, store: Some(store), history, at: 0, acked: 0, restarts: 0 })
    }

    fn turn(&mut self, random: &mut SplitMix) -> Result<(), Violation> {
        if random.below(3) == 0 {
            self.draw_fault(random);
        }
        for _ in 0..1 + random.below(TURN_WRITES) {
            let next = self.at + 1;
            self.history.extend_to(next);
            self.disk.mark(Event::Issued(next));
            let store = self.store.as_mut().expect("a store between restarts");
            if self.history.apply(store, next).is_err() {
                return self.restart();
            }
            self.at = next;
        }
        match random.below(12) {
            0 | 1 => self.attempt(true, GroupStore::flush),
            2 => self.attempt(false, |store| store.compact().map(drop)),
            3 => self.attempt(true, GroupStore::compact_all),
            4 => self.merge_with_writes_between(random),
            5 | 6 => self.restart(),
            _ => self.attempt(true, GroupStore::commit),
        }
    }

    fn draw_fault(&mut self, random: &mut SplitMix) {
        let mut faults = self.disk.faults();
        match random.below(5) {
            0 => faults.sync_fails_in = Some(random.below(4) as u32),
            1 => faults.room = Some(random.below(30_000)),
            _ => {
                let reads = random.below(3) == 0;
                faults.failing = Some(Failing {
                    calls: random.below(if reads { ALL_CALLS } else { WRITE_CALLS }) as u32,
                    reads,
                    is_full: random.below(2) == 0,
                    stays: random.below(3) == 0,
                });
            }
        }
        self.disk.set_faults(faults);
    }

    /// Does something that promises everything so far, if it `promises`; after an error the process
    /// starts anew.
    fn attempt(
        &mut self,
        promises: bool,
        work: impl FnOnce(&mut GroupStore) -> Result<(), Error>,
    ) -> Result<(), Violation> {
        match work(self.store.as_mut().expect("a store between restarts")) {
            Ok(()) if promises => {
                self.acked = self.at;
                self.disk.mark(Event::Acked(self.acked));
                Ok(())
            }
            Ok(()) => Ok(()),
            Err(_) => self.restart(),
        }
    }

    /// A merge as a thread of its own would make it, with writes and a flush meanwhile.
    fn merge_with_writes_between(&mut self, random: &mut SplitMix) -> Result<(), Violation> {
        let store = self.store.as_mut().expect("a store between restarts");
        let Some(compaction) = store.begin_compaction() else { return Ok(()) };
        let compacted = compaction.run();
        for _ in 0..random.below(6) {
            let next = self.at + 1;
            self.history.extend_to(next);
            self.disk.mark(Event::Issued(next));
            let store = self.store.as_mut().expect("a store between restarts");
            if self.history.apply(store, next).is_err() {
                return self.restart();
            }
            self.at = next;
        }
        match compacted {
            Ok(compacted) => {
                let restarts = self.restarts;
                self.attempt(true, GroupStore::flush)?;
                if self.restarts > restarts {
                    // The merge died with its process.
                    return Ok(());
                }
                self.attempt(false, |store| store.finish_compaction(compacted))
            }
            Err(_) => self.restart(),
        }
    }

    /// Kills the process and opens what it left in the page cache and on the disk. Faults end.
    fn restart(&mut self) -> Result<(), Violation> {
        self.restarts += 1;
        let store = self.store.take();
        self.disk.kill(|| drop(store));
        let store = open(&self.disk, &self.history)
            .map_err(|e| refused("does not open after a kill", e))?;
        // A write that failed may be there all the same.
        self.history.extend_to(self.at + 1);
        self.at = compare(&store, &self.history, self.acked..=self.at + 1)?;
        self.history.doubt(self.history.doubtful_before(self.at, self.acked));
        self.store = Some(store);
        // Opening syncs nothing: what is there may still be lost with the power.
        self.disk.mark(Event::Issued(self.at));
        Ok(())
    }

    fn stop(&mut self) -> Result<(), Violation> {
        self.disk.heal();
        let store = self.store.as_mut().expect("a store between restarts");
        if store.commit().is_err() {
            self.restart()?;
            let store = self.store.as_mut().expect("it was opened again");
            store.commit().map_err(|e| refused("does not commit", e))?;
        }
        self.disk.mark(Event::Acked(self.at));
        compare(self.store.as_ref().expect("a store"), &self.history, self.at..=self.at).map(drop)
    }
}

/// What the states of a seed are compared with.
struct Oracle<'a> {
    seed: u64,
    history: &'a History,
    seen: &'a Seen,
}

impl Oracle<'_> {
    /// Opens a state, unless it was opened before, and compares; returns the states that were opened.
    fn check(
        &self,
        content: &Content,
        promise: &Promise,
        may_crash: bool,
    ) -> Result<u64, Violation> {
        let fingerprint = fingerprint(content);
        if let Some(Some(number)) = self.seen.find(fingerprint) {
            // A write that changes nothing, such as a delete of a row that is not there, may leave
            // nothing on the disk: the state is after it as well.
            return match self.history.is_as_after(number, &promise.lsn) {
                true => Ok(0),
                false => promise.judge(number).map(|()| 0),
            };
        }
        let disk = Disk::holding(content, self.seed);
        let mut store = open(&disk, self.history)
            .map_err(|e| refused(&format!("does not open, promised {:?}", promise.lsn), e))?;
        let number = compare(&store, self.history, promise.lsn.clone())?;
        let doubtful = self.history.doubtful_before(number, *promise.lsn.start());
        self.seen.note(fingerprint, Some(number));
        let mut states = 1;
        if may_crash && fingerprint.is_multiple_of(RECOVERY_ONE_IN) {
            let mut walk = Walk::new(content, promise.clone(), self.seed);
            for event in disk.trace() {
                walk.step(&event);
                for state in walk.states() {
                    states += self.check(&state, promise, false)?;
                }
            }
        }
        if fingerprint % WRITE_ONE_IN == 1 {
            for next in number + 1..=number + WRITES {
                let done = self.history.apply(&mut store, next);
                done.map_err(|e| refused("no more writes", e))?;
            }
            store.flush().and_then(|()| store.compact_all()).map_err(|e| refused("no merge", e))?;
            let number = number + WRITES;
            self.come_late(&mut store, number, doubtful)?;
            compare(&store, self.history, number..=number)?;
            store.commit().map_err(|e| refused("no commit", e))?;
            disk.kill(|| drop(store));
            let again = open(&disk, self.history);
            let mut again = again.map_err(|e| refused("does not open after writes", e))?;
            compare(&again, self.history, number..=number)?;
            if self.history.settings.deletes_remembered.is_some() {
                again.compact_all().map_err(|e| refused("no merge with late rows", e))?;
                compare(&again, self.history, number..=number)?;
            }
        }
        Ok(states)
    }

    /// Where deletes are remembered, tries rows that are older than theirs, but for deletes that are
    /// among the `doubtful` writes.
    fn come_late(
        &self,
        store: &mut GroupStore,
        number: u64,
        doubtful: RangeInclusive<u64>,
    ) -> Result<(), Violation> {
        if self.history.settings.deletes_remembered.is_none() {
            return Ok(());
        }
        let deletes = self.history.deletes_after(number).into_iter();
        let sure = deletes.filter(|(_, deleted)| !doubtful.contains(deleted));
        for (key, deleted) in sure.take(LATE) {
            let tried = self.history.upsert_late(store, key, deleted);
            tried.map_err(|e| refused("no late upsert", e))?;
        }
        Ok(())
    }
}
