//! An index inside a program: write, search, update, delete, and come back after a restart.
//!
//! ```text
//! cargo run --release -p vstream-engine --example quickstart
//! ```

use vstream_engine::{Effort, Element, Engine, Error, Metric, Query, Row, Scratch, Settings};

/// Three colours as red, green and blue; ids are whatever the program likes.
const COLOURS: [(u64, &str, [f32; 3]); 3] =
    [(7, "red", [1.0, 0.0, 0.0]), (8, "orange", [1.0, 0.6, 0.0]), (9, "blue", [0.0, 0.1, 1.0])];

fn main() -> Result<(), Error> {
    // 1. A collection is a dimension, a metric and an element type. The engine is its one writer.
    let settings = Settings::new(3, Metric::Cosine, Element::F32);
    let mut engine = Engine::create(settings.clone())?;

    // 2. A row is found as soon as `upsert` returns. A larger version replaces a smaller one; code
    //    and shard matter only where a collection has several partitions.
    let row = |id, version, vector| Row {
        id,
        version,
        code: 0,
        shard: 0,
        vector,
        fields: Default::default(),
    };
    for (id, _, vector) in &COLOURS {
        engine.upsert(&row(*id, 1, vector))?;
    }

    // 3. Readers answer from any thread, without a lock. Buffers are kept between queries.
    let reader = engine.reader();
    let mut scratch = Scratch::new();
    let mut neighbours = Vec::new();
    let query =
        Query { vector: &[0.9, 0.2, 0.0], k: 2, effort: Effort::Auto, filter: None, radius: None };
    reader.search(&query, &mut scratch, &mut neighbours)?;
    for found in &neighbours {
        let name = COLOURS.iter().find(|(id, ..)| *id == found.id).map_or("?", |(_, name, _)| name);
        println!("{name:8} at distance {:.4}", found.distance);
    }
    assert_eq!(neighbours.iter().map(|row| row.id).collect::<Vec<_>>(), [7, 8]);

    // 4. An update replaces, a delete removes; the same reader sees both at once.
    engine.upsert(&row(7, 2, &[0.0, 0.0, 1.0]))?;
    engine.delete(9, 2)?;
    reader.search(&query, &mut scratch, &mut neighbours)?;
    assert_eq!(neighbours.iter().map(|row| row.id).collect::<Vec<_>>(), [8, 7]);

    // 5. A snapshot is a directory; restoring it gives the same rows.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let summary = engine.snapshot(&folder.path().join("snapshot"))?;
    let restored = Engine::restore(settings, &folder.path().join("snapshot"))?;
    assert_eq!(restored.stats().index.live, summary.rows);
    println!("{} rows came back", restored.stats().index.live);
    Ok(())
}
