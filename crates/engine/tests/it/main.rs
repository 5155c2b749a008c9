//! The engine as its users see it: input checks, answers, snapshots, the recall guard.

mod allocation;
mod bad_input;
mod crowding;
mod durable;
mod element;
mod extreme;
mod feed;
mod fields;
mod guard;
mod image;
mod parts;
mod radius;
mod reopen;
mod s3;
mod second_look;
mod shapes;
mod snapshot;
mod tree;
mod unaudited;

use vstream_engine::{Effort, Engine, Neighbor, Query, Reader, Row, Scratch, Settings};

pub(crate) fn row(id: u64, vector: &[f32]) -> Row<'_> {
    Row {
        id,
        version: 1,
        code: id << 32,
        shard: (id % 128) as u16,
        vector,
        fields: Default::default(),
    }
}

pub(crate) fn ask(reader: &Reader, vector: &[f32], k: usize, effort: Effort) -> Vec<Neighbor> {
    let mut out = Vec::new();
    let query = Query { vector, k, effort, filter: None, radius: None };
    reader.search(&query, &mut Scratch::new(), &mut out).expect("a valid query");
    out
}

pub(crate) fn engine(settings: Settings) -> Engine {
    Engine::create(settings).expect("valid settings")
}
