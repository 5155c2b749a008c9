use super::*;

const SEED: u64 = 11;

fn clouds(centres: usize, per_centre: usize, dimension: usize, offset: f32) -> Vec<f32> {
    let mut random = SplitMix(SEED);
    let centres: Vec<f32> = (0..centres * dimension).map(|_| random.normal() * 10.0).collect();
    let mut rows = Vec::new();
    for _ in 0..per_centre {
        for centre in centres.chunks_exact(dimension) {
            rows.extend(centre.iter().map(|x| x + random.normal() * 0.5 + offset));
        }
    }
    rows
}

fn settings(clusters: usize, balance: f32) -> KMeansSettings {
    KMeansSettings { clusters, iterations: 12, seed: SEED, balance }
}

fn check_shape(found: &KMeans, rows: &[f32], dimension: usize, clusters: usize) {
    assert_eq!(found.centroids.len(), clusters * dimension);
    assert_eq!(found.assignment.len(), rows.len() / dimension);
    assert_eq!(found.sizes.len(), clusters);
    for (c, &size) in found.sizes.iter().enumerate() {
        let members = found.assignment.iter().filter(|&&a| a as usize == c).count();
        assert_eq!(members, size as usize, "size of cluster {c}");
    }
    assert!(found.centroids.iter().all(|x| x.is_finite()));
}

fn cost(found: &KMeans, rows: &[f32], dimension: usize) -> f32 {
    let pairs = rows.chunks_exact(dimension).zip(&found.assignment);
    pairs
        .map(|(row, &c)| {
            kernels::l2_squared(row, &found.centroids[c as usize * dimension..][..dimension])
        })
        .sum()
}

#[test]
fn every_row_goes_to_its_nearest_centroid() {
    for (clusters, dimension) in [(2, 16), (7, 100), (8, 100), (33, 24), (100, 1)] {
        let rows = clouds(20, 41, dimension, 0.0);
        let found = KMeans::train(&rows, dimension, settings(clusters, 0.0));
        check_shape(&found, &rows, dimension, clusters);
        for (row, &c) in rows.chunks_exact(dimension).zip(&found.assignment) {
            let distances: Vec<f32> = found
                .centroids
                .chunks_exact(dimension)
                .map(|centroid| kernels::l2_squared(row, centroid))
                .collect();
            let nearest = distances.iter().copied().fold(f32::INFINITY, f32::min);
            let chosen = distances[c as usize];
            assert!(chosen <= nearest + 1e-3 * (1.0 + nearest), "{chosen} but {nearest} is there");
        }
    }
}

/// Far from the origin, `|c|² − 2⟨x, c⟩` alone would lose every digit that distinguishes the
/// clusters.
#[test]
fn rows_far_from_the_origin_are_clustered_as_well() {
    let (near, far) = (clouds(16, 40, 32, 0.0), clouds(16, 40, 32, 1000.0));
    let near = cost(&KMeans::train(&near, 32, settings(16, 0.0)), &near, 32);
    let far = cost(&KMeans::train(&far, 32, settings(16, 0.0)), &far, 32);
    assert!((near - far).abs() < 0.02 * near, "{far} far from the origin, {near} near it");
}

#[test]
fn same_seed_gives_same_result_and_another_seed_another() {
    let rows = clouds(30, 20, 20, 0.0);
    let first = KMeans::train(&rows, 20, settings(25, 0.3));
    let second = KMeans::train(&rows, 20, settings(25, 0.3));
    assert_eq!(first.centroids, second.centroids);
    assert_eq!(first.assignment, second.assignment);
    let other = KMeans::train(&rows, 20, KMeansSettings { seed: 12, ..settings(25, 0.3) });
    assert_ne!(first.assignment, other.assignment);
}

#[test]
fn balance_narrows_the_sizes() {
    let mut rows = clouds(3, 300, 8, 0.0);
    rows.extend(clouds(1, 900, 8, 0.0));
    let spread = |balance| {
        let found = KMeans::train(&rows, 8, settings(12, balance));
        check_shape(&found, &rows, 8, 12);
        *found.sizes.iter().max().expect("12 clusters")
    };
    let (plain, balanced) = (spread(0.0), spread(1.0));
    assert!(balanced < plain, "largest cluster {balanced} balanced, {plain} plain");
    assert!(balanced < 2 * 1800 / 12, "largest cluster {balanced} of 12 over 1800 rows");
}

#[test]
fn fewer_rows_than_clusters_give_a_cluster_per_row() {
    let rows = clouds(3, 1, 5, 0.0);
    let found = KMeans::train(&rows, 5, settings(64, 0.0));
    check_shape(&found, &rows, 5, 3);
    assert_eq!(found.sizes, [1, 1, 1]);
    let one = KMeans::train(&rows[..5], 5, settings(2, 1.0));
    check_shape(&one, &rows[..5], 5, 1);
    assert_eq!(one.centroids, rows[..5]);
}

#[test]
fn equal_rows_are_no_trouble() {
    let rows = [1.0f32, -2.0, 3.0].repeat(100);
    for (clusters, balance) in [(2, 0.0), (2, 1.0), (20, 0.0), (20, 1.0)] {
        let found = KMeans::train(&rows, 3, settings(clusters, balance));
        check_shape(&found, &rows, 3, clusters);
        assert!(cost(&found, &rows, 3) < 1e-6);
    }
}

#[test]
fn no_cluster_stays_empty_where_rows_differ() {
    let rows = clouds(40, 10, 6, 0.0);
    let found = KMeans::train(&rows, 6, settings(40, 0.0));
    assert!(found.sizes.iter().all(|&size| size > 0), "sizes {:?}", found.sizes);
}

#[test]
fn least_finds_the_first_smallest() {
    assert_eq!(least(&[3.0, 1.0, 2.0, 1.0]), 1);
    let mut many = vec![5.0; 40];
    many[37] = -1.0;
    assert_eq!(least(&many), 37);
    many[3] = -1.0;
    assert_eq!(least(&many), 3);
    assert_eq!(least(&[f32::NAN, f32::NAN]), 0);
}
