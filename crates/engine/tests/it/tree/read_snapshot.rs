//! A moment that is held while rows come, go and change place shows the rows of that moment.

use std::collections::VecDeque;

use vstream_engine::{
    Effort, Element, Engine, IndexKind, JournalStats, Metric, Query, ReadSnapshot, Row, Scratch,
    Settings,
};
use vstream_vector::SplitMix;

use super::journaling;

const DIMENSION: usize = 64;
const IDS: usize = 30_000;
const CELLS: usize = 20;
const K: usize = 500;
/// Moments that are held at once, and writes between two.
const HELD: usize = 6;
const WRITES: usize = 3_000;

/// Rows near one of some centers, which is in their code.
fn vector_of(seed: u64, cell: usize) -> Vec<f32> {
    let (mut center, mut random) = (SplitMix(cell as u64), SplitMix(seed));
    let mut one = || 2.0 * center.unit() + random.unit();
    (0..DIMENSION).map(|_| one()).collect()
}

/// Version, cell and seed of the living row of each id.
type Model = Vec<Option<(u64, usize, u64)>>;

struct Held {
    moment: ReadSnapshot,
    model: Model,
}

impl Held {
    fn check(&self, random: &mut SplitMix, what: &str) {
        let lives = self.model.iter().flatten().count() as u64;
        assert_eq!(self.moment.count(None).expect("rows"), lives, "{what}");
        let cell = random.below(CELLS);
        let query = vector_of(random.next(), cell);
        let mut found = Vec::new();
        let asked =
            Query { vector: &query, k: K, effort: Effort::Exact, filter: None, radius: None };
        self.moment.search(&asked, &mut Scratch::new(), &mut found).expect("an answer");
        let mut truth: Vec<(f32, u64, u64)> = Vec::new();
        for (id, row) in self.model.iter().enumerate() {
            let Some((version, cell, seed)) = *row else { continue };
            let vector = vector_of(seed, cell);
            let gap: f32 = vector.iter().zip(&query).map(|(a, b)| (a - b) * (a - b)).sum();
            truth.push((gap, id as u64, version));
        }
        truth.sort_by(|a, b| a.0.total_cmp(&b.0));
        let last = truth[K.min(truth.len()) - 1].0 * (1.0 + 1e-4);
        let here: std::collections::BTreeSet<(u64, u64)> =
            found.iter().map(|row| (row.id, row.version)).collect();
        let missing = truth.iter().take(K).filter(|row| !here.contains(&(row.1, row.2))).count();
        let ghosts = found.iter().filter(|row| row.distance > last).count();
        assert!(missing <= 2 && ghosts == 0, "{what}: {missing} rows are missing, {ghosts} ghosts");
    }
}

#[test]
fn a_held_moment_shows_what_lived_then() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings = Settings {
        index: IndexKind::Cluster,
        memory: Some(4 << 20),
        recall_guard: false,
        ..Settings::new(DIMENSION, Metric::L2, Element::F32)
    };
    let mut engine = Engine::builder()
        .dir(dir.path())
        .journaling(journaling(true))
        .create(settings)
        .expect("an engine");
    let mut random = SplitMix(7);
    let mut model: Model = vec![None; IDS];
    let mut version = 0;
    let mut held: VecDeque<Held> = VecDeque::new();
    let mut shared = Vec::new();
    let mut journal = JournalStats::default();
    // How much happens beside the writer depends on the threads; that some does, does not.
    let is_enough = |journal: &JournalStats| journal.checkpoints >= 4 && journal.compactions >= 2;
    for round in 0..300 {
        if round >= 30 && is_enough(&journal) {
            break;
        }
        for _ in 0..WRITES {
            let id = random.below(IDS);
            version += 1;
            if random.below(5) == 0 {
                engine.delete(id as u64, version).expect("a delete");
                model[id] = None;
                continue;
            }
            let (cell, seed) = (random.below(CELLS), random.next());
            let vector = &vector_of(seed, cell);
            let row = Row {
                id: id as u64,
                version,
                code: cell as u64,
                shard: cell as u16,
                vector,
                fields: Default::default(),
            };
            engine.upsert(&row).expect("a good row");
            model[id] = Some((version, cell, seed));
        }
        let reader = engine.reader();
        held.push_back(Held { moment: reader.read_snapshot(), model: model.clone() });
        if round % 3 == 2 {
            // A whole cell leaves.
            let cell = random.below(CELLS);
            for (id, row) in model.iter_mut().enumerate() {
                if row.is_some_and(|row| row.1 == cell) {
                    engine.delete(id as u64, row.expect("it is there").0).expect("a delete");
                    *row = None;
                }
            }
            held.push_back(Held { moment: reader.read_snapshot(), model: model.clone() });
        }
        if round % 2 == 1 {
            shared.push(engine.share().expect("a state"));
            shared = shared.split_off(shared.len().saturating_sub(2));
        }
        for (age, one) in held.iter().rev().enumerate() {
            one.check(&mut random, &format!("round {round}, a moment of {age} before"));
        }
        while held.len() > HELD {
            held.pop_front();
        }
        journal = engine.stats().journal.expect("a journal");
    }
    assert!(is_enough(&journal), "{journal:?}");
}
