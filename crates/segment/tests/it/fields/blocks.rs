//! Where the blocks of fields lie in the bytes of a segment, by the description of the format alone.

/// Offset, length with checksum, and number of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockAt {
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
    pub(crate) number: u64,
}

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn number(&mut self, bytes: usize) -> u64 {
        let (number, rest) = self.0.split_at(bytes);
        self.0 = rest;
        number.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
    }

    fn skip(&mut self, bytes: usize) {
        self.0 = &self.0[bytes..];
    }

    fn u32(&mut self) -> usize {
        self.number(4) as usize
    }
}

/// The blocks of fields of a whole segment of version 2: the directory first.
pub(crate) fn field_blocks(bytes: &[u8]) -> Vec<BlockAt> {
    let foot = bytes.len() - 48;
    let meta = foot - Input(&bytes[foot + 24..]).number(8) as usize;
    let leaves = Input(&bytes[meta + 40..]).u32();
    let length = Input(&bytes[meta + 52..]).u32();
    let directory = BlockAt { offset: meta - length, bytes: length, number: 5 << 60 };
    let mut all = vec![directory];
    let mut input = Input(&bytes[directory.offset..meta]);
    let chunks = input.u32();
    input.skip(4 * chunks);
    for area in [1u64, 2] {
        for _ in 0..input.u32() {
            let (first_row, _) = (input.number(4), input.u32());
            let (offset, bytes) = (input.number(8) as usize, input.u32());
            all.push(BlockAt { offset, bytes, number: area << 60 | first_row });
        }
    }
    for _ in 0..input.u32() {
        let column = input.number(2);
        let _kind_and_form = input.number(2);
        let _counts = (input.u32(), input.u32(), input.u32());
        let (offset, bytes) = (input.number(8) as usize, input.u32());
        let number = 4 << 60 | column << 32;
        all.extend((bytes > 0).then_some(BlockAt { offset, bytes, number }));
        for chunk in 0..chunks as u64 {
            let (offset, bytes) = (input.number(8) as usize, input.u32());
            let number = 3 << 60 | column << 32 | chunk;
            all.extend((bytes > 0).then_some(BlockAt { offset, bytes, number }));
        }
        for _ in 0..leaves {
            if input.u32() > 0 {
                input.skip(48);
            }
        }
    }
    all
}
