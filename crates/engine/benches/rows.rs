//! The cost of rows with attributes through an engine: updates of attributes alone, and answers with
//! what the rows carry, in memory, in a log and in segments.
//!
//! `cargo bench -p vstream-engine --bench rows -- --rows 100000 --dimension 128`

use std::sync::Arc;
use std::time::Instant;

use rustix::time::{clock_gettime, ClockId};
use vstream_engine::{
    AttributeKind, AttributesBuilder, Durability, Element, Engine, Error, Fields, Journaling,
    Metric, Query, Row, RowId, Schema, Scratch, Settings, Update, ValueRef, With, WithAttributes,
};
use vstream_vector::SplitMix;

/// Attributes of a row in the case of many.
const MANY: u16 = 64;
/// Updates between two commits.
const COMMIT: usize = 1_000;
const QUERIES: usize = 500;
const ROUNDS: usize = 5;

/// Microseconds of CPU that this thread has used.
fn thread_us() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

/// Runs `work`; says what each of `count` steps took, by the CPU time of this thread and by the clock.
fn timed<T>(name: &str, count: usize, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let (cpu, clock) = (thread_us(), Instant::now());
    let done = work()?;
    let cpu = (thread_us() - cpu) / count as f64;
    let clock = clock.elapsed().as_secs_f64() * 1e6 / count as f64;
    println!("{name}: {cpu:.2} us of CPU, {clock:.2} us, {:.0} per second", 1e6 / cpu);
    Ok(done)
}

struct Shop {
    settings: Settings,
    rows: usize,
    centres: Vec<f32>,
    builder: AttributesBuilder,
}

impl Shop {
    /// * `more`: attributes beside a colour, a user and a price.
    fn new(rows: usize, dimension: usize, more: u16) -> Result<Shop, Error> {
        let mut random = SplitMix(17);
        let mut kinds = vec![
            ("color".to_owned(), AttributeKind::Keyword),
            ("user".to_owned(), AttributeKind::Keyword),
            ("price".to_owned(), AttributeKind::F64),
        ];
        kinds.extend((0..more).map(|at| (format!("number {at}"), AttributeKind::I64)));
        let schema = Schema::new(kinds.iter().map(|(name, kind)| (name.as_str(), *kind)))?;
        let settings = Settings {
            schema: Arc::new(schema),
            recall_guard: false,
            ..Settings::new(dimension, Metric::L2, Element::F32)
        };
        let centres = (0..1_000 * dimension).map(|_| random.normal()).collect();
        Ok(Shop { settings, rows, centres, builder: AttributesBuilder::default() })
    }

    fn vector(&self, number: usize) -> Vec<f32> {
        let mut random = SplitMix(number as u64 * 31 + 5);
        let dimension = self.settings.dimension;
        let centre = &self.centres[number % 1_000 * dimension..][..dimension];
        centre.iter().map(|x| x + 0.35 * random.normal()).collect()
    }

    fn fill(&mut self, engine: &mut Engine) -> Result<(), Error> {
        let schema = self.settings.schema.clone();
        let vectors: Vec<Vec<f32>> = (0..self.rows).map(|id| self.vector(id)).collect();
        let (rows, builder) = (self.rows, &mut self.builder);
        timed("upsert with attributes and payload", rows, || {
            for (id, vector) in vectors.iter().enumerate() {
                builder.clear();
                builder.set(&schema, 0, &ValueRef::Keyword(&format!("color {}", id % 97)))?;
                builder.set(&schema, 1, &ValueRef::Keyword(&format!("user {}", id / 7 % 1_000)))?;
                builder.set(&schema, 2, &ValueRef::F64(id as f64 / 7.0))?;
                for column in 3..schema.attributes.len() as u16 {
                    builder.set(&schema, column, &ValueRef::I64(id as i64 * i64::from(column)))?;
                }
                let payload = format!("{{\"title\": \"product {id}\"}}");
                let (attributes, payload) = (builder.build(), Some(payload.as_bytes()));
                let fields = Fields { attributes, payload, ..Fields::NONE };
                let (id, version) = (id as u64, 1);
                engine.upsert(&Row { id, version, code: 0, shard: 0, vector, fields })?;
            }
            engine.commit()
        })
    }

    /// Changes the price of rows in random order, `COMMIT` of them between two commits.
    fn update(&mut self, name: &str, engine: &mut Engine, first: u64) -> Result<(), Error> {
        let mut random = SplitMix(first);
        let ids: Vec<u64> = (0..2 * self.rows).map(|_| random.below(self.rows) as u64).collect();
        let schema = self.settings.schema.clone();
        let log_bytes =
            |engine: &Engine| engine.stats().journal.map_or(0, |log| log.log_bytes_written);
        let before = log_bytes(engine);
        timed(name, ids.len(), || {
            for (&id, version) in ids.iter().zip(first..) {
                self.builder.clear();
                self.builder.set(&schema, 2, &ValueRef::F64(version as f64 / 3.0))?;
                let update = Update { set: self.builder.build(), ..Update::default() };
                let applied = engine.update(id, version, &update)?;
                assert!(applied.is_applied());
                if version % COMMIT as u64 == 0 {
                    engine.commit()?;
                }
            }
            engine.commit()
        })?;
        let written = (log_bytes(engine) - before) as f64 / ids.len() as f64;
        if written > 0.0 {
            println!("  {written:.1} bytes of log per update; id, version and change have 27");
        }
        Ok(())
    }

    fn read(&self, engine: &Engine) -> Result<(), Error> {
        let (reader, mut scratch) = (engine.reader(), Scratch::new());
        let queries: Vec<Vec<f32>> =
            (0..QUERIES).map(|at| self.vector(self.rows + at * 7)).collect();
        let with = With {
            attributes: WithAttributes::Of(vec![0, 1, 2]),
            payload: true,
            ..With::default()
        };
        let none = With::default();
        for round in 0..ROUNDS {
            let last = round + 1 == ROUNDS;
            let step = |name: &str, work: &mut dyn FnMut(usize) -> Result<(), Error>| {
                if last {
                    timed(name, QUERIES, || (0..QUERIES).try_for_each(work))
                } else {
                    (0..QUERIES).try_for_each(work)
                }
            };
            let mut found = Vec::new();
            step("  search, k 10", &mut |at| {
                reader.search(&Query::new(&queries[at], 10), &mut scratch, &mut found).map(|_| ())
            })?;
            step("  answer with ids and versions", &mut |at| {
                let answer = reader.answer(&Query::new(&queries[at], 10), &none, &mut scratch)?;
                assert_eq!(answer.rows.len(), 10);
                Ok(())
            })?;
            step("  answer with 3 attributes and payload", &mut |at| {
                let answer = reader.answer(&Query::new(&queries[at], 10), &with, &mut scratch)?;
                assert!(answer.rows[9].fields.fields().payload.is_some());
                Ok(())
            })?;
            let ids = |at: usize| (0..10).map(move |i| RowId::from((at * 131 + i * 17) as u64));
            step("  get of 10 rows", &mut |at| {
                let ids: Vec<RowId> = ids(at).filter(|id| id.id < self.rows as u64).collect();
                let rows = reader.get(&ids, &with)?;
                assert!(rows.iter().all(Option::is_some));
                Ok(())
            })?;
        }
        timed("  scroll of 100 rows", 20, || {
            let mut after = None;
            for _ in 0..20 {
                let page = reader.scroll(None, after, 100, &with)?;
                assert_eq!(page.rows.len(), 100);
                after = page.next;
            }
            Ok(())
        })
    }
}

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().collect();
    let value = |name: &str, otherwise: usize| {
        let at = arguments.iter().position(|argument| argument == name);
        at.map_or(otherwise, |at| arguments[at + 1].parse().expect("a number"))
    };
    let (rows, dimension) = (value("--rows", 100_000), value("--dimension", 128));
    println!("{rows} rows of {dimension} dimensions in memory");
    let mut shop = Shop::new(rows, dimension, 0)?;
    let mut engine = Engine::create(shop.settings.clone())?;
    shop.fill(&mut engine)?;
    shop.read(&engine)?;
    shop.update("update of one attribute", &mut engine, 2)?;
    drop(engine);

    println!("with {MANY} attributes, in a log with a commit per {COMMIT} updates");
    let mut shop = Shop::new(rows / 4, dimension, MANY - 3)?;
    let folder = tempfile::tempdir().expect("a folder");
    let journaling = Journaling { durability: Durability::Sync, ..Journaling::default() };
    let builder = Engine::builder().dir(folder.path()).journaling(journaling);
    let mut engine = builder.create(shop.settings.clone())?;
    shop.fill(&mut engine)?;
    shop.update("update of one attribute", &mut engine, 2)?;
    engine.close()?;

    println!("in segments");
    let mut shop = Shop::new(rows, dimension, 0)?;
    shop.settings.memory = Some(256 << 20);
    let folder = tempfile::tempdir().expect("a folder");
    let builder = Engine::builder().dir(folder.path()).journaling(journaling);
    let mut engine = builder.create(shop.settings.clone())?;
    shop.fill(&mut engine)?;
    engine.checkpoint()?;
    shop.read(&engine)?;
    shop.update("update of one attribute, rows in segments first", &mut engine, 2)?;
    engine.close()
}
