//! The exact search of one group.
//!
//! 1. Rows of the memtable get exact distances.
//! 2. Rows of parts without codes get exact distances.
//! 3. The codes of the leaves of the other parts give an interval for the distance of each row. A
//!    row can be among the k nearest only if its least distance is not above the k-th smallest of
//!    the greatest distances, or of exact ones. A leaf is passed over if no row in it can.
//! 4. Candidates get exact distances, by least distance, until none that is left can be nearer. If
//!    the run has codes for a second look, only the first few do; the others get a narrower interval
//!    first, and most of them need no more.
//!
//! The filter is applied before a row counts for anything.

use std::collections::HashMap;

use vstream_attribute::{Attributes, Filter};
use vstream_vector::{Neighbor, TopK};

use super::ask::QueryStats;
use super::group::{GroupView, Hidden, Place};
use crate::accept::Distances;
use crate::code::{LeafQuery, QueryCodes};
use crate::error::Error;
use crate::run::{LeafAttributes, Part};

/// Leaves whose codes are read first, to have a bound by which others are passed over.
const LEAVES_FIRST: usize = 16;
/// Leaves whose codes are read together after that.
const LEAVES_TOGETHER: usize = 256;
/// Candidates that get exact distances together at first; then twice as many, and so on.
const REFINED_FIRST: usize = 32;

/// A row that may be among the nearest.
struct Candidate {
    least: f32,
    place: Place,
    /// Position of its leaf in `Search::besides`.
    beside: u32,
}

pub(super) struct Search<'a> {
    filter: Option<&'a Filter>,
    radius: f32,
    distances: Distances<'a>,
    /// Built when the first coded part is met.
    codes: Option<QueryCodes>,
    top: TopK,
    /// The k smallest of the greatest distances of candidates.
    greatest: TopK,
    candidates: Vec<Candidate>,
    /// The query beside each leaf that was scanned.
    besides: Vec<LeafQuery>,
    /// Where rows with an exact distance are, if the answer wants to read them.
    places: Option<HashMap<u64, Place>>,
    stats: QueryStats,
}

/// The nearest rows of a group.
pub(super) struct Nearest {
    /// Nearest first.
    pub(super) neighbors: Vec<Neighbor>,
    /// Where each of them is, if that was asked for.
    pub(super) places: Vec<Place>,
    pub(super) stats: QueryStats,
}

impl<'a> Search<'a> {
    /// * `radius`: largest distance of an answer.
    /// * `with_places`: true if the places of the rows are wanted.
    pub(super) fn new(
        k: usize,
        filter: Option<&'a Filter>,
        radius: f32,
        with_places: bool,
        distances: Distances<'a>,
    ) -> Search<'a> {
        Search {
            radius,
            places: with_places.then(HashMap::new),
            filter,
            distances,
            codes: None,
            top: TopK::new(k),
            greatest: TopK::new(k),
            candidates: Vec::new(),
            besides: Vec::new(),
            stats: QueryStats::default(),
        }
    }

    /// No row that is farther can be among the nearest.
    fn bound(&self) -> f32 {
        self.top.bound().min(self.greatest.bound()).min(self.radius)
    }

    fn offer(&mut self, place: Place, neighbor: Neighbor) {
        self.stats.exact_rows += 1;
        if neighbor.distance > self.radius {
            return;
        }
        self.top.offer(neighbor);
        if let Some(places) = &mut self.places {
            places.insert(neighbor.id, place);
        }
    }

    /// Searches a group and returns the nearest rows, nearest first.
    ///
    /// * `make_codes`: makes the query's codes for the rotation and bound of a part.
    pub(super) fn run(
        mut self,
        group: &GroupView,
        hidden: &Hidden,
        make_codes: &dyn Fn(&Part) -> QueryCodes,
    ) -> Result<Nearest, Error> {
        for (at, entry) in group.memory.iter().enumerate() {
            let Some(content) = &entry.content else { continue };
            self.stats.rows += 1;
            let content = content.content();
            let passes = self.filter.is_none_or(|f| f.holds(entry.id, content.fields.attributes));
            if passes && !hidden.in_memory(at) {
                self.stats.matches += 1;
                let distance = self.distances.to(content.vector);
                let (id, version) = (entry.id, entry.version);
                self.offer(Place::memory(at), Neighbor { distance, id, version });
            }
        }
        for (run, parts) in group.runs.iter().enumerate() {
            for (at, part) in parts.iter().enumerate() {
                self.stats.rows += u64::from(part.rows());
                let is_hidden = |row| hidden.in_part(run, at, row);
                let place = Place { run: run as u32, part: at as u32, row: 0 };
                if part.is_coded() {
                    let codes = self.codes.take().unwrap_or_else(|| make_codes(part));
                    self.scan_codes(part, place, &codes, &is_hidden)?;
                    self.codes = Some(codes);
                } else {
                    self.scan_rows(part, place, &is_hidden)?;
                }
            }
        }
        self.refine(group)?;
        self.stats.runs = group.runs.len() as u64;
        self.stats.bytes = group.asked_bytes();
        let mut neighbors = Vec::new();
        self.top.drain_sorted(&mut neighbors);
        let places = self.places.unwrap_or_default();
        let place = |neighbor: &Neighbor| places.get(&neighbor.id).copied();
        let places = neighbors.iter().filter_map(place).collect();
        Ok(Nearest { neighbors, places, stats: self.stats })
    }

    /// Exact distances of all rows of a part.
    fn scan_rows(
        &mut self,
        part: &Part,
        place: Place,
        is_hidden: &dyn Fn(u32) -> bool,
    ) -> Result<(), Error> {
        let leaves: Vec<usize> = (0..part.leaves().len()).collect();
        let passing = match self.filter {
            None => None,
            Some(filter) => {
                let ids = if has_ids(filter) { Some(ids_by_row(part)?) } else { None };
                let id = |row: usize| ids.as_ref().map_or(0, |ids| ids[row]);
                let mut passing = Vec::with_capacity(part.rows() as usize);
                for (leaf, attributes) in part.attributes(&leaves)?.iter().enumerate() {
                    for within in 0..part.leaves()[leaf].rows as usize {
                        let found = attributes.get(within);
                        let found = found.map_err(|what| part.bad_attributes(leaf, what))?;
                        passing.push(filter.holds(id(passing.len()), found));
                    }
                }
                Some(passing)
            }
        };
        let passes = |row: u32| passing.as_ref().is_none_or(|passing| passing[row as usize]);
        let rows: Vec<u32> =
            (0..part.rows()).filter(|&row| !is_hidden(row) && passes(row)).collect();
        self.stats.matches += rows.len() as u64;
        part.visit_rows(&rows, |row, id, version, vector| {
            let distance = self.distances.to(vector);
            self.offer(Place { row, ..place }, Neighbor { distance, id, version });
        })
    }

    /// Scans the codes of a part and notes candidates.
    fn scan_codes(
        &mut self,
        part: &Part,
        place: Place,
        codes: &QueryCodes,
        is_hidden: &dyn Fn(u32) -> bool,
    ) -> Result<(), Error> {
        let mut centroid = vec![0.0; part.shape().padded()];
        let mut leaves: Vec<(usize, LeafQuery)> = Vec::with_capacity(part.leaves().len());
        for (at, leaf) in part.leaves().iter().enumerate() {
            leaf.centroid(&mut centroid);
            leaves.push((at, codes.beside(&centroid, leaf.reach, (leaf.add_max, leaf.scale_max))));
        }
        leaves.sort_by(|a, b| a.1.least.total_cmp(&b.1.least));
        let ids = match self.filter {
            Some(filter) if has_ids(filter) => Some(ids_by_row(part)?),
            _ => None,
        };
        let mut rest = &leaves[..];
        let mut together = LEAVES_FIRST;
        while !rest.is_empty() {
            let bound = self.bound();
            let near = rest.partition_point(|(_, leaf)| leaf.least <= bound);
            let (now, later) = rest[..near].split_at(near.min(together));
            if now.is_empty() {
                break;
            }
            let numbers: Vec<usize> = now.iter().map(|(at, _)| *at).collect();
            let blocks = part.codes(&numbers)?;
            let attributes = match self.filter {
                Some(_) => Some(part.attributes(&numbers)?),
                None => None,
            };
            for (at, (leaf, beside)) in now.iter().enumerate() {
                let leaf = LeafScan {
                    part,
                    place,
                    leaf: *leaf,
                    beside: *beside,
                    codes: &blocks[at],
                    attributes: attributes.as_ref().map(|all| &all[at]),
                    ids: ids.as_deref(),
                };
                self.scan_leaf(codes, &leaf, is_hidden)?;
            }
            (rest, together) = (later, LEAVES_TOGETHER);
        }
        Ok(())
    }

    fn scan_leaf(
        &mut self,
        codes: &QueryCodes,
        leaf: &LeafScan<'_>,
        is_hidden: &dyn Fn(u32) -> bool,
    ) -> Result<(), Error> {
        let head = &leaf.part.leaves()[leaf.leaf];
        let first = leaf.part.first_row(leaf.leaf);
        let rows = head.rows as usize;
        self.stats.coded_rows += rows as u64;
        self.besides.push(leaf.beside);
        let mut intervals = Vec::with_capacity(rows);
        let kind = leaf.part.shape().codes;
        codes.scan(kind, leaf.beside, leaf.codes, rows, &mut intervals);
        for (within, interval) in intervals.iter().enumerate() {
            let row = first + within as u32;
            // A damaged code may give no number; such a row stays a candidate.
            if interval.least > self.bound() || is_hidden(row) || !self.passes(leaf, row, within)? {
                continue;
            }
            self.greatest.offer(Neighbor { distance: interval.most, id: 0, version: 0 });
            self.stats.matches += 1;
            let beside = (self.besides.len() - 1) as u32;
            let place = Place { row, ..leaf.place };
            self.candidates.push(Candidate { least: interval.least, place, beside });
        }
        Ok(())
    }

    fn passes(&self, leaf: &LeafScan<'_>, row: u32, within: usize) -> Result<bool, Error> {
        let (Some(filter), Some(attributes)) = (self.filter, leaf.attributes) else {
            return Ok(true);
        };
        let found = attributes.get(within);
        let found: Attributes<'_> =
            found.map_err(|what| leaf.part.bad_attributes(leaf.leaf, what))?;
        Ok(filter.holds(leaf.ids.map_or(0, |ids| ids[row as usize]), found))
    }

    /// Exact distances of candidates, until none that is left can be nearer.
    fn refine(&mut self, group: &GroupView) -> Result<(), Error> {
        let mut candidates = std::mem::take(&mut self.candidates);
        let mut together = REFINED_FIRST.max(self.top.k());
        let mut looked = false;
        loop {
            let bound = self.bound();
            // A damaged code may give no number; such a row stays a candidate.
            candidates.retain(|candidate| candidate.least.is_nan() || candidate.least <= bound);
            if candidates.is_empty() {
                return Ok(());
            }
            candidates.sort_unstable_by(|a, b| b.least.total_cmp(&a.least));
            let rest = candidates.len().saturating_sub(together);
            let mut nearest = candidates.split_off(rest);
            self.exact(group, &mut nearest)?;
            together *= 2;
            if !looked {
                let bound = self.bound();
                candidates.retain(|candidate| candidate.least.is_nan() || candidate.least <= bound);
                self.look_again(group, &mut candidates)?;
                looked = true;
            }
        }
    }

    /// Exact distances of some candidates.
    fn exact(&mut self, group: &GroupView, now: &mut [Candidate]) -> Result<(), Error> {
        now.sort_unstable_by_key(|candidate| candidate.place);
        for of_part in now.chunk_by(|a, b| a.place.is_beside(b.place)) {
            let part = group.part(of_part[0].place);
            let rows: Vec<u32> = of_part.iter().map(|candidate| candidate.place.row).collect();
            let place = of_part[0].place;
            part.visit_rows(&rows, |row, id, version, vector| {
                let distance = self.distances.to(vector);
                self.offer(Place { row, ..place }, Neighbor { distance, id, version });
            })?;
        }
        Ok(())
    }

    /// Narrows the intervals of candidates whose runs have codes for a second look.
    fn look_again(&mut self, group: &GroupView, candidates: &mut [Candidate]) -> Result<(), Error> {
        let Some(codes) = &self.codes else { return Ok(()) };
        candidates.sort_unstable_by_key(|candidate| candidate.place);
        for of_part in candidates.chunk_by_mut(|a, b| a.place.is_beside(b.place)) {
            let part = group.part(of_part[0].place);
            if part.shape().second_bytes() == 0 {
                continue;
            }
            let rows: Vec<u32> = of_part.iter().map(|candidate| candidate.place.row).collect();
            part.visit_seconds(&rows, |at, code| {
                let candidate = &mut of_part[at];
                let beside = self.besides[candidate.beside as usize];
                candidate.least = candidate.least.max(codes.bound(beside, code).least);
            })?;
        }
        Ok(())
    }
}

/// A leaf whose codes were read.
struct LeafScan<'a> {
    part: &'a Part,
    place: Place,
    leaf: usize,
    beside: LeafQuery,
    codes: &'a [u8],
    attributes: Option<&'a LeafAttributes>,
    ids: Option<&'a [u64]>,
}

/// True if a filter asks for ids, which codes do not hold.
pub(super) fn has_ids(filter: &Filter) -> bool {
    match filter {
        Filter::And(all) | Filter::Or(all) | Filter::AtLeast(_, all) => all.iter().any(has_ids),
        Filter::Not(one) => has_ids(one),
        Filter::Attribute(..) => false,
        Filter::Ids(_) => true,
    }
}

/// The id of each row of a part. Cost: all its id blocks.
pub(super) fn ids_by_row(part: &Part) -> Result<Vec<u64>, Error> {
    let mut ids = vec![0; part.rows() as usize];
    for entry in part.ids()? {
        if let Some(row) = entry.row {
            ids[row as usize] = entry.id;
        }
    }
    Ok(ids)
}
