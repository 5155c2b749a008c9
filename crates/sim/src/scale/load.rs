//! What each part of a job carries. Each function is one formula of `docs/design/scale.md`.

use super::deployment::{Deployment, GBIT};
use super::fan_out::fan_out;
use super::sizes;

/// Marks of a source or place task per second: one every `Frontier.OFFSETS_EVERY_MILLIS`.
const MARKS_PER_S: f64 = 10.0;
/// Seconds for each offset of a mark in `FrontierTracker`, among 1,024 place tasks that move on together.
const MIN_S: f64 = 27e-9;
/// Seconds of a search among 200,000 rows of GloVe in memory at recall 0.95.
const SEARCH_S: f64 = 137e-6;
const SEARCH_ROWS: f64 = 200_000.0;
/// Bytes of an in-memory row beyond its vector, and of a row in segments with codes in memory.
const MEMORY_BEYOND: f64 = 219.0;
const MEMORY_SEGMENTS: f64 = 39.0;
/// Bytes of a row in a checkpoint beyond its vector: 458 MB for a million rows.
const STATE_BEYOND: f64 = 58.0;
/// Bytes that a checkpoint uploads for each byte of a write: 10.5 MB less templates for 10,000.
const UPLOAD_SHARE: f64 = 1.6;
/// Seconds of a core to insert a row in a restore: 15 s on two cores for a million rows.
const INSERT_S: f64 = 30e-6;
/// Seconds until a JVM and the job run.
const START_S: f64 = 3.0;
/// Segments per power of four between a memtable and a partition, and the bytes of a memtable.
const SEGMENTS: f64 = 3.5;
const MEMTABLE: f64 = 64e6;
/// Files of a partition beside its segments: two logs and a manifest.
const OTHER_FILES: f64 = 3.0;
/// Inputs of a slot from all tasks before it: place, route, merge one each, search two.
const INPUTS: f64 = 5.0;
/// Two buffers of 32 KiB, which Flink keeps for each channel into a task.
const CHANNEL: f64 = 2.0 * 32_768.0;

/// Messages and bytes per second of one hop, of the whole job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hop {
    /// From which task to which.
    pub name: &'static str,
    /// Messages per second.
    pub messages: f64,
    /// Bytes per second.
    pub bytes: f64,
}

/// Every hop between tasks. Handovers, moved rows and audits are left out.
pub fn hops(job: &Deployment) -> [Hop; 6] {
    let hop =
        |name, messages: f64, size: u64| Hop { name, messages, bytes: messages * size as f64 };
    let copies = job.queries_per_s * fan_out(job.partitions);
    let marks = MARKS_PER_S * (job.partitions * job.partitions) as f64;
    [
        hop("upserts, decode to place", job.writes_per_s, sizes::record(job)),
        hop("upserts, place to search", job.writes_per_s, sizes::write(job)),
        hop("queries, decode to route", job.queries_per_s, sizes::query(job)),
        hop("copies, route to search", copies, sizes::copy(job)),
        hop("answers, search to merge", copies, sizes::partial(job, job.source_partitions)),
        hop("marks, place to search", marks, sizes::mark(job.source_partitions)),
    ]
}

/// Bytes per second of marks into one partition, `10 · P · (35 + 8 K)`.
pub fn marks_bytes(job: &Deployment) -> f64 {
    MARKS_PER_S * job.partitions as f64 * sizes::mark(job.source_partitions) as f64
}

/// The same if a mark is a number, and the offsets behind the number go another way.
pub fn numbered_marks_bytes(job: &Deployment) -> f64 {
    MARKS_PER_S * job.partitions as f64 * sizes::mark(1) as f64
}

/// Cores of one search task that take minima of marks, `10 · P · K · 27 ns`: a mark is compared with
/// the least offsets, and those of all place tasks only where it was the last of these.
pub fn minimum_cores(job: &Deployment) -> f64 {
    MARKS_PER_S * (job.partitions * job.source_partitions) as f64 * MIN_S
}

/// Bytes per second of answers into one merge task.
pub fn answers_bytes(job: &Deployment) -> f64 {
    hops(job)[4].bytes / job.partitions as f64
}

/// Bytes of answers for one query, with and without offsets of the source.
pub fn answers_of_query(job: &Deployment) -> (f64, f64) {
    let each = |offsets| fan_out(job.partitions) * sizes::partial(job, offsets) as f64;
    (each(job.source_partitions), each(0))
}

/// Copies of a template in a checkpoint: of the first place task, the first router, and two of the control
/// task, which holds the one before too.
pub const TEMPLATE_COPIES: usize = 4;

/// Bytes of templates in a checkpoint.
pub fn templates_bytes(job: &Deployment) -> f64 {
    TEMPLATE_COPIES as f64 * template_bytes(job)
}

/// Bytes of one template.
pub fn template_bytes(job: &Deployment) -> f64 {
    sizes::template(job.cells, job.dimension, job.shards()) as f64
}

/// Bytes that a checkpoint uploads, templates among them.
pub fn upload_bytes(job: &Deployment) -> f64 {
    let writes = job.writes_per_s * job.checkpoint_s;
    writes * sizes::write(job) as f64 * UPLOAD_SHARE + templates_bytes(job)
}

/// Files of search that the JobManager counts for a checkpoint. Those of RocksDB are not among them.
pub fn files(job: &Deployment) -> f64 {
    let levels = (state_bytes(job) / MEMTABLE).max(1.0).log(4.0);
    job.partitions as f64 * ((SEGMENTS * levels).ceil() + 1.0 + OTHER_FILES)
}

/// Bytes of the state of one partition.
pub fn state_bytes(job: &Deployment) -> f64 {
    job.rows_of_partition() * (4.0 * job.dimension as f64 + STATE_BEYOND)
}

/// Seconds to the first answer at the same parallelism: a start and a read of the files.
pub fn restore_same_s(job: &Deployment, bytes_per_s: f64) -> f64 {
    START_S + state_bytes(job) / bytes_per_s
}

/// Seconds to the first answer at twice the partitions, `partitions` of them afterwards: each reads
/// twice its state, and inserts its rows anew on one core.
pub fn restore_other_s(job: &Deployment, bytes_per_s: f64) -> f64 {
    START_S + 2.0 * state_bytes(job) / bytes_per_s + job.rows_of_partition() * INSERT_S
}

/// [`restore_other_s`] over a link of 1 Gbit/s.
pub fn restore_s(job: &Deployment) -> f64 {
    restore_other_s(job, GBIT)
}

/// Bytes of memory of a partition, all in memory.
pub fn memory_bytes(job: &Deployment) -> f64 {
    job.rows_of_partition() * (4.0 * job.dimension as f64 + MEMORY_BEYOND)
}

/// Bytes of memory of a partition whose rows are in segments and whose codes are in memory.
pub fn memory_segments_bytes(job: &Deployment) -> f64 {
    job.rows_of_partition() * MEMORY_SEGMENTS
}

/// Seconds of a core for one search in one partition: grows with the square root of its rows.
pub fn search_s(job: &Deployment) -> f64 {
    SEARCH_S * (job.rows_of_partition() / SEARCH_ROWS).sqrt()
}

/// Queries per second that the job holds if each partition has one core for searches.
pub fn queries_held(job: &Deployment) -> f64 {
    job.partitions as f64 / (fan_out(job.partitions) * search_s(job))
}

/// Reports of loads and of recall that the JobManager gets per second, one each from a partition.
pub fn reports(job: &Deployment) -> f64 {
    2.0 * job.partitions as f64
}

/// Bytes of network buffers of one slot.
pub fn buffer_bytes(job: &Deployment) -> f64 {
    INPUTS * job.partitions as f64 * CHANNEL
}

/// Acknowledgements in one step of a hand-over: each place task and router to each partition.
pub fn acks(job: &Deployment) -> f64 {
    2.0 * (job.partitions * job.partitions) as f64
}
