//! A leaf: a few hundred near rows, in chunks of 32 with their codes.
//!
//! Chunks come in runs. The code blocks of a run's full chunks follow one another in memory, so that a
//! scan reads them as one stream. The chunk that still fills has a code block of its own. The writer
//! replaces this block whole for every batch of rows, and copies it to the run when the chunk is full.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use vstream_quantize::rabitq::extended::{self, ExtendedFactors, EXTENDED_FACTOR_BYTES};
use vstream_quantize::rabitq::{block_bytes, clear, copy_lane, pack_lane, Factors, BLOCK};
use vstream_vector::kernels;

use crate::append::{append_buffer, Cells, Pen, PARTS};
use crate::filter::{Compiled, Masks, Summaries, Words, PIECE};
use crate::rows::{Carried, RowChunk, Sequence, Visible};

/// Each run is twice as long as the one before. A leaf is small as a rule, and still has room for
/// 130,000 rows if many come before the writer can split it.
const RUNS: usize = 10;
const FIRST_RUN: usize = 12;
/// Bytes of codes that are prefetched. The processor fetches the rest, which is read in order.
const PREFETCH_BYTES: usize = 1024;

/// Steps of [`Leaf::prefetch_columns`].
pub(crate) const COLUMN_STEPS: usize = 3;

/// Index of a leaf in the writer's table. The id of a leaf that is gone is used again.
pub(crate) type LeafId = u32;

/// Number of a leaf that no other leaf of the index ever has: images of different moments name leaves by
/// it. A leaf that is rewritten around the same centre keeps it.
pub(crate) type LeafSerial = u32;

/// The largest serial; files of rows use the number after it for rows in no leaf. Leaves that are made
/// when it is reached share it, and a load takes them for one.
pub(crate) const LAST_SERIAL: LeafSerial = LeafSerial::MAX - 1;

/// A few hundred near rows.
///
/// The fields that a scan needs come first, in two cache lines. Every visit of the leaf loads them, and
/// every comparison with a new row.
#[repr(C, align(64))]
pub(crate) struct Leaf {
    pub(crate) id: LeafId,
    /// Largest distance (not squared) of a row to the centroid so far, as the bits of an `f32`. The bits
    /// of non-negative numbers are in the order of the numbers.
    reach: AtomicU32,
    /// Sequence of the last delete among the rows, stored before the lane's bit in `dead`.
    last_death: AtomicU64,
    /// `center` in rotated space. Codes are relative to it.
    pub(crate) centroid: Box<[f32]>,
    first_run: OnceLock<Run>,
    /// What the rows of the first run carry, if any carries anything, and those of the later ones.
    first_carried: OnceLock<Arc<Carried>>,
    /// What rows carry, widened before a row is published.
    pub(crate) summaries: Summaries,
    later_carried: OnceLock<Box<[OnceLock<Arc<Carried>>; RUNS - 1]>>,
    later_runs: OnceLock<Box<[OnceLock<Run>; RUNS - 1]>>,
    /// Mean of the rows when the leaf was made; fixed for its life.
    pub(crate) center: Box<[f32]>,
    pub(crate) serial: LeafSerial,
}

/// Chunks, and the codes of the full ones among them, which are the first.
struct Run {
    chunks: Box<[OnceLock<LeafChunk>]>,
    /// Blocks of codes. Their number is the number of full chunks.
    codes: Cells<u8>,
}

/// 32 rows, and their codes until the chunk is full.
pub(crate) struct LeafChunk {
    pub(crate) rows: Arc<RowChunk>,
    /// Lanes whose rows ever died. The writer sets a lane after it marked the row. A reader whose moment
    /// is later sees the lane here, since both came before the sequence that it pinned. A reader that
    /// pinned an earlier moment may still see the row.
    dead: AtomicU32,
    filling: ArcSwapOption<CodeBlock>,
    /// Fine codes with their factors, row by row, if the index keeps them for a second look.
    fine: Option<Box<Cells<u8>>>,
}

/// Bytes of a fine code with its factors.
pub(crate) const fn fine_bytes(padded: usize) -> usize {
    extended::code_bytes(padded) + EXTENDED_FACTOR_BYTES
}

/// Codes of up to 32 rows.
pub(crate) struct CodeBlock {
    pub(crate) len: usize,
    codes: Box<[u8]>,
}

/// The memory of a block that was replaced, for the next one. Blocks of one index have one size.
#[derive(Default)]
pub(crate) struct SpareBlock(Option<CodeBlock>);

impl SpareBlock {
    /// Keeps the memory of a block.
    pub(crate) fn give(&mut self, block: CodeBlock) {
        self.0 = Some(block);
    }
}

impl Clone for CodeBlock {
    fn clone(&self) -> CodeBlock {
        CodeBlock { len: self.len, codes: self.codes.clone() }
    }

    /// Allocates nothing.
    fn clone_from(&mut self, other: &CodeBlock) {
        self.len = other.len;
        self.codes.copy_from_slice(&other.codes);
    }
}

impl CodeBlock {
    /// No rows.
    pub(crate) fn empty(padded: usize) -> CodeBlock {
        let mut codes = vec![0; block_bytes(padded)].into_boxed_slice();
        clear(&mut codes);
        CodeBlock { len: 0, codes }
    }

    /// Adds one row's code in the next lane.
    pub(crate) fn push(&mut self, padded: usize, bits: &[u8], factors: Factors) {
        pack_lane(&mut self.codes, padded, self.len, bits, factors);
        self.len += 1;
    }

    /// Adds the code that a row has in a block of the same centroid.
    pub(crate) fn push_copy(&mut self, padded: usize, block: &[u8], lane: usize) {
        copy_lane(padded, (block, lane), (&mut self.codes, self.len));
        self.len += 1;
    }
}

impl LeafChunk {
    /// A chunk without codes, and the pen of its fine codes.
    ///
    /// * `fine`: bytes of a fine code, 0 if the index keeps none.
    pub(crate) fn new(rows: Arc<RowChunk>, fine: usize) -> (LeafChunk, Option<Pen>) {
        let (pen, fine) = match fine {
            0 => (None, None),
            bytes => {
                let (pen, cells) = append_buffer(BLOCK * bytes, BLOCK / PARTS * bytes);
                (Some(pen), Some(Box::new(cells)))
            }
        };
        let (dead, filling) = (AtomicU32::new(0), ArcSwapOption::empty());
        (LeafChunk { rows, dead, filling, fine }, pen)
    }

    /// Adds a row's fine code and factors, before its code is published. Only the writer calls this.
    pub(crate) fn push_fine(&self, pen: &mut Pen, code: &[u8]) {
        self.fine.as_ref().expect("a chunk with fine codes").push(pen, code);
    }

    /// Fine code and factors, as they were pushed, of a row whose code is published.
    #[inline]
    pub(crate) fn fine_row(&self, padded: usize, lane: usize) -> &[u8] {
        let bytes = fine_bytes(padded);
        self.fine.as_ref().expect("a chunk with fine codes").slice(lane * bytes, bytes)
    }

    /// Fine code and factors of a row whose code is published.
    #[inline]
    pub(crate) fn fine(&self, padded: usize, lane: usize) -> (&[u8], ExtendedFactors) {
        let (code, factors) =
            self.fine_row(padded, lane).split_last_chunk().expect("a code has factors");
        (code, ExtendedFactors::from_bytes(*factors))
    }

    /// Prefetches a fine code.
    #[inline]
    pub(crate) fn prefetch_fine(&self, padded: usize, lane: usize) {
        let bytes = fine_bytes(padded);
        let fine = self.fine.as_ref().expect("a chunk with fine codes");
        kernels::prefetch(fine.slice(lane * bytes, bytes));
    }

    /// A copy of the codes of a chunk that is not full. Only the writer calls this, to extend them.
    pub(crate) fn filling(&self, padded: usize, spare: &mut SpareBlock) -> CodeBlock {
        let current = self.filling.load();
        let Some(current) = current.as_deref() else { return CodeBlock::empty(padded) };
        let Some(mut block) = spare.0.take() else { return current.clone() };
        block.clone_from(current);
        block
    }

    /// Prefetches the codes of a chunk that is not full.
    #[inline]
    pub(crate) fn prefetch_filling(&self) {
        if let Some(block) = self.filling.load().as_deref() {
            kernels::prefetch(&block.codes);
        }
    }

    fn memory_bytes(&self) -> u64 {
        let fine = self.fine.as_ref().map_or(0, |fine| fine.bytes() + size_of::<Cells<u8>>());
        self.rows.memory_bytes() + fine as u64
    }

    /// Publishes the codes of a chunk that is not full. Only the writer calls this.
    pub(crate) fn publish(&self, block: CodeBlock, spare: &mut SpareBlock) {
        let before = self.filling.swap(Some(Arc::new(block)));
        if let Some(block) = before.and_then(Arc::into_inner) {
            spare.give(block);
        }
    }
}

impl Run {
    fn new(chunks: usize, block_bytes: usize) -> (Run, Pen) {
        let (pen, codes) = append_buffer(chunks * block_bytes, chunks * block_bytes);
        let chunks = (0..chunks).map(|_| OnceLock::new()).collect();
        (Run { chunks, codes }, pen)
    }

    fn full_chunks(&self, block_bytes: usize) -> usize {
        self.codes.len() / block_bytes
    }

    /// Calls `visit` with the codes of every chunk that has any; false if the next run may have more.
    fn for_each_block(
        &self,
        first: usize,
        block_bytes: usize,
        visit: &mut impl FnMut(usize, &LeafChunk, &[u8], usize),
    ) -> bool {
        let mut full = self.full_chunks(block_bytes);
        for (position, slot) in self.chunks.iter().enumerate() {
            let Some(chunk) = slot.get() else { return true };
            if position >= full {
                let filling = chunk.filling.load();
                if let Some(block) = filling.as_deref() {
                    visit(first + position, chunk, &block.codes, block.len);
                    continue;
                }
                // The chunk is still empty, or has filled up since its run's length was read.
                full = self.full_chunks(block_bytes);
                if position >= full {
                    return true;
                }
            }
            let codes = self.codes.slice(position * block_bytes, block_bytes);
            visit(first + position, chunk, codes, BLOCK);
        }
        false
    }

    /// Fills the masks of the chunks `PIECE · piece ..` with the lanes that match.
    #[inline]
    fn masks(&self, carried: Option<&Carried>, filter: &Compiled, piece: usize, out: &mut Masks) {
        let first = piece * PIECE;
        let words = Words {
            len: (self.chunks.len() - first).min(PIECE),
            rows: &|word| self.chunks[first + word].get().map(|chunk| &*chunk.rows),
            carried: carried.map(|carried| (carried, first)),
        };
        filter.masks(&words, out);
    }
}

impl Leaf {
    /// An empty leaf.
    pub(crate) fn new(
        (id, serial): (LeafId, LeafSerial),
        center: Box<[f32]>,
        centroid: Box<[f32]>,
    ) -> Leaf {
        Leaf {
            id,
            serial,
            reach: AtomicU32::new(0),
            last_death: AtomicU64::new(0),
            centroid,
            first_run: OnceLock::new(),
            first_carried: OnceLock::new(),
            summaries: Summaries::default(),
            later_carried: OnceLock::new(),
            later_runs: OnceLock::new(),
            center,
        }
    }

    /// The runs that exist.
    #[inline]
    fn runs(&self) -> impl Iterator<Item = &Run> {
        let later = self.later_runs.get().into_iter().flat_map(|runs| runs.iter());
        self.first_run.get().into_iter().chain(later.map_while(OnceLock::get))
    }

    #[inline]
    fn run(&self, run: usize) -> Option<&Run> {
        match run.checked_sub(1) {
            None => self.first_run.get(),
            Some(later) => self.later_runs.get()?[later].get(),
        }
    }

    /// Widens the reach to a row at this distance from the centroid, before the row is published.
    pub(crate) fn widen(&self, distance: f32) {
        self.reach.fetch_max(distance.to_bits(), Ordering::Relaxed);
    }

    /// Marks a row deleted as of `sequence`. Only the writer calls this, at most once per row.
    pub(crate) fn mark_deleted(&self, chunk: usize, lane: usize, sequence: Sequence) {
        let chunk = self.chunk(chunk);
        chunk.rows.mark_deleted(lane, sequence);
        self.last_death.fetch_max(sequence, Ordering::Relaxed);
        chunk.dead.fetch_or(1 << lane, Ordering::Release);
    }

    /// The lanes of `mask` without those whose rows died at or before the moment.
    #[inline]
    pub(crate) fn without_dead(&self, chunk: &LeafChunk, mask: u32, visible: Visible) -> u32 {
        let dead = chunk.dead.load(Ordering::Acquire) & mask;
        // Usually no row of the leaf died since the moment, and no row must be looked up.
        if dead == 0 || self.last_death.load(Ordering::Relaxed) <= visible.deleted {
            return mask & !dead;
        }
        let mut left = mask;
        let mut dead = dead;
        while dead != 0 {
            let lane = dead.trailing_zeros();
            dead &= dead - 1;
            if !chunk.rows.is_visible(lane as usize, visible) {
                left &= !(1 << lane);
            }
        }
        left
    }

    /// The largest distance of a published row to the centroid, at most; not squared.
    pub(crate) fn reach(&self) -> f32 {
        f32::from_bits(self.reach.load(Ordering::Relaxed))
    }

    /// Lets scans find what the rows of the chunk's run carry, before such a row is published.
    pub(crate) fn share(&self, number: usize, carried: &Arc<Carried>) {
        let slot = match run_of(number).0.checked_sub(1) {
            None => &self.first_carried,
            Some(later) => &self.later_carried.get_or_init(Box::default)[later],
        };
        slot.get_or_init(|| carried.clone());
    }

    /// Opens the next chunk; returns the pen of a run that begins with it. Only the writer calls this.
    pub(crate) fn add_chunk(&self, number: usize, chunk: LeafChunk) -> Option<Pen> {
        let (run, offset) = run_of(number);
        let mut pen = None;
        let slot = match run.checked_sub(1) {
            None => &self.first_run,
            Some(later) => &self.later_runs.get_or_init(Box::default)[later],
        };
        let run = slot.get_or_init(|| {
            let (run, new) = Run::new(FIRST_RUN << run, self.block_bytes());
            pen = Some(new);
            run
        });
        let added = run.chunks[offset].set(chunk).is_ok();
        assert!(added, "a chunk is opened once");
        pen
    }

    /// Publishes the codes of a full chunk behind those of the chunks before it.
    pub(crate) fn seal(&self, number: usize, block: &CodeBlock, pen: &mut Pen) {
        let (run, offset) = run_of(number);
        let run = self.run(run).expect("the run of an open chunk");
        assert_eq!(run.full_chunks(self.block_bytes()), offset, "chunks fill in order");
        run.codes.push(pen, &block.codes);
        self.chunk(number).filling.store(None);
    }

    /// The chunk of a number below the number of open chunks; panics otherwise.
    pub(crate) fn chunk(&self, number: usize) -> &LeafChunk {
        let (run, offset) = run_of(number);
        let slot = self.run(run).and_then(|run| run.chunks[offset].get());
        slot.expect("a chunk that a row was placed in")
    }

    /// The chunk of a number, if it is open.
    pub(crate) fn chunk_if(&self, number: usize) -> Option<&LeafChunk> {
        let (run, offset) = run_of(number);
        (run < RUNS).then(|| self.run(run))??.chunks.get(offset)?.get()
    }

    /// The chunks that are open so far.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = &LeafChunk> {
        self.runs().flat_map(|run| run.chunks.iter()).map_while(OnceLock::get)
    }

    /// Calls `visit` with the codes of a chunk that has some. Only the writer calls this.
    pub(crate) fn with_codes(&self, number: usize, visit: impl FnOnce(&[u8])) {
        let (run, offset) = run_of(number);
        let run = self.run(run).expect("the run of a chunk");
        let bytes = self.block_bytes();
        if offset < run.full_chunks(bytes) {
            visit(run.codes.slice(offset * bytes, bytes));
        } else {
            let filling = self.chunk(number).filling.load();
            visit(&filling.as_deref().expect("a chunk with codes").codes);
        }
    }

    /// Calls `visit` with each chunk that has codes: number, chunk, codes, rows.
    #[inline]
    pub(crate) fn for_each_block(&self, mut visit: impl FnMut(usize, &LeafChunk, &[u8], usize)) {
        let mut first = 0;
        for run in self.runs() {
            if run.for_each_block(first, self.block_bytes(), &mut visit) {
                return;
            }
            first += run.chunks.len();
        }
    }

    /// Calls `visit` with each chunk that has codes and may have matches, and with the lanes that match
    /// among those with codes.
    #[inline]
    pub(crate) fn for_each_match(
        &self,
        filter: &Compiled,
        mut visit: impl FnMut(usize, &LeafChunk, &[u8], u32),
    ) {
        let mut first = 0;
        for (run_number, run) in self.runs().enumerate() {
            let (mut masks, mut evaluated) = ([0; PIECE], usize::MAX);
            let mut masked = |number: usize, chunk: &LeafChunk, codes: &[u8], rows: usize| {
                let (piece, word) = ((number - first) / PIECE, (number - first) % PIECE);
                if piece != evaluated {
                    evaluated = piece;
                    run.masks(self.carried_of(run_number), filter, piece, &mut masks);
                }
                let mask = masks[word] & (u32::MAX >> (BLOCK - rows));
                if mask != 0 {
                    visit(number, chunk, codes, mask);
                }
            };
            if run.for_each_block(first, self.block_bytes(), &mut masked) {
                return;
            }
            first += run.chunks.len();
        }
    }

    /// Calls `visit` with the number of each chunk that may have matches, and with the lanes that
    /// match, be they published or not. Looks at columns alone.
    #[inline]
    pub(crate) fn for_each_mask(&self, filter: &Compiled, mut visit: impl FnMut(usize, u32)) {
        let mut first = 0;
        for (run_number, run) in self.runs().enumerate() {
            let mut masks = [0; PIECE];
            for piece in 0..run.chunks.len().div_ceil(PIECE) {
                // A run has at least one chunk, and chunks are opened in order.
                if piece > 0 && run.chunks[piece * PIECE].get().is_none() {
                    return;
                }
                run.masks(self.carried_of(run_number), filter, piece, &mut masks);
                let matching = masks.iter().enumerate().filter(|(_, &mask)| mask != 0);
                matching.for_each(|(word, &mask)| visit(first + piece * PIECE + word, mask));
            }
            first += run.chunks.len();
        }
    }

    /// What the rows of a run carry, if any does. Whoever pinned a moment sees it for all rows of the
    /// moment: it was shared before these were published.
    #[inline]
    fn carried_of(&self, run: usize) -> Option<&Carried> {
        let slot = match run.checked_sub(1) {
            None => &self.first_carried,
            Some(later) => &self.later_carried.get()?[later],
        };
        slot.get().map(|carried| &**carried)
    }

    /// The lanes of one chunk that match, be they published or not.
    pub(crate) fn mask_of(&self, filter: &Compiled, number: usize) -> u32 {
        let (run, offset) = run_of(number);
        let rows = |_| self.open_chunk(number).map(|chunk| &*chunk.rows);
        let carried = self.carried_of(run).map(|carried| (carried, offset));
        let mut masks = [0; PIECE];
        filter.masks(&Words { len: 1, rows: &rows, carried }, &mut masks);
        masks[0]
    }

    /// The chunk of a number, if it is open.
    #[inline]
    pub(crate) fn open_chunk(&self, number: usize) -> Option<&LeafChunk> {
        let (run, offset) = run_of(number);
        self.run(run)?.chunks[offset].get()
    }

    /// Prefetches the pointer to the rows of a chunk.
    #[inline]
    pub(crate) fn prefetch_chunk(&self, number: usize) {
        let (run, offset) = run_of(number);
        if let Some(run) = self.run(run) {
            kernels::prefetch(&run.chunks[offset..=offset]);
        }
    }

    /// Prefetches the head of the leaf, which leads to the rows.
    #[inline]
    pub(crate) fn prefetch_head(&self) {
        // This field lies in both lines of the head.
        kernels::prefetch(std::slice::from_ref(&self.first_run));
    }

    /// Does one of the [`COLUMN_STEPS`] steps that bring some columns into cache. Each step follows the
    /// pointers that the one before has prefetched.
    ///
    /// * `chunk`: the one whose columns are wanted; `None` for all of the first run.
    #[inline]
    pub(crate) fn prefetch_columns(&self, step: usize, columns: &[u16], chunk: Option<usize>) {
        let (run, word) = chunk.map_or((0, None), |chunk| {
            let (run, offset) = run_of(chunk);
            (run, Some(offset))
        });
        match step {
            0 => kernels::prefetch(std::slice::from_ref(&self.first_carried)),
            _ => {
                if let Some(carried) = self.carried_of(run) {
                    carried.prefetch(step - 1, columns, word);
                }
            }
        }
    }

    /// Prefetches the chunks and the begin of the codes. The head should be in cache already.
    #[inline]
    pub(crate) fn prefetch_codes(&self) {
        for run in self.runs() {
            let bytes = run.codes.len().min(PREFETCH_BYTES);
            kernels::prefetch(run.codes.slice(0, bytes));
            kernels::prefetch(&run.chunks);
        }
    }

    /// Bytes of codes, rows and the leaf itself.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let runs: usize = self
            .runs()
            .map(|run| run.codes.bytes() + run.chunks.len() * size_of::<OnceLock<LeafChunk>>())
            .sum();
        let later = self.later_carried.get().into_iter().flat_map(|runs| runs.iter());
        let carried = std::iter::once(&self.first_carried).chain(later);
        let carried: usize = carried
            .map(|run| run.get().map_or(0, |run| run.memory_bytes()) + size_of_val(run))
            .sum();
        let own = (self.center.len() + self.centroid.len()) * size_of::<f32>() + size_of::<Leaf>();
        let rows: u64 = self.chunks().map(LeafChunk::memory_bytes).sum();
        // At most one chunk has a block of its own.
        let own = own + self.summaries.memory_bytes() + carried;
        (own + runs + self.block_bytes() + size_of::<CodeBlock>()) as u64 + rows
    }

    fn block_bytes(&self) -> usize {
        block_bytes(self.centroid.len())
    }
}

/// Rows of the run that begins with a chunk; `None` if no run begins with it.
pub(crate) fn run_rows(number: usize) -> Option<usize> {
    let (run, offset) = run_of(number);
    (offset == 0).then_some((FIRST_RUN << run) * BLOCK)
}

/// The run of a chunk, and the chunk's position in it.
#[inline]
fn run_of(number: usize) -> (usize, usize) {
    let run = (number / FIRST_RUN + 1).ilog2() as usize;
    (run, number - FIRST_RUN * ((1 << run) - 1))
}

/// Chunk and lane of a position in a leaf.
#[inline]
pub(crate) fn split_position(position: u32) -> (usize, usize) {
    (position as usize / BLOCK, position as usize % BLOCK)
}

/// Position of a chunk and lane in a leaf.
#[inline]
pub(crate) fn position(chunk: usize, lane: usize) -> u32 {
    (chunk * BLOCK + lane) as u32
}
