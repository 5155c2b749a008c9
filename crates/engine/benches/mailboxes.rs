//! The rows of `cargo bench -p vstream-group --bench groups` in a collection with an index: what the
//! same ingest costs without isolated groups.
//!
//! `cargo bench -p vstream-engine --bench mailboxes -- --rows 1000000`

use std::sync::Arc;
use std::time::{Duration, Instant};

use vstream_engine::{
    AttributeKind, AttributesBuilder, Durability, Element, Engine, Error, Fields, Journaling,
    Metric, Row, Schema, Settings, ValueRef,
};

use crate::data::{shuffled, Data, COMMIT, DIMENSION};

#[path = "../../group/benches/mailboxes/data.rs"]
mod data;

const SIZES: [usize; 4] = [10, 100, 1_000, 10_000];
/// The memory of a store of groups: 64 MiB for rows and as much for blocks.
const MEMORY: u64 = 128 << 20;

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--rows").skip(1);
    let rows: usize = arguments.next().map_or(1_000_000, |rows| rows.parse().expect("a number"));
    let part = rows / SIZES.len();
    let groups: Vec<usize> =
        SIZES.iter().flat_map(|&size| vec![size; (part / size).max(1)]).collect();
    let schema = Schema::new([("group", AttributeKind::I64), ("kind", AttributeKind::I64)])?;
    let settings = Settings {
        schema: Arc::new(schema),
        memory: Some(MEMORY),
        ..Settings::new(DIMENSION, Metric::Cosine, Element::Bf16)
    };
    let folder = tempfile::tempdir().expect("a folder");
    let journaling = Journaling { durability: Durability::Sync, ..Journaling::default() };
    let mut engine =
        Engine::builder().dir(folder.path()).journaling(journaling).create(settings)?;
    let (rows, [written, merged]) = fill(&mut engine, &groups)?;
    let [written, merged] = [written, merged].map(|took| rows as f64 / took.as_secs_f64());
    println!("{rows} rows in {} groups", groups.len());
    println!("ingest, durable every {COMMIT} rows, merges on threads beside: {written:.0} rows/s");
    println!("the same until all merges are done: {merged:.0} rows/s");
    engine.close()
}

/// Writes all rows in random order; returns how many, and the time without and with the merges that
/// are left.
fn fill(engine: &mut Engine, groups: &[usize]) -> Result<(usize, [Duration; 2]), Error> {
    let mut data = Data::new();
    let order = shuffled(groups, &mut data.random);
    let schema = engine.settings().schema.clone();
    let mut builder = AttributesBuilder::default();
    let mut took = Duration::ZERO;
    for (chunk, rows) in order.chunks(COMMIT).enumerate() {
        let vectors: Vec<Vec<f32>> =
            rows.iter().map(|(group, _)| data.vector(*group as usize)).collect();
        let began = Instant::now();
        for (at, (&(group, number), vector)) in rows.iter().zip(&vectors).enumerate() {
            builder.clear();
            builder.set(&schema, 0, &ValueRef::I64(i64::from(group)))?;
            builder.set(&schema, 1, &ValueRef::I64(i64::from(number % 10)))?;
            let fields = Fields { attributes: builder.build(), ..Fields::NONE };
            let id = (chunk * COMMIT + at) as u64;
            engine.upsert(&Row { id, version: 1, code: 0, shard: 0, vector, fields })?;
        }
        engine.commit()?;
        took += began.elapsed();
    }
    let began = Instant::now();
    engine.checkpoint()?;
    let written = took + began.elapsed();
    engine.compact()?;
    Ok((order.len(), [written, took + began.elapsed()]))
}
