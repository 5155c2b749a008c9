//! Compares 32 values with a bound and returns a bit per value. Integers, so every level gives the same.

/// Values that are compared at once, and bits of the result.
pub const LANES: usize = 32;

/// See [`super::lanes_equal`].
pub(super) fn equal(values: &[u32; LANES], wanted: u32) -> u32 {
    mask_of(values, |value| value == wanted)
}

/// See [`super::lanes_within`].
pub(super) fn within(values: &[u64; LANES], least: i64, most: i64) -> u32 {
    mask_of(values, |value| (value as i64 >= least) & (value as i64 <= most))
}

#[inline]
fn mask_of<T: Copy>(values: &[T; LANES], test: impl Fn(T) -> bool) -> u32 {
    let mut passed = [0u8; LANES];
    for (passed, &value) in passed.iter_mut().zip(values) {
        *passed = u8::from(test(value));
    }
    // The product moves the lowest bits of 8 bytes next to each other, the first byte's lowest.
    let bits = |bytes: &[u8; 8]| {
        (u64::from_le_bytes(*bytes).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
    };
    let (bytes, _) = passed.as_chunks::<8>();
    bytes.iter().rev().fold(0, |mask, bytes| mask << 8 | bits(bytes))
}
