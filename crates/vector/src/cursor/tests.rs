use super::{ByteReader, Truncated};

#[test]
fn every_width_is_read_in_order() {
    let mut bytes = vec![1];
    bytes.extend_from_slice(&2u16.to_le_bytes());
    bytes.extend_from_slice(&3u32.to_le_bytes());
    bytes.extend_from_slice(&4u64.to_le_bytes());
    bytes.extend_from_slice(&5u128.to_le_bytes());
    bytes.extend_from_slice(&(-6i32).to_le_bytes());
    bytes.extend_from_slice(&7.5f32.to_le_bytes());
    bytes.extend_from_slice(&8.5f64.to_le_bytes());
    [9.0f32, f32::INFINITY].iter().for_each(|x| bytes.extend_from_slice(&x.to_le_bytes()));
    bytes.extend_from_slice(b"magic");
    let mut input = ByteReader::new(&bytes);
    assert_eq!(input.u8(), Ok(1));
    assert_eq!(input.u16(), Ok(2));
    assert_eq!(input.u32(), Ok(3));
    assert_eq!(input.u64(), Ok(4));
    assert_eq!(input.u128(), Ok(5));
    assert_eq!(input.i32(), Ok(-6));
    assert_eq!(input.f32(), Ok(7.5));
    assert_eq!(input.f64(), Ok(8.5));
    assert_eq!(input.f32s(2), Ok(vec![9.0, f32::INFINITY]));
    assert_eq!(input.offset(), bytes.len() - 5);
    assert_eq!(input.array(), Ok(*b"magic"));
    assert!(input.is_empty());
}

#[test]
fn a_read_beyond_the_end_says_where_and_changes_nothing() {
    let mut input = ByteReader::with_offset(&[1, 2, 3], 100);
    assert_eq!(input.u8(), Ok(1));
    let truncated = Truncated { offset: 101, needed: 4, left: 2 };
    assert_eq!(input.u32(), Err(truncated));
    assert_eq!(
        truncated.to_string(),
        "4 bytes are needed at offset 101 and 2 are left",
        "the sentence names the offset in the whole input"
    );
    assert_eq!(input.bytes(3), Err(Truncated { offset: 101, needed: 3, left: 2 }));
    assert_eq!(input.skip(3), Err(Truncated { offset: 101, needed: 3, left: 2 }));
    assert_eq!(input.bytes(2), Ok(&[2, 3][..]));
    assert_eq!(input.u8(), Err(Truncated { offset: 103, needed: 1, left: 0 }));
}

#[test]
fn counts_that_overflow_are_truncated_too() {
    let mut input = ByteReader::new(&[0; 8]);
    assert_eq!(input.require_items(2, 4), Ok(()));
    assert_eq!(input.require_items(3, 4), Err(Truncated { offset: 0, needed: 12, left: 8 }));
    let whole = Truncated { offset: 0, needed: usize::MAX, left: 8 };
    assert_eq!(input.require_items(usize::MAX, 2), Err(whole));
    assert_eq!(input.f32s(usize::MAX), Err(whole));
    assert_eq!(input.bytes(usize::MAX), Err(whole));
    assert_eq!(input.left(), 8);
}

#[test]
fn a_part_ends_where_it_was_split_and_keeps_the_offsets_of_the_whole() {
    let mut input = ByteReader::new(&[1, 2, 3, 4]);
    input.skip(1).expect("a byte");
    let mut part = input.split(2).expect("two bytes");
    assert_eq!((part.offset(), part.left(), input.offset()), (1, 2, 3));
    assert_eq!(part.u16(), Ok(0x0302));
    assert_eq!(part.u8(), Err(Truncated { offset: 3, needed: 1, left: 0 }));
    assert_eq!(input.rest(), [4]);
}
