//! What a leaf says about the values of its rows.
//!
//! A summary has, for each column, the least and the most number, and a Bloom filter of the codes. It
//! only widens, before a row is published, so a reader that sees a row sees it in the summary. A leaf
//! that is made anew has exact summaries again.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::OnceLock;

use vstream_attribute::AttributeKind;
use vstream_vector::kernels;

use super::{Check, Compiled};
use crate::rows::Stored;

/// Steps of [`Summaries::prefetch`].
pub(crate) const SUMMARY_STEPS: usize = 3;

/// Words of a Bloom filter: 32 bytes.
const BLOOM_WORDS: usize = 4;

/// The summaries of a leaf. Allocated with the first row that has a value.
#[derive(Default)]
pub(crate) struct Summaries {
    first: OnceLock<Box<Group>>,
}

/// Summaries of the columns that one row added, and the next group.
struct Group {
    /// Ascending by column.
    columns: Box<[Summary]>,
    next: OnceLock<Box<Group>>,
}

/// The summary of the values of one kind in one column.
#[repr(align(64))]
struct Summary {
    column: u16,
    kind: AttributeKind,
    least: AtomicI64,
    most: AtomicI64,
    /// Codes of keywords; for truth values the bits 0 and 1; for lists bit 255 if one is empty.
    bloom: [AtomicU64; BLOOM_WORDS],
}

/// The two bits of a code, below 255.
fn bits_of(code: u32) -> [usize; 2] {
    let hash = u64::from(code).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    [(hash >> 40) as usize % 255, (hash >> 20) as usize % 255]
}

const EMPTY_LIST: usize = 255;

impl Summary {
    fn new(column: u16, kind: AttributeKind) -> Summary {
        let (least, most) = (AtomicI64::new(i64::MAX), AtomicI64::new(i64::MIN));
        Summary { column, kind, least, most, bloom: Default::default() }
    }

    fn key(&self) -> (u16, u8) {
        (self.column, self.kind.tag())
    }

    fn set(&self, bit: usize) {
        // Most rows set bits that are set, and a load leaves the line to the readers.
        let (word, bit) = (&self.bloom[bit / 64], 1 << (bit % 64));
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    fn has(&self, bit: usize) -> bool {
        self.bloom[bit / 64].load(Ordering::Relaxed) >> (bit % 64) & 1 == 1
    }

    fn widen(&self, stored: &Stored) {
        match stored {
            Stored::Number(_, number) => {
                if *number < self.least.load(Ordering::Relaxed) {
                    self.least.store(*number, Ordering::Relaxed);
                }
                if *number > self.most.load(Ordering::Relaxed) {
                    self.most.store(*number, Ordering::Relaxed);
                }
            }
            Stored::Truth(is_true) => self.set(usize::from(*is_true)),
            Stored::Codes(codes) if codes.is_empty() => self.set(EMPTY_LIST),
            Stored::Code(_) | Stored::Codes(_) => {
                stored.codes().iter().flat_map(|&code| bits_of(code)).for_each(|bit| self.set(bit));
            }
            Stored::Text => {}
        }
    }

    fn may_have(&self, code: u32) -> bool {
        bits_of(code).into_iter().all(|bit| self.has(bit))
    }

    /// False only if no value meets the condition.
    fn may_meet(&self, check: &Check) -> bool {
        let is = |kind| self.kind == kind;
        match check {
            Check::Exists => true,
            Check::Keyword(codes) => {
                is(AttributeKind::Keyword) && codes.list().iter().any(|&code| self.may_have(code))
            }
            Check::Any(codes) => {
                is(AttributeKind::Keywords) && codes.list().iter().any(|&code| self.may_have(code))
            }
            Check::All(codes) => {
                is(AttributeKind::Keywords) && codes.iter().all(|&code| self.may_have(code))
            }
            Check::Empty => is(AttributeKind::Keywords) && self.has(EMPTY_LIST),
            Check::Within(numbers, least, most) => {
                numbers.has(self.kind)
                    && self.least.load(Ordering::Relaxed) <= *most
                    && self.most.load(Ordering::Relaxed) >= *least
            }
            Check::OneOf(numbers, of) => {
                let least = self.least.load(Ordering::Relaxed);
                let from = of.partition_point(|number| *number < least);
                let next = of.get(from).copied();
                numbers.has(self.kind)
                    && next.is_some_and(|number| number <= self.most.load(Ordering::Relaxed))
            }
            Check::Truth(wanted) => is(AttributeKind::Bool) && self.has(usize::from(*wanted)),
        }
    }
}

impl Summaries {
    /// Widens the summaries to the values of a row, ascending by column. Only the writer calls this,
    /// before the copy of the row in this leaf is published.
    pub(crate) fn widen(&self, values: &[(u16, Stored)]) {
        let (mut new, mut at) = (Vec::new(), 0);
        let first = self.first.get().map_or(&[][..], |group| &group.columns);
        for (column, stored) in values {
            // The first group has nearly all columns, in the same order.
            let key = (*column, stored.kind().tag());
            while first.get(at).is_some_and(|summary| summary.key() < key) {
                at += 1;
            }
            let here = first.get(at).filter(|summary| summary.key() == key);
            match here.or_else(|| self.find(*column, stored.kind())) {
                Some(summary) => summary.widen(stored),
                None => new.push((*column, stored)),
            }
        }
        if new.is_empty() {
            return;
        }
        let summary = |(column, stored): &(u16, &Stored)| {
            let summary = Summary::new(*column, stored.kind());
            summary.widen(stored);
            summary
        };
        let columns = new.iter().map(summary).collect();
        let mut slot = &self.first;
        while let Some(group) = slot.get() {
            slot = &group.next;
        }
        let is_first = slot.set(Box::new(Group { columns, next: OnceLock::new() })).is_ok();
        assert!(is_first, "the one writer adds groups");
    }

    fn each(&self) -> impl Iterator<Item = &Summary> {
        let groups = std::iter::successors(self.first.get(), |group| group.next.get());
        groups.flat_map(|group| group.columns.iter())
    }

    fn find(&self, column: u16, kind: AttributeKind) -> Option<&Summary> {
        self.each().find(|summary| summary.column == column && summary.kind == kind)
    }

    /// False only if no row of the leaf that is published matches.
    pub(crate) fn may_match(&self, filter: &Compiled) -> bool {
        match filter {
            Compiled::All | Compiled::Ids(_) => true,
            Compiled::Nothing => false,
            Compiled::And(all) => all.iter().all(|part| self.may_match(part)),
            Compiled::Or(any) => any.iter().any(|part| self.may_match(part)),
            Compiled::AtLeast(least, of) => {
                of.iter().filter(|part| self.may_match(part)).count() >= *least
            }
            // Says nothing about rows without a value, nor about those that do not meet a condition
            // which others meet.
            Compiled::Not(_) => true,
            Compiled::Column(column, check) => {
                let mut of_column = self.each().filter(|summary| summary.column == *column);
                of_column.any(|summary| summary.may_meet(check))
            }
        }
    }

    /// Does one of the [`SUMMARY_STEPS`] steps that bring the summaries of some columns into cache. Each
    /// step follows the pointer that the one before has prefetched.
    #[inline]
    pub(crate) fn prefetch(&self, step: usize, columns: &[u16]) {
        let first = || self.first.get();
        match step {
            0 => kernels::prefetch(std::slice::from_ref(&self.first)),
            1 => first().into_iter().for_each(|group| {
                kernels::prefetch(std::slice::from_ref(&**group));
            }),
            // In most groups every column stands at its own number.
            _ => first().into_iter().for_each(|group| {
                let own = |&column: &u16| group.columns.get(usize::from(column));
                columns.iter().filter_map(own).for_each(|summary| {
                    kernels::prefetch(std::slice::from_ref(summary));
                });
            }),
        }
    }

    /// True if a row of the leaf has or had a value.
    pub(crate) fn has_any(&self) -> bool {
        self.first.get().is_some()
    }

    /// Bytes held.
    pub(crate) fn memory_bytes(&self) -> usize {
        let groups = std::iter::successors(self.first.get(), |group| group.next.get());
        groups.map(|group| size_of::<Group>() + size_of_val(&*group.columns)).sum()
    }
}
