use std::cmp::Reverse;
use std::collections::BTreeSet;

use vstream_vector::SplitMix;

use super::{width, Entries, IdTable, Packed};

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

/// A table of ids, of rows of so many that are numbered from the last one down.
fn table(ids: &[u64], rows: u64) -> IdTable {
    let range = (*ids.iter().min().unwrap(), *ids.iter().max().unwrap());
    let mut entries = Entries::new(ids.len(), range, rows, 99);
    let mut order: Vec<usize> = (0..ids.len()).collect();
    order.sort_by_key(|&at| entries.bucket(ids[at]));
    let mut starts = vec![0u32; entries.buckets() + 1];
    for (place, &at) in order.iter().enumerate() {
        entries.set(place, ids[at], (rows - 1 - at as u64) as u32);
        starts[entries.bucket(ids[at]) + 1..].iter_mut().for_each(|end| *end = place as u32 + 1);
    }
    IdTable { starts: starts.into(), entries, versions: Packed::of(&[]) }
}

#[test]
fn an_id_has_its_row_and_no_other_is_found() {
    for ids in kinds_of_ids() {
        let known: BTreeSet<u64> = ids.iter().copied().collect();
        for rows in [ids.len() as u64, 1 << 17, 1 << 32] {
            let table = table(&ids, rows);
            let mut listed: Vec<(u64, u32)> = table.rows().collect();
            listed.sort_unstable_by_key(|&(_, row)| Reverse(row));
            let rows_of = (0..rows).rev().map(|row| row as u32);
            assert_eq!(listed, ids.iter().copied().zip(rows_of).collect::<Vec<_>>());
            for (at, &id) in ids.iter().enumerate() {
                assert_eq!(table.find(id), Some((rows - 1 - at as u64) as u32));
                let bucket = table.approach(id);
                table.prefetch(bucket);
                assert_eq!(table.find_in(bucket, id), table.find(id));
                let others = [0, 8, 20, 40, 63].map(|bit| id ^ 1 << bit);
                for other in others.into_iter().filter(|other| !known.contains(other)) {
                    assert_eq!(table.find(other), None, "{other}");
                }
            }
        }
    }
}

#[test]
fn what_the_bucket_of_an_id_says_of_it_takes_no_room() {
    // 2^20 ids in 2^17 buckets, of which 3 bits are left, and rows of 20 bits.
    let in_a_row = Entries::new(1 << 20, (5_000_000, 5_000_000 + (1 << 20) - 1), 1 << 20, 1);
    assert_eq!(in_a_row.entry_bits(), 23);
    let hashes = Entries::new(1 << 20, (17, u64::MAX - 3), 1 << 20, 1);
    assert_eq!(hashes.entry_bits(), 67);
    let none = Entries::new(0, (0, 0), 1 << 32, 1);
    assert_eq!((none.buckets(), none.find(0..0, 7)), (1, None));
    let few_of_many = Entries::new(3, (0, u64::MAX), 1 << 32, 1);
    assert_eq!(few_of_many.entry_bits(), 96);
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
