//! Questions to one group: the nearest rows, rows by id, counts, rows in order.

mod group;
mod row;
mod scroll;
mod search;

use std::sync::Arc;

use arc_swap::ArcSwap;
use vstream_attribute::Filter;
use vstream_vector::Neighbor;

pub use row::{OwnedRow, With};
pub use search::QueryStats;

use crate::accept::{group_hash, query_vector, Distances, GroupHash, K_MAX};
use crate::code::QueryCodes;
use crate::error::Error;
use crate::run::Part;
use crate::settings::{Bound, GroupSettings};
use crate::view::View;

/// Deviations that rule a row out where a run has signs and the store now wants proofs: such runs
/// were written under an earlier setting.
const DEVIATIONS: f32 = 7.0;

/// A query to one group.
#[derive(Clone, Copy, Debug)]
pub struct GroupQuery<'a> {
    /// `dimension` finite numbers.
    pub vector: &'a [f32],
    /// Neighbours wanted, 1 to [`K_MAX`].
    pub k: usize,
    /// Rows that may be in the answer.
    pub filter: Option<&'a Filter>,
}

/// The answer to a query.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupAnswer {
    /// The nearest rows of the group, nearest first, ties by id.
    pub neighbors: Vec<Neighbor>,
    /// What the search did.
    pub stats: QueryStats,
}

/// Answers questions about groups from any thread, while the writer goes on. Cheap to clone.
#[derive(Clone)]
pub struct GroupReader {
    settings: Arc<GroupSettings>,
    seed: u64,
    view: Arc<ArcSwap<View>>,
}

impl GroupReader {
    pub(crate) fn new(
        settings: Arc<GroupSettings>,
        seed: u64,
        view: Arc<ArcSwap<View>>,
    ) -> GroupReader {
        GroupReader { settings, seed, view }
    }

    fn hash(&self, group: &str) -> Result<GroupHash, Error> {
        group_hash(group, self.seed)
    }

    /// The nearest rows of a group: exact under [`Bound::Proven`]. Never sees another group.
    ///
    /// Cost: the codes of the group and the rows that these leave; about 1.5 ms for 10,000 rows of
    /// 384 dimensions in the page cache. Errors: `Invalid` for a vector or k out of range, `BadGroup`,
    /// those of the files.
    pub fn search(&self, group: &str, query: &GroupQuery<'_>) -> Result<GroupAnswer, Error> {
        if !(1..=K_MAX).contains(&query.k) {
            return Err(Error::invalid(format!("k is {}: use 1 to {K_MAX}.", query.k)));
        }
        let vector = query_vector(query.vector, &self.settings)?;
        let (hash, view) = (self.hash(group)?, self.view.load());
        let mut distances = Distances::new(&self.settings, &vector);
        let found = group::open(&view, hash, group, |row| {
            let content = row.content.expect("a living row");
            let passes = query.filter.is_none_or(|f| f.holds(row.id, content.fields.attributes));
            if passes {
                distances.to(content.vector)
            } else {
                f32::INFINITY
            }
        })?;
        let hidden = found.hidden()?;
        let deviations = match self.settings.bound {
            Bound::Proven => DEVIATIONS,
            Bound::Deviations(deviations) => deviations,
        };
        let metric = self.settings.metric;
        let codes =
            |part: &Part| QueryCodes::new(metric, part.run().rotation(), &vector, deviations);
        let search = search::Search::new(query.k, query.filter, distances);
        let (neighbors, stats) = search.run(&found, &hidden, &codes)?;
        Ok(GroupAnswer { neighbors, stats })
    }

    /// The rows with some ids, in the order asked for; `None` where there is none.
    ///
    /// Cost: a few blocks per id and run. Errors: `BadGroup`, those of the files.
    pub fn get(
        &self,
        group: &str,
        ids: &[u64],
        with: With,
    ) -> Result<Vec<Option<OwnedRow>>, Error> {
        let (hash, view) = (self.hash(group)?, self.view.load());
        let element = self.settings.element;
        let mut sorted = ids.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        // Version and row of each id so far.
        let mut found: Vec<Option<(u64, Option<OwnedRow>)>> = vec![None; sorted.len()];
        let in_memory = view.memtable.visit(hash, group, |rows| {
            for (id, found) in sorted.iter().zip(&mut found) {
                let row = rows.row(*id);
                *found = row.map(|row| (row.version, OwnedRow::copy(&row, element, with)));
            }
            rows.drops
        })?;
        if !in_memory.unwrap_or(false) {
            for part in group::open_parts(&view, hash, group)?.iter().flatten() {
                for entry in part.find(&sorted)? {
                    let at = sorted.binary_search(&entry.id).expect("an id that was asked for");
                    if found[at].as_ref().is_some_and(|(version, _)| *version >= entry.version) {
                        continue;
                    }
                    let row = entry.row.map(|row| OwnedRow::read(part, row, with)).transpose()?;
                    found[at] = Some((entry.version, row));
                }
            }
        }
        let row = |id: &u64| {
            let at = sorted.binary_search(id).expect("an id that was asked for");
            found[at].as_ref().and_then(|(_, row)| row.clone())
        };
        Ok(ids.iter().map(row).collect())
    }

    /// Number of rows of a group that a filter allows.
    ///
    /// Cost: without a filter the heads of its parts, and ids where several runs hold it; with a
    /// filter its ids and attributes. Errors: `BadGroup`, those of the files.
    pub fn count(&self, group: &str, filter: Option<&Filter>) -> Result<u64, Error> {
        let (hash, view) = (self.hash(group)?, self.view.load());
        if filter.is_none() {
            let found = group::open(&view, hash, group, |_| ())?;
            return Ok(found.count(&found.hidden()?));
        }
        let mut count = 0;
        let walk = scroll::Walk::new(&view, hash, group, None)?;
        walk.visit(filter, None, |_, _| {
            count += 1;
            true
        })?;
        Ok(count)
    }

    /// Rows of a group that a filter allows, by ascending id. Writes that come while it reads may or
    /// may not be in the answer.
    ///
    /// * `after`: the last id of the page before; `None` for the first page.
    /// * `limit`: most rows of the answer.
    ///
    /// Cost: the ids of a part per run, and a few blocks per row. Errors: `BadGroup`, those of the
    /// files.
    pub fn scroll(
        &self,
        group: &str,
        filter: Option<&Filter>,
        after: Option<u64>,
        limit: usize,
        with: With,
    ) -> Result<Vec<OwnedRow>, Error> {
        let view = self.view.load();
        let mut rows = Vec::new();
        let walk = scroll::Walk::new(&view, self.hash(group)?, group, after)?;
        if limit > 0 {
            walk.visit(filter, Some(with), |_, row| {
                rows.extend(row);
                rows.len() < limit
            })?;
        }
        Ok(rows)
    }
}
