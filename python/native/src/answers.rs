//! Questions asked without the interpreter lock and without waiting for the writer.

use std::cell::Cell;

use numpy::PyArray1;
use pyo3::prelude::*;
use vstream_engine::{
    Answer, Effort, Filter, Neighbor, Query, Reader, Scratch, Spread, SpreadAnswer, StoredRow, With,
};

use crate::failure::Failure;
use crate::rows::Pair;

/// What a searching thread reuses.
#[derive(Default)]
struct Tools {
    scratch: Scratch,
    found: Vec<Neighbor>,
}

thread_local! {
    /// Taken out while a search runs: one that panics leaves nothing half-changed behind.
    static TOOLS: Cell<Option<Box<Tools>>> = const { Cell::new(None) };
}

/// Id of a place in a batch answer that no row took.
const NO_ID: i64 = -1;

/// Ids and distances, side by side.
#[derive(Default)]
pub(crate) struct Answers {
    pub(crate) ids: Vec<i64>,
    pub(crate) distances: Vec<f32>,
}

impl Answers {
    /// Room for `places` rows.
    pub(crate) fn with_capacity(places: usize) -> Answers {
        Answers { ids: Vec::with_capacity(places), distances: Vec::with_capacity(places) }
    }

    /// Adds the answer to one question, as many rows as were found.
    pub(crate) fn push(&mut self, reader: &Reader, query: &Query<'_>) -> Result<(), Failure> {
        let mut tools = TOOLS.take().unwrap_or_default();
        let Tools { scratch, found } = &mut *tools;
        let searched = reader.search(query, scratch, found);
        if searched.is_ok() {
            self.take(found);
        }
        TOOLS.set(Some(tools));
        searched.map(|_| ()).map_err(Failure::from)
    }

    /// Adds every row within `radius` of a vector.
    pub(crate) fn push_within(
        &mut self,
        reader: &Reader,
        vector: &[f32],
        radius: f32,
        filter: Option<&Filter>,
    ) -> Result<(), Failure> {
        let mut tools = TOOLS.take().unwrap_or_default();
        let Tools { scratch, found } = &mut *tools;
        let searched = reader.search_radius(vector, radius, filter, scratch, found);
        if searched.is_ok() {
            self.take(found);
        }
        TOOLS.set(Some(tools));
        searched.map(|_| ()).map_err(Failure::from)
    }

    /// Adds the distances of an answer, and returns the texts of its ids.
    pub(crate) fn push_named(
        &mut self,
        reader: &Reader,
        query: &Query<'_>,
    ) -> Result<Vec<Option<String>>, Failure> {
        let answer = whole(reader, query, &With::default())?;
        self.take(&answer.neighbors);
        let name = |row: &StoredRow| Some(row.fields.fields().name.to_owned());
        let mut names: Vec<Option<String>> = answer.rows.iter().map(name).collect();
        names.resize(query.k, None);
        Ok(names)
    }

    /// Ids and distances as arrays.
    pub(crate) fn into_pair(self, py: Python<'_>) -> Pair<'_> {
        let Answers { ids, distances } = self;
        (PyArray1::from_vec(py, ids), PyArray1::from_vec(py, distances))
    }

    fn take(&mut self, found: &[Neighbor]) {
        // An id above the largest int64 keeps its bit pattern, as in Java.
        self.ids.extend(found.iter().map(|row| row.id as i64));
        self.distances.extend(found.iter().map(|row| row.distance));
    }

    /// Fills up to `places` rows in all.
    pub(crate) fn pad(&mut self, places: usize) {
        self.ids.resize(places, NO_ID);
        self.distances.resize(places, f32::INFINITY);
    }
}

/// An answer with its rows.
pub(crate) fn whole(reader: &Reader, query: &Query<'_>, with: &With) -> Result<Answer, Failure> {
    let mut tools = TOOLS.take().unwrap_or_default();
    let answer = reader.answer(query, with, &mut tools.scratch);
    TOOLS.set(Some(tools));
    Ok(answer?)
}

/// An answer whose rows are spread over the values of an attribute.
pub(crate) fn spread(
    reader: &Reader,
    query: &Query<'_>,
    spread: &Spread,
    with: &With,
) -> Result<SpreadAnswer, Failure> {
    let mut tools = TOOLS.take().unwrap_or_default();
    let answer = reader.answer_spread(query, spread, with, &mut tools.scratch);
    TOOLS.set(Some(tools));
    Ok(answer?)
}

/// How hard to look, as the caller said: recall target, probes, refine, exact. A tuple in Python.
#[derive(FromPyObject)]
pub(crate) struct EffortChoice(Option<f64>, Option<usize>, Option<usize>, bool);

impl EffortChoice {
    /// The engine's effort, for a collection that is steered to `steered`.
    pub(crate) fn effort(&self, steered: f64) -> Result<Effort, Failure> {
        let EffortChoice(target, probes, refine, exact) = *self;
        if refine.is_some() && probes.is_none() {
            return Err(Failure::invalid("refine goes with probes: pass both"));
        }
        if refine == Some(0) {
            return Err(Failure::invalid("refine is 0: take at least one exact distance"));
        }
        match (target, probes, exact) {
            (None, None, true) => Ok(Effort::Exact),
            (None, None, false) => Ok(Effort::Auto),
            (None, Some(0), false) => Err(Failure::invalid("probes is 0: visit at least one leaf")),
            (None, Some(probes), false) => Ok(Effort::Chosen { probes, refine }),
            (Some(target), None, false) if !(target > 0.0 && target <= 1.0) => Err(
                Failure::invalid(format!("recall_target is {target}: choose a value from 0 to 1")),
            ),
            (Some(target), None, false) if target > steered => Err(Failure::unsupported(format!(
                "recall_target is {target}, above the {steered} that this collection is steered \
                 to: create it with a higher recall_target, or pass probes or exact=True"
            ))),
            (Some(_), None, false) => Ok(Effort::Auto),
            _ => Err(Failure::invalid(
                "recall_target, probes and exact exclude each other: pass one of them",
            )),
        }
    }
}
