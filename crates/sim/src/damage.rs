//! Changed bytes at rest: every change must be noticed, and none may reach an answer.

use std::sync::Arc;

use vstream_engine::{verify_store, Durability, Engine, Journaling};
use vstream_vector::SplitMix;

use crate::answers;
use crate::check::{lsn_of, open, store, unlike, Breach, Violation};
use crate::disk::{Content, Disk};
use crate::script::{settings, Script, Shape};

/// Ids and writes of the collection that is damaged: some segments with codes and marks, or a base
/// image of several parts, and logs.
const IDS: usize = 600;
const WRITES: u64 = 900;
/// Bytes of log at which a part of a base image is due.
const LOG_BYTES_MAX: u64 = 12_000;
/// One flip in this many is also opened.
const OPENED_ONE_IN: u64 = 16;
/// Exact and approximate queries of what opens in spite of a change.
const QUERIES: (usize, usize) = (2, 4);

/// A collection at rest, closed, with segments or a base image, and a log after them.
pub struct AtRest {
    /// Its files.
    pub content: Content,
    script: Script,
    /// The files of another collection with the same settings.
    foreign: Content,
    /// The files before it was closed.
    unclosed: Content,
    /// Writes before its last group then: no damage may hide them.
    sure: u64,
}

/// A collection, from its files before and after it was closed to what must be in it.
fn made(seed: u64) -> Result<AtRest, Violation> {
    let failed = |e| Violation::new(Breach::Refused, format!("cannot be made: {e}"));
    let disk = Disk::holding(&Content::new(), seed);
    let mut journaling =
        Journaling { durability: Durability::Sync, background: false, ..Journaling::default() };
    if !Shape::of(seed).has_segments {
        journaling.log_bytes_max = LOG_BYTES_MAX;
    }
    let engine = Engine::builder()
        .store(store(&disk))
        .collection(seed)
        .journaling(journaling)
        .create(settings(seed));
    let mut engine = engine.map_err(failed)?;
    let mut script = Script::new(seed, IDS);
    script.extend_to(WRITES);
    let mut committed = [0; 2];
    for write in 1..=WRITES {
        script.apply(&mut engine, write).map_err(failed)?;
        if write % 7 == 0 {
            engine.commit().map_err(failed)?;
            committed = [committed[1], write];
        }
        if write == WRITES * 2 / 3 {
            engine.checkpoint().map_err(failed)?;
        }
    }
    let unclosed = disk.content();
    engine.close().map_err(failed)?;
    let content = disk.content();
    Ok(AtRest { content, script, foreign: Content::new(), unclosed, sure: committed[0] })
}

impl AtRest {
    /// The collection of `seed`.
    pub fn new(seed: u64) -> Result<AtRest, Violation> {
        // Settings go by the lowest three bits: what differs is the identity, and the writes.
        Ok(AtRest { foreign: made(seed ^ (u64::MAX - 7))?.content, ..made(seed)? })
    }

    /// Flips single bits, `count` of them, evenly over all bytes; returns how many.
    ///
    /// Some are also opened: that must fail, or give the right rows and answers.
    pub fn flip_bits(&self, start: u64, count: u64) -> Result<u64, Violation> {
        let disk = Disk::holding(&self.content, 0);
        let bits: u64 = self.content.values().map(|bytes| bytes.len() as u64 * 8).sum();
        let stride = stride_over(bits);
        for turn in start..start + count {
            let mut bit = ((turn as u128 * stride as u128) % bits as u128) as u64;
            let mut files = self.content.iter();
            let (name, bytes) = loop {
                let (name, bytes) = files.next().expect("a bit of a file");
                match bit.checked_sub(bytes.len() as u64 * 8) {
                    Some(left) => bit = left,
                    None => break (name, bytes),
                }
            };
            let at = bit as usize / 8;
            disk.poke(name, at, &[bytes[at] ^ (1 << (bit % 8))]);
            self.judge(&disk, turn % OPENED_ONE_IN == 0, &format!("bit {bit} of {name}"))?;
            disk.poke(name, at, &bytes[at..=at]);
        }
        Ok(count)
    }

    /// Flips `count` bits drawn by `seed` in the logs of the collection as it was before it was
    /// closed: damage in the middle must not pass for the torn end of a crash.
    pub fn flip_unclosed(&self, seed: u64, count: u64) -> Result<u64, Violation> {
        let mut random = SplitMix(seed);
        for _ in 0..count {
            let mut content = self.unclosed.clone();
            let logs = content.iter_mut().filter(|(name, _)| name.starts_with("log-"));
            let (name, bytes) = logs.last().expect("a log");
            let bit = random.below(bytes.len() * 8);
            Arc::make_mut(bytes)[bit / 8] ^= 1 << (bit % 8);
            let what = format!("bit {bit} of {name}, not closed");
            if let Ok(engine) = open(&Disk::holding(&content, 0)) {
                let (lsn, sure) = (lsn_of(&engine), self.sure);
                if !(sure..=WRITES).contains(&lsn) {
                    let what = format!("{what}: it opens with {lsn} writes, {sure} were sure");
                    return Err(Violation::new(Breach::Undetected, what));
                }
                self.compare(&engine, lsn, &what)?;
            }
        }
        Ok(count)
    }

    /// Cuts, extends, zeroes, swaps, exchanges and removes: `count` changes drawn by `seed`.
    pub fn mangle(&self, seed: u64, count: u64) -> Result<u64, Violation> {
        let mut random = SplitMix(seed);
        let mut done = 0;
        while done < count {
            let mut content = self.content.clone();
            let names: Vec<String> = content.keys().cloned().collect();
            let name = &names[random.below(names.len())];
            let what = self.change(&mut content, name, &mut random);
            if content == self.content {
                continue;
            }
            self.judge(&Disk::holding(&content, 0), true, &format!("{what} of {name}"))?;
            done += 1;
        }
        Ok(done)
    }

    fn change(&self, content: &mut Content, name: &str, random: &mut SplitMix) -> &'static str {
        let file = content.get_mut(name).expect("a file of it");
        let bytes = Arc::make_mut(file);
        let length = bytes.len();
        let block = (1 + random.below(512)).min(length);
        let at = random.below(length - block + 1);
        match random.below(8) {
            0 => {
                bytes.truncate(random.below(length));
                "a cut"
            }
            1 => {
                bytes.extend((0..block).map(|_| random.next() as u8));
                "bytes at the end"
            }
            2 => {
                bytes[at..at + block].fill(0);
                "zeros inside"
            }
            3 => {
                bytes[at..at + block].iter_mut().for_each(|byte| *byte = random.next() as u8);
                "noise inside"
            }
            4 => {
                let other = random.below(length - block + 1);
                bytes.copy_within(other..other + block, at);
                "a misplaced block"
            }
            5 => {
                bytes.drain(at..at + block);
                "a missing block"
            }
            6 => {
                content.remove(name);
                "the absence"
            }
            _ => {
                if let Some(foreign) = self.foreign.get(name) {
                    *file = foreign.clone();
                }
                "another collection's"
            }
        }
    }

    fn judge(&self, disk: &Disk, opens: bool, what: &str) -> Result<(), Violation> {
        let verified = verify_store(&store(disk));
        if verified.is_ok_and(|verified| verified.findings.is_empty()) {
            return Err(Violation::new(Breach::Undetected, what));
        }
        if opens {
            let copy = Disk::holding(&disk.content(), 0);
            if let Ok(engine) = open(&copy) {
                self.compare(&engine, WRITES, what)?;
            }
        }
        Ok(())
    }

    /// Errors: what opened in spite of a change has other rows than after `lsn` writes, or answers
    /// otherwise. That it cannot read them is as good: a segment is read when its rows are asked
    /// for.
    fn compare(&self, engine: &Engine, lsn: u64, what: &str) -> Result<(), Violation> {
        let differs = |found: &Violation| {
            Violation::new(Breach::Undetected, format!("{what}: it opens and {}", found.what))
        };
        if let Ok(Some(violation)) = unlike(engine, &self.script, lsn) {
            return Err(differs(&violation));
        }
        match answers::ask(engine, &self.script, lsn, QUERIES) {
            Err(violation) if violation.breach != Breach::Unread => Err(differs(&violation)),
            _ => Ok(()),
        }
    }
}

/// Bits from one flip to the next, modulo all `bits`: the golden section spreads any number of
/// turns evenly, and without a common factor every bit comes once before any comes twice.
fn stride_over(bits: u64) -> u64 {
    let golden = (bits as f64 * 0.618_034) as u64;
    (golden..)
        .find(|&stride| common_factor(stride, bits) == 1)
        .expect("the next prime at the latest")
}

fn common_factor(a: u64, b: u64) -> u64 {
    match b {
        0 => a,
        _ => common_factor(b, a % b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flips_of_a_seed_leave_no_large_part_untouched() {
        for (bits, seed) in [(1_104_488, 0), (1_104_488, 43), (8 * 99_991, 512), (2_400_000, 7)] {
            let stride = stride_over(bits);
            assert_eq!(common_factor(stride, bits), 1);
            let turns = seed * 1_000..(seed + 1) * 1_000;
            let mut places: Vec<u64> = turns.map(|turn| turn * stride % bits).collect();
            places.sort_unstable();
            let largest = places.windows(2).map(|pair| pair[1] - pair[0]).max();
            assert!(largest.is_some_and(|gap| gap < 3 * bits / 1_000), "{bits}: {largest:?}");
        }
    }

    #[test]
    fn the_other_collection_has_the_same_settings() {
        for seed in 0..8 {
            let at_rest = AtRest::new(seed).expect("a collection");
            let other = seed ^ (u64::MAX - 7);
            assert_eq!(format!("{:?}", settings(seed)), format!("{:?}", settings(other)));
            assert_ne!(at_rest.content["COLLECTION"], at_rest.foreign["COLLECTION"]);
        }
    }
}
