//! Streams of queries: as if anything were asked for equally often, or some things far more often.

use vstream_vector::{kernels, KMeans, KMeansSettings, SplitMix};

use crate::runbook::Matrix;

/// Topics that queries are sorted into.
const TOPICS: usize = 64;
/// The topic of rank `r` is asked for in proportion to `1 / r^SKEW`.
const SKEW: f64 = 1.2;
/// Length of what is added to a query, in that of the query: so that none comes twice.
const NOISE: f32 = 0.05;

/// What is asked, one after the other.
pub struct Stream {
    /// As tables name it.
    pub name: &'static str,
    /// The queries in their order.
    pub queries: Matrix,
}

/// `count` queries, each of `from` equally often, with noise.
pub fn uniform(from: &Matrix, count: usize, seed: u64) -> Stream {
    let mut random = SplitMix(seed);
    let order: Vec<u32> = (0..count).map(|_| random.below(from.rows()) as u32).collect();
    Stream { name: "uniform", queries: with_noise(from.picked(&order), &mut random) }
}

/// `count` queries by topic: `from` is divided into 64 topics by k-means, the topics are put in
/// order by chance, and drawn by Zipf's law with exponent 1.2 (the first of them is a quarter of
/// the stream), then a query of the topic, equally often, with noise.
pub fn skewed(from: &Matrix, count: usize, seed: u64) -> Stream {
    let mut random = SplitMix(seed);
    let settings =
        KMeansSettings { clusters: TOPICS.min(from.rows()), iterations: 10, seed, balance: 0.0 };
    let found = KMeans::train(&from.values, from.dimension, settings);
    let mut topics: Vec<Vec<u32>> = vec![Vec::new(); found.sizes.len()];
    found.assignment.iter().zip(0..).for_each(|(&topic, row)| topics[topic as usize].push(row));
    topics.retain(|rows| !rows.is_empty());
    for at in (1..topics.len()).rev() {
        topics.swap(at, random.below(at + 1));
    }
    let weights: Vec<f64> = (1..=topics.len()).map(|rank| (rank as f64).powf(-SKEW)).collect();
    let all: f64 = weights.iter().sum();
    let draw = |random: &mut SplitMix| {
        let mut left = f64::from(random.unit()) * all;
        let topic = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        let rows = &topics[topic.unwrap_or(topics.len() - 1)];
        rows[random.below(rows.len())]
    };
    let order: Vec<u32> = (0..count).map(|_| draw(&mut random)).collect();
    Stream { name: "skewed", queries: with_noise(from.picked(&order), &mut random) }
}

fn with_noise(mut queries: Matrix, random: &mut SplitMix) -> Matrix {
    for query in queries.values.chunks_exact_mut(queries.dimension) {
        let length = kernels::norm_squared(query).sqrt();
        let each = NOISE * length / (query.len() as f32).sqrt();
        query.iter_mut().for_each(|x| *x += each * random.normal());
    }
    queries
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUPS: usize = 50;

    /// Groups on a circle, farther apart than the noise of a stream carries a query.
    fn base() -> Matrix {
        let mut random = SplitMix(9);
        let values = (0..10 * GROUPS).flat_map(|row| {
            let angle = std::f32::consts::TAU * (row % GROUPS) as f32 / GROUPS as f32;
            [100.0 * angle.cos() + random.normal(), 100.0 * angle.sin() + random.normal()]
        });
        Matrix { dimension: 2, values: values.collect() }
    }

    /// Share of the most frequent group.
    fn largest(stream: &Stream) -> f64 {
        let mut counts = [0usize; GROUPS];
        for row in 0..stream.queries.rows() {
            let at = stream.queries.row(row);
            let turn = at[1].atan2(at[0]) / std::f32::consts::TAU;
            let group = (turn * GROUPS as f32).round().rem_euclid(GROUPS as f32);
            counts[group as usize % GROUPS] += 1;
        }
        *counts.iter().max().expect("groups") as f64 / stream.queries.rows() as f64
    }

    #[test]
    fn one_stream_is_even_and_the_other_is_not() {
        let base = base();
        let (even, skewed) = (uniform(&base, 4_000, 1), skewed(&base, 4_000, 1));
        assert!(largest(&even) < 0.12, "{}", largest(&even));
        assert!(largest(&skewed) > 0.18, "{}", largest(&skewed));
        assert_eq!(even.queries.rows(), 4_000);
        let again = super::skewed(&base, 4_000, 1);
        assert_eq!(again.queries, skewed.queries, "the same seed, the same stream");
    }
}
