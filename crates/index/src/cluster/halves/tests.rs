use super::two_sides;
use vstream_vector::{kernels, KMeans, KMeansSettings, SplitMix};

const DIMENSION: usize = 128;

fn cloud(random: &mut SplitMix, n: usize, at: f32) -> Vec<f32> {
    (0..n * DIMENSION).map(|_| at + random.normal()).collect()
}

fn count(sides: &[u8]) -> [usize; 2] {
    let ones = sides.iter().filter(|&&side| side == 1).count();
    [sides.len() - ones, ones]
}

#[test]
fn two_clouds_are_told_apart() {
    let mut random = SplitMix(3);
    let mut rows = cloud(&mut random, 150, 40.0);
    rows.extend(cloud(&mut random, 250, 42.0));
    let sides = two_sides(&rows, DIMENSION, 9);
    assert!(sides[..150].iter().all(|&side| side == sides[0]));
    assert!(sides[150..].iter().all(|&side| side != sides[0]));
}

/// Squared distances to the mean of the own side, of rows that lie along a few directions.
#[test]
fn halves_of_one_cloud_are_nearly_as_tight_as_those_of_k_means() {
    for seed in 1..=20 {
        println!("seed {seed}");
        let mut random = SplitMix(seed);
        let directions: Vec<f32> = (0..8 * DIMENSION).map(|_| random.normal()).collect();
        let mut rows = cloud(&mut random, 385, 5.0);
        for row in rows.chunks_exact_mut(DIMENSION) {
            for direction in directions.chunks_exact(DIMENSION) {
                let along = random.normal();
                row.iter_mut().zip(direction).for_each(|(x, d)| *x += along * d);
            }
        }
        let spread = |sides: &[u8]| -> f32 {
            let part = |side| -> Vec<f32> {
                let own = rows.chunks_exact(DIMENSION).zip(sides).filter(|(_, &s)| s == side);
                own.flat_map(|(row, _)| row.to_vec()).collect()
            };
            let parts = [part(0), part(1)];
            let around = |part: &[f32]| {
                let mean = vstream_vector::mean(part, DIMENSION);
                part.chunks_exact(DIMENSION).map(|x| kernels::l2_squared(&mean, x)).sum::<f32>()
            };
            parts.iter().map(|part| around(part)).sum()
        };
        let settings = KMeansSettings { clusters: 2, iterations: 20, seed, balance: 0.0 };
        let best = KMeans::train(&rows, DIMENSION, settings).assignment;
        let best: Vec<u8> = best.into_iter().map(|side| side as u8).collect();
        let (own, best) = (spread(&two_sides(&rows, DIMENSION, seed)), spread(&best));
        assert!(own < best * 1.06, "{own} where k-means has {best}");
    }
}

/// Equal rows, one outlier, and a handful of rows: each side has a quarter whatever happens.
#[test]
fn each_side_has_a_quarter_of_any_rows() {
    let mut random = SplitMix(5);
    let one = cloud(&mut random, 1, 3.0);
    let equal: Vec<f32> = one.iter().copied().cycle().take(400 * DIMENSION).collect();
    assert_eq!(count(&two_sides(&equal, DIMENSION, 1)), [200, 200]);
    let mut outlier = equal.clone();
    outlier[7 * DIMENSION..][..DIMENSION].fill(1e4);
    for n in [2, 3, 5, 127, 129, 400] {
        for rows in [&equal, &outlier] {
            let sides = count(&two_sides(&rows[..n * DIMENSION], DIMENSION, 2));
            assert!(sides.iter().all(|&side| side >= n / 4), "{sides:?} of {n}");
        }
    }
    assert_eq!(two_sides(&equal[..DIMENSION], DIMENSION, 1).len(), 1);
}
