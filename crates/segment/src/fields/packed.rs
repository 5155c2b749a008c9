//! Columns of whole numbers, packed in bits: the least value, a width, then the difference of each
//! value to the least.
//!
//! ```text
//! u64 least | u8 bits | values x bits, rounded up to a byte
//! ```
//!
//! The width is 0, 1, 2, 4 or a multiple of 8, so that a value lies in whole bytes or in one byte.
//! Values in one byte begin at its lowest bit.

use vstream_vector::cursor::ByteReader;

use crate::malformed::Malformed;

fn width_of(range: u64) -> u32 {
    match u64::BITS - range.leading_zeros() {
        bits @ 0..=2 => bits,
        3..=4 => 4,
        bits => bits.next_multiple_of(8),
    }
}

/// Appends a column.
pub(crate) fn put(out: &mut Vec<u8>, values: impl Iterator<Item = u64> + Clone) {
    let (least, most) =
        values.clone().fold((u64::MAX, 0), |(least, most), x| (least.min(x), most.max(x)));
    let least = least.min(most);
    let bits = width_of(most - least);
    out.extend_from_slice(&least.to_le_bytes());
    out.push(bits as u8);
    if bits >= 8 {
        let bytes = bits as usize / 8;
        values.for_each(|x| out.extend_from_slice(&(x - least).to_le_bytes()[..bytes]));
    } else if bits > 0 {
        let (mut byte, mut filled) = (0u8, 0);
        for value in values {
            byte |= ((value - least) as u8) << filled;
            filled += bits;
            if filled == 8 {
                out.push(byte);
                (byte, filled) = (0, 0);
            }
        }
        if filled > 0 {
            out.push(byte);
        }
    }
}

/// A column, borrowed from the bytes of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packed<'a> {
    least: u64,
    bits: usize,
    above: &'a [u8],
}

impl<'a> Packed<'a> {
    /// Reads a column of `n` values from `input`.
    pub(crate) fn take(input: &mut ByteReader<'a>, n: usize) -> Result<Packed<'a>, Malformed> {
        let (least, bits) = (input.u64()?, usize::from(input.u8()?));
        if !matches!(bits, 0 | 1 | 2 | 4) && (bits > 64 || !bits.is_multiple_of(8)) {
            return Err(Malformed("a packed column has an unknown width"));
        }
        let bytes = n.checked_mul(bits).map(|bits| bits.div_ceil(8));
        let bytes = bytes.ok_or(Malformed("a packed column has too many values"))?;
        let above = input.bytes(bytes);
        let above = above.map_err(|_| Malformed("a packed column is shorter than its values"))?;
        Ok(Packed { least, bits, above })
    }

    /// The value at a position, which must be in the column. The sum wraps only if the bytes are
    /// damaged.
    #[inline]
    pub(crate) fn get(&self, at: usize) -> u64 {
        let above = if self.bits >= 8 {
            let bytes = self.bits / 8;
            match self.above[at * bytes..].first_chunk() {
                // Whole words need no loop over bytes.
                Some(word) => u64::from_le_bytes(*word) & (u64::MAX >> (64 - self.bits)),
                None => {
                    let mut word = [0u8; 8];
                    word[..bytes].copy_from_slice(&self.above[at * bytes..][..bytes]);
                    u64::from_le_bytes(word)
                }
            }
        } else if self.bits == 0 {
            0
        } else {
            let bit = at * self.bits;
            u64::from(self.above[bit / 8] >> (bit % 8)) & ((1 << self.bits) - 1)
        };
        self.least.wrapping_add(above)
    }

    /// Writes up to 32 values from position `from` to `out`; they must be in the column.
    pub(crate) fn get_many(&self, from: usize, out: &mut [u64]) {
        match self.bits {
            0 => out.fill(self.least),
            8 => {
                let bytes = &self.above[from..][..out.len()];
                let pairs = out.iter_mut().zip(bytes);
                pairs.for_each(|(x, &byte)| *x = self.least.wrapping_add(u64::from(byte)));
            }
            16 => {
                let bytes = self.above[2 * from..][..2 * out.len()].as_chunks::<2>().0;
                let pairs = out.iter_mut().zip(bytes);
                pairs.for_each(|(x, &word)| {
                    *x = self.least.wrapping_add(u64::from(u16::from_le_bytes(word)));
                });
            }
            64 => {
                let bytes = self.above[8 * from..][..8 * out.len()].as_chunks::<8>().0;
                let pairs = out.iter_mut().zip(bytes);
                pairs.for_each(|(x, &word)| {
                    *x = self.least.wrapping_add(u64::from_le_bytes(word));
                });
            }
            _ => out.iter_mut().zip(from..).for_each(|(x, at)| *x = self.get(at)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vstream_vector::SplitMix;

    /// Bytes of a column before its values.
    const HEAD: usize = 9;

    #[test]
    fn every_width_keeps_its_values() {
        let seed = 41;
        let mut random = SplitMix(seed);
        for bits in 0..=64u32 {
            for n in [0usize, 1, 7, 8, 9, 31, 32, 33, 1000] {
                let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
                let base = if bits < 60 { random.next() >> 5 } else { 0 };
                let values: Vec<u64> = (0..n).map(|_| base + (random.next() & mask)).collect();
                let mut bytes = vec![7];
                put(&mut bytes, values.iter().copied());
                let mut input = ByteReader::new(&bytes[1..]);
                let packed = Packed::take(&mut input, n).unwrap();
                assert!(input.is_empty(), "seed {seed}, {bits} bits, {n} values");
                let back: Vec<u64> = (0..n).map(|at| packed.get(at)).collect();
                assert_eq!(back, values, "seed {seed}, {bits} bits");
                for from in (0..n).step_by(5) {
                    let mut out = vec![0; 32.min(n - from)];
                    packed.get_many(from, &mut out);
                    assert_eq!(out, values[from..from + out.len()], "seed {seed}, {bits} bits");
                }
                for cut in 1..bytes.len() {
                    let mut input = ByteReader::new(&bytes[1..cut]);
                    assert!(Packed::take(&mut input, n).is_err(), "cut to {cut}");
                }
            }
        }
    }

    #[test]
    fn few_values_take_few_bits() {
        let bytes = |values: &[u64]| {
            let mut out = Vec::new();
            put(&mut out, values.iter().copied());
            out.len() - HEAD
        };
        assert_eq!(bytes(&[9; 4096]), 0);
        assert_eq!(bytes(&[0, 3].repeat(2048)), 1024);
        assert_eq!(bytes(&[5, 20].repeat(2048)), 2048);
        assert_eq!(bytes(&[0, 255].repeat(2048)), 4096);
    }
}
