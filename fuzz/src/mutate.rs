//! Changes to bytes, as a seed draws them.

use vstream_vector::SplitMix;

use crate::Target;

/// Numbers that break sums, products and casts.
const EDGES: [u64; 12] =
    [0, 1, 2, 31, 32, 33, 127, 4097, u32::MAX as u64, i32::MAX as u64, u64::MAX, i64::MAX as u64];
/// No input is longer.
const BYTES_MAX: usize = 1 << 20;

/// The inputs of a target: a function of the seed.
pub struct Inputs<'a> {
    target: &'a Target,
    corpus: Vec<Vec<u8>>,
    random: SplitMix,
}

impl<'a> Inputs<'a> {
    /// The sequence of `seed`.
    pub fn new(target: &'a Target, seed: u64) -> Inputs<'a> {
        Inputs { target, corpus: (target.corpus)(), random: SplitMix(seed) }
    }

    /// What real writers wrote.
    pub fn corpus(&self) -> &[Vec<u8>] {
        &self.corpus
    }

    /// The next input.
    pub fn draw(&mut self) -> Vec<u8> {
        let Inputs { target, corpus, random } = self;
        let mut bytes = corpus[random.below(corpus.len())].clone();
        for _ in 0..1 + random.below(4) {
            change(&mut bytes, corpus, random);
        }
        bytes.truncate(BYTES_MAX);
        if random.below(4) > 0 {
            (target.reseal)(&mut bytes);
        }
        bytes
    }
}

fn change(bytes: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut SplitMix) {
    if bytes.is_empty() {
        bytes.push(random.next() as u8);
    }
    let length = bytes.len();
    // Half of the changes near the front, where the counts are.
    let at = match random.below(2) {
        0 => random.below(length.min(160)),
        _ => random.below(length),
    };
    match random.below(9) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at] = random.next() as u8,
        2 => bytes[at] = [0, 0x7f, 0x80, 0xff][random.below(4)],
        3 | 4 => {
            let edge = EDGES[random.below(EDGES.len())].to_le_bytes();
            let width = [1, 2, 4, 8][random.below(4)].min(length - at);
            bytes[at..at + width].copy_from_slice(&edge[..width]);
        }
        5 => bytes.truncate(at),
        6 => {
            let part = random.below((length - at).min(64) + 1);
            let copied = bytes[at..at + part].to_vec();
            let to = random.below(length);
            bytes.splice(to..to, copied);
        }
        7 => {
            let part = random.below((length - at).min(64) + 1);
            bytes.drain(at..at + part);
        }
        _ => {
            let other = &corpus[random.below(corpus.len())];
            let from = random.below(other.len() + 1);
            let part = random.below((other.len() - from).min(256) + 1);
            let end = (at + part).min(length);
            bytes.splice(at..end, other[from..from + part].iter().copied());
        }
    }
}
