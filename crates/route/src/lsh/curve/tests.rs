use super::*;

/// All cells of a grid in the order of their positions.
fn walk(grid: &Grid) -> Vec<(u64, Vec<u32>)> {
    let cells = u64::from(grid.side).pow(grid.dimensions as u32);
    let mut walk: Vec<(u64, Vec<u32>)> = (0..cells)
        .map(|mut rest| {
            let cell: Vec<u32> = (0..grid.dimensions)
                .map(|_| {
                    let x = rest % u64::from(grid.side);
                    rest /= u64::from(grid.side);
                    x as u32
                })
                .collect();
            (grid.position(&cell), cell)
        })
        .collect();
    walk.sort_unstable();
    walk
}

/// Small grids in 1 to 8 dimensions, each small enough to be walked whole.
fn grids(curve: Curve) -> Vec<Grid> {
    let shapes: &[(usize, u32)] = match curve {
        Curve::Peano => &[(1, 3), (2, 1), (2, 3), (3, 1), (3, 3), (4, 2), (5, 2), (8, 1)],
        _ => &[(1, 5), (2, 1), (2, 5), (3, 1), (3, 4), (4, 3), (5, 3), (8, 1), (8, 2)],
    };
    shapes.iter().map(|&(n, levels)| Grid::new(curve, n, levels).expect("it fits")).collect()
}

fn steps(a: &[u32], b: &[u32]) -> u32 {
    a.iter().zip(b).map(|(&x, &y)| x.abs_diff(y)).sum()
}

#[test]
fn positions_are_the_numbers_from_zero_without_gaps() {
    for curve in [Curve::ZOrder, Curve::Hilbert, Curve::Gray, Curve::Peano] {
        for grid in grids(curve) {
            for (rank, (position, cell)) in walk(&grid).iter().enumerate() {
                assert_eq!(*position, rank as u64, "{grid:?} at {cell:?}");
            }
        }
    }
}

#[test]
fn consecutive_cells_of_hilbert_and_peano_share_a_face() {
    for curve in [Curve::Hilbert, Curve::Peano] {
        for grid in grids(curve) {
            for pair in walk(&grid).windows(2) {
                assert_eq!(steps(&pair[0].1, &pair[1].1), 1, "{grid:?} at {pair:?}");
            }
        }
    }
}

#[test]
fn consecutive_cells_of_gray_differ_in_one_bit_of_the_interleaved_word() {
    for grid in grids(Curve::Gray) {
        for pair in walk(&grid).windows(2) {
            let words = [&pair[0].1, &pair[1].1].map(|cell| zorder::position(cell, grid.levels));
            assert_eq!((words[0] ^ words[1]).count_ones(), 1, "{grid:?} at {pair:?}");
        }
    }
}

#[test]
fn z_order_grows_in_every_coordinate() {
    for grid in grids(Curve::ZOrder) {
        for (position, mut cell) in walk(&grid) {
            for i in 0..cell.len() {
                cell[i] += 1;
                assert!(cell[i] == grid.side || grid.position(&cell) > position);
                cell[i] -= 1;
            }
        }
    }
}

#[test]
fn sierpinski_gives_every_cell_its_own_position_below_the_bound() {
    for grid in grids(Curve::Sierpinski) {
        let walk = walk(&grid);
        let bound = positions(grid.curve, grid.dimensions, grid.levels);
        assert!(u128::from(walk[walk.len() - 1].0) < bound);
        assert!(walk.windows(2).all(|pair| pair[0].0 < pair[1].0), "{grid:?}");
    }
}

#[test]
fn sierpinski_cells_that_agree_in_a_prefix_lie_in_one_cube() {
    for grid in grids(Curve::Sierpinski) {
        let walk = walk(&grid);
        for level in 0..=grid.levels {
            let shift = grid.dimensions as u32 * (grid.levels - level);
            for group in walk.chunk_by(|a, b| a.0 >> shift == b.0 >> shift) {
                let cube = |cell: &[u32]| -> Vec<u32> {
                    cell.iter().map(|&x| x >> (grid.levels - level)).collect()
                };
                let first = cube(&group[0].1);
                assert!(group.iter().all(|(_, cell)| cube(cell) == first), "{grid:?} {level}");
            }
        }
    }
}

#[test]
fn sierpinski_in_two_dimensions_is_a_closed_walk_of_near_cells() {
    for levels in 1..=7 {
        let grid = Grid::new(Curve::Sierpinski, 2, levels).expect("it fits");
        let walk = walk(&grid);
        let mut farthest = 0;
        for i in 0..walk.len() {
            let (a, b) = (&walk[i].1, &walk[(i + 1) % walk.len()].1);
            farthest = farthest.max(a[0].abs_diff(b[0]).max(a[1].abs_diff(b[1])));
        }
        assert!(farthest <= 2, "{levels} levels: a step of {farthest} cells");
    }
}

#[test]
fn every_dimension_decides() {
    for curve in Curve::ALL {
        for dimensions in [2, 3, 8] {
            let grid = Grid::new(curve, dimensions, 2).expect("it fits");
            let origin = vec![0u32; dimensions];
            for i in 0..dimensions {
                let mut moved = origin.clone();
                moved[i] = grid.side - 1;
                assert_ne!(grid.position(&moved), grid.position(&origin), "{curve} axis {i}");
            }
        }
    }
}

#[test]
fn codes_keep_the_order_of_positions_and_fit_beside_the_family() {
    for curve in Curve::ALL {
        for (hashes, families) in [(1, 1), (3, 5), (10, 8), (10, 1), (16, 8)] {
            let grid = Grid::for_code(curve, hashes, 7, families).expect("it fits");
            let far = vec![grid.side - 1; hashes];
            let mut near = far.clone();
            near[hashes - 1] -= 1;
            let (a, b) = (grid.position(&near), grid.position(&far));
            for family in 0..families {
                let codes = [a, b].map(|p| grid.code(p, family, families));
                assert_eq!(codes[0] < codes[1], a < b, "{curve} {hashes} {families}");
                for code in codes {
                    assert_eq!(
                        code.checked_shr(64 - family_bits(families)).unwrap_or(0),
                        family as u64
                    );
                }
            }
        }
    }
}

#[test]
fn ten_hashes_keep_as_many_bits_as_the_code_holds() {
    let side = |curve| Grid::for_code(curve, 10, 7, 8).expect("it fits").side();
    assert_eq!(side(Curve::ZOrder), 64);
    assert_eq!(side(Curve::Hilbert), 64);
    assert_eq!(side(Curve::Gray), 64);
    assert_eq!(side(Curve::Peano), 27);
    assert_eq!(side(Curve::Sierpinski), 8);
}

#[test]
fn grids_that_do_not_fit_are_refused() {
    assert!(Grid::new(Curve::Hilbert, 10, 7).is_err());
    assert!(Grid::new(Curve::Hilbert, 0, 1).is_err());
    assert!(Grid::new(Curve::Hilbert, 2, 0).is_err());
    assert!(Grid::new(Curve::Hilbert, 1, 17).is_err());
    assert!(Grid::for_code(Curve::Peano, 41, 1, 1).is_err());
    assert!(Grid::for_code(Curve::Sierpinski, 18, 1, 8).is_err());
}

#[test]
fn names_are_read_back() {
    for curve in Curve::ALL {
        assert_eq!(curve.name().parse::<Curve>(), Ok(curve));
        assert_eq!(Curve::from_tag(curve.tag()), Some(curve));
    }
    assert!("moore".parse::<Curve>().is_err());
    assert_eq!(Curve::from_tag(5), None);
}
