//! Which files make the state of a durable engine: the bytes of `COLLECTION`. Little-endian.
//!
//! ```text
//! header 152 B: magic "VSTRCOLL" | u32 format | u32 dimension | u8 metric | u8 element | u8 index
//!               | u8 durability | u32 interval in ms | f64 recall target | u64 seed
//!               | u64 log bytes max | u64 collection | u64 generation
//!               | u64 number of the base image, 0 for none | u64 its LSN | u64 its rows
//!               | u128 its digest | u64 XXH3-64 of its manifest | u64 LSN known to be on the disk
//!               | u64 rows then | u128 digest then | u64 logs
//! logs:         u64 number, ascending
//! footer 8 B:   u64 XXH3-64 of all before
//! ```

use std::path::Path;
use std::time::Duration;

use vstream_store::{Access, FileStore, Range, Store};
use vstream_vector::{Element, Metric};
use xxhash_rust::xxh3::xxh3_64;

use super::files::COLLECTION;
use super::format::{u32_at, u64_at, LogIdentity};
use super::settings::{Durability, Journaling};
use super::state::State;
use super::writer::Spare;
use crate::error::Error;
use crate::settings::{IndexKind, Settings, DIMENSION_MAX};

const MAGIC: &[u8; 8] = b"VSTRCOLL";
const FORMAT: u32 = 1;
const HEADER: usize = 152;
/// Generations, LSNs, rows and numbers of files stay below.
const COUNT_MAX: u64 = 1 << 62;
/// Logs that a checkpoint has not covered yet: there are two or three.
const LOGS_MAX: u64 = 1 << 16;

/// A base image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    pub(crate) number: u64,
    /// Of the moment whose rows it holds.
    pub(crate) state: State,
    /// Of the image's own manifest.
    pub(crate) checksum: u64,
}

/// The settings of a durable engine and the files that make its state.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Manifest {
    pub(crate) settings: Settings,
    pub(crate) journaling: Journaling,
    /// Drawn when the collection was made; binds its logs to it.
    pub(crate) collection: u64,
    /// Counts publications.
    pub(crate) generation: u64,
    pub(crate) base: Option<Base>,
    /// What was on the disk when this was written: recovery must not end before.
    pub(crate) known: State,
    /// Logs after the base, in order.
    pub(crate) logs: Vec<u64>,
}

impl Manifest {
    /// Makes the first log of a collection and publishes the manifest that names it.
    pub(crate) fn create(
        store: &FileStore,
        settings: Settings,
        journaling: Journaling,
        collection: u64,
    ) -> Result<Manifest, Error> {
        Spare::create(store, LogIdentity { collection, number: 1 }, 0)?;
        let known = State::default();
        let (base, logs) = (None, vec![1]);
        let mut made =
            Manifest { settings, journaling, collection, generation: 0, base, known, logs };
        made.publish(store)?;
        Ok(made)
    }

    /// The newest number of a base or log.
    pub(super) fn last_log(&self) -> u64 {
        self.logs.last().copied().unwrap_or(0)
    }

    /// Publishes it as the next generation.
    pub(super) fn publish(&mut self, store: &dyn Store) -> Result<(), Error> {
        self.generation += 1;
        Ok(store.replace(COLLECTION, &self.encode())?)
    }

    /// Reads the published one. Errors: `Io`, `Corrupt`, `Unsupported`.
    pub(crate) fn read(store: &dyn Store) -> Result<Manifest, Error> {
        let file = store.open(COLLECTION, Access::Cached)?;
        let path = Path::new(file.name());
        let bytes_max = HEADER as u64 + LOGS_MAX * 8 + 8;
        if !(HEADER as u64 + 8..=bytes_max).contains(&file.bytes()) {
            return Err(Error::corrupt(path, "too short or too long for a manifest"));
        }
        let bytes = file.read(Range { offset: 0, bytes: file.bytes() as usize })?;
        Manifest::decode(path, &bytes)
    }

    fn encode(&self) -> Vec<u8> {
        let Settings { dimension, metric, element, index, recall_target, seed, .. } = self.settings;
        let mut out = Vec::with_capacity(HEADER + self.logs.len() * 8 + 8);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&FORMAT.to_le_bytes());
        out.extend_from_slice(&(dimension as u32).to_le_bytes());
        let index = match index {
            IndexKind::Flat => 0,
            IndexKind::Cluster => 1,
        };
        let (durability, interval_ms) = match self.journaling.durability {
            Durability::Sync => (0, 0),
            Durability::Async { interval } => (1, interval.as_millis() as u32),
            Durability::None => (2, 0),
        };
        out.extend_from_slice(&[metric.tag(), element.tag(), index, durability]);
        out.extend_from_slice(&interval_ms.to_le_bytes());
        out.extend_from_slice(&recall_target.to_le_bytes());
        let base = self.base.unwrap_or(Base { number: 0, state: State::default(), checksum: 0 });
        let first = [seed, self.journaling.log_bytes_max, self.collection, self.generation];
        let image = [base.number, base.state.lsn, base.state.live];
        put(&mut out, &first);
        put(&mut out, &image);
        out.extend_from_slice(&base.state.digest.to_le_bytes());
        put(&mut out, &[base.checksum, self.known.lsn, self.known.live]);
        out.extend_from_slice(&self.known.digest.to_le_bytes());
        put(&mut out, &[self.logs.len() as u64]);
        debug_assert_eq!(out.len(), HEADER);
        put(&mut out, &self.logs);
        let checksum = xxh3_64(&out);
        put(&mut out, &[checksum]);
        out
    }

    fn decode(path: &Path, bytes: &[u8]) -> Result<Manifest, Error> {
        let corrupt = |what: &str| Error::corrupt(path, what);
        let (body, footer) = bytes.split_at(bytes.len() - 8);
        if xxh3_64(body) != u64_at(footer, 0) {
            return Err(corrupt("the checksum at its end does not match its content"));
        }
        if &body[..8] != MAGIC {
            return Err(corrupt("it does not begin as a file of ours"));
        }
        if u32_at(body, 8) != FORMAT {
            let (file, found) = (path.display(), u32_at(body, 8));
            return Err(Error::unsupported(format!(
                "{file} has format {found}, this version reads format {FORMAT}: use a newer version"
            )));
        }
        let logs: Vec<u64> = body[HEADER..].chunks_exact(8).map(|log| u64_at(log, 0)).collect();
        let counted = body.len() - HEADER == logs.len() * 8
            && u64_at(body, 144) == logs.len() as u64
            && !logs.is_empty()
            && logs.is_sorted_by(|a, b| a < b);
        if !counted {
            return Err(corrupt("its logs do not fit their number"));
        }
        let digest = |at| u128::from(u64_at(body, at)) | u128::from(u64_at(body, at + 8)) << 64;
        let state = |at| State {
            lsn: u64_at(body, at),
            live: u64_at(body, at + 8),
            digest: digest(at + 16),
        };
        // Numbers that were counted up from 1. Beyond this they were not, and could not be counted on.
        let counted = [56, 64, 72, 80, 112, 120].map(|at| u64_at(body, at));
        if counted.iter().chain(&logs).any(|&number| number >= COUNT_MAX) {
            return Err(corrupt("a number is larger than it can have become"));
        }
        let number = u64_at(body, 64);
        let base = Base { number, state: state(72), checksum: u64_at(body, 104) };
        Ok(Manifest {
            settings: decode_settings(body).ok_or_else(|| corrupt("a setting is out of range"))?,
            journaling: decode_journaling(body).ok_or_else(|| corrupt("unknown durability"))?,
            collection: u64_at(body, 48),
            generation: u64_at(body, 56),
            base: (number > 0).then_some(base),
            known: state(112),
            logs,
        })
    }
}

fn put(out: &mut Vec<u8>, words: &[u64]) {
    words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}

fn decode_settings(body: &[u8]) -> Option<Settings> {
    let dimension = u32_at(body, 12) as usize;
    let (metric, element) = (Metric::from_tag(body[16])?, Element::from_tag(body[17])?);
    if !(1..=DIMENSION_MAX).contains(&dimension) {
        return None;
    }
    let mut settings = Settings::new(dimension, metric, element);
    settings.index = match body[18] {
        0 => IndexKind::Flat,
        1 => IndexKind::Cluster,
        _ => return None,
    };
    settings.recall_target = f64::from_bits(u64_at(body, 24));
    settings.seed = u64_at(body, 32);
    settings.validate().ok()?;
    Some(settings)
}

fn decode_journaling(body: &[u8]) -> Option<Journaling> {
    let interval = Duration::from_millis(u64::from(u32_at(body, 20)));
    let durability = match body[19] {
        0 => Durability::Sync,
        1 => Durability::Async { interval },
        2 => Durability::None,
        _ => return None,
    };
    let log_bytes_max = u64_at(body, 40);
    let journaling = Journaling { durability, log_bytes_max, background: true };
    journaling.validate().ok()?;
    Some(journaling)
}
