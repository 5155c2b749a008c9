use super::*;

#[test]
fn ranks_are_those_of_a_count() {
    // Leaves of the rows before one in leaf 5, in the order of their estimates.
    let better = [0u32, 3, 5, 5, 6, 7, 8, 20, 300];
    let ranks = CodeRanks::new(5, better.into_iter());
    let counted = |probes: u32| better.iter().filter(|&&leaf| leaf < probes.max(6)).count();
    for probes in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1 << 22] {
        assert_eq!(ranks.with_probes(probes), counted(probes as u32) as f64, "{probes} leaves");
    }
    assert_eq!(ranks.with_all(), 9);
    assert!(
        (ranks.with_probes(11) - (6.0 + 0.459)).abs() < 0.01,
        "between 8 and 16: {}",
        ranks.with_probes(11)
    );
}

#[test]
fn noted_neighbours_speak_for_all() {
    for k in [1, 2, 10, 16, 17, 100, 113, 1000] {
        let noted: Vec<(usize, u32)> = noted(k).collect();
        assert_eq!(noted.iter().map(|&(_, weight)| weight as usize).sum::<usize>(), k);
        assert!(noted.len() <= 64);
        assert!(noted.windows(2).all(|pair| pair[0].0 + pair[0].1 as usize == pair[1].0));
    }
    assert_eq!(noted(0).count(), 0);
}

#[test]
fn late_neighbours_need_a_depth_of_four_times_their_rank() {
    assert_eq!(depth_needed([].into_iter()), 0);
    assert_eq!(depth_needed([0, 3, 512].into_iter()), 2048);
    assert_eq!(depth_needed([513, 3, 0].into_iter()), 2052);
    assert_eq!(depth_needed((0..100).map(|at| if at < 2 { 2000 } else { at })), 4 * 99);
    assert_eq!(depth_needed((0..100).map(|at| if at < 3 { 2000 } else { at })), 8000);
}
