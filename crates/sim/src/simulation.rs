//! One seed: a workload on a simulated disk, crashed after every step of input and output.

use std::collections::HashSet;

use vstream_engine::{Durability, Engine, Journaling};
use vstream_vector::SplitMix;
use xxhash_rust::xxh3::Xxh3;

use crate::check::{self, check, compare, Breach, Depth, Violation};
use crate::crash::{Promise, Walk};
use crate::disk::{Content, Disk, Event, Faults};
use crate::script::{apply, rows_of, Rows, Script, FEW_IDS};

/// Steps of a workload: a batch of writes and what follows it.
const TURNS: usize = 24;
/// One state in this many is written to again, and one in that many crashed in its recovery.
const WRITE_ONE_IN: u64 = 8;
const RECOVERY_ONE_IN: u64 = 24;

/// What a workload left.
pub struct Played {
    /// Everything it did to its disk.
    pub trace: Vec<Event>,
    /// What must be there after each write, by LSN.
    pub models: Vec<Rows>,
    /// Steps at which a fault was injected.
    pub faults: u64,
}

/// Plays the workload of `seed`, with its faults; compares after every restart on the way.
pub fn play(seed: u64) -> Result<Played, Violation> {
    let mut random = SplitMix(seed ^ 0x5eed);
    let durability = match random.below(5) {
        0 => Durability::ASYNC,
        1 => Durability::None,
        _ => Durability::Sync,
    };
    let log_bytes_max = 200 + random.below(2_000) as u64;
    let journaling = Journaling { durability, log_bytes_max, background: false };
    let disk = Disk::holding(&Content::new(), seed);
    disk.set_faults(Faults { short: random.below(3) == 0, ..Faults::default() });
    let made =
        Engine::create_in_store(check::store(&disk), check::settings(seed), journaling, seed);
    let engine = made.map_err(|e| refused(&format!("cannot be made: {e}")))?;
    disk.mark(Event::Made);
    let script = Script::new(seed, FEW_IDS);
    let mut player = Player {
        disk,
        seed,
        engine: Some(engine),
        models: vec![Rows::new()],
        script,
        acked: 0,
        is_sync: durability == Durability::Sync,
        faults: 0,
    };
    for _ in 0..TURNS {
        player.turn(&mut random)?;
    }
    player.stop()?;
    Ok(Played { trace: player.disk.trace(), models: player.models, faults: player.faults })
}

fn refused(what: &str) -> Violation {
    Violation::new(Breach::Refused, what)
}

struct Player {
    disk: Disk,
    seed: u64,
    engine: Option<Engine>,
    models: Vec<Rows>,
    script: Script,
    acked: u64,
    is_sync: bool,
    faults: u64,
}

impl Player {
    fn turn(&mut self, random: &mut SplitMix) -> Result<(), Violation> {
        if random.below(8) == 0 {
            self.faults += 1;
            let mut faults = self.disk.faults();
            match random.below(2) {
                0 => faults.sync_fails_in = Some(random.below(5) as u32),
                _ => faults.room = Some(random.below(700)),
            }
            self.disk.set_faults(faults);
        }
        for _ in 0..1 + random.below(4) {
            let mut next = self.script.clone();
            let write = next.step();
            self.disk.mark(Event::Issued(next.lsn()));
            if apply(self.engine(), write).is_err() {
                return self.restart();
            }
            self.script = next;
            self.models.truncate(self.script.lsn() as usize);
            self.models.push(self.script.rows().clone());
        }
        let found = rows_of(self.engine())?;
        check::same(self.script.rows(), &found, self.script.lsn())?;
        let is_sync = self.is_sync;
        match random.below(12) {
            0 => self.attempt(true, Engine::flush),
            1 | 2 => self.attempt(true, Engine::checkpoint),
            3 => self.attempt(true, Engine::detach).and_then(|()| self.restart()),
            4 => self.restart(),
            _ => self.attempt(is_sync, Engine::commit),
        }
    }

    fn engine(&mut self) -> &mut Engine {
        self.engine.as_mut().expect("an engine between restarts")
    }

    /// Does something that promises everything so far, if it `promises`. If it fails, the fault
    /// goes away and it is tried again; if that fails too the process starts anew.
    fn attempt(
        &mut self,
        promises: bool,
        work: fn(&mut Engine) -> Result<(), vstream_engine::Error>,
    ) -> Result<(), Violation> {
        let mut done = work(self.engine());
        if done.is_err() {
            let short = self.disk.faults().short;
            let could_resume = self.disk.faults().room == Some(0);
            self.disk.set_faults(Faults { short, ..Faults::default() });
            done = work(self.engine());
            if let (Err(error), true) = (&done, could_resume) {
                return Err(refused(&format!("space was freed and still: {error}")));
            }
        }
        match done {
            Ok(()) if promises => {
                self.acked = self.script.lsn();
                self.disk.mark(Event::Acked(self.acked));
                Ok(())
            }
            Ok(()) => Ok(()),
            Err(_) => self.restart(),
        }
    }

    /// Kills the process and opens what it left in the page cache and on the disk.
    fn restart(&mut self) -> Result<(), Violation> {
        let engine = self.engine.take();
        self.disk.kill(|| drop(engine));
        let engine = check::open(&self.disk)
            .map_err(|e| refused(&format!("does not open after a kill: {e}")))?;
        let promise = Promise { made: true, lsn: self.acked..=self.script.lsn() };
        let lsn = compare(&engine, &promise, &self.models)?;
        self.engine = Some(engine);
        self.script = Script::after(self.seed, FEW_IDS, lsn);
        // What was recovered was synced while it was opened.
        self.acked = lsn;
        self.disk.mark(Event::Recovered(lsn));
        Ok(())
    }

    /// Ends in order.
    fn stop(&mut self) -> Result<(), Violation> {
        self.disk.set_faults(Faults::default());
        if self.engine().detach().is_err() {
            self.restart()?;
            self.engine().detach().map_err(|e| refused(&format!("does not close: {e}")))?;
        }
        self.disk.mark(Event::Acked(self.script.lsn()));
        Ok(())
    }
}

/// What a seed went through.
#[derive(Clone, Copy, Debug, Default)]
pub struct Crashed {
    /// Distinct states that were opened and compared, those of recoveries included.
    pub states: u64,
    /// Of the states: steps of the traces.
    pub steps: u64,
    /// Faults injected while the workload ran.
    pub faults: u64,
}

/// Plays the workload of `seed` and checks every state that a crash may leave of it.
pub fn crash_everywhere(seed: u64) -> Result<Crashed, Violation> {
    let played = play(seed)?;
    let mut crashed = Crashed { faults: played.faults, ..Crashed::default() };
    let mut walk = Walk::new(&Content::new(), Promise { made: false, lsn: 0..=0 }, seed);
    let mut seen: HashSet<u64> = HashSet::new();
    for event in &played.trace {
        crashed.steps += 1;
        if !walk.step(event) {
            continue;
        }
        let promise = walk.promise().clone();
        for state in walk.states() {
            let fingerprint = fingerprint(&state, &promise);
            if !seen.insert(fingerprint) {
                continue;
            }
            let depth = match fingerprint {
                f if f % RECOVERY_ONE_IN == 0 => Depth::Recovery,
                f if f % WRITE_ONE_IN == 1 => Depth::Write,
                _ => Depth::Open,
            };
            crashed.states += check(&state, &promise, &played.models, seed, depth)?;
        }
    }
    Ok(crashed)
}

fn fingerprint(content: &Content, promise: &Promise) -> u64 {
    let mut hash = Xxh3::new();
    for (name, bytes) in content {
        hash.update(name.as_bytes());
        hash.update(&(bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    }
    hash.update(&promise.lsn.start().to_le_bytes());
    hash.update(&promise.lsn.end().to_le_bytes());
    hash.digest()
}
