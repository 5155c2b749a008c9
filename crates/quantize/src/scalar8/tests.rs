//! The promises of the codes: distances within their bound, and a good order.

use super::*;
use vstream_vector::SplitMix;

const SEED: u64 = 23;

fn normals(random: &mut SplitMix, n: usize, offset: f32) -> Vec<f32> {
    (0..n).map(|_| offset + random.normal()).collect()
}

fn scanned(centroids: &Centroids, form: Form, query: &[f32]) -> Vec<f32> {
    let mut out = vec![f32::NAN; 3];
    centroids.scan(form, query, &mut ScanScratch::default(), &mut out);
    out
}

/// The bound from the module's documentation for the centroid of a lane, with room for float
/// rounding.
fn bound(centroids: &Centroids, form: Form, query: &[f32], row: usize, centroid: &[f32]) -> f32 {
    let block = &centroids.blocks[row / LANES];
    let mean = &centroids.mean;
    let centred = |x: &[f32]| -> Vec<f32> { x.iter().zip(mean).map(|(x, m)| x - m).collect() };
    let (query_centred, centroid_centred) = (centred(query), centred(centroid));
    let query_step = query_centred.iter().fold(0.0f32, |a, x| a.max(x.abs())) / 127.0;
    let query_size: f32 = query_centred.iter().map(|x| x.abs()).sum();
    let centroid_size: f32 = centroid_centred.iter().map(|x| (x - block.middle).abs()).sum();
    let both = (centroids.groups * GROUP) as f32 * block.step * query_step / 2.0;
    let product = (block.step * query_size + query_step * centroid_size + both) / 2.0;
    let rounding = 1e-5 * (vector::norm_squared(query) + vector::norm_squared(centroid));
    rounding + if form == Form::L2 { 2.0 * product } else { product }
}

#[test]
fn distances_are_within_their_bound() {
    let mut random = SplitMix(SEED);
    for dimension in [1, 2, 7, 16, 100, 128, 768] {
        for n in [1, 16, 37, 200] {
            for offset in [0.0, 5.0] {
                let rows = normals(&mut random, n * dimension, offset);
                let query = normals(&mut random, dimension, offset);
                let centroids = Centroids::build(&rows, dimension);
                assert_eq!((centroids.len(), centroids.dimension()), (n, dimension));
                for form in [Form::L2, Form::InnerProduct] {
                    let found = scanned(&centroids, form, &query);
                    assert_eq!(found.len(), n);
                    for (i, (row, found)) in rows.chunks_exact(dimension).zip(found).enumerate() {
                        let exact = form.base(&query, row);
                        let bound = bound(&centroids, form, &query, i, row);
                        assert!(
                            (found - exact).abs() <= bound,
                            "{found}, exactly {exact} ± {bound}: row {i} of {n} × {dimension}, \
                             {form:?}, seed {SEED}"
                        );
                    }
                }
            }
        }
    }
}

/// A search visits the nearest few centroids and takes a quarter more to be safe.
#[test]
fn the_nearest_are_among_a_few_more_by_estimate() {
    let mut random = SplitMix(SEED);
    let (dimension, n, wanted) = (128, 4096, 32);
    let rows = normals(&mut random, n * dimension, 3.0);
    let centroids = Centroids::build(&rows, dimension);
    for form in [Form::L2, Form::InnerProduct] {
        let mut held = 0;
        for _ in 0..20 {
            let query = normals(&mut random, dimension, 3.0);
            let mut pairs: Vec<(f32, f32)> = rows
                .chunks_exact(dimension)
                .map(|row| form.base(&query, row))
                .zip(scanned(&centroids, form, &query))
                .collect();
            pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
            let worst = pairs[wanted - 1].0;
            pairs.sort_by(|a, b| a.1.total_cmp(&b.1));
            held += pairs[..wanted * 5 / 4].iter().filter(|pair| pair.0 <= worst).count();
        }
        let share = held as f32 / (20 * wanted) as f32;
        assert!(share > 0.995, "{share} of the nearest {wanted}, {form:?}, seed {SEED}");
    }
}

#[test]
fn equal_centroids_and_no_centroids_are_no_trouble() {
    let mut random = SplitMix(SEED);
    let (row, query) = (normals(&mut random, 20, 1.0), normals(&mut random, 20, 1.0));
    let centroids = Centroids::build(&row.repeat(18), 20);
    for form in [Form::L2, Form::InnerProduct] {
        let exact = form.base(&query, &row);
        let found = scanned(&centroids, form, &query);
        assert_eq!(found.len(), 18);
        assert!(found.iter().all(|x| (x - exact).abs() <= 1e-4 * (1.0 + exact.abs())));
        let at_centroid = scanned(&centroids, form, &row);
        let exact = form.base(&row, &row);
        assert!(at_centroid.iter().all(|x| (x - exact).abs() <= 1e-4 * (1.0 + exact.abs())));
    }
    let none = Centroids::build(&[], 20);
    assert!(none.is_empty());
    assert!(scanned(&none, Form::L2, &query).is_empty());
}

#[test]
fn scratch_is_reused_for_other_centroids() {
    let mut random = SplitMix(SEED);
    let (mut scratch, mut out) = (ScanScratch::default(), Vec::new());
    for (n, dimension) in [(100, 128), (3, 17), (40, 768), (1, 1)] {
        let rows = normals(&mut random, n * dimension, 0.0);
        let query = normals(&mut random, dimension, 0.0);
        let centroids = Centroids::build(&rows, dimension);
        centroids.scan(Form::L2, &query, &mut scratch, &mut out);
        assert_eq!(out, scanned(&centroids, Form::L2, &query));
    }
}

#[test]
#[should_panic(expected = "query of another dimension")]
fn a_query_of_another_dimension_is_refused() {
    scanned(&Centroids::build(&[1.0; 8], 4), Form::L2, &[1.0; 5]);
}
