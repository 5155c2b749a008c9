//! `kill -9` on a real process with threads, a real file system and a real log.
//!
//! The child writes the script of a seed and says after each commit how far it is. The parent
//! kills it at a random moment, also while it recovers, opens what is left and compares; damage
//! would add up, for the next child goes on in the same directory.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use vstream_engine::{Durability, Engine, Journaling};
use vstream_vector::SplitMix;

use crate::check::{lsn_of, settings, Breach, Violation};
use crate::script::{apply, rows_of, Script};

const IDS: usize = 400;
/// Small, so that a base image is under way at most kills.
const LOG_BYTES_MAX: u64 = 20_000;

/// The child: writes until it is killed. Errors: what the engine refused.
pub fn child(dir: &Path, seed: u64) -> Result<(), vstream_engine::Error> {
    let journaling =
        Journaling { durability: Durability::Sync, log_bytes_max: LOG_BYTES_MAX, background: true };
    let is_there = dir.join("COLLECTION").exists();
    let mut engine = if is_there {
        Engine::open(dir)?
    } else {
        Engine::create_in(dir, settings(seed), journaling)?
    };
    let mut script = Script::after(seed, IDS, lsn_of(&engine));
    let mut out = io::stdout();
    loop {
        // The parent reads whole lines; a pipe that nobody reads ends the child.
        if writeln!(out, "{}", script.lsn()).and_then(|()| out.flush()).is_err() {
            return Ok(());
        }
        for _ in 0..1 + script.lsn() % 4 {
            apply(&mut engine, script.step())?;
        }
        engine.commit()?;
    }
}

/// Kills `count` children of `program` (which calls [`child`] for `child DIR SEED`), one after the
/// other, in a directory of its own below `place`. Returns how many, all of them.
pub fn kill(program: &Path, place: &Path, seed: u64, count: u64) -> Result<u64, Violation> {
    let failed = |what: &str, e: io::Error| Violation::new(Breach::Refused, format!("{what}: {e}"));
    let dir = tempfile::tempdir_in(place).map_err(|e| failed("no directory", e))?;
    let copy = tempfile::tempdir_in(place).map_err(|e| failed("no directory", e))?;
    let mut random = SplitMix(seed);
    let mut acked = 0;
    for turn in 0..count {
        let mut command = Command::new(program);
        command.args(["child", &dir.path().display().to_string(), &seed.to_string()]);
        let spawned = command.stdout(Stdio::piped()).spawn();
        let mut process = spawned.map_err(|e| failed("cannot start the child", e))?;
        let mut lines = BufReader::new(process.stdout.take().expect("a pipe"));
        let mut told = String::new();
        if random.below(4) > 0 {
            for _ in 0..random.below(20) {
                let read = lines.read_line(&mut told);
                read.map_err(|e| failed("the child's pipe", e))?;
            }
        }
        std::thread::sleep(Duration::from_micros(random.below(3_000) as u64));
        let killed = process.kill().and_then(|()| process.wait());
        killed.map_err(|e| failed("cannot kill the child", e))?;
        let read = lines.read_to_string(&mut told);
        read.map_err(|e| failed("the child's pipe", e))?;
        // What comes after the last end of line was not told whole.
        let whole = told.rsplit_once('\n').map_or("", |(whole, _)| whole);
        acked = whole.lines().filter_map(|line| line.parse().ok()).next_back().unwrap_or(acked);
        if !dir.path().join("COLLECTION").exists() && acked == 0 {
            continue;
        }
        let looks_at = if turn % 2 == 0 {
            mirror(dir.path(), copy.path()).map_err(|e| failed("no copy", e))?;
            copy.path()
        } else {
            dir.path()
        };
        look(looks_at, seed, acked)
            .map_err(|v| Violation::new(v.breach, format!("kill {turn}: {}", v.what)))?;
    }
    Ok(count)
}

/// Opens what a child left and compares it with the script.
fn look(dir: &Path, seed: u64, acked: u64) -> Result<(), Violation> {
    let engine = Engine::open(dir)
        .map_err(|e| Violation::new(Breach::Refused, format!("does not open: {e}")))?;
    let lsn = lsn_of(&engine);
    if lsn < acked {
        return Err(Violation::new(Breach::Lost, format!("{acked} was acknowledged, {lsn} is")));
    }
    let found = rows_of(&engine).map_err(Violation::from)?;
    if found != *Script::after(seed, IDS, lsn).rows() {
        return Err(Violation::new(Breach::Ghost, format!("other rows after write {lsn}")));
    }
    Ok(())
}

fn mirror(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(to)? {
        fs::remove_file(entry?.path())?;
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}
