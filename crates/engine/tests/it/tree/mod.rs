//! Engines whose rows do not fit in memory: the answers are those of one that holds them all.

mod adopted;
mod beside;
mod borrowed;
mod bounded;
mod counted;
mod expiry;
mod failing;
mod far_states;
mod graphs;
mod hot;
mod model;
mod ranges;
mod read_snapshot;
mod recall;
mod remote;
mod shared;
mod young;

use std::collections::BTreeMap;
use std::path::Path;

use vstream_engine::{
    Durability, Element, Engine, IndexKind, Journaling, Metric, Neighbor, Row, Settings,
};

pub(crate) const DIMENSION: usize = 12;

/// Settings with which memory is frozen as soon as there is anything in it.
pub(crate) fn tiny(index: IndexKind, metric: Metric, element: Element) -> Settings {
    Settings {
        index,
        memory: Some(64 << 10),
        recall_guard: false,
        ..Settings::new(DIMENSION, metric, element)
    }
}

pub(crate) fn journaling(background: bool) -> Journaling {
    Journaling { durability: Durability::None, log_bytes_max: 1 << 20, background }
}

/// What must be there: id to version and vector.
pub(crate) type Model = BTreeMap<u64, (u64, Vec<f32>)>;

/// The rows of an engine, each once.
pub(crate) fn rows(engine: &Engine) -> Model {
    let mut rows = Model::new();
    let walked = engine.pin().for_each_row(&mut |row| {
        let twice = rows.insert(row.id, (row.version, row.vector.to_vec()));
        assert!(twice.is_none(), "row {} is there twice", row.id);
    });
    walked.expect("rows that can be read");
    rows
}

/// The exact answer under l2, ascending, ties by id.
pub(crate) fn truth(model: &Model, query: &[f32], k: usize) -> Vec<Neighbor> {
    let mut all: Vec<Neighbor> = model
        .iter()
        .map(|(&id, (version, vector))| Neighbor {
            distance: vector.iter().zip(query).map(|(a, b)| (a - b) * (a - b)).sum(),
            id,
            version: *version,
        })
        .collect();
    all.sort_by(Neighbor::order);
    all.truncate(k);
    all
}

pub(crate) fn put(engine: &mut Engine, id: u64, version: u64, vector: &[f32]) {
    let row =
        Row { id, version, code: id, shard: (id % 128) as u16, vector, fields: Default::default() };
    engine.upsert(&row).expect("a good row");
}

/// An engine with `count` rows in `dir`, flushed every `batch`.
pub(crate) fn filled(dir: &Path, settings: Settings, count: u64, batch: u64) -> Engine {
    let mut engine = Engine::builder()
        .dir(dir)
        .journaling(journaling(false))
        .create(settings)
        .expect("an engine");
    for id in 0..count {
        put(&mut engine, id, 1, &vector_of(id));
        if id % batch == batch - 1 {
            engine.checkpoint().expect("a checkpoint");
        }
    }
    engine
}

/// Whole numbers, so that every element holds them and sums are exact.
pub(crate) fn vector_of(seed: u64) -> Vec<f32> {
    let mut random = vstream_vector::SplitMix(seed);
    let center = random.below(9) as f32 * 10.0;
    (0..DIMENSION).map(|_| center + random.below(16) as f32).collect()
}
