//! The manifest: settings and files of a durable engine, and the bytes of `COLLECTION`.
//! Little-endian.
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
//!               | sizes of the cluster index, u64 each: most and least rows of a leaf, rows of a
//!               batch, leaves of a reassignment, leaves of a node, jobs of a batch
//!               | u64 1 with a second look, else 0
//!               in format 5 also: u64 bytes of the schema | u64 milliseconds for which deletes are
//!               remembered, 0 for not at all | u64 number of the file of those before the logs, 0
//!               for none
//!               in format 6 also: u64 intervals of leaves
//!               in format 7 also: u64 bytes of the origins
//!               in format 8 also: u64 parts of the base image, 0 if it has one or there is none
//!               | u64 runs of shards
//! logs:         u64 number, ascending
//! segments:     56 B each, those with the oldest rows first: u64 number | u64 bytes | u64 rows
//!               | u128 digest of them | u64 number of its delete bitmap, 0 for none
//!               | u64 rows deleted
//! intervals:    from format 6 on, 12 B each: u32 position of a segment in the list above | u32 first leaf and
//!               u32 leaf after the last that it serves, by position in its directory; ascending, and
//!               intervals of one segment do not meet
//! origins:      in format 7, of segments that were written for another collection, ascending:
//!               u32 position of the segment | u32 definers | u64 collection and u64 number under which it
//!               was written | definers, 16 B each, ascending: u64 number of a file there, u64 the number
//!               that stands for it here
//! parts:        in format 8, 24 B each, the oldest first: u64 number | u64 XXH3-64 of its manifest | u64 LSN;
//!               the header has number, checksum and LSN of the newest
//! runs:         in format 8, 4 B each: u16 first shard, u16 position of the part that serves it and those up
//!               to the next run; ascending from shard 0
//! schema:       from format 5 on, as in `vstream_attribute`
//! footer 8 B:   u64 XXH3-64 of all before
//! ```
//!
//! The index is 0 for flat, 1 for clusters, 2 for clusters of which merges make graphs.
//!
//! A segment without an interval serves all its leaves. Format 8 is written only if the base image has
//! several parts, format 7 only for another collection with an
//! origin, format 6 only for another collection with an interval, format 5 only for another collection that has a schema or remembers deletes, and format 4
//! for every other. Format 3 lacks the sizes of the cluster index and the second look. Format 2 also lacks the two
//! words before them. Format 1 also lacks the four words before those, and has no segments.

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use vstream_attribute::Schema;
use vstream_store::{Access, FileStore, Range, Store};
use vstream_vector::cursor::{ByteReader, Truncated};
use vstream_vector::{Element, Metric};
use xxhash_rust::xxh3::xxh3_64;

use super::cluster_sizes::{cluster_of, put_cluster, take_cluster};
use super::entry_lists::{
    origins_bytes, put_intervals, put_origins, put_parts, take_intervals, take_origins, take_parts,
    INTERVAL_BYTES, PART_BYTES, RUN_BYTES,
};
use crate::durability::{Durability, Journaling};
use crate::error::Error;
use crate::layout::COLLECTION;
use crate::records::checked;
use crate::settings::{DeleteOrder, IndexKind, SegmentIndex, Settings, DIMENSION_MAX};
use crate::snapshot::{Image, Part};
use crate::tree::{SegmentEntry, FILES_MAX};
use crate::wal::{LogIdentity, Spare, State};

const MAGIC: &[u8; 8] = b"VSTRCOLL";
/// The formats of a collection without a schema, of one with a schema, of one with a segment of which
/// some leaves are not served any more, of one with segments of other collections, and of one whose base
/// image has several parts: the newest.
const FORMAT_PLAIN: u32 = 4;
const FORMAT_SCHEMA: u32 = 5;
const FORMAT_INTERVALS: u32 = 6;
const FORMAT_ORIGINS: u32 = 7;
const FORMAT: u32 = 8;
/// Bytes of the header by format, from 1. Every version of the engine reads all older formats.
const HEADERS: [usize; FORMAT as usize] =
    [152, 184, 200, HEADER_PLAIN, HEADER_SCHEMA, HEADER_INTERVALS, HEADER_ORIGINS, HEADER];
const HEADER_PLAIN: usize = 256;
const HEADER_SCHEMA: usize = 280;
const HEADER_INTERVALS: usize = 288;
const HEADER_ORIGINS: usize = 296;
const HEADER: usize = 312;
/// Most bytes of a schema: 256 attributes with names of 128 bytes, and what stands before them.
const SCHEMA_BYTES_MAX: u64 = 64 << 10;
/// Generations, LSNs, row counts and file numbers stay below this.
const COUNT_MAX: u64 = 1 << 62;
/// Most logs in a manifest; a checkpoint usually leaves two or three.
const LOGS_MAX: u64 = 1 << 16;
/// Most segments in a manifest; compaction merges them long before.
const SEGMENTS_MAX: u64 = 1 << 16;
/// Most intervals of leaves in a manifest.
const INTERVALS_MAX: u64 = 1 << 20;
/// Most bytes of all origins of segments.
const ORIGINS_BYTES_MAX: u64 = 64 << 20;
/// Most parts of a base image, and most runs: there are as many shards.
const RUNS_MAX: u64 = 1 << 16;

/// The rows that the logs continue from: an image, segments, or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Base {
    /// State at the last write that the base may hold.
    pub(crate) state: State,
    /// For an engine that holds its rows in memory. The state is that of its newest part.
    pub(crate) image: Option<Image>,
    pub(crate) segments: Vec<SegmentEntry>,
    /// Number of the file of deletes that were remembered at that write; 0 for none.
    pub(crate) remembered: u64,
}

/// The settings of a durable engine and the files that make its state.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Manifest {
    pub(crate) settings: Settings,
    pub(crate) journaling: Journaling,
    /// Number of the collection, drawn at its creation. Its logs hold the same number.
    pub(crate) collection: u64,
    /// Number of publications so far.
    pub(crate) generation: u64,
    pub(crate) base: Base,
    /// State that was on the disk when this manifest was written. Recovery must not end before it.
    pub(crate) known: State,
    /// Logs after the base, in order.
    pub(crate) logs: Vec<u64>,
    /// Number of the next segment or delete bitmap.
    pub(crate) next: u64,
    /// In a shared state: number of the log to continue in, which is not among the files yet.
    pub(crate) unmade: Option<u64>,
}

impl Manifest {
    /// Makes the first log of a collection, and publishes the manifest that names it.
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

    /// Returns the number of the newest log.
    pub(crate) fn last_log(&self) -> u64 {
        self.logs.last().copied().unwrap_or(0)
    }

    /// Makes the log that a shared state leaves to the engine that opens it.
    pub(crate) fn make_log(&mut self, store: &FileStore) -> Result<(), Error> {
        if let Some(number) = self.unmade.take() {
            let log = LogIdentity { collection: self.collection, number };
            Spare::create(store, log, self.known.lsn)?;
            self.logs.push(number);
            self.publish(store)?;
        }
        Ok(())
    }

    /// Publishes this manifest as the next generation.
    ///
    /// Errors: `Unavailable`, before anything is written, if it names more files than a manifest
    /// may.
    pub(crate) fn publish(&mut self, store: &dyn Store) -> Result<(), Error> {
        let (logs, segments) = (self.logs.len() as u64, self.base.segments.len() as u64);
        let limits = [
            ("logs", logs, LOGS_MAX),
            ("segments", segments, SEGMENTS_MAX),
            ("intervals of leaves", self.intervals() as u64, INTERVALS_MAX),
            ("bytes of origins", origins_bytes(&self.base.segments) as u64, ORIGINS_BYTES_MAX),
        ];
        for (what, count, most) in limits {
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

    /// Reads the published manifest. Errors: `Io`, `Corrupt`, `Unsupported`.
    pub(crate) fn read(store: &dyn Store) -> Result<Manifest, Error> {
        let file = store.open(COLLECTION, Access::Cached)?;
        let path = Path::new(file.name());
        let bytes_max = HEADER as u64 + LOGS_MAX * 8 + SEGMENTS_MAX * SegmentEntry::BYTES as u64;
        let bytes_max = bytes_max + INTERVALS_MAX * INTERVAL_BYTES + ORIGINS_BYTES_MAX;
        let bytes_max = bytes_max + RUNS_MAX * (PART_BYTES + RUN_BYTES) + SCHEMA_BYTES_MAX + 8;
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
        let several = self.base.image.as_ref().filter(|image| !image.is_whole());
        let format = self.format();
        out.extend_from_slice(&format.to_le_bytes());
        out.extend_from_slice(&(dimension as u32).to_le_bytes());
        let index = match (index, self.settings.segments) {
            (IndexKind::Flat, _) => 0,
            (IndexKind::Cluster, SegmentIndex::Clusters) => 1,
            (IndexKind::Cluster, SegmentIndex::Graph) => 2,
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
        let newest = self.base.image.as_ref().map(|image| *image.newest()).unwrap_or_default();
        put(&mut out, &[seed, self.journaling.log_bytes_max, self.collection, self.generation]);
        put(&mut out, &[newest.number, state.lsn, state.live]);
        out.extend_from_slice(&state.digest.to_le_bytes());
        put(&mut out, &[newest.checksum, known.lsn, known.live]);
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
        debug_assert_eq!(out.len(), HEADER_PLAIN);
        let mut schema = Vec::new();
        if format >= FORMAT_SCHEMA {
            self.settings.schema.encode(&mut schema);
            let remembered_ms = self.settings.deletes_remembered.map_or(0, |time| time.as_millis());
            put(&mut out, &[schema.len() as u64, remembered_ms as u64, self.base.remembered]);
        }
        if format >= FORMAT_INTERVALS {
            put(&mut out, &[self.intervals() as u64]);
        }
        if format >= FORMAT_ORIGINS {
            put(&mut out, &[origins_bytes(segments) as u64]);
        }
        if let Some(image) = several {
            put(&mut out, &[image.parts().len() as u64, image.runs().len() as u64]);
        }
        put(&mut out, &self.logs);
        segments.iter().for_each(|segment| segment.put(&mut out));
        put_intervals(&mut out, segments);
        put_origins(&mut out, segments);
        several.iter().for_each(|image| put_parts(&mut out, image));
        out.extend_from_slice(&schema);
        let checksum = xxh3_64(&out);
        put(&mut out, &[checksum]);
        out
    }

    /// The oldest format that has all that there is.
    fn format(&self) -> u32 {
        let Base { image, segments, .. } = &self.base;
        if image.as_ref().is_some_and(|image| !image.is_whole()) {
            return FORMAT;
        }
        match (origins_bytes(segments), self.intervals(), self.is_plain()) {
            (0, 0, true) => FORMAT_PLAIN,
            (0, 0, false) => FORMAT_SCHEMA,
            (0, _, _) => FORMAT_INTERVALS,
            _ => FORMAT_ORIGINS,
        }
    }

    /// Number of intervals of leaves of all segments.
    fn intervals(&self) -> usize {
        self.base.segments.iter().map(|segment| segment.served.intervals().len()).sum()
    }

    /// True if the collection has nothing that format 4 lacks, beside intervals of leaves.
    fn is_plain(&self) -> bool {
        let Settings { schema, deletes_remembered, .. } = &self.settings;
        schema.is_plain() && deletes_remembered.is_none() && self.base.remembered == 0
    }

    fn decode(path: &Path, bytes: &[u8]) -> Result<Manifest, Error> {
        let corrupt = |what: &str| Error::corrupt(path, what);
        let truncated = |at| Error::truncated(path, at);
        let body = checked(bytes)
            .ok_or_else(|| corrupt("the checksum at its end does not match its content"))?;
        let mut input = ByteReader::new(body);
        let format = decode_format(path, &mut input)?;
        let length = HEADERS[format as usize - 1] - input.offset();
        let mut header = input.split(length).map_err(|_| corrupt("too short for a manifest"))?;
        let header = Header::take(&mut header).map_err(truncated)?;
        let Header { logs, segments, next, unmade, .. } = header;
        let fits = logs <= LOGS_MAX
            && segments <= SEGMENTS_MAX
            && header.schema_bytes <= SCHEMA_BYTES_MAX
            && header.intervals <= INTERVALS_MAX
            && header.origins_bytes <= ORIGINS_BYTES_MAX
            && header.parts.max(header.runs) <= RUNS_MAX
            && input.left() as u64
                == logs * 8
                    + segments * SegmentEntry::BYTES as u64
                    + header.intervals * INTERVAL_BYTES
                    + header.origins_bytes
                    + header.parts * PART_BYTES
                    + header.runs * RUN_BYTES
                    + header.schema_bytes;
        if !fits {
            return Err(corrupt("its logs and segments do not fit their numbers"));
        }
        let logs = (0..logs).map(|_| input.u64()).collect::<Result<Vec<_>, _>>();
        let logs = logs.map_err(truncated)?;
        let unmade = Some(unmade).filter(|&number| number > 0);
        let in_order = logs.iter().chain(&unmade).is_sorted_by(|a, b| a < b);
        if !in_order || (logs.is_empty() && unmade.is_none()) {
            return Err(corrupt("its logs are out of order, or there is none"));
        }
        let segments = (0..segments).map(|_| SegmentEntry::take(&mut input));
        let mut segments = segments.collect::<Result<Vec<_>, _>>().map_err(truncated)?;
        let served = take_intervals(&mut input, header.intervals, &mut segments);
        if !served.map_err(truncated)? {
            return Err(corrupt("its intervals of leaves are out of order, or of no segment"));
        }
        let mut origins = input.split(header.origins_bytes as usize).map_err(truncated)?;
        if !take_origins(&mut origins, &mut segments).map_err(truncated)? {
            return Err(corrupt("its origins are out of order, or of no segment"));
        }
        let image = header.take_image(&mut input).map_err(truncated)?;
        let image = image.ok_or_else(|| corrupt("the parts of its base image are out of order"))?;
        if !header.are_countable(&logs, &segments) {
            return Err(corrupt("a number is larger than it can have become"));
        }
        let settings = header.settings(take_schema(&mut input));
        let settings = settings.ok_or_else(|| corrupt("a setting is out of range"))?;
        Ok(Manifest {
            settings,
            journaling: header.journaling().ok_or_else(|| corrupt("unknown durability"))?,
            collection: header.collection,
            generation: header.generation,
            base: Base { state: header.state, image, segments, remembered: header.remembered },
            known: header.known,
            logs,
            next,
            unmade,
        })
    }
}

fn put(out: &mut Vec<u8>, words: &[u64]) {
    words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}

/// Reads and checks the magic number, and returns the format. Errors: `Corrupt`, `Unsupported`.
fn decode_format(path: &Path, input: &mut ByteReader<'_>) -> Result<u32, Error> {
    let truncated = |at| Error::truncated(path, at);
    if &input.array().map_err(truncated)? != MAGIC {
        return Err(Error::corrupt(path, "it does not begin as a file of ours"));
    }
    let format = input.u32().map_err(truncated)?;
    if !(1..=FORMAT).contains(&format) {
        let file = path.display();
        return Err(Error::unsupported(format!(
            "{file} has format {format}, this version reads format {FORMAT}: use a newer version"
        )));
    }
    Ok(format)
}

/// The header after its format, field by field.
struct Header {
    dimension: usize,
    metric: u8,
    element: u8,
    index: u8,
    durability: u8,
    interval_ms: u32,
    recall_target: f64,
    seed: u64,
    log_bytes_max: u64,
    collection: u64,
    generation: u64,
    /// The newest part of the image; its number is 0 for none.
    newest: Part,
    state: State,
    known: State,
    logs: u64,
    /// 0 for no limit.
    memory: u64,
    segments: u64,
    next: u64,
    /// 0 for none.
    unmade: u64,
    /// One more than the limit; 0 for no limit.
    code_memory: u64,
    deletes: u64,
    /// `None` before format 4.
    cluster: Option<[u64; 7]>,
    /// 0 before format 5.
    schema_bytes: u64,
    deletes_remembered_ms: u64,
    /// 0 for none.
    remembered: u64,
    /// 0 before format 6.
    intervals: u64,
    /// 0 before format 7.
    origins_bytes: u64,
    /// 0 before format 8.
    parts: u64,
    runs: u64,
}

impl Header {
    /// Reads the header of any format. A header ends before the fields of later formats.
    fn take(input: &mut ByteReader<'_>) -> Result<Header, Truncated> {
        let dimension = input.u32()? as usize;
        let [metric, element, index, durability] = input.array()?;
        let interval_ms = input.u32()?;
        let recall_target = input.f64()?;
        let (seed, log_bytes_max) = (input.u64()?, input.u64()?);
        let (collection, generation) = (input.u64()?, input.u64()?);
        let number = input.u64()?;
        let state = take_state(input)?;
        let newest = Part { number, checksum: input.u64()?, lsn: state.lsn };
        let known = take_state(input)?;
        let logs = input.u64()?;
        let mut later = |without| if input.is_empty() { Ok(without) } else { input.u64() };
        let (memory, segments, next, unmade) = (later(0)?, later(0)?, later(1)?, later(0)?);
        let (code_memory, deletes) = (later(0)?, later(0)?);
        let cluster = if input.is_empty() { None } else { Some(take_cluster(input)?) };
        let mut later = |without| if input.is_empty() { Ok(without) } else { input.u64() };
        let (schema_bytes, deletes_remembered_ms) = (later(0)?, later(0)?);
        let (remembered, intervals, origins_bytes) = (later(0)?, later(0)?, later(0)?);
        let (parts, runs) = (later(0)?, later(0)?);
        Ok(Header {
            dimension,
            metric,
            element,
            index,
            durability,
            interval_ms,
            recall_target,
            seed,
            log_bytes_max,
            collection,
            generation,
            newest,
            state,
            known,
            logs,
            memory,
            segments,
            next,
            unmade,
            code_memory,
            deletes,
            cluster,
            schema_bytes,
            deletes_remembered_ms,
            remembered,
            intervals,
            origins_bytes,
            parts,
            runs,
        })
    }

    /// Reads the parts of the base image, if there are several; `None` if these are none of an image.
    fn take_image(&self, input: &mut ByteReader<'_>) -> Result<Option<Option<Image>>, Truncated> {
        if self.parts.max(self.runs) == 0 {
            return Ok(Some((self.newest.number > 0).then(|| Image::whole(self.newest))));
        }
        let image = take_parts(input, self.parts, self.runs)?;
        // An image of one part has an older format.
        let is_right = |image: &Image| !image.is_whole() && image.newest() == &self.newest;
        Ok(image.filter(is_right).map(Some))
    }

    /// True if all numbers that count up from 1 are as small as they can have become, so that the engine
    /// can count on from there.
    fn are_countable(&self, logs: &[u64], segments: &[SegmentEntry]) -> bool {
        let (state, known) = (self.state, self.known);
        let counted =
            [self.generation, self.newest.number, self.remembered, self.next, self.unmade];
        let counted = counted.into_iter().chain([state.lsn, state.live, known.lsn, known.live]);
        let origins = segments.iter().filter_map(|segment| segment.origin.as_ref());
        let definers = origins.flat_map(|origin| origin.definers.iter().map(|&(_, here)| here));
        let files = segments.iter().map(|segment| segment.number).chain([self.next]);
        counted.chain(logs.iter().copied()).all(|number| number < COUNT_MAX)
            && files.chain(definers).all(|number| number < FILES_MAX)
    }

    /// `None` if a setting is out of range.
    fn settings(&self, schema: Option<Schema>) -> Option<Settings> {
        let (metric, element) = (Metric::from_tag(self.metric)?, Element::from_tag(self.element)?);
        if !(1..=DIMENSION_MAX).contains(&self.dimension) {
            return None;
        }
        let mut settings = Settings::new(self.dimension, metric, element);
        (settings.index, settings.segments) = match self.index {
            0 => (IndexKind::Flat, SegmentIndex::Clusters),
            1 => (IndexKind::Cluster, SegmentIndex::Clusters),
            2 => (IndexKind::Cluster, SegmentIndex::Graph),
            _ => return None,
        };
        settings.recall_target = self.recall_target;
        settings.seed = self.seed;
        settings.memory = Some(self.memory).filter(|&bytes| bytes > 0);
        settings.code_memory = self.code_memory.checked_sub(1);
        settings.deletes = match self.deletes {
            0 => DeleteOrder::Any,
            1 => DeleteOrder::OldestFirst,
            _ => return None,
        };
        if let Some(sizes) = self.cluster {
            settings.cluster = cluster_of(sizes)?;
        }
        settings.schema = Arc::new(schema?);
        settings.deletes_remembered =
            Some(self.deletes_remembered_ms).filter(|&time| time > 0).map(Duration::from_millis);
        settings.validate().ok()?;
        Some(settings)
    }

    /// `None` if a setting is out of range.
    fn journaling(&self) -> Option<Journaling> {
        let interval = Duration::from_millis(u64::from(self.interval_ms));
        let durability = match self.durability {
            0 => Durability::Sync,
            1 => Durability::Async { interval },
            2 => Durability::None,
            _ => return None,
        };
        let log_bytes_max = self.log_bytes_max;
        let journaling = Journaling { durability, log_bytes_max, background: true };
        journaling.validate().ok()?;
        Some(journaling)
    }
}

/// The schema that is left of a manifest; `None` if these are the bytes of none.
fn take_schema(input: &mut ByteReader<'_>) -> Option<Schema> {
    if input.is_empty() {
        return Some(Schema::default());
    }
    Schema::decode(input.rest()).ok()
}

fn take_state(input: &mut ByteReader<'_>) -> Result<State, Truncated> {
    Ok(State { lsn: input.u64()?, live: input.u64()?, digest: input.u128()? })
}
