//! Applies a compiled filter to the rows of a leaf: a bit per row, 32 rows to a word.

use super::block::{lanes, ColumnBlock};
use super::filter::{joined, point, Atom, Node, Span, WordTest};

/// Rows of a leaf that lie in one chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeafChunk {
    pub(crate) chunk: usize,
    /// First of the rows, in the leaf and in the chunk.
    pub(crate) leaf_row: usize,
    pub(crate) chunk_row: usize,
    pub(crate) rows: usize,
}

/// The block of a slot and a chunk; `None` if no row of the chunk has a value.
pub(crate) type MaskSource<'s, 'a> = &'s dyn Fn(usize, usize) -> Option<ColumnBlock<'a>>;

/// The rows of a leaf, to be tested.
pub(crate) struct Masks<'s, 'a> {
    /// First row of the leaf, and its rows.
    pub(crate) first_row: u32,
    pub(crate) rows: usize,
    pub(crate) chunks: &'s [LeafChunk],
    pub(crate) blocks: MaskSource<'s, 'a>,
}

impl Masks<'_, '_> {
    fn words(&self) -> usize {
        self.rows.div_ceil(32)
    }

    fn lanes(&self, word: usize) -> u32 {
        lanes(self.rows - 32 * word)
    }

    /// Appends the mask of the rows for which a node holds to `out`.
    pub(crate) fn push(&self, node: &Node, out: &mut Vec<u32>) {
        let from = out.len();
        match node {
            Node::Atom(atom) => {
                out.resize(from + self.words(), 0);
                self.atom(atom, &mut out[from..]);
            }
            Node::Not(node) => {
                self.push(node, out);
                let words = out[from..].iter_mut().enumerate();
                words.for_each(|(word, mask)| *mask = !*mask & self.lanes(word));
            }
            Node::And(nodes) => {
                out.extend((0..self.words()).map(|word| self.lanes(word)));
                self.join(nodes, from, out, |mask, other| mask & other);
            }
            Node::Or(nodes) => {
                out.resize(from + self.words(), 0);
                self.join(nodes, from, out, |mask, other| mask | other);
            }
            Node::AtLeast(least, nodes) => self.push_at_least(*least, nodes, out),
        }
    }

    fn join(&self, nodes: &[Node], from: usize, out: &mut Vec<u32>, with: fn(u32, u32) -> u32) {
        let words = self.words();
        for node in nodes {
            // Stop early: nothing is added to no row by `and`, nor to every row by `or`.
            let is_settled = (0..words).all(|word| {
                let (mask, all) = (out[from + word], self.lanes(word));
                with(mask, 0) == mask && with(mask, all) == mask
            });
            if is_settled {
                return;
            }
            self.push(node, out);
            for word in 0..words {
                out[from + word] = with(out[from + word], out[from + words + word]);
            }
            out.truncate(from + words);
        }
    }

    fn push_at_least(&self, least: usize, nodes: &[Node], out: &mut Vec<u32>) {
        let (from, words) = (out.len(), self.words());
        let mut counts = vec![0usize; 32 * words];
        for node in nodes {
            self.push(node, out);
            for (word, mask) in out.drain(from..).enumerate() {
                for_each_bit(mask, |lane| counts[32 * word + lane] += 1);
            }
        }
        for (word, counts) in counts.chunks(32).enumerate() {
            let enough = counts.iter().enumerate().filter(|(_, &count)| count >= least);
            let mask = enough.fold(0, |mask, (lane, _)| mask | 1 << lane);
            out.push(mask & self.lanes(word));
        }
    }

    fn atom(&self, atom: &Atom, out: &mut [u32]) {
        match atom {
            Atom::Rows(rows) => {
                let from = rows.partition_point(|&row| row < self.first_row);
                let own = rows[from..].iter().map(|row| (row - self.first_row) as usize);
                own.take_while(|&row| row < self.rows).for_each(|row| {
                    out[row / 32] |= 1 << (row % 32);
                });
            }
            Atom::Exists { slot } => {
                self.each_block(*slot, out, |block, part| block.presence(part.row, part.rows));
            }
            Atom::IsEmpty { slot } => {
                self.each_list(*slot, out, |block, at| block.list(at).len() == 0)
            }
            Atom::Numbers { slot, spans } => self.spans(*slot, |_| spans.as_slice().into(), out),
            Atom::Words { slot, test: WordTest::All(words), codes, .. } => {
                self.all_of(*slot, words.iter().map(|word| word.text.as_str()), codes, out);
            }
            Atom::Words { slot, test, codes, .. } => {
                let spans = |block: &ColumnBlock<'_>| match codes {
                    Some(codes) => codes.as_slice().into(),
                    None => local_codes(block, test).into(),
                };
                self.spans(*slot, spans, out);
            }
        }
    }

    fn spans<'c>(
        &self,
        slot: usize,
        spans: impl Fn(&ColumnBlock<'_>) -> std::borrow::Cow<'c, [Span]>,
        out: &mut [u32],
    ) {
        for chunk in self.chunks {
            let Some(block) = (self.blocks)(slot, chunk.chunk) else { continue };
            let spans = spans(&block);
            if spans.is_empty() {
                continue;
            }
            if block.is_list() {
                lists(&block, chunk, out, |at| block.list(at).any(|code| holds(&spans, code)));
            } else {
                numbers(&block, chunk, &spans, out);
            }
        }
    }

    /// Lists that have all of some texts.
    fn all_of<'t>(
        &self,
        slot: usize,
        texts: impl Iterator<Item = &'t str> + Clone,
        shared: &Option<Vec<Span>>,
        out: &mut [u32],
    ) {
        for chunk in self.chunks {
            let Some(block) = (self.blocks)(slot, chunk.chunk) else { continue };
            let codes: Option<Vec<u64>> = match shared {
                Some(codes) => Some(codes.iter().map(|span| span.low).collect()),
                None => {
                    let find = |text| block.texts.and_then(|local| local.find(text));
                    texts.clone().map(find).collect()
                }
            };
            let Some(codes) = codes else { continue };
            lists(&block, chunk, out, |at| {
                codes.iter().all(|&code| block.list(at).any(|held| held == code))
            });
        }
    }

    fn each_list(
        &self,
        slot: usize,
        out: &mut [u32],
        test: impl Fn(&ColumnBlock<'_>, usize) -> bool,
    ) {
        for chunk in self.chunks {
            let Some(block) = (self.blocks)(slot, chunk.chunk) else { continue };
            lists(&block, chunk, out, |at| test(&block, at));
        }
    }

    fn each_block(
        &self,
        slot: usize,
        out: &mut [u32],
        test: impl Fn(&ColumnBlock<'_>, Part) -> u32,
    ) {
        for chunk in self.chunks {
            let Some(block) = (self.blocks)(slot, chunk.chunk) else { continue };
            for part in parts(chunk) {
                set(out, part.leaf_row, test(&block, part));
            }
        }
    }
}

/// Up to 32 rows of a leaf in a chunk.
#[derive(Clone, Copy)]
struct Part {
    leaf_row: usize,
    /// First row in the chunk.
    row: usize,
    rows: usize,
}

fn parts(chunk: &LeafChunk) -> impl Iterator<Item = Part> {
    let LeafChunk { leaf_row, chunk_row, rows, .. } = *chunk;
    (0..rows).step_by(32).map(move |from| Part {
        leaf_row: leaf_row + from,
        row: chunk_row + from,
        rows: (rows - from).min(32),
    })
}

/// Sets bits from a row on.
fn set(out: &mut [u32], row: usize, bits: u32) {
    let wide = u64::from(bits) << (row % 32);
    out[row / 32] |= wide as u32;
    if wide >> 32 != 0 {
        out[row / 32 + 1] |= (wide >> 32) as u32;
    }
}

fn for_each_bit(mut mask: u32, mut visit: impl FnMut(usize)) {
    while mask != 0 {
        visit(mask.trailing_zeros() as usize);
        mask &= mask - 1;
    }
}

/// Moves the lowest bits to the places of the set bits of `places`.
fn expand(dense: u32, places: u32) -> u32 {
    let (mut out, mut at) = (0, 0);
    for_each_bit(places, |lane| {
        out |= (dense >> at & 1) << lane;
        at += 1;
    });
    out
}

fn holds(spans: &[Span], value: u64) -> bool {
    let after = spans.partition_point(|span| span.low <= value);
    after > 0 && value <= spans[after - 1].high
}

/// Spans up to which each is compared with all values, because that has no branches.
const SPANS_COMPARED: usize = 4;

fn numbers(block: &ColumnBlock<'_>, chunk: &LeafChunk, spans: &[Span], out: &mut [u32]) {
    let mut values = [0u64; 32];
    let mut position = block.rank(chunk.chunk_row);
    for part in parts(chunk) {
        let present = block.presence(part.row, part.rows);
        let count = present.count_ones() as usize;
        let values = &mut values[..count];
        block.values(position, values);
        position += count;
        let mut dense = 0;
        if spans.len() <= SPANS_COMPARED {
            for span in spans {
                let width = span.high - span.low;
                for (lane, &value) in values.iter().enumerate() {
                    dense |= u32::from(value.wrapping_sub(span.low) <= width) << lane;
                }
            }
        } else {
            for (lane, &value) in values.iter().enumerate() {
                dense |= u32::from(holds(spans, value)) << lane;
            }
        }
        let is_full = count == part.rows;
        set(out, part.leaf_row, if is_full { dense } else { expand(dense, present) });
    }
}

fn lists(
    block: &ColumnBlock<'_>,
    chunk: &LeafChunk,
    out: &mut [u32],
    test: impl Fn(usize) -> bool,
) {
    if !block.is_list() {
        return;
    }
    let mut position = block.rank(chunk.chunk_row);
    for part in parts(chunk) {
        let mut bits = 0;
        for_each_bit(block.presence(part.row, part.rows), |lane| {
            bits |= u32::from(test(position)) << lane;
            position += 1;
        });
        set(out, part.leaf_row, bits);
    }
}

/// The codes of a block with a dictionary of its own.
fn local_codes(block: &ColumnBlock<'_>, test: &WordTest) -> Vec<Span> {
    let Some(texts) = &block.texts else { return Vec::new() };
    match test {
        WordTest::Prefix(prefix) => {
            let found = texts.with_prefix(prefix);
            found.map(|(low, high)| Span { low, high }).into_iter().collect()
        }
        WordTest::In(words) | WordTest::All(words) => {
            joined(words.iter().filter_map(|word| texts.find(&word.text)).map(point).collect())
        }
    }
}
