//! Questions to one group: the nearest rows, the best rows by words and rank, rows by id, counts,
//! rows in order.

mod ask;
mod bounds;
mod gather;
mod group;
mod groups;
mod lookup;
mod ranked;
mod row;
mod scroll;
mod search;

use std::sync::Arc;

use arc_swap::ArcSwap;
use vstream_attribute::{Filter, IdKind};
use vstream_vector::Neighbor;

pub use ask::{
    Diversity, GroupAnswer, GroupBy, GroupHit, GroupQuery, QueryStats, RankBy, TextSearch,
    GROUPED_ROWS_MAX,
};
pub use groups::{GroupSummary, GROUPS_PAGE_MAX};
pub(crate) use lookup::{find, Existing, OpenedGroups};
pub use row::{OwnedRow, With};

use crate::accept::{group_hash, query_vector, Distances, GroupHash};
use crate::code::QueryCodes;
use crate::error::Error;
use crate::run::Part;
use crate::settings::{Bound, GroupSettings};
use crate::view::View;

/// Deviations that rule a row out where a run has signs and the store now wants proofs: such runs
/// were written under an earlier setting.
const DEVIATIONS: f32 = 7.0;

impl GroupQuery<'_> {
    /// Checks all of a query that can be checked without rows: what it asks for, its vector, its
    /// words and its parameters. A store of these settings answers a query that passes. Errors: those
    /// of [`GroupReader::search`], but for the files.
    pub fn validate(&self, settings: &GroupSettings) -> Result<(), Error> {
        self.check(&settings.schema)?;
        self.vector.map_or(Ok(()), |vector| query_vector(vector, settings).map(drop))?;
        ranked::RankedQuery::new(self, settings).map(drop)
    }
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

    /// The best rows of a group. Never sees another group. Distances and orders are exact under
    /// [`Bound::Proven`].
    ///
    /// Cost: by distance alone the codes of the group and the rows that these leave; about 1.5 ms
    /// for 10,000 rows of 384 dimensions in the page cache. With words or an expression, diverse or
    /// grouped: the attributes of all rows; if the order asks for distances, the codes of those that
    /// pass filter and words and the vectors that these leave; all their vectors if both orders are
    /// fused. Errors: `Invalid` for a vector, k, radius or grouping out of
    /// range, `Refused` for a filter that does not fit the schema, `Query` for words and parameters,
    /// `BadGroup`, those of the files.
    pub fn search(&self, group: &str, query: &GroupQuery<'_>) -> Result<GroupAnswer, Error> {
        query.check(&self.settings.schema)?;
        let vector = query.vector.map(|vector| query_vector(vector, &self.settings)).transpose()?;
        let (hash, view) = (self.hash(group)?, self.view.load());
        let distances = vector.as_deref().map(|vector| Distances::new(&self.settings, vector));
        if let (true, Some(vector), Some(distances)) = (query.is_plain(), &vector, distances) {
            let found = group::open(&view, hash, group)?;
            return self.nearest(&found, query, vector, distances);
        }
        let ranked = ranked::RankedQuery::new(query, &self.settings)?;
        let found = group::open(&view, hash, group)?;
        let hidden = found.hidden()?;
        let Some(vector) = &vector else { return ranked.run(&found, &hidden, None) };
        let make_codes = |part: &Part| self.codes(part, vector);
        let distances = Distances::new(&self.settings, vector);
        let bounds = bounds::Bounds::new(&found, distances, &make_codes);
        ranked.run(&found, &hidden, Some(bounds))
    }

    /// The codes of a query's vector for the rotation and the bound of a part.
    fn codes(&self, part: &Part, vector: &[f32]) -> QueryCodes {
        let deviations = match self.settings.bound {
            Bound::Proven => DEVIATIONS,
            Bound::Deviations(deviations) => deviations,
        };
        QueryCodes::new(self.settings.metric, part.run().rotation(), vector, deviations)
    }

    fn nearest(
        &self,
        group: &group::GroupView,
        query: &GroupQuery<'_>,
        vector: &[f32],
        distances: Distances<'_>,
    ) -> Result<GroupAnswer, Error> {
        let codes = |part: &Part| self.codes(part, vector);
        let radius = query.radius.unwrap_or(f32::INFINITY);
        let reads = query.with != With::NOTHING || self.settings.schema.id == IdKind::String;
        let search = search::Search::new(query.k, query.filter, radius, reads, distances);
        let mut found = search.run(group, &group.hidden()?, &codes)?;
        let mut rows = Vec::with_capacity(found.neighbors.len());
        for (at, &Neighbor { distance, id, version }) in found.neighbors.iter().enumerate() {
            let row = match found.places.get(at) {
                Some(place) => {
                    group.show(*place, (id, version), self.settings.element, query.with)?
                }
                None => OwnedRow::bare(id, version),
            };
            rows.push(GroupHit { distance: Some(distance), score: None, row });
        }
        found.stats.bytes = group.asked_bytes();
        Ok(GroupAnswer { rows, groups: Vec::new(), stats: found.stats })
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
                    let key = (entry.id, entry.version);
                    let row =
                        entry.row.map(|row| OwnedRow::read(part, row, key, with)).transpose()?;
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
            let found = group::open(&view, hash, group)?;
            return Ok(found.count(&found.hidden()?));
        }
        let mut count = 0;
        let walk = scroll::Walk::new(&view, hash, group, None)?;
        walk.visit(filter, None, |_, _, _| {
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
            walk.visit(filter, Some(with), |_, _, row| {
                rows.extend(row);
                rows.len() < limit
            })?;
        }
        Ok(rows)
    }

    /// Ids of the rows of a group that match and are not newer than `version`, ascending.
    pub(crate) fn matches(
        &self,
        group: &str,
        filter: &Filter,
        version: u64,
    ) -> Result<Vec<u64>, Error> {
        let (hash, view) = (self.hash(group)?, self.view.load());
        let mut ids = Vec::new();
        let walk = scroll::Walk::new(&view, hash, group, None)?;
        walk.visit(Some(filter), None, |id, found, _| {
            if found <= version {
                ids.push(id);
            }
            true
        })?;
        Ok(ids)
    }

    /// Groups that have rows, in an order that stays: that of the hashes of their names. Groups that
    /// come while pages are read may or may not be in them.
    ///
    /// * `after`: name of the last group of the page before; `None` for the first page.
    /// * `limit`: most groups of the answer, 1 to [`GROUPS_PAGE_MAX`].
    ///
    /// Cost: the heads of the parts of these groups, and ids where several runs hold one. Errors:
    /// `Invalid` for a limit out of range, `BadGroup`, those of the files.
    pub fn groups(&self, after: Option<&str>, limit: usize) -> Result<Vec<GroupSummary>, Error> {
        if !(1..=GROUPS_PAGE_MAX).contains(&limit) {
            let what = format!("A page has 1 to {GROUPS_PAGE_MAX} groups, not {limit}.");
            return Err(Error::invalid(what));
        }
        let after = after.map(|name| self.hash(name)).transpose()?;
        groups::page(&self.view.load(), after, limit)
    }
}
