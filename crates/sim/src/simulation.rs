//! One seed: a workload on a simulated disk, crashed after every step of input and output.

use vstream_engine::{Durability, Engine, Error, Journaling};
use vstream_vector::SplitMix;

use crate::answers::{self, Recall};
use crate::check::{self, compare, guarded, Breach, Checked, Depth, Oracle, Violation};
use crate::crash::{Promise, Seen, Walk};
use crate::disk::{Content, Disk, Event, Failing, Faults};
use crate::reads;
use crate::script::{settings, Script, Shape};

/// Steps of a workload, after every id was written once: a batch of writes and what follows it.
const TURNS: usize = 24;
/// Writes of a batch while every id is written once, and at most afterwards.
const LOAD_WRITES: usize = 100;
const TURN_WRITES: usize = 60;
/// Calls after which one fails at the latest: there are far fewer writes than reads.
const WRITE_CALLS: usize = 16;
const ALL_CALLS: usize = 200;
/// Writes between two commits within a batch, where checkpoints write base images: their parts take two
/// commits each.
const COMMIT_EVERY: u64 = 6;
/// Exact and approximate queries after every turn.
const QUERIES: (usize, usize) = (1, 4);
/// While every id is written once, one step in this many is crashed.
const LOAD_ONE_IN: u64 = 40;
/// One state in this many is written to again, and one in that many crashed in its recovery.
const WRITE_ONE_IN: u64 = 8;
const RECOVERY_ONE_IN: u64 = 24;

/// What a workload left.
pub struct Played {
    /// Everything it did to its disk.
    pub trace: Vec<Event>,
    /// Steps of the trace until every id was written once.
    pub loaded: usize,
    /// What was written.
    pub script: Script,
    /// Calls that failed.
    pub faults: u64,
    /// Rows of approximate answers on the way.
    pub recall: Recall,
}

/// Plays the workload of `seed`, with its faults; compares after every restart on the way.
pub fn play(seed: u64) -> Result<Played, Violation> {
    guarded(|| play_inside(seed))
}

fn play_inside(seed: u64) -> Result<Played, Violation> {
    let mut random = SplitMix(seed ^ 0x5eed);
    let durability = match random.below(5) {
        0 => Durability::ASYNC,
        1 => Durability::None,
        _ => Durability::Sync,
    };
    let log_bytes_max = 4_000 + random.below(40_000) as u64;
    let journaling = Journaling { durability, log_bytes_max, background: false };
    let disk = Disk::holding(&Content::new(), seed);
    disk.set_faults(Faults { short: random.below(3) == 0, ..Faults::default() });
    let made = Engine::builder()
        .store(check::store(&disk))
        .collection(seed)
        .journaling(journaling)
        .create(settings(seed));
    let engine = made.map_err(|e| refused(&format!("cannot be made: {e}")))?;
    disk.mark(Event::Made);
    let mut player = Player {
        disk,
        engine: Some(engine),
        script: Script::new(seed, Shape::of(seed).ids()),
        lsn: 0,
        acked: 0,
        is_sync: durability == Durability::Sync,
        recall: Recall::default(),
        failed_before: 0,
    };
    player.load()?;
    let loaded = player.disk.trace().len();
    for _ in 0..TURNS {
        player.turn(&mut random)?;
    }
    player.stop()?;
    let Player { disk, mut script, recall, lsn, .. } = player;
    script.extend_to(lsn + 8);
    let faults = disk.failed() + disk.full();
    Ok(Played { trace: disk.trace(), loaded, script, faults, recall })
}

fn refused(what: &str) -> Violation {
    Violation::new(Breach::Refused, what)
}

struct Player {
    disk: Disk,
    engine: Option<Engine>,
    script: Script,
    /// Writes so far.
    lsn: u64,
    acked: u64,
    is_sync: bool,
    recall: Recall,
    /// Calls that had failed when the engine was opened last.
    failed_before: u64,
}

impl Player {
    /// Writes every id once.
    fn load(&mut self) -> Result<(), Violation> {
        while self.lsn < self.script.ids as u64 {
            self.write(LOAD_WRITES)?;
            self.attempt(self.is_sync, Engine::commit)?;
        }
        self.look()
    }

    fn turn(&mut self, random: &mut SplitMix) -> Result<(), Violation> {
        if random.below(2) == 0 {
            self.draw_fault(random);
        }
        self.write(1 + random.below(TURN_WRITES))?;
        self.look()?;
        match random.below(14) {
            0 => self.attempt(true, Engine::flush),
            1 | 2 => self.attempt(true, Engine::checkpoint),
            3 => self.attempt(false, Engine::compact),
            4 => self.attempt(true, Engine::detach).and_then(|()| self.restart(random)),
            5 | 6 => self.restart(random),
            _ => self.attempt(self.is_sync, Engine::commit),
        }
    }

    fn draw_fault(&mut self, random: &mut SplitMix) {
        let mut faults = self.disk.faults();
        match random.below(6) {
            0 => faults.sync_fails_in = Some(random.below(5) as u32),
            1 => faults.room = Some(random.below(9_000)),
            _ => faults.failing = Some(failing(random)),
        }
        self.disk.set_faults(faults);
    }

    /// Writes up to `count` rows; fewer if one fails, and the process starts anew.
    fn write(&mut self, count: usize) -> Result<(), Violation> {
        for _ in 0..count {
            let next = self.lsn + 1;
            self.script.extend_to(next);
            self.disk.mark(Event::Issued(next));
            let engine = self.engine.as_mut().expect("an engine between restarts");
            if self.script.apply(engine, next).is_err() {
                return self.reopen();
            }
            self.lsn = next;
            if !self.script.shape.has_segments && next.is_multiple_of(COMMIT_EVERY) {
                self.attempt(self.is_sync, Engine::commit)?;
            }
        }
        Ok(())
    }

    /// Compares rows and answers. A disk that fails may have kept them from being read.
    fn look(&mut self) -> Result<(), Violation> {
        let failed = self.disk.failed();
        match self.seen() {
            Err(_) if self.disk.failed() > failed => {
                self.disk.heal();
                self.seen()
            }
            seen => seen,
        }
    }

    fn seen(&mut self) -> Result<(), Violation> {
        let engine = self.engine.as_ref().expect("an engine between restarts");
        compare(engine, &Promise { made: true, lsn: self.lsn..=self.lsn }, &self.script)?;
        self.recall.add(answers::ask(engine, &self.script, self.lsn, QUERIES)?);
        Ok(())
    }

    fn engine(&mut self) -> &mut Engine {
        self.engine.as_mut().expect("an engine between restarts")
    }

    /// Does something that promises everything so far, if it `promises`. If it fails, the fault
    /// goes away and it is tried again; if that fails too the process starts anew.
    fn attempt(
        &mut self,
        promises: bool,
        work: fn(&mut Engine) -> Result<(), Error>,
    ) -> Result<(), Violation> {
        let mut done = work(self.engine());
        if done.is_err() {
            // A call that failed otherwise may have been a sync: only a new opening trusts the log
            // then.
            let could_resume =
                self.disk.faults().room == Some(0) && self.disk.failed() == self.failed_before;
            self.disk.heal();
            done = work(self.engine());
            if let (Err(error), true) = (&done, could_resume) {
                return Err(refused(&format!("space was freed and still: {error}")));
            }
        }
        match done {
            Ok(()) if promises => {
                self.acked = self.lsn;
                self.disk.mark(Event::Acked(self.acked));
                Ok(())
            }
            Ok(()) => Ok(()),
            Err(_) => self.reopen(),
        }
    }

    /// Kills the process; the next one may meet a disk that fails, and then another one opens.
    fn restart(&mut self, random: &mut SplitMix) -> Result<(), Violation> {
        let engine = self.engine.take();
        self.disk.kill(|| drop(engine));
        if random.below(3) == 0 {
            let failed = self.disk.failed();
            let calls = random.below(ALL_CALLS) as u32;
            let failing = Failing { reads: true, calls, ..failing(random) };
            self.disk.set_faults(Faults { failing: Some(failing), ..self.disk.faults() });
            let opened = check::open(&self.disk);
            if let (Err(error), true) = (&opened, self.disk.failed() == failed) {
                return Err(refused(&format!("does not open after a kill: {error}")));
            }
            self.disk.kill(|| drop(opened));
        }
        self.reopen()
    }

    /// Kills the process and opens what it left in the page cache and on the disk.
    fn reopen(&mut self) -> Result<(), Violation> {
        let engine = self.engine.take();
        self.disk.kill(|| drop(engine));
        let mut engine = check::open(&self.disk)
            .map_err(|e| refused(&format!("does not open after a kill: {e}")))?;
        let promise = Promise { made: true, lsn: self.acked..=self.lsn };
        self.lsn = compare(&engine, &promise, &self.script)?;
        self.recall.add(answers::ask(&engine, &self.script, self.lsn, QUERIES)?);
        reads::late(&mut engine, &self.script, self.lsn)?;
        self.engine = Some(engine);
        self.failed_before = self.disk.failed();
        // What was recovered was synced while it was opened.
        self.acked = self.lsn;
        self.disk.mark(Event::Recovered(self.lsn));
        Ok(())
    }

    /// Ends in order.
    fn stop(&mut self) -> Result<(), Violation> {
        self.disk.heal();
        if self.engine().detach().is_err() {
            self.reopen()?;
            self.engine().detach().map_err(|e| refused(&format!("does not close: {e}")))?;
        }
        self.disk.mark(Event::Acked(self.lsn));
        Ok(())
    }
}

/// A call that fails soon, once or for good.
fn failing(random: &mut SplitMix) -> Failing {
    let reads = random.below(3) == 0;
    Failing {
        calls: random.below(if reads { ALL_CALLS } else { WRITE_CALLS }) as u32,
        reads,
        is_full: random.below(2) == 0,
        stays: random.below(3) == 0,
    }
}

/// What a seed went through.
#[derive(Clone, Copy, Debug, Default)]
pub struct Crashed {
    /// States that were opened and compared, those of recoveries included.
    pub checked: Checked,
    /// Steps of the trace.
    pub steps: u64,
    /// Calls that failed while the workload ran.
    pub faults: u64,
}

/// Plays the workload of `seed` and checks every state that a crash may leave of it, but for those
/// that were `seen`. Of the time in which every id is written once, some steps are crashed.
pub fn crash_everywhere(seed: u64, seen: &Seen) -> Result<Crashed, Violation> {
    crash_where(seed, seen, |_, _| true)
}

/// Like [`crash_everywhere`], but checks only after the chosen steps; their numbers count from 0.
pub fn crash_where(
    seed: u64,
    seen: &Seen,
    is_chosen: impl Fn(usize, &Event) -> bool,
) -> Result<Crashed, Violation> {
    play(seed)?.crash_where(seed, seen, is_chosen)
}

/// True of the steps after which the engine has promised more than before them: that is where what
/// is lost is missed at once.
pub fn is_promise(event: &Event) -> bool {
    matches!(event, Event::Made | Event::Acked(_) | Event::Recovered(_))
}

impl Played {
    /// Checks the states that a crash at some of the steps of `seed` may leave.
    pub fn crash_where(
        &self,
        seed: u64,
        seen: &Seen,
        is_chosen: impl Fn(usize, &Event) -> bool,
    ) -> Result<Crashed, Violation> {
        let mut crashed = Crashed { faults: self.faults, ..Crashed::default() };
        crashed.checked.recall = self.recall;
        let oracle = Oracle { seed, script: &self.script, seen };
        let mut walk = Walk::new(&Content::new(), Promise { made: false, lsn: 0..=0 }, seed);
        for (at, event) in self.trace.iter().enumerate() {
            crashed.steps += 1;
            let is_dense = at >= self.loaded || (seed + at as u64).is_multiple_of(LOAD_ONE_IN);
            if !walk.step(event) || !is_dense || !is_chosen(at, event) {
                continue;
            }
            let promise = walk.promise().clone();
            for state in walk.states() {
                crashed.checked.add(oracle.check(&state, &promise, depth)?);
            }
        }
        let target = settings(seed).recall_target;
        crashed.checked.recall.judge(target)?;
        Ok(crashed)
    }
}

fn depth(fingerprint: u64) -> Depth {
    match fingerprint {
        f if f % RECOVERY_ONE_IN == 0 => Depth::Recovery,
        f if f % WRITE_ONE_IN == 1 => Depth::Write,
        _ => Depth::Open,
    }
}
