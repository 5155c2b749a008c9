//! The promises that every template keeps, and the behaviour of each encoder.

use super::{cells, clustered, lsh, settings, templates, METRICS};
use crate::{partition_of_shard, Curve, EncoderSpec, Template};
use proptest::prelude::*;
use vstream_vector::Metric;

#[test]
fn a_placement_names_the_shard_of_its_code_and_shards_are_distinct() {
    for (name, template) in templates() {
        for (id, vector) in clustered(200, 3, 5, 8).chunks_exact(3).enumerate() {
            let (mut places, mut again) = (Vec::new(), Vec::new());
            template.place(id as u64, vector, &mut places).expect("the vector is good");
            template.place(id as u64, vector, &mut again).expect("the vector is good");
            assert_eq!(places, again, "{name}");
            assert!((1..=template.copies_max()).contains(&places.len()), "{name}");
            for (at, place) in places.iter().enumerate() {
                assert_eq!(template.shard_of(place.code), place.shard, "{name}");
                assert!(place.shard < template.shards(), "{name}");
                assert!(places[..at].iter().all(|p| p.shard != place.shard), "{name}");
            }
        }
    }
}

#[test]
fn a_vector_is_found_by_itself_at_every_parallelism() {
    for (name, template) in templates().into_iter().filter(|(n, _)| !n.contains("inner")) {
        for (id, vector) in clustered(200, 3, 5, 8).chunks_exact(3).enumerate() {
            let (mut places, mut partitions) = (Vec::new(), Vec::new());
            template.place(id as u64, vector, &mut places).expect("the vector is good");
            for parallelism in 1..=4 {
                template.fan_out(vector, parallelism, &mut partitions).expect("a good query");
                assert!(partitions.windows(2).all(|w| w[0] < w[1]), "{name}: ascending");
                assert!(partitions.iter().all(|&p| p < parallelism), "{name}");
                for place in &places {
                    let partition = partition_of_shard(place.shard, 4, parallelism);
                    assert!(partitions.contains(&partition), "{name} at {parallelism}");
                }
            }
        }
    }
}

#[test]
fn unplaced_records_are_spread_by_id_and_every_query_goes_everywhere() {
    for (name, template) in templates().into_iter().filter(|(n, _)| n.starts_with("unplaced")) {
        let is_id = name.ends_with("Id");
        assert_eq!(template.epoch(), u64::from(is_id), "{name}");
        assert_eq!(template.is_placed(), is_id, "{name}");
        let mut counts = [0; 4];
        let (mut places, mut partitions) = (Vec::new(), Vec::new());
        for id in 0..4000u64 {
            template.place(id, &[1.0, 0.0, 0.0], &mut places).expect("the vector is good");
            counts[usize::from(places[0].shard)] += 1;
        }
        assert!(counts.iter().all(|c| (900..1100).contains(c)), "{name}: {counts:?}");
        for parallelism in 1..=4 {
            template.fan_out(&[1.0, 0.0, 0.0], parallelism, &mut partitions).expect("good query");
            assert_eq!(partitions, (0..parallelism).collect::<Vec<_>>(), "{name}");
        }
    }
}

#[test]
fn the_id_encoder_needs_no_training_and_does_not_look_at_the_vector() {
    let by_id = settings(EncoderSpec::Id, Metric::L2, 3, 128);
    assert!(!Template::needs_training(&by_id));
    assert!(Template::needs_training(&settings(cells(8, 0.9), Metric::L2, 3, 128)));
    assert!(Template::needs_training(&settings(lsh(Curve::Gray, 1), Metric::L2, 3, 128)));
    let template = Template::unplaced(&by_id);
    let (mut a, mut b) = (Vec::new(), Vec::new());
    template.place(5, &[1.0, 2.0, 3.0], &mut a).expect("the vector is good");
    template.place(5, &[-9.0, 0.0, 1.0], &mut b).expect("the vector is good");
    assert_eq!(a, b);
}

#[test]
fn families_that_agree_make_one_copy() {
    let sample = clustered(400, 3, 5, 7);
    let one_shard = settings(lsh(Curve::Hilbert, 8), Metric::L2, 3, 1);
    let template = Template::train(&one_shard, &sample, 1).expect("the sample is good");
    let mut places = Vec::new();
    template.place(1, &[1.0, 2.0, 3.0], &mut places).expect("the vector is good");
    assert_eq!(places.len(), 1, "eight families, one shard, one copy");

    let many = settings(lsh(Curve::Hilbert, 8), Metric::L2, 3, 128);
    let template = Template::train(&many, &sample, 1).expect("the sample is good");
    let mut copies = 0;
    for vector in sample.chunks_exact(3) {
        template.place(1, vector, &mut places).expect("the vector is good");
        copies += places.len();
    }
    assert!((4 * 400..=8 * 400).contains(&copies), "{copies} copies");
}

#[test]
fn every_curve_routes_and_balances() {
    let sample = clustered(2000, 6, 10, 7);
    for curve in Curve::ALL {
        for metric in METRICS {
            let settings = settings(lsh(curve, 1), metric, 6, 16);
            let template = Template::train(&settings, &sample, 1).expect("the sample is good");
            let mut counts = [0usize; 16];
            let mut places = Vec::new();
            for vector in clustered(2000, 6, 10, 8).chunks_exact(6) {
                template.place(1, vector, &mut places).expect("the vector is good");
                counts[usize::from(places[0].shard)] += 1;
            }
            // 125 rows are expected. The grid is coarse and has ties, so the limit is higher.
            assert!(counts.iter().all(|&c| c < 250), "{curve} {metric}: {counts:?}");
        }
    }
}

/// In the paper's artifact each axis ran from the least to the largest value of the sample. One far
/// row squeezed all others into one cell and one partition.
#[test]
fn one_far_row_does_not_rescale_an_axis() {
    let mut sample = clustered(1000, 4, 5, 7);
    sample[..4].fill(1e6);
    let settings = settings(lsh(Curve::Hilbert, 1), Metric::L2, 4, 16);
    let template = Template::train(&settings, &sample, 1).expect("the sample is good");
    let mut codes = Vec::new();
    let mut places = Vec::new();
    for vector in sample[4..].chunks_exact(4) {
        template.place(1, vector, &mut places).expect("the vector is good");
        codes.push(places[0].code);
    }
    codes.sort_unstable();
    codes.dedup();
    assert!(codes.len() > 900, "{} codes for 999 rows", codes.len());
}

#[test]
fn cosine_looks_at_the_direction_only() {
    let sample = clustered(200, 3, 5, 7);
    for encoder in [cells(8, 0.9), lsh(Curve::Gray, 2)] {
        let settings = settings(encoder, Metric::Cosine, 3, 4);
        let template = Template::train(&settings, &sample, 1).expect("the sample is good");
        for vector in sample.chunks_exact(3) {
            let longer: Vec<f32> = vector.iter().map(|x| x * 1024.0).collect();
            let (mut a, mut b) = (Vec::new(), Vec::new());
            template.place(1, vector, &mut a).expect("the vector is good");
            template.place(1, &longer, &mut b).expect("the vector is good");
            assert_eq!(a, b);
        }
    }
}

proptest! {
    #[test]
    fn every_code_has_one_shard_and_shards_ascend_with_the_code(
        a in any::<u64>(),
        b in any::<u64>(),
        encoder in 0usize..3,
    ) {
        let encoder = [cells(8, 0.9), lsh(Curve::Hilbert, 1), EncoderSpec::Id][encoder].clone();
        let settings = settings(encoder, Metric::L2, 3, 4);
        let sample = clustered(200, 3, 5, 7);
        let template = Template::train(&settings, &sample, 1).expect("the sample is good");
        let (low, high) = (a.min(b), a.max(b));
        prop_assert!(template.shard_of(low) <= template.shard_of(high));
        prop_assert!(template.shard_of(u64::MAX) < 4);
        prop_assert_eq!(template.shard_of(0), 0);
    }

    #[test]
    fn any_finite_vector_has_a_place_and_a_way(
        vector in proptest::collection::vec(proptest::num::f32::ANY, 3),
        id in any::<u64>(),
    ) {
        for (name, template) in templates() {
            let (mut places, mut partitions) = (Vec::new(), Vec::new());
            let placed = template.place(id, &vector, &mut places);
            let routed = template.fan_out(&vector, 3, &mut partitions);
            prop_assert_eq!(placed.is_ok(), routed.is_ok(), "{}", &name);
            let finite = vector.iter().all(|x| x.is_finite());
            let zero = vector.iter().all(|&x| x == 0.0);
            prop_assert_eq!(placed.is_ok(), finite && !(zero && name.contains("cosine")));
            prop_assert_eq!(places.is_empty(), placed.is_err());
            prop_assert_eq!(partitions.is_empty(), routed.is_err());
        }
    }
}
