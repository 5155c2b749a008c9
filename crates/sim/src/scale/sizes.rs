//! Bytes of messages and of state, as the serialisers of `java/flink` and `crates/route` write them.

use super::deployment::{Deployment, SHARDS};

/// Length and tag that Flink puts before a record.
const FRAME: u64 = 5;
/// `Ticket.write`: number, query id, k, effort, time, a flag.
const TICKET: u64 = 8 + 8 + 4 + 4 + 8 + 1;
/// An id, a version and a distance in an answer.
const NEIGHBOR: u64 = 8 + 8 + 4;
/// Neighbours that training counts for a cell, mean of 1,024 cells of GloVe.
const COUNTS_OF_CELL: u64 = 60;

/// `VectorRecord`, an upsert on its way to place.
pub fn record(job: &Deployment) -> u64 {
    FRAME + 8 + 1 + floats(job)
}

/// `Write`, an upsert on its way to search.
pub fn write(job: &Deployment) -> u64 {
    // A shard takes a byte below 128 and two from there on, which nearly all then do.
    let shard = if job.shards() > SHARDS { 2 } else { 1 };
    FRAME + 3 * 8 + shard + 1 + floats(job)
}

/// `QueryRecord`, on its way to the router.
pub fn query(job: &Deployment) -> u64 {
    FRAME + TICKET + floats(job) + 1
}

/// `QueryCopy`, on its way to one partition.
pub fn copy(job: &Deployment) -> u64 {
    FRAME + 2 + 1 + TICKET + 1 + 2 + 2 + floats(job) + 1 + 1
}

/// `PartialAnswer`, with `offsets` of the source behind it.
pub fn partial(job: &Deployment, offsets: u64) -> u64 {
    FRAME + TICKET + 4 + neighbors(job) + frontier(offsets) + neighbors_of(0) + 1
}

/// `Write.offsets`, on its way from one place task to one partition.
pub fn mark(offsets: u64) -> u64 {
    FRAME + 3 * 8 + 2 + 4 + 8 * offsets
}

/// `Gathering` of one query that has `partials` answers.
pub fn gathering(job: &Deployment, partials: f64) -> f64 {
    // Bits of the partitions that have answered; those beyond 128 come with their number.
    let seen = match job.partitions.div_ceil(64) {
        0..=2 => 2 * 8,
        words => words * 8 + 1,
    };
    let fixed = TICKET + 2 + 8 + seen + 2 * 2 + 1 + frontier(job.source_partitions) + 1;
    fixed as f64 + partials * neighbors(job) as f64
}

/// `Template::to_bytes` under cosine, before any cell is split.
pub fn template(cells: u64, dimension: u64, shards: u64) -> u64 {
    let head = 32 + 4 + 10 * shards.min(cells);
    let tables = cells * shards + 4 * shards;
    let of_cell = 4 * dimension + 8 + 4 + 2 + 4 * COUNTS_OF_CELL;
    head + 3 * 4 + cells * of_cell + tables + 4
}

fn floats(job: &Deployment) -> u64 {
    4 + 4 * job.dimension
}

fn neighbors(job: &Deployment) -> u64 {
    neighbors_of(job.k)
}

fn neighbors_of(rows: u64) -> u64 {
    4 + NEIGHBOR * rows
}

fn frontier(offsets: u64) -> u64 {
    8 + 4 + 8 * offsets
}
