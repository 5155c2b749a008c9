//! `kill -9` on a real process with threads, a real file system and a real log.
//!
//! The child writes the script of a seed and says after each commit how far it is. The parent
//! kills it at a random moment, also while it recovers, opens what is left and compares; damage
//! would add up, for the next child goes on in the same directory.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::time::Duration;

use vstream_engine::{Defect, Durability, Engine, Journaling};
use vstream_vector::SplitMix;

use crate::answers::{self, Recall};
use crate::check::{compare, guarded, lsn_of, Breach, Violation};
use crate::crash::Promise;
use crate::reads;
use crate::script::{adjust, settings, Script, Shape};

/// Small, so that a base image or a segment is under way at most kills.
const LOG_BYTES_MAX: u64 = 20_000;
/// Writes of a commit while every id is written once.
const LOAD_WRITES: u64 = 200;
/// What the child is killed by.
const SIGKILL: i32 = 9;
/// How long a child may take for one commit: one that takes longer waits for what never comes.
const PATIENCE: Duration = Duration::from_secs(30);
/// Exact and approximate queries after each kill.
const QUERIES: (usize, usize) = (1, 4);

/// The child: writes until it is killed. Errors: what the engine refused.
pub fn child(dir: &Path, seed: u64) -> Result<(), vstream_engine::Error> {
    let journaling =
        Journaling { durability: Durability::Sync, log_bytes_max: LOG_BYTES_MAX, background: true };
    let is_there = dir.join("COLLECTION").exists();
    let mut engine = if is_there {
        Engine::builder().dir(dir).adjust(&mut |settings, _| adjust(settings)).open()?
    } else {
        Engine::builder().dir(dir).journaling(journaling).create(settings(seed))?
    };
    let ids = Shape::of(seed).ids();
    let (mut script, mut lsn) = (Script::new(seed, ids), lsn_of(&engine));
    let mut out = io::stdout();
    loop {
        // The parent reads whole lines; a pipe that nobody reads ends the child.
        if writeln!(out, "{lsn}").and_then(|()| out.flush()).is_err() {
            return Ok(());
        }
        let writes = if lsn < ids as u64 { LOAD_WRITES } else { 1 + lsn % 4 };
        script.extend_to(lsn + writes);
        for _ in 0..writes {
            script.apply(&mut engine, lsn + 1)?;
            lsn += 1;
        }
        engine.commit()?;
    }
}

/// Children that are killed one after the other, in a directory of their own.
pub struct Killer<'a> {
    /// Which calls [`child`] for `child DIR SEED [DEFECT]`.
    pub program: &'a Path,
    /// Where the directory is made.
    pub place: &'a Path,
    /// Of the writes and the moments.
    pub seed: u64,
    /// What is wrong with the children, if anything.
    pub defect: Option<Defect>,
}

/// What was killed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Killed {
    /// Processes that this one ended with signal 9; there was no other death.
    pub kills: u64,
    /// Rows of approximate answers afterwards.
    pub recall: Recall,
}

impl Killer<'_> {
    /// Kills `count` children. Errors: a promise was broken, or a child died otherwise.
    pub fn run(&self, count: u64) -> Result<Killed, Violation> {
        guarded(|| self.kill_all(count))
    }

    fn kill_all(&self, count: u64) -> Result<Killed, Violation> {
        let dir = tempfile::tempdir_in(self.place).map_err(|e| failed("no directory", &e))?;
        let copy = tempfile::tempdir_in(self.place).map_err(|e| failed("no directory", &e))?;
        let mut random = SplitMix(self.seed);
        let mut script = Script::new(self.seed, Shape::of(self.seed).ids());
        let (mut killed, mut acked) = (Killed::default(), 0);
        for turn in 0..count {
            let told = self.kill(dir.path(), &mut random)?;
            acked = acknowledged(acked, &told)
                .map_err(|v| Violation::new(v.breach, format!("kill {turn}: {}", v.what)))?;
            killed.kills += 1;
            if !dir.path().join("COLLECTION").exists() && acked == 0 {
                continue;
            }
            let looks_at = if turn % 2 == 0 {
                mirror(dir.path(), copy.path()).map_err(|e| failed("no copy", &e))?;
                copy.path()
            } else {
                dir.path()
            };
            let seen = look(looks_at, &mut script, acked)
                .map_err(|v| Violation::new(v.breach, format!("kill {turn}: {}", v.what)))?;
            killed.recall.add(seen);
        }
        Ok(killed)
    }

    /// Starts a child and kills it at some moment; returns what it said: the writes that it
    /// recovered, and those that it acknowledged.
    fn kill(&self, dir: &Path, random: &mut SplitMix) -> Result<Vec<u64>, Violation> {
        let (dir, seed) = (dir.display().to_string(), self.seed.to_string());
        let defect = self.defect.map(|defect| format!("{defect:?}"));
        let mut arguments = vec!["child", &dir, &seed];
        arguments.extend(defect.as_deref());
        kill_after(self.program, &arguments, random)
    }
}

/// Starts a program with these arguments and kills it at some moment; returns the numbers that it
/// said.
///
/// Errors: it ended by itself, or said nothing for long.
pub(crate) fn kill_after(
    program: &Path,
    arguments: &[&str],
    random: &mut SplitMix,
) -> Result<Vec<u64>, Violation> {
    let mut command = Command::new(program);
    let spawned = command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut process = spawned.map_err(|e| failed("cannot start the child", &e))?;
    let lines = lines_of(process.stdout.take().expect("a pipe"));
    let mut told = Vec::new();
    let mut is_silent = false;
    if random.below(4) > 0 {
        for _ in 0..random.below(20) {
            match lines.recv_timeout(PATIENCE) {
                Ok(line) => told.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    is_silent = true;
                    break;
                }
            }
        }
    }
    std::thread::sleep(Duration::from_micros(random.below(3_000) as u64));
    let ended = process.kill().and_then(|()| process.wait());
    let ended = ended.map_err(|e| failed("cannot kill the child", &e))?;
    if ended.signal() != Some(SIGKILL) {
        let mut said = String::new();
        // Best effort: how it ended is told in any case.
        let _ = process.stderr.take().expect("a pipe").read_to_string(&mut said);
        let what = format!("a child ended by itself with {ended}: {}", said.trim());
        return Err(Violation::new(Breach::Refused, what));
    }
    if is_silent {
        let what = format!("a child acknowledged nothing for {} s", PATIENCE.as_secs());
        return Err(Violation::new(Breach::Refused, what));
    }
    told.extend(lines.iter());
    Ok(told)
}

/// The writes that are promised after a child that had `acked` behind it and `told` these.
///
/// Errors: it recovered fewer. It writes the same script again, so only what it says shows that.
pub(crate) fn acknowledged(acked: u64, told: &[u64]) -> Result<u64, Violation> {
    if let Some(recovered) = told.first().filter(|&&recovered| recovered < acked) {
        let what = format!("a child recovered {recovered} writes, {acked} were acknowledged");
        return Err(Violation::new(Breach::Lost, what));
    }
    Ok(told.iter().copied().fold(acked, u64::max))
}

/// What a child says, line by line, until its pipe ends. A line without an end was not told whole.
fn lines_of(pipe: ChildStdout) -> Receiver<u64> {
    let (say, told) = channel();
    std::thread::spawn(move || {
        let mut lines = BufReader::new(pipe);
        let mut line = String::new();
        while lines.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            let whole = line.strip_suffix('\n').and_then(|line| line.parse().ok());
            let Some(acknowledged) = whole else { return };
            if say.send(acknowledged).is_err() {
                return;
            }
            line.clear();
        }
    });
    told
}

pub(crate) fn failed(what: &str, error: &io::Error) -> Violation {
    Violation::new(Breach::Refused, format!("{what}: {error}"))
}

/// Opens what a child left and compares it with the script.
fn look(dir: &Path, script: &mut Script, acked: u64) -> Result<Recall, Violation> {
    let mut engine = Engine::builder()
        .dir(dir)
        .adjust(&mut |settings, _| adjust(settings))
        .open()
        .map_err(|e| Violation::new(Breach::Refused, format!("does not open: {e}")))?;
    let lsn = lsn_of(&engine);
    script.extend_to(lsn);
    compare(&engine, &Promise { made: true, lsn: acked..=lsn }, script)?;
    reads::late(&mut engine, script, lsn)?;
    answers::ask(&engine, script, lsn, QUERIES)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A child whose recovery loses writes makes them again from the script: the directory is whole
    /// when the parent looks at it, and only the first line tells.
    #[test]
    fn a_child_that_recovers_less_than_was_acknowledged_has_lost_it() {
        let lost = acknowledged(700, &[600, 700, 900]).expect_err("100 writes are lost");
        assert_eq!(lost.breach, Breach::Lost);
        let promised = |acked, told: &[u64]| acknowledged(acked, told).expect("nothing is lost");
        assert_eq!(promised(0, &[]), 0);
        assert_eq!(promised(700, &[]), 700);
        assert_eq!(promised(700, &[702, 705]), 705);
    }
}
