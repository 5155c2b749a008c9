//! Which files make the state of a durable engine: the bytes of `COLLECTION`. Little-endian.
//!
//! ```text
//! header 256 B: magic "VSTRCOLL" | u32 format | u32 dimension | u8 metric | u8 element | u8 index
//!               | u8 durability | u32 interval in ms | f64 recall target | u64 seed
//!               | u64 log bytes max | u64 collection | u64 generation
//!               | u64 number of the base image, 0 for none | u64 LSN of the base | u64 its rows
//!               | u128 its digest | u64 XXH3-64 of the image's manifest | u64 LSN known to be on
//!               the disk | u64 rows then | u128 digest then | u64 logs
//!               | u64 memory, 0 for no limit | u64 segments | u64 next number of a segment
//!               | u64 number of a log that is yet to be made, 0 for none
//!               | u64 memory for codes and 1, 0 for no limit
//!               | u64 in which order rows end: 0 any, 1 oldest first
//!               | sizes of the cluster index, u64 each: most and least rows of a leaf, rows of a batch,
//!               leaves of a reassignment, leaves of a node, jobs of a batch | u64 1 with a second look
//! logs:         u64 number, ascending
//! segments:     56 B each, those with the oldest rows first: u64 number | u64 bytes | u64 rows | u128 digest of them
//!               | u64 number of its marks, 0 for none | u64 rows marked
//! footer 8 B:   u64 XXH3-64 of all before
//! ```
//!
//! Format 3 did not have the sizes, format 2 neither the two words before, format 1 neither the four before
//! these nor segments.

#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Duration;

use vstream_index::ClusterSettings;
use vstream_store::{Access, FileStore, Range, Store};
use vstream_vector::{Element, Metric};
use xxhash_rust::xxh3::xxh3_64;

use crate::durability::{Durability, Journaling};
use crate::error::Error;
use crate::layout::COLLECTION;
use crate::settings::{DeleteOrder, IndexKind, Settings, DIMENSION_MAX};
use crate::tree::SegmentEntry;
use crate::wal::{LogIdentity, Spare, State};
use crate::words::{u128_at, u32_at, u64_at};

const MAGIC: &[u8; 8] = b"VSTRCOLL";
const FORMAT: u32 = 4;
/// Bytes of the header by format, from 1: the older ones are read for ever.
const HEADERS: [usize; FORMAT as usize] = [152, 184, CLUSTER, HEADER];
const HEADER: usize = 256;
/// Where the sizes of the cluster index begin.
const CLUSTER: usize = 200;
/// Generations, LSNs, rows and numbers of files stay below.
const COUNT_MAX: u64 = 1 << 62;
/// Logs that a checkpoint has not covered yet: there are two or three.
const LOGS_MAX: u64 = 1 << 16;
/// Segments are merged long before.
const SEGMENTS_MAX: u64 = 1 << 16;

/// A base image: all rows in one snapshot, for an engine that holds them in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) number: u64,
    /// Of the image's own manifest.
    pub(crate) checksum: u64,
}

/// What the logs go on from: an image, or segments, or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Base {
    /// Of the moment whose rows it holds.
    pub(crate) state: State,
    pub(crate) image: Option<Image>,
    pub(crate) segments: Vec<SegmentEntry>,
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
    pub(crate) base: Base,
    /// What was on the disk when this was written: recovery must not end before.
    pub(crate) known: State,
    /// Logs after the base, in order.
    pub(crate) logs: Vec<u64>,
    /// What the next segment or file of marks is called.
    pub(crate) next: u64,
    /// The log to go on in, which is not among the files yet: in a shared state.
    pub(crate) unmade: Option<u64>,
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
        let mut made = Manifest {
            settings,
            journaling,
            collection,
            generation: 0,
            base: Base::default(),
            known: State::default(),
            logs: vec![1],
            next: 1,
            unmade: None,
        };
        made.publish(store)?;
        Ok(made)
    }

    /// The newest number of a base or log.
    pub(crate) fn last_log(&self) -> u64 {
        self.logs.last().copied().unwrap_or(0)
    }

    /// Makes the log that a shared state leaves to whoever opens it.
    pub(crate) fn make_log(&mut self, store: &FileStore) -> Result<(), Error> {
        if let Some(number) = self.unmade.take() {
            let log = LogIdentity { collection: self.collection, number };
            Spare::create(store, log, self.known.lsn)?;
            self.logs.push(number);
            self.publish(store)?;
        }
        Ok(())
    }

    /// Publishes it as the next generation.
    ///
    /// Errors: `Unavailable` if it names more files than a manifest may, before anything is written.
    pub(crate) fn publish(&mut self, store: &dyn Store) -> Result<(), Error> {
        let (logs, segments) = (self.logs.len() as u64, self.base.segments.len() as u64);
        for (what, count, most) in [("logs", logs, LOGS_MAX), ("segments", segments, SEGMENTS_MAX)]
        {
            if count > most {
                return Err(Error::unavailable(format!(
                    "the collection has {count} {what}, {most} at most: take a checkpoint and wait \
                     until segments are merged"
                )));
            }
        }
        self.generation += 1;
        Ok(store.replace(COLLECTION, &self.encode())?)
    }

    /// Reads the published one. Errors: `Io`, `Corrupt`, `Unsupported`.
    pub(crate) fn read(store: &dyn Store) -> Result<Manifest, Error> {
        let file = store.open(COLLECTION, Access::Cached)?;
        let path = Path::new(file.name());
        let bytes_max =
            HEADER as u64 + LOGS_MAX * 8 + SEGMENTS_MAX * SegmentEntry::BYTES as u64 + 8;
        if !(HEADERS[0] as u64 + 8..=bytes_max).contains(&file.bytes()) {
            return Err(Error::corrupt(path, "too short or too long for a manifest"));
        }
        let bytes = file.read(Range { offset: 0, bytes: file.bytes() as usize })?;
        Manifest::decode(path, &bytes)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let Settings { dimension, metric, element, index, recall_target, seed, .. } = self.settings;
        let segments = &self.base.segments;
        let length = HEADER + self.logs.len() * 8 + segments.len() * SegmentEntry::BYTES + 8;
        let mut out = Vec::with_capacity(length);
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
        let (state, known) = (&self.base.state, &self.known);
        let image = self.base.image.unwrap_or(Image { number: 0, checksum: 0 });
        put(&mut out, &[seed, self.journaling.log_bytes_max, self.collection, self.generation]);
        put(&mut out, &[image.number, state.lsn, state.live]);
        out.extend_from_slice(&state.digest.to_le_bytes());
        put(&mut out, &[image.checksum, known.lsn, known.live]);
        out.extend_from_slice(&known.digest.to_le_bytes());
        put(&mut out, &[self.logs.len() as u64, self.settings.memory.unwrap_or(0)]);
        put(&mut out, &[segments.len() as u64, self.next, self.unmade.unwrap_or(0)]);
        let order = match self.settings.deletes {
            DeleteOrder::Any => 0,
            DeleteOrder::OldestFirst => 1,
        };
        let code_memory = self.settings.code_memory.map_or(0, |bytes| bytes.saturating_add(1));
        put(&mut out, &[code_memory, order]);
        put_cluster(&mut out, &self.settings.cluster);
        debug_assert_eq!(out.len(), HEADER);
        put(&mut out, &self.logs);
        segments.iter().for_each(|segment| segment.put(&mut out));
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
        let format = u32_at(body, 8);
        if !(1..=FORMAT).contains(&format) {
            let file = path.display();
            return Err(Error::unsupported(format!(
                "{file} has format {format}, this version reads format {FORMAT}: use a newer version"
            )));
        }
        let header = HEADERS[format as usize - 1];
        // What a format did not have: no limits, no segments, the first number, no log to be made,
        // rows that end in any order.
        let word = |at| if at < header { u64_at(body, at) } else { u64::from(at == 168) };
        if body.len() < header {
            return Err(corrupt("too short for a manifest"));
        }
        let (logs, segments) = (u64_at(body, 144), word(160));
        let fits = logs <= LOGS_MAX
            && segments <= SEGMENTS_MAX
            && (body.len() - header) as u64 == logs * 8 + segments * SegmentEntry::BYTES as u64;
        if !fits {
            return Err(corrupt("its logs and segments do not fit their numbers"));
        }
        let (logs, segments) = body[header..].split_at(logs as usize * 8);
        let logs: Vec<u64> = logs.chunks_exact(8).map(|log| u64_at(log, 0)).collect();
        let unmade = Some(word(176)).filter(|&number| number > 0);
        let in_order = logs.iter().chain(&unmade).is_sorted_by(|a, b| a < b);
        if !in_order || (logs.is_empty() && unmade.is_none()) {
            return Err(corrupt("its logs are out of order, or there is none"));
        }
        let segments = segments.chunks_exact(SegmentEntry::BYTES).map(SegmentEntry::decode);
        let state = |at| State {
            lsn: u64_at(body, at),
            live: u64_at(body, at + 8),
            digest: u128_at(body, at + 16),
        };
        // Numbers that were counted up from 1. Beyond this they were not, and could not be counted on.
        let counted =
            [56, 64, 72, 80, 112, 120, 168]
                .map(|at| if at < 168 { u64_at(body, at) } else { word(at) });
        if counted.iter().chain(&logs).chain(&unmade).any(|&number| number >= COUNT_MAX) {
            return Err(corrupt("a number is larger than it can have become"));
        }
        let image = Image { number: u64_at(body, 64), checksum: u64_at(body, 104) };
        let settings =
            decode_settings(body, &word).ok_or_else(|| corrupt("a setting is out of range"))?;
        Ok(Manifest {
            settings,
            journaling: decode_journaling(body).ok_or_else(|| corrupt("unknown durability"))?,
            collection: u64_at(body, 48),
            generation: u64_at(body, 56),
            base: Base {
                state: state(72),
                image: (image.number > 0).then_some(image),
                segments: segments.collect(),
            },
            known: state(112),
            logs,
            next: word(168),
            unmade,
        })
    }
}

fn put(out: &mut Vec<u8>, words: &[u64]) {
    words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}

fn put_cluster(out: &mut Vec<u8>, of: &ClusterSettings) {
    let rows = [of.leaf_rows_max, of.leaf_rows_min, of.batch_rows];
    let work = [of.reassign_leaves, of.node_leaves_max, of.jobs_per_batch];
    put(out, &rows.map(|size| size as u64));
    put(out, &work.map(|size| size as u64));
    put(out, &[u64::from(of.second_look)]);
}

/// The sizes in a header that has them.
fn cluster_of(body: &[u8]) -> Option<ClusterSettings> {
    let size = |at: usize| usize::try_from(u64_at(body, CLUSTER + at * 8)).ok();
    Some(ClusterSettings {
        leaf_rows_max: size(0)?,
        leaf_rows_min: size(1)?,
        batch_rows: size(2)?,
        reassign_leaves: size(3)?,
        node_leaves_max: size(4)?,
        jobs_per_batch: size(5)?,
        second_look: match size(6)? {
            0 => false,
            1 => true,
            _ => return None,
        },
    })
}

/// * `word`: at an offset of the newest format, whatever the format of `body`.
fn decode_settings(body: &[u8], word: &dyn Fn(usize) -> u64) -> Option<Settings> {
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
    settings.memory = Some(word(152)).filter(|&bytes| bytes > 0);
    settings.code_memory = word(184).checked_sub(1);
    settings.deletes = match word(192) {
        0 => DeleteOrder::Any,
        1 => DeleteOrder::OldestFirst,
        _ => return None,
    };
    // From format 4 on.
    if u32_at(body, 8) >= 4 {
        settings.cluster = cluster_of(body)?;
    }
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
