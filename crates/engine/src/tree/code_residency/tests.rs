use vstream_vector::SplitMix;

use super::{plan, Move, Part};

fn random_parts(random: &mut SplitMix, bytes: &dyn Fn(&mut SplitMix) -> u64) -> Vec<Part> {
    let count = random.below(60);
    let part = |random: &mut SplitMix| Part {
        temperature: random.below(1_000) as f64 - 100.0,
        bytes: bytes(random),
        is_held: random.below(2) == 0,
    };
    (0..count).map(|_| part(random)).collect()
}

fn held(parts: &[Part]) -> u64 {
    parts.iter().filter(|part| part.is_held).map(|part| part.bytes).sum()
}

fn apply(parts: &mut [Part], step: Move) {
    let (Move::Release(at) | Move::Hold(at)) = step;
    let holds = matches!(step, Move::Hold(_));
    assert_ne!(parts[at].is_held, holds, "a move that changes nothing");
    parts[at].is_held = holds;
}

#[test]
fn the_limit_holds_after_every_part_that_comes() {
    let mut random = SplitMix(3);
    for _ in 0..2_000 {
        let mut parts = random_parts(&mut random, &|random| 1 + random.below(50) as u64);
        let limit = random.below(1_000) as u64;
        for step in plan(&parts, limit) {
            apply(&mut parts, step);
            assert!(matches!(step, Move::Release(_)) || held(&parts) <= limit);
        }
        assert!(held(&parts) <= limit, "{} of {limit}", held(&parts));
        let fits = |part: &&Part| !part.is_held && part.bytes <= limit - held(&parts);
        assert!(!parts.iter().any(|part| fits(&part)), "room is left for a part");
    }
}

#[test]
fn the_hottest_are_held_and_stay() {
    let mut random = SplitMix(4);
    for _ in 0..2_000 {
        let mut parts = random_parts(&mut random, &|_| 10);
        let limit = random.below(400) as u64;
        for step in plan(&parts, limit) {
            apply(&mut parts, step);
        }
        assert_eq!(plan(&parts, limit), [], "a plan that was carried out is done");
        let coldest = parts.iter().filter(|part| part.is_held);
        let coldest = coldest.map(|part| part.temperature).fold(f64::INFINITY, f64::min);
        let hottest = parts.iter().filter(|part| !part.is_held);
        let hottest = hottest.map(|part| part.temperature).fold(f64::NEG_INFINITY, f64::max);
        assert!(hottest <= 1.25 * coldest.max(0.0) || hottest <= coldest, "{hottest} {coldest}");
    }
}

#[test]
fn a_part_that_is_hardly_hotter_does_not_take_the_place_of_another() {
    let part = |temperature, is_held| Part { temperature, bytes: 10, is_held };
    assert_eq!(plan(&[part(1.0, true), part(1.2, false)], 10), []);
    let moves = plan(&[part(1.0, true), part(1.3, false)], 10);
    assert_eq!(moves, [Move::Release(0), Move::Hold(1)]);
    assert_eq!(plan(&[part(1.0, true), part(1.3, false)], 0), [Move::Release(0)]);
    assert_eq!(plan(&[], 10), []);
}
