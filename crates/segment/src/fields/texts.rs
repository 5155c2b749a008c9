//! Texts, each found by its number in O(1); those of a dictionary are sorted, and found by
//! themselves in O(log n).
//!
//! ```text
//! packed column of the ends of the texts | the texts
//! ```

use vstream_vector::cursor::ByteReader;

use super::packed::{self, Packed};
use crate::malformed::Malformed;

/// Appends texts.
pub(crate) fn put<'t>(out: &mut Vec<u8>, texts: impl Iterator<Item = &'t str> + Clone) {
    let mut end = 0;
    let ends: Vec<u64> = texts
        .clone()
        .map(|text| {
            end += text.len() as u64;
            end
        })
        .collect();
    packed::put(out, ends.iter().copied());
    texts.for_each(|text| out.extend_from_slice(text.as_bytes()));
}

/// Texts, borrowed from the bytes of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Texts<'a> {
    count: usize,
    ends: Packed<'a>,
    bytes: &'a [u8],
}

impl<'a> Texts<'a> {
    /// Reads a dictionary of `count` texts from `input`.
    pub(crate) fn take_dictionary(
        input: &mut ByteReader<'a>,
        count: usize,
    ) -> Result<Texts<'a>, Malformed> {
        let texts = Texts::take(input, count)?;
        // Texts differ, so all but one have bytes: the count is as small as the block.
        if count > texts.bytes.len() + 1 {
            return Err(Malformed("a dictionary has more texts than bytes"));
        }
        Ok(texts)
    }

    /// Reads `count` texts, in any order, from `input`.
    pub(crate) fn take(input: &mut ByteReader<'a>, count: usize) -> Result<Texts<'a>, Malformed> {
        let ends = Packed::take(input, count)?;
        let bytes = if count == 0 { 0 } else { ends.get(count - 1) };
        let bytes = usize::try_from(bytes).map_err(|_| Malformed("a text is too long"))?;
        let bytes = input.bytes(bytes).map_err(|_| Malformed("the texts are cut short"))?;
        Ok(Texts { count, ends, bytes })
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The bytes of a text; empty if its place is damaged.
    fn bytes_of(&self, at: usize) -> &'a [u8] {
        let from = if at == 0 { 0 } else { self.ends.get(at - 1) };
        self.bytes.get(from as usize..self.ends.get(at) as usize).unwrap_or(&[])
    }

    /// A text, by its number.
    pub(crate) fn get(&self, at: u64) -> Result<&'a str, Malformed> {
        let at = usize::try_from(at).ok().filter(|&at| at < self.count);
        let at = at.ok_or(Malformed("a code without a text"))?;
        std::str::from_utf8(self.bytes_of(at)).map_err(|_| Malformed("a text is no UTF-8"))
    }

    /// The number of a text.
    pub(crate) fn find(&self, text: &str) -> Option<u64> {
        let at = self.first_not(|held| held < text.as_bytes());
        (at < self.count && self.bytes_of(at) == text.as_bytes()).then_some(at as u64)
    }

    /// The numbers of the texts that begin with `prefix`, both inclusive.
    pub(crate) fn with_prefix(&self, prefix: &str) -> Option<(u64, u64)> {
        let prefix = prefix.as_bytes();
        let from = self.first_not(|held| held < prefix);
        let end = self.first_not(|held| held < prefix || held.starts_with(prefix));
        (from < end).then(|| (from as u64, end as u64 - 1))
    }

    /// The first text for which `is_before` does not hold.
    fn first_not(&self, is_before: impl Fn(&[u8]) -> bool) -> usize {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = (low + high) / 2;
            if is_before(self.bytes_of(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Checks every text: UTF-8, ascending, each once.
    pub(crate) fn check(&self) -> Result<(), Malformed> {
        let mut last: Option<&str> = None;
        let mut end = 0;
        for at in 0..self.count {
            let text = self.get(at as u64)?;
            if self.ends.get(at) < end || last.is_some_and(|last| last >= text) {
                return Err(Malformed("the texts of a dictionary are out of order"));
            }
            end = self.ends.get(at);
            last = Some(text);
        }
        Ok(())
    }
}
