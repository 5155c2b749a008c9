//! Reads numbers of a few bits each, and joins the parts of numbers. Integers, so every level gives the same.

#[cfg(target_arch = "x86_64")]
pub(super) mod avx2;
#[cfg(test)]
mod tests;

/// Bits of the widest number.
pub const WIDTH_MAX: u32 = 32;

/// Codes that [`super::join`] tells apart.
pub const CODES: usize = 16;

/// Most bytes of rare words that [`super::join`] takes.
pub const RARE_MAX: usize = 255;

/// Numbers of different widths that follow each other, as a row of them is laid out.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    /// First bit of each, from the first one's.
    starts: Vec<u32>,
    masks: Vec<u32>,
    /// What is added to each.
    least: Vec<u32>,
    bits: u32,
}

impl Fields {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Bits of all together.
    pub fn bits(&self) -> usize {
        self.bits as usize
    }

    /// Replaces all by numbers of so many bits, at most [`WIDTH_MAX`], with what is added to each.
    ///
    /// Panics if one is wider, or if all together take 2^31 bits; there are none then.
    pub fn replace(&mut self, parts: impl Iterator<Item = (u32, u32)>) {
        // Kernels read where `starts` says, so nothing that went wrong may be left in it.
        let Fields { mut starts, mut masks, mut least, .. } = std::mem::take(self);
        starts.clear();
        masks.clear();
        least.clear();
        let (mut bits, mut widest) = (0u64, 0);
        for (width, added) in parts {
            starts.push(bits as u32);
            masks.push(((1u64 << (width & 63)) - 1) as u32);
            least.push(added);
            bits += u64::from(width);
            widest = widest.max(width);
        }
        assert!(widest <= WIDTH_MAX, "a number of more than {WIDTH_MAX} bits");
        assert!(bits < 1 << 31, "too many numbers");
        *self = Fields { starts, masks, least, bits: bits as u32 };
    }
}

/// See [`super::unpack_fields`].
pub(super) fn unpack_fields(bytes: &[u8], bit: usize, fields: &Fields, out: &mut [u32]) {
    unpack_fields_from(0, bytes, bit, fields, out);
}

/// As [`unpack_fields`], from the number `first` on.
#[inline]
fn unpack_fields_from(first: usize, bytes: &[u8], bit: usize, fields: &Fields, out: &mut [u32]) {
    let Fields { starts, masks, least, .. } = fields;
    let parts = starts[first..].iter().zip(&masks[first..]).zip(&least[first..]);
    for (number, ((&start, &mask), &least)) in out[first..].iter_mut().zip(parts) {
        let at = bit + start as usize;
        let is_whole = at / 8 + 8 <= bytes.len();
        let read = if is_whole { word(bytes, at) } else { word_near_end(bytes, at) };
        *number = least.wrapping_add(read & mask);
    }
}

/// See [`super::unpack`].
pub(super) fn unpack(bytes: &[u8], bit: usize, width: u32, least: u32, out: &mut [u32]) {
    let mask = ((1u64 << width) - 1) as u32;
    let whole = whole(bytes, bit, width, out.len());
    let (head, tail) = out.split_at_mut(whole);
    let mut at = bit;
    for number in head {
        *number = least.wrapping_add(word(bytes, at) & mask);
        at += width as usize;
    }
    for number in tail {
        *number = least.wrapping_add(word_near_end(bytes, at) & mask);
        at += width as usize;
    }
}

/// How many of `n` numbers have eight bytes from their first bit on.
fn whole(bytes: &[u8], bit: usize, width: u32, n: usize) -> usize {
    let last = (bytes.len() * 8).checked_sub(64 + bit);
    last.map_or(0, |last| n.min(last / (width as usize).max(1) + 1))
}

/// The 32 bits from `bit` on. Panics if the slice ends within eight bytes.
#[inline]
fn word(bytes: &[u8], bit: usize) -> u32 {
    let word = bytes[bit / 8..].first_chunk::<8>().expect("eight bytes, which the caller counted");
    (u64::from_le_bytes(*word) >> (bit % 8)) as u32
}

/// The 32 bits from `bit` on; zeros beyond the end.
fn word_near_end(bytes: &[u8], bit: usize) -> u32 {
    let rest = bytes.get(bit / 8..).unwrap_or(&[]);
    let mut word = [0u8; 8];
    let n = rest.len().min(word.len());
    word[..n].copy_from_slice(&rest[..n]);
    (u64::from_le_bytes(word) >> (bit % 8)) as u32
}

/// See [`super::join`].
pub(super) fn join(words: &mut [u32], lower: u32, upper: &[u8; CODES], code: u32, rare: &[u8]) {
    let low = (1u32 << lower) - 1;
    let mut rare = rare.iter();
    for word in words {
        let mut byte = upper[(*word >> lower) as usize % CODES];
        if *word >> lower == code {
            byte = rare.next().copied().unwrap_or(0);
        }
        *word = u32::from(byte) << lower | *word & low;
    }
}
