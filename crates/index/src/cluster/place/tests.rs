//! `take_least` returns the values that sorting would bring to the front.

use vstream_vector::SplitMix;

use super::take_least;

#[test]
fn the_least_values_are_taken_in_order() {
    for seed in 0..200 {
        let mut random = SplitMix(seed);
        let n = random.below(700);
        let values: Vec<f32> = (0..n)
            .map(|_| match random.below(10) {
                0 => f32::INFINITY,
                1 => f32::NAN,
                // Equal ones too.
                2 => 1.0,
                _ => random.normal(),
            })
            .collect();
        let mut sorted: Vec<f32> = values.iter().copied().filter(|x| x.is_finite()).collect();
        sorted.sort_by(f32::total_cmp);
        let mut taken = [usize::MAX; 6];
        let found = take_least(&mut values.clone(), taken.iter_mut(), |at| at);
        assert_eq!(found, sorted.len().min(6), "seed {seed}");
        let mut positions = taken[..found].to_vec();
        let least: Vec<f32> = positions.iter().map(|&at| values[at]).collect();
        assert_eq!(least, sorted[..found], "seed {seed}");
        positions.sort_unstable();
        positions.dedup();
        assert_eq!(positions.len(), found, "seed {seed}: taken twice");
    }
}
