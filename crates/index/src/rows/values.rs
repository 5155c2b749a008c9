//! The values of one row on their way to a lane: gathered once, looked at by whoever needs them, and
//! then written.

use std::sync::Arc;

use vstream_attribute::{
    AttributeKind, Fields, PayloadChange, Update, ValueRef, ATTRIBUTES_BYTES_MAX, ATTRIBUTES_MAX,
};

use super::cold;
use super::columns::{ordered, Carried, Stored};
use super::dictionary::Dictionary;

/// Most bytes of a keyword with what stands before it in `vstream_attribute::Attributes`.
const KEYWORD_MAX: usize = 7 + (4 << 10);

/// What a row carries, in the form of sheets. Reused from row to row.
///
/// Each code is counted in the dictionary for the lane that the values will be written to.
#[derive(Default)]
pub(crate) struct Values {
    /// Ascending by column.
    pub(super) row: Vec<(u16, Stored)>,
    pub(super) cold: Option<Arc<[u8]>>,
    /// Of a row that changes: the values that it did not have, ascending by column.
    gained: Option<Vec<(u16, Stored)>>,
}

/// What an update would make of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// Version of the row.
    pub version: u64,
    /// High half of the hash of the row's string id; 0 without one.
    pub check: u64,
    /// Whether the attributes would have at most [`ATTRIBUTES_BYTES_MAX`] bytes.
    pub fits: bool,
}

impl Values {
    /// Takes nothing. The codes that it had were written to a lane.
    pub(super) fn clear(&mut self) {
        self.begin();
        self.cold = None;
    }

    /// Takes the fields of a new row, and interns its keywords.
    pub(crate) fn intern(&mut self, dictionary: &Dictionary, fields: Fields<'_>) {
        self.begin();
        for (column, value) in fields.attributes.iter() {
            self.row.push((column, stored(dictionary, column, value)));
        }
        self.cold = cold::encode(fields).map(Arc::from);
    }

    /// Takes what a published row of another lane carries.
    pub(super) fn copy(&mut self, dictionary: &Dictionary, (from, lane): (&Carried, usize)) {
        self.begin();
        from.for_each_stored(lane, |column, stored| {
            stored.codes().iter().for_each(|&code| dictionary.retain(code));
            self.row.push((column, stored));
        });
        self.sort();
        self.cold = from.cold(lane).cloned();
    }

    /// Takes what a published row of another lane carries, with changes. Keywords that stay are not
    /// looked up.
    ///
    /// * `on_code`: called with each code that the row gains (true) or loses (false).
    pub(super) fn change(
        &mut self,
        dictionary: &Dictionary,
        from: Option<(&Carried, usize)>,
        update: &Update<'_>,
        on_code: &mut dyn FnMut(bool, u32),
    ) {
        self.row.clear();
        let mut gained = self.gained.take().unwrap_or_default();
        gained.clear();
        let (changed, mut has_texts) = (Changed::by(update), false);
        if let Some((held, lane)) = from {
            held.for_each_stored(lane, |column, stored| {
                if changed.has(column) {
                    has_texts |= matches!(stored, Stored::Text);
                    stored.codes().iter().for_each(|&code| on_code(false, code));
                    return;
                }
                stored.codes().iter().for_each(|&code| dictionary.retain(code));
                self.row.push((column, stored));
            });
        }
        for (column, value) in update.set.iter() {
            has_texts |= matches!(value, ValueRef::Text(_));
            let stored = stored(dictionary, column, value);
            stored.codes().iter().for_each(|&code| on_code(true, code));
            gained.push((column, stored.clone()));
            self.row.push((column, stored));
        }
        self.gained = Some(gained);
        self.sort();
        let cold = from.and_then(|(held, lane)| held.cold(lane));
        self.cold = if has_texts || update.payload != PayloadChange::Keep {
            let before = cold.map(|bytes| cold::decode(bytes)).unwrap_or_default();
            cold::change(before, update).map(Arc::from)
        } else {
            cold.cloned()
        };
    }

    fn begin(&mut self) {
        self.row.clear();
        self.gained = None;
    }

    fn sort(&mut self) {
        // Sheets are in the order of their making.
        let key = |(column, stored): &(u16, Stored)| (*column, stored.kind().tag());
        if !self.row.is_sorted_by_key(key) {
            self.row.sort_unstable_by_key(key);
        }
    }

    /// The values that masks test, ascending by column; of a row that changes only those that it did not
    /// have.
    pub(crate) fn gained(&self) -> &[(u16, Stored)] {
        self.gained.as_ref().unwrap_or(&self.row)
    }

    /// The codes of the row.
    pub(crate) fn codes(&self) -> impl Iterator<Item = u32> + '_ {
        self.row.iter().flat_map(|(_, stored)| stored.codes().iter().copied())
    }

    /// True if the row carries nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.row.is_empty() && self.cold.is_none()
    }
}

/// A value as a sheet holds it; interns its keywords.
fn stored(dictionary: &Dictionary, column: u16, value: ValueRef<'_>) -> Stored {
    use vstream_attribute::AttributeKind::{Timestamp, F64, I64};
    let intern = |text: &str| dictionary.intern(column, text);
    match value {
        ValueRef::Keyword(text) => Stored::Code(intern(text)),
        ValueRef::Keywords(texts) => Stored::Codes(texts.into_iter().map(intern).collect()),
        ValueRef::I64(number) => Stored::Number(I64, number),
        ValueRef::Timestamp(at) => Stored::Number(Timestamp, at),
        ValueRef::F64(x) => Stored::Number(F64, ordered(x)),
        ValueRef::Bool(is_true) => Stored::Truth(is_true),
        ValueRef::Text(_) => Stored::Text,
    }
}

/// The columns that an update sets or removes: a bit each.
struct Changed([u64; ATTRIBUTES_MAX.div_ceil(64)]);

impl Changed {
    fn by(update: &Update<'_>) -> Changed {
        let mut changed = Changed([0; ATTRIBUTES_MAX.div_ceil(64)]);
        for column in update.set.columns().chain(update.unset.iter().copied()) {
            changed.0[usize::from(column) / 64] |= 1 << (column % 64);
        }
        changed
    }

    fn has(&self, column: u16) -> bool {
        self.0[usize::from(column) / 64] >> (column % 64) & 1 == 1
    }
}

/// The check of a published row's string id, and whether its attributes would fit after an update;
/// of a row that carries nothing if `from` is `None`.
///
/// Cost: a pass over the columns of the chunk; over the row's values if those could hold too much. The
/// lengths of its keywords are looked up only if they may exceed the limit.
pub(super) fn outlook(
    dictionary: &Dictionary,
    from: Option<(&Carried, usize)>,
    update: &Update<'_>,
) -> (u64, bool) {
    let Some((held, lane)) = from else {
        return (0, update.set.bytes().len() <= ATTRIBUTES_BYTES_MAX);
    };
    let check = held.cold(lane).map_or(0, |bytes| cold::check_of(bytes));
    let most: usize = held.kinds().map(most_bytes).sum();
    if most + update.set.bytes().len() <= ATTRIBUTES_BYTES_MAX {
        return (check, true);
    }
    (check, fits(dictionary, (held, lane), update))
}

/// Most bytes of a value with what stands before it in `vstream_attribute::Attributes`.
fn most_bytes(kind: AttributeKind) -> usize {
    match kind {
        AttributeKind::I64 | AttributeKind::F64 | AttributeKind::Timestamp => 11,
        AttributeKind::Bool => 4,
        AttributeKind::Keyword => KEYWORD_MAX,
        AttributeKind::Keywords | AttributeKind::Text => ATTRIBUTES_BYTES_MAX,
    }
}

/// Whether the attributes of a published row would fit after an update, by its values.
fn fits(dictionary: &Dictionary, (held, lane): (&Carried, usize), update: &Update<'_>) -> bool {
    let changed = Changed::by(update);
    let (mut most, mut is_exact) = (update.set.bytes().len(), true);
    held.for_each_stored(lane, |column, stored| {
        if changed.has(column) {
            return;
        }
        most += most_bytes(stored.kind());
        is_exact &= matches!(stored, Stored::Number(..) | Stored::Truth(_));
    });
    if is_exact || most <= ATTRIBUTES_BYTES_MAX {
        return most <= ATTRIBUTES_BYTES_MAX;
    }
    let texts = dictionary.texts();
    let cold = held.cold(lane).map(|bytes| cold::decode(bytes)).unwrap_or_default();
    let mut bytes = update.set.bytes().len();
    held.for_each_stored(lane, |column, stored| {
        if changed.has(column) {
            return;
        }
        bytes += match &stored {
            Stored::Number(..) => 11,
            Stored::Truth(_) => 4,
            Stored::Code(code) => 7 + texts.text(*code).len(),
            Stored::Codes(codes) => {
                5 + codes.iter().map(|&code| 2 + texts.text(code).len()).sum::<usize>()
            }
            Stored::Text => match cold.texts.get(column) {
                Some(ValueRef::Text(text)) => 7 + text.len(),
                _ => 0,
            },
        };
    });
    bytes <= ATTRIBUTES_BYTES_MAX
}
