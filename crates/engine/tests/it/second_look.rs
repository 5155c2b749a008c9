//! Above 512 bytes a vector, every search takes a second look at its candidates before it takes
//! exact distances: through a reader and through a moment, wherever the rows are.

use vstream_engine::{
    Durability, Effort, Element, Engine, Journaling, Metric, Neighbor, Query, Reader, Scratch,
    SearchStats, Settings,
};
use vstream_vector::SplitMix;

use super::row;

/// 1,024 bytes a vector.
const DIMENSION: usize = 256;
const ROWS: u64 = 8_000;
const QUERIES: usize = 60;
const K: usize = 10;
const REFINE: usize = 300;
const EFFORT: Effort = Effort::Chosen { probes: 12, refine: Some(REFINE) };

fn vector(random: &mut SplitMix) -> Vec<f32> {
    let mut center = SplitMix(random.below(40) as u64);
    (0..DIMENSION).map(|_| center.normal() + random.normal()).collect()
}

/// Where rows are when they are searched.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Memory,
    MemoryAndSegments,
}

fn filled(place: Place, second_look: bool, dir: &std::path::Path) -> Engine {
    let mut settings = Settings {
        recall_guard: false,
        memory: (place == Place::MemoryAndSegments).then_some(256 << 20),
        ..Settings::new(DIMENSION, Metric::L2, Element::F32)
    };
    assert!(settings.cluster.second_look, "vectors of this size get a second look unasked");
    settings.cluster.second_look = second_look;
    let mut engine = match place {
        Place::Memory => Engine::create(settings).expect("an engine"),
        Place::MemoryAndSegments => {
            let journaling = Journaling {
                durability: Durability::None,
                log_bytes_max: 1 << 30,
                background: false,
            };
            let builder = Engine::builder().dir(dir).journaling(journaling);
            builder.create(settings).expect("an engine")
        }
    };
    let mut random = SplitMix(5);
    for id in 0..ROWS {
        engine.upsert(&row(id, &vector(&mut random))).expect("a good row");
        // Half of the rows go to two segments, the others stay in memory.
        if place == Place::MemoryAndSegments && [ROWS / 4, ROWS / 2].contains(&(id + 1)) {
            engine.checkpoint().expect("a checkpoint");
        }
    }
    let segments = engine.stats().tree.segments;
    assert_eq!(segments, if place == Place::Memory { 0 } else { 2 });
    engine
}

/// What one way of asking found over all queries.
#[derive(Default, PartialEq, Debug)]
struct Run {
    answers: Vec<Vec<Neighbor>>,
    work: Vec<SearchStats>,
}

impl Run {
    fn exact(&self) -> usize {
        self.work.iter().map(|stats| stats.exact).sum()
    }

    fn rows(&self) -> usize {
        self.work.iter().map(|stats| stats.rows).sum()
    }

    fn recall(&self, truth: &Run) -> f64 {
        let pairs = self.answers.iter().zip(&truth.answers);
        let hits = pairs.map(|(found, truth)| {
            let is_true = |row: &&Neighbor| truth.iter().any(|true_row| true_row.id == row.id);
            found.iter().filter(is_true).count()
        });
        hits.sum::<usize>() as f64 / (QUERIES * K) as f64
    }
}

fn run(effort: Effort, ask: &mut dyn FnMut(&Query<'_>, &mut Vec<Neighbor>) -> SearchStats) -> Run {
    let mut random = SplitMix(77);
    let mut run = Run::default();
    for _ in 0..QUERIES {
        let (query, mut out) = (vector(&mut random), Vec::new());
        run.work.push(ask(
            &Query { vector: &query, k: K, effort, filter: None, radius: None },
            &mut out,
        ));
        run.answers.push(out);
    }
    run
}

fn through_reader(reader: &Reader, effort: Effort) -> Run {
    let mut scratch = Scratch::new();
    run(effort, &mut |query, out| reader.search(query, &mut scratch, out).expect("an answer"))
}

fn through_moment(reader: &Reader, effort: Effort) -> Run {
    let (moment, mut scratch) = (reader.read_snapshot(), Scratch::new());
    run(effort, &mut |query, out| moment.search(query, &mut scratch, out).expect("an answer"))
}

/// A job asks moments. A moment that took no second look would find the same rows, for ten times the
/// exact distances, and its fine codes would lie in memory for nothing.
#[test]
fn a_moment_takes_the_same_second_look_as_a_reader() {
    let mut recalls = Vec::new();
    for place in [Place::Memory, Place::MemoryAndSegments] {
        let dirs = [0, 1].map(|_| tempfile::tempdir().expect("a directory"));
        let looking = filled(place, true, dirs[0].path()).reader();
        let truth = through_reader(&looking, Effort::Exact);
        let (reader, moment) = (through_reader(&looking, EFFORT), through_moment(&looking, EFFORT));
        assert_eq!(reader, moment, "the same rows for the same work");

        let without = filled(place, false, dirs[1].path()).reader();
        let (plain, plain_moment) =
            (through_reader(&without, EFFORT), through_moment(&without, EFFORT));
        assert_eq!(plain, plain_moment, "the same rows for the same work");
        assert_eq!(plain.rows(), reader.rows(), "the same codes are scanned");
        let (saved, refined) = (plain.exact() - reader.exact(), QUERIES * REFINE);
        assert!(
            saved * 10 >= refined * 8,
            "a second look saved {saved} of {refined} exact distances of rows in memory"
        );
        let recall = moment.recall(&truth);
        assert!(recall >= 0.95 && recall >= plain.recall(&truth) - 0.01, "recall {recall}");
        recalls.push(recall);
    }
    assert!((recalls[0] - recalls[1]).abs() <= 0.03, "recall by place: {recalls:?}");
}
