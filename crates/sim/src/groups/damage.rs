//! Changed bytes of a group store at rest: each is an error, or changes no row.

use std::sync::Arc;

use vstream_vector::SplitMix;

use super::compare::{compare, refused};
use super::crash::open;
use super::history::History;
use crate::check::{guarded, Breach, Violation};
use crate::disk::{Content, Disk};

/// Writes before the store is damaged: several runs, and a log with frames.
const WRITES: u64 = 700;
/// Writes between two commits, and between two flushes.
const COMMIT_EVERY: u64 = 9;
const FLUSH_EVERY: u64 = 230;

/// What was changed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Changed {
    /// Changes in all.
    pub changes: u64,
    /// Of those, the ones that an error told of.
    pub told: u64,
}

/// Flips single bits, cuts files and swaps them with those of another store, `count` of each; opens
/// what is left and reads all of it.
///
/// Errors: a change that is no error and changed a row.
pub fn change_bytes(seed: u64, count: u64) -> Result<Changed, Violation> {
    guarded(|| {
        let (history, content) = made(seed)?;
        let (_, foreign) = made(seed + 3 * 1024)?;
        let (mut random, mut changed) = (SplitMix(seed ^ 0xda3a9e), Changed::default());
        let names: Vec<&String> = content.keys().collect();
        for turn in 0..3 * count {
            let mut bad = content.clone();
            // Every file gets as many changes, however short it is.
            let name = names[random.below(names.len())];
            let file = Arc::make_mut(bad.get_mut(name).expect("a file"));
            let at = random.below(file.len());
            let what = match turn % 3 {
                0 => {
                    file[at] ^= 1 << random.below(8);
                    format!("a bit at {at} of {name}")
                }
                1 => {
                    file.truncate(at);
                    format!("{name} is cut at {at}")
                }
                _ => match foreign.get(name).filter(|other| other.as_slice() != file.as_slice()) {
                    Some(other) => {
                        *file = other.to_vec();
                        format!("{name} of another store")
                    }
                    None => {
                        bad.remove(name);
                        format!("{name} is gone")
                    }
                },
            };
            changed.changes += 1;
            changed.told += u64::from(is_told(&history, &bad, name, &what)?);
        }
        Ok(changed)
    })
}

/// A store with runs and a log, left without a last commit.
fn made(seed: u64) -> Result<(History, Content), Violation> {
    let mut history = History::new(seed);
    history.extend_to(WRITES);
    let disk = Disk::holding(&Content::new(), seed);
    let mut store = open(&disk, &history).map_err(|e| refused("cannot be made", e))?;
    for number in 1..=WRITES {
        let done = history.apply(&mut store, number).and_then(|()| match number {
            number if number.is_multiple_of(FLUSH_EVERY) => store.flush(),
            number if number.is_multiple_of(COMMIT_EVERY) => store.commit(),
            _ => Ok(()),
        });
        done.map_err(|e| refused("cannot be written", e))?;
    }
    store.commit().map_err(|e| refused("cannot be committed", e))?;
    compare(&store, &history, WRITES..=WRITES)?;
    Ok((history, disk.content()))
}

/// True if an error tells of the change; otherwise the rows must be right. A log may lose its last
/// frames, as in a crash: nothing behind them says that they were synced.
fn is_told(history: &History, bad: &Content, name: &str, what: &str) -> Result<bool, Violation> {
    let undetected =
        |found: &str| Violation::new(Breach::Undetected, format!("{what}: it opens and {found}"));
    let Ok(store) = open(&Disk::holding(bad, 1), history) else { return Ok(true) };
    let from = match name {
        // Everything but what the log holds is in runs; frames before a later one were synced.
        log if log.starts_with("log-") => WRITES / FLUSH_EVERY * FLUSH_EVERY,
        _ => WRITES,
    };
    match compare(&store, history, from..=WRITES) {
        Ok(_) => Ok(false),
        // The store refuses to read what was changed.
        Err(violation) if matches!(violation.breach, Breach::Refused | Breach::Unread) => Ok(true),
        Err(violation) => Err(undetected(&violation.what)),
    }
}
