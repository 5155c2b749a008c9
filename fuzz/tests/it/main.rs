//! A short run over every decoder; VSTREAM_FUZZ_SECONDS and VSTREAM_FUZZ_SEED make it another, and
//! VSTREAM_FUZZ_TARGET, a part of a name, runs some decoders alone.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::{Duration, Instant};

use rustix::process::{setrlimit, Resource, Rlimit};
use vstream_fuzz::collection::with_number;
use vstream_fuzz::mutate::Inputs;
use vstream_fuzz::{Target, TARGETS};

/// Address space of the test: a decoder that takes more for a small input ends it.
const MEMORY_BYTES: u64 = 4 << 30;
/// No input of a target may take longer: it is at most a few kilobytes.
const PATIENCE: Duration = Duration::from_secs(10);

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Gives inputs to a target until it was enough; returns how many.
fn feed(target: &Target, seed: u64, seconds: Option<u64>) -> u64 {
    let mut inputs = Inputs::new(target, seed);
    for real in inputs.corpus() {
        (target.run)(real);
        let mut resealed = real.clone();
        (target.reseal)(&mut resealed);
        assert!(resealed == *real, "{}: what is right is made wrong by reseal", target.name);
    }
    let begun = Instant::now();
    let is_enough = |count: u64| match seconds {
        Some(seconds) => begun.elapsed() >= Duration::from_secs(seconds),
        None => count >= target.share,
    };
    let mut count = 0;
    while !is_enough(count) {
        let input = inputs.draw();
        let one = Instant::now();
        if catch_unwind(AssertUnwindSafe(|| (target.run)(&input))).is_err() {
            let kept = std::env::temp_dir().join("vstream-fuzz-input");
            std::fs::write(&kept, &input).expect("room");
            panic!(
                "{}: input {count} of seed {seed} panics; it is in {}",
                target.name,
                kept.display()
            );
        }
        assert!(one.elapsed() < PATIENCE, "{}: input {count} of seed {seed}", target.name);
        count += 1;
    }
    count
}

#[test]
fn no_bytes_make_a_decoder_panic() {
    let limit = Rlimit { current: Some(MEMORY_BYTES), maximum: Some(MEMORY_BYTES) };
    setrlimit(Resource::As, limit).expect("a limit");
    let seed = number("VSTREAM_FUZZ_SEED", 1);
    let part = std::env::var("VSTREAM_FUZZ_TARGET").unwrap_or_default();
    let targets: Vec<&Target> = TARGETS.iter().filter(|one| one.name.contains(&part)).collect();
    assert!(!targets.is_empty(), "no target has {part} in its name");
    let seconds = match number("VSTREAM_FUZZ_SECONDS", 0) {
        0 => None,
        seconds => Some(seconds / targets.len() as u64 + 1),
    };
    println!("again: VSTREAM_FUZZ_SEED={seed} cargo test -p vstream-fuzz");
    for target in targets {
        let begun = Instant::now();
        let count = feed(target, seed, seconds);
        println!("{}: {count} inputs, {:.1} s", target.name, begun.elapsed().as_secs_f32());
    }
}

/// A manifest said that its base image ends with the last LSN there is, and the next one was
/// computed: 0 in a release build, which a log may begin with, and a panic in this one.
#[test]
fn numbers_that_nobody_counted_to_are_refused() {
    let target = TARGETS.iter().find(|target| target.name.starts_with("collection")).expect("it");
    // Of the whole header, and of the entries of two segments behind it.
    for offset in (24..328).step_by(8) {
        for number in [u64::MAX, u64::MAX - 1, i64::MAX as u64, 1 << 62, 1 << 40] {
            with_number(offset, number).iter().for_each(|bytes| (target.run)(bytes));
        }
    }
}
