//! A collection goes to an object store and comes back while it is used, through a bad network.
//!
//! 1. It is pushed; the process dies at a request and another one pushes again. After each death
//!    there is no snapshot, or a whole one.
//! 2. It is restored, opened before it is there, compared with the oracle, and written to while
//!    files come. After one step in three, every state that a crash of the restoring disk may leave
//!    is opened again and compared.
//! 3. Bits are flipped on the way and at rest: an error, or the right rows.

use std::sync::Arc;

use vstream_engine::{Durability, Engine, Journaling};
use vstream_store::remote::{
    numbers, push, Contents, MemoryObjects, PushedFile, Restore, RestoreSettings,
};
use vstream_store::{ErrorKind, FileStore, Store, Syncing};
use vstream_vector::SplitMix;

use crate::answers::{self, Recall};
use crate::check::{self, compare, guarded, lsn_of, unlike, Breach, Checked, Violation};
use crate::crash::{fingerprint, Promise, Seen, Walk};
use crate::disk::{Content, Disk, Event};
use crate::network::{Network, Weather};
use crate::script::{adjust, settings, Script, Shape};

/// Ids of the collection that is pushed, its writes, and those after it is opened again: several
/// segments with marks, and a log.
const IDS: usize = 800;
const WRITES: u64 = 1_200;
const WRITES_AFTER: u64 = 12;
/// Writes between two commits of it.
const COMMIT_EVERY: u64 = 20;
/// Of a restoring disk: one step in this many is crashed.
const STEP_ONE_IN: usize = 3;
/// Exact and approximate queries of every state.
const QUERIES: (usize, usize) = (1, 2);
/// Tries of a process that finds no answer in time: more than a fair network needs.
const PATIENCE: usize = 50;

/// What a seed went through.
#[derive(Clone, Copy, Debug, Default)]
pub struct Travelled {
    /// Distinct states after a crash of restores, and what approximate queries found there.
    pub checked: Checked,
    /// Deaths of pushes, after which the object store was looked at.
    pub deaths: u64,
    /// Requests that met a fault.
    pub faults: u64,
    /// Bits that were flipped on the way or at rest.
    pub flips: u64,
}

fn refused(what: impl Into<String>) -> Violation {
    Violation::new(Breach::Refused, what)
}

/// Repeats what finds no answer in time. Errors: any other error, or no answer ever.
fn patiently<T>(
    what: &str,
    mut work: impl FnMut() -> Result<T, vstream_store::Error>,
) -> Result<T, Violation> {
    for _ in 0..PATIENCE {
        match work() {
            Ok(done) => return Ok(done),
            Err(error) if error.kind() == ErrorKind::Unavailable => {}
            Err(error) => return Err(refused(format!("{what}: {error}"))),
        }
    }
    Err(refused(format!("{what}: no answer in {PATIENCE} tries")))
}

/// The collection of a seed, closed, and what was written to it.
struct Made {
    disk: Disk,
    script: Script,
}

/// Base images are of several parts.
fn journaling(seed: u64) -> Journaling {
    let has_segments = Shape::of(seed).has_segments;
    let log_bytes_max = if has_segments { Journaling::default().log_bytes_max } else { 12_000 };
    Journaling { durability: Durability::Sync, log_bytes_max, background: false }
}

fn made(seed: u64) -> Result<Made, Violation> {
    let failed = |e| refused(format!("cannot be made: {e}"));
    let disk = Disk::holding(&Content::new(), seed);
    let engine = Engine::builder()
        .store(check::store(&disk))
        .collection(seed)
        .journaling(journaling(seed))
        .create(settings(seed));
    let mut engine = engine.map_err(failed)?;
    let mut script = Script::new(seed, IDS);
    script.extend_to(WRITES + WRITES_AFTER);
    for write in 1..=WRITES {
        script.apply(&mut engine, write).map_err(failed)?;
        if write % COMMIT_EVERY == 0 {
            engine.commit().map_err(failed)?;
        }
        if write == WRITES / 2 {
            engine.checkpoint().map_err(failed)?;
        }
    }
    engine.close().map_err(failed)?;
    Ok(Made { disk, script })
}

/// Pushes, restores and damages the collection of `seed`; states that were `seen` are passed over.
pub fn there_and_back(seed: u64, seen: &Seen) -> Result<Travelled, Violation> {
    guarded(|| travel(seed, seen))
}

/// Only pushes the collection of `seed`, with the deaths and faults of [`there_and_back`].
pub fn there(seed: u64) -> Result<Travelled, Violation> {
    guarded(|| {
        let mut random = SplitMix(seed);
        let made = made(seed)?;
        let network = Network::new(MemoryObjects::new(), random.next());
        let mut travelled = Travelled::default();
        go(&made, &network, &mut random, &mut travelled)?;
        Ok(travelled)
    })
}

fn travel(seed: u64, seen: &Seen) -> Result<Travelled, Violation> {
    let mut random = SplitMix(seed);
    let made = made(seed)?;
    let network = Network::new(MemoryObjects::new(), random.next());
    let mut travelled = Travelled::default();
    let contents = go(&made, &network, &mut random, &mut travelled)?;
    let identity = random.next();
    let beyond = Beyond { made: &made, network: &network, contents: &contents, seen, identity };
    beyond.come_back(&mut random, &mut travelled)?;
    travelled.checked.recall.judge(settings(seed).recall_target)?;
    damage(&made, &network, &contents, &mut random, &mut travelled)?;
    let (faults, flips) = network.counts();
    travelled.faults = faults;
    travelled.flips += flips;
    Ok(travelled)
}

/// Pushes with deaths on the way; looks at what each left.
fn go(
    made: &Made,
    network: &Network,
    random: &mut SplitMix,
    travelled: &mut Travelled,
) -> Result<Contents, Violation> {
    let from = check::store(&made.disk);
    let listed = from.list("").map_err(|e| refused(e.to_string()))?;
    let names: Vec<String> = listed.into_iter().map(|entry| entry.name).collect();
    let faults_percent = random.below(40);
    for death in 0..6u64 {
        let dies_in = Some(1 + death * 2 + random.below(4) as u64);
        network.set(Weather { faults_percent, dies_in, flips_percent: 0 });
        // Whether it was done is for what is there to say.
        let _ = push(&from, &names, &network.store(random.next()));
        network.set(Weather::default());
        let store = network.store(random.next());
        for number in numbers(&store).map_err(|e| refused(e.to_string()))? {
            whole(&store, number)?;
        }
        travelled.deaths += 1;
    }
    network.set(Weather { faults_percent, ..Weather::default() });
    let store = network.store(random.next());
    patiently("push", || push(&from, &names, &store))?;
    let contents = patiently("list", || Contents::read(&store, None))?;
    network.set(Weather::default());
    whole(&store, contents.number)?;
    Ok(contents)
}

/// Errors: a snapshot that is listed is not all there.
fn whole(store: &dyn Store, number: u64) -> Result<(), Violation> {
    let contents = Contents::read(store, Some(number));
    let contents = contents.map_err(|e| Violation::new(Breach::Lost, e.to_string()))?;
    for file in &contents.files {
        file.verify(store).map_err(|e| Violation::new(Breach::Lost, e.to_string()))?;
    }
    Ok(())
}

/// A directory that fills up, or one that has.
fn directory(
    disk: &Disk,
    network: &Network,
    contents: &Contents,
    seed: u64,
) -> Result<(Option<Restore>, FileStore), vstream_store::Error> {
    let content = disk.content();
    // The mark goes when every file is there. What the engine replaced since may be gone by then: if
    // anything else is, the collection does not open.
    if content.contains_key("COLLECTION") && !content.contains_key("RESTORING") {
        return Ok((None, check::store(disk)));
    }
    let settings = RestoreSettings { bytes_per_second: None, clock: network.clock() };
    let remote = Arc::new(network.store(seed));
    let restore = Restore::begin(Arc::new(disk.clone()), remote, contents, settings)?;
    Ok((Some(restore.clone()), FileStore::new(Arc::new(restore), Syncing::Full)))
}

fn open(store: FileStore) -> Result<Engine, vstream_engine::Error> {
    Engine::builder()
        .store(store)
        .adjust(&mut |settings, journaling| {
            adjust(settings);
            journaling.background = false;
        })
        .open()
}

/// A snapshot beyond a network, and what must be in it.
struct Beyond<'a> {
    made: &'a Made,
    network: &'a Network,
    contents: &'a Contents,
    seen: &'a Seen,
    /// Tells states beside this snapshot from equal ones beside another, or beside none: an empty
    /// disk goes on with all its rows.
    identity: u64,
}

impl Beyond<'_> {
    /// Restores with writes between the files, and looks at every crash on the way.
    fn come_back(&self, random: &mut SplitMix, travelled: &mut Travelled) -> Result<(), Violation> {
        self.network.set(Weather { faults_percent: random.below(30), ..Weather::default() });
        let disk = Disk::holding(&Content::new(), random.next());
        let seed = random.next();
        self.use_while_it_comes(&disk, seed, random)?;
        self.network.set(Weather::default());
        let first = Promise { made: true, lsn: WRITES..=WRITES };
        let mut walk = Walk::new(&Content::new(), first, seed);
        for event in disk.trace() {
            if !walk.step(&event) || random.below(STEP_ONE_IN) > 0 {
                continue;
            }
            let promise = walk.promise().clone();
            for state in walk.states() {
                travelled.checked.add(self.check(&state, &promise)?);
            }
        }
        Ok(())
    }

    /// Opens what comes over the network, writes to it and fetches files, in turns.
    fn use_while_it_comes(
        &self,
        disk: &Disk,
        seed: u64,
        random: &mut SplitMix,
    ) -> Result<(), Violation> {
        let Beyond { made, network, contents, .. } = *self;
        let begun = patiently("begin", || directory(disk, network, contents, seed))?;
        let (Some(restore), store) = begun else {
            return Err(refused("an empty disk is no collection"));
        };
        for _ in 0..random.below(3) {
            patiently("fetch", || restore.fetch_next())?;
        }
        let mut engine = open_patiently(&store)?;
        disk.mark(Event::Recovered(WRITES));
        compare(&engine, &Promise { made: true, lsn: WRITES..=WRITES }, &made.script)?;
        for lsn in WRITES + 1..=WRITES + WRITES_AFTER {
            disk.mark(Event::Issued(lsn));
            let done = made.script.apply(&mut engine, lsn).and_then(|()| engine.commit());
            done.map_err(|e| refused(format!("no writes while it is restored: {e}")))?;
            disk.mark(Event::Acked(lsn));
            match random.below(4) {
                0 => drop(patiently("fetch", || restore.fetch_next())?),
                1 if random.below(3) == 0 => {
                    engine.checkpoint().map_err(|e| refused(format!("no checkpoint: {e}")))?;
                }
                _ => {}
            }
        }
        while patiently("fetch", || restore.fetch_next())? {}
        disk.kill(|| drop((engine, store, restore)));
        Ok(())
    }

    fn check(&self, state: &Content, promise: &Promise) -> Result<Checked, Violation> {
        let fingerprint = fingerprint(state) ^ self.identity;
        match self.seen.find(fingerprint) {
            Some(Some(lsn)) => promise.judge(lsn).map(|()| Checked::default()),
            _ => {
                let (lsn, recall) = self.resume(state, promise)?;
                self.seen.note(fingerprint, Some(lsn));
                Ok(Checked { states: 1, recall })
            }
        }
    }

    /// Another process goes on with what a crash left; returns how many writes it found.
    fn resume(&self, state: &Content, promise: &Promise) -> Result<(u64, Recall), Violation> {
        let Beyond { made, network, contents, .. } = *self;
        let disk = Disk::holding(state, 1);
        let names: Vec<&String> = state.keys().collect();
        let (restore, store) = directory(&disk, network, contents, 1)
            .map_err(|e| refused(format!("does not go on with {names:?}: {e}")))?;
        let engine =
            open(store).map_err(|e| refused(format!("does not open with {names:?}: {e}")))?;
        let lsn = compare(&engine, promise, &made.script)?;
        let recall = answers::ask(&engine, &made.script, lsn, QUERIES)?;
        if let Some(restore) = restore {
            while restore.fetch_next().map_err(|e| refused(format!("does not end: {e}")))? {}
        }
        disk.kill(|| drop(engine));
        let engine = check::open(&disk).map_err(|e| refused(format!("does not open here: {e}")))?;
        compare(&engine, &Promise { made: true, lsn: lsn..=lsn }, &made.script)?;
        disk.kill(|| drop(engine));
        Ok((lsn, recall))
    }
}

fn open_patiently(store: &FileStore) -> Result<Engine, Violation> {
    for _ in 0..PATIENCE {
        match open(store.clone()) {
            Ok(engine) => return Ok(engine),
            Err(error) if error.kind() == vstream_engine::ErrorKind::Unavailable => {}
            Err(error) => return Err(refused(format!("does not open far away: {error}"))),
        }
    }
    Err(refused("does not open: no answer ever"))
}

/// Errors: an engine has other rows than were pushed, or answers otherwise. That it cannot read
/// them is as good: a segment is read when its rows are asked for.
fn right(made: &Made, engine: &Engine, what: &str) -> Result<(), Violation> {
    let differs = |found: &Violation| {
        Violation::new(Breach::Undetected, format!("{what}: it opens and {}", found.what))
    };
    if lsn_of(engine) != WRITES {
        let what = format!("{what}: it opens with {} writes of {WRITES}", lsn_of(engine));
        return Err(Violation::new(Breach::Undetected, what));
    }
    if let Ok(Some(violation)) = unlike(engine, &made.script, WRITES) {
        return Err(differs(&violation));
    }
    match answers::ask(engine, &made.script, WRITES, QUERIES) {
        Err(violation) if violation.breach != Breach::Unread => Err(differs(&violation)),
        _ => Ok(()),
    }
}

/// Flips bits on the way, then at rest.
fn damage(
    made: &Made,
    network: &Network,
    contents: &Contents,
    random: &mut SplitMix,
    travelled: &mut Travelled,
) -> Result<(), Violation> {
    for _ in 0..4 {
        flip_on_the_way(made, network, contents, random)?;
    }
    for _ in 0..20 {
        let file = &contents.files[random.below(contents.files.len())];
        if file.bytes > 0 {
            travelled.flips += 1;
            flip_at_rest(made, network, contents, file, random)?;
        }
    }
    Ok(())
}

fn flip_on_the_way(
    made: &Made,
    network: &Network,
    contents: &Contents,
    random: &mut SplitMix,
) -> Result<(), Violation> {
    network.set(Weather { flips_percent: 5 + random.below(60), ..Weather::default() });
    let disk = Disk::holding(&Content::new(), random.next());
    if let Ok((Some(restore), store)) = directory(&disk, network, contents, random.next()) {
        if let Ok(engine) = open(store) {
            right(made, &engine, "flips on the way")?;
            disk.kill(|| drop(engine));
        }
        while matches!(restore.fetch_next(), Ok(true)) {}
    }
    network.set(Weather::default());
    for (name, bytes) in disk.content() {
        // The engine that was opened may have written these anew.
        if name == "COLLECTION" || name.starts_with("log-") {
            continue;
        }
        let pushed = contents.files.iter().find(|file| file.name == name);
        if pushed.is_some_and(|file| xxhash_rust::xxh3::xxh3_128(&bytes) != file.checksum) {
            let what = format!("{name} was fetched with flipped bits");
            return Err(Violation::new(Breach::Undetected, what));
        }
    }
    Ok(())
}

fn flip_at_rest(
    made: &Made,
    network: &Network,
    contents: &Contents,
    file: &PushedFile,
    random: &mut SplitMix,
) -> Result<(), Violation> {
    let good = network.objects().content()[&file.object()].to_vec();
    let mut bad = good.clone();
    let bit = random.below(bad.len() * 8);
    bad[bit / 8] ^= 1 << (bit % 8);
    network.objects().set(&file.object(), &bad);
    let what = format!("bit {bit} of {} at rest", file.name);
    if file.verify(&network.store(1)).is_ok() {
        return Err(Violation::new(Breach::Undetected, what));
    }
    let disk = Disk::holding(&Content::new(), 1);
    if let Ok((Some(restore), store)) = directory(&disk, network, contents, 1) {
        if let Ok(engine) = open(store) {
            right(made, &engine, &what)?;
            disk.kill(|| drop(engine));
        }
        while matches!(restore.fetch_next(), Ok(true)) {}
        if disk.content().get(&file.name).is_some_and(|bytes| **bytes == bad) {
            return Err(Violation::new(Breach::Undetected, format!("{what}: fetched")));
        }
    }
    network.objects().set(&file.object(), &good);
    Ok(())
}
