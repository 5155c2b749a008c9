//! Opens a collection in memory from its base image.
//!
//! `cargo bench -p vstream-engine --bench opens -- --rows 1000000`

use std::fs;
use std::time::Instant;

use vstream_engine::{Durability, Element, Engine, Error, Journaling, Metric, Row, Settings};
use vstream_vector::SplitMix;

const DIMENSION: usize = 100;
/// Rows lie around so many places.
const PLACES: u64 = 5_000;
/// Times that the collection is opened.
const OPENED: usize = 3;

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--rows").skip(1);
    let rows: u64 = arguments.next().map_or(1_000_000, |rows| rows.parse().expect("a number"));
    let dir = tempfile::tempdir().expect("a folder");
    let settings = Settings::new(DIMENSION, Metric::L2, Element::F32);
    let settings = Settings { recall_guard: false, ..settings };
    let journaling =
        Journaling { durability: Durability::None, log_bytes_max: u64::MAX, background: false };
    let mut engine = Engine::builder().dir(dir.path()).journaling(journaling).create(settings)?;
    let began = Clock::now();
    let mut random = SplitMix(1);
    let mut vector = vec![0.0; DIMENSION];
    for id in 0..rows {
        let mut place = SplitMix(random.below(PLACES as usize) as u64);
        vector.iter_mut().for_each(|x| *x = place.normal() + 0.4 * random.normal());
        let shard = (id % 128) as u16;
        let fields = Default::default();
        engine.upsert(&Row { id, version: 1, code: 0, shard, vector: &vector, fields })?;
    }
    began.print("drawn and inserted");
    let began = Clock::now();
    engine.checkpoint()?;
    began.print("checkpoint");
    engine.close()?;
    let files = fs::read_dir(dir.path()).expect("a listing");
    let bytes: u64 = files.map(|file| file.expect("a file").metadata().expect("it").len()).sum();
    println!("{rows} rows of {DIMENSION} dimensions, {} MB of files", bytes / 1_000_000);
    for _ in 0..OPENED {
        let began = Clock::now();
        let engine = Engine::open(dir.path())?;
        began.print("opened");
        let stats = engine.stats().index;
        assert_eq!(stats.live, rows);
        println!("{} leaves, {} MB of memory", stats.leaves, stats.memory_bytes / 1_000_000);
    }
    Ok(())
}

/// Wall time, and time of the processor in all threads.
struct Clock(Instant, f64);

impl Clock {
    fn now() -> Clock {
        Clock(Instant::now(), cpu_s())
    }

    fn print(&self, what: &str) {
        let (wall, cpu) = (self.0.elapsed().as_secs_f64(), cpu_s() - self.1);
        println!("{what}: {wall:.2} s, {cpu:.2} s of CPU");
    }
}

/// Processor time of this process so far, in seconds: fields 14 and 15 of its `stat`, in ticks of 10 ms.
fn cpu_s() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("Linux");
    let after = stat.rsplit_once(") ").expect("a name").1;
    let ticks = after.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<f64>().expect("ticks"));
    ticks.sum::<f64>() / 100.0
}
