use vstream_vector::SplitMix;

use super::{width, Entries, Packed};

/// Ids in a row, far from 0, spread over all numbers, and the ends of what a number holds.
fn kinds_of_ids() -> [Vec<u64>; 6] {
    let mut random = SplitMix(7);
    [
        vec![0],
        vec![u64::MAX],
        vec![0, u64::MAX, 1, u64::MAX - 1],
        (0..70_000).collect(),
        (0..300).map(|nth| (1 << 40) + nth * 3).collect(),
        (0..5_000).map(|_| random.next()).collect(),
    ]
}

#[test]
fn an_id_has_its_row_and_no_other_is_found() {
    for ids in kinds_of_ids() {
        let (least, most) = (*ids.iter().min().unwrap(), *ids.iter().max().unwrap());
        for rows in [ids.len() as u64, 1 << 17, u64::from(u32::MAX)] {
            let row_of = |nth: usize| (rows - 1 - nth as u64) as u32;
            let mut entries = Entries::new(ids.len(), (least, most), rows);
            (0..ids.len()).for_each(|at| entries.set(at, ids[at], row_of(at)));
            let listed: Vec<(u64, u32)> = entries.iter().collect();
            let expected: Vec<(u64, u32)> =
                ids.iter().enumerate().map(|(at, &id)| (id, row_of(at))).collect();
            assert_eq!(listed, expected);
            // As many as a bucket has.
            for from in (0..ids.len()).step_by(8).take(100) {
                let bucket = from..ids.len().min(from + 8);
                for at in bucket.clone() {
                    assert_eq!(entries.find(bucket.clone(), ids[at]), Some(row_of(at)));
                    let others = [ids[at] ^ 1 << 63, ids[at] ^ 1 << 20, ids[at] ^ 1 << 8];
                    for other in others.into_iter().filter(|other| !ids.contains(other)) {
                        assert_eq!(entries.find(bucket.clone(), other), None, "{other}");
                    }
                }
            }
        }
    }
}

#[test]
fn ids_in_a_row_take_six_bytes_with_their_row() {
    let entries = Entries::new(100_000, (5_000_000, 5_099_999), 100_000);
    assert_eq!(entries.entry_bytes(), 6);
    let hashes = Entries::new(100_000, (17, u64::MAX - 3), 100_000);
    assert_eq!(hashes.entry_bytes(), 11);
}

#[test]
fn numbers_are_kept_in_as_many_bytes_as_their_differences_take() {
    for numbers in kinds_of_ids() {
        let packed = Packed::of(&numbers);
        let spread = numbers.iter().max().unwrap() - numbers.iter().min().unwrap();
        assert_eq!(packed.width, width(spread));
        (0..numbers.len()).for_each(|at| assert_eq!(packed.get(at as u32), numbers[at]));
    }
    assert_eq!(Packed::of(&[]).above.len(), 0);
    assert_eq!(Packed::of(&[9; 1_000]).above.len(), 0);
}
