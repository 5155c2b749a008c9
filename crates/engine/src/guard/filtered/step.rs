//! Audits of filtered queries: how the guard's thread makes them and what it concludes.

use std::sync::atomic::Ordering;

use vstream_attribute::Filter;
use vstream_index::{Effort, Probe};

use super::super::classes::{class_of, CLASSES};
use super::super::spread::is_drawn;
use super::super::window::Audit;
use super::super::{cpu_seconds, locked, moment, share_of, Auditor, Guard, RecallEstimate};
use super::{is_kept, keep, FilteredAudit, FilteredAudits, FilteredQuery};
use crate::error::Error;
use crate::tree::{Thetas, Tree, SHARE_CLASSES};

impl Guard {
    /// Offers a query for `k` neighbours with a filter to the guard.
    ///
    /// * `share`: class of the share of the rows that match.
    pub(crate) fn note_filtered(
        &self,
        (vector, k): (&[f32], usize),
        filter: &Filter,
        share: usize,
    ) {
        if !self.on {
            return;
        }
        let class = class_of(k);
        self.most_asked.fetch_max(k, Ordering::Relaxed);
        let shape = self.filtered.shape(filter);
        let seen = self.filtered.note(share, class, shape);
        let is_known = self.filtered.is_known(share, class, shape);
        if (is_known && !is_drawn(seen)) || !is_kept(filter) {
            return;
        }
        if let Ok(mut state) = self.state.try_lock() {
            let filter = filter.clone();
            let vector = vector.to_vec();
            keep(&mut state.filtered, FilteredQuery { vector, k, filter, share, shape });
        }
    }

    /// True if filtered queries like those that came go through every code.
    pub(in crate::guard) fn is_filtered_undecided(&self) -> bool {
        // What is decided for one shape is decided for all.
        let is_open =
            |class| (0..SHARE_CLASSES).any(|share| self.filtered.theta(share, class, 0).is_none());
        self.filtered.asked().any(is_open)
    }

    /// True if a filtered query waits for an audit, and its class has few.
    pub(in crate::guard) fn has_few_filtered(&self) -> bool {
        let state = locked(&self.state);
        let is_new = |query: &FilteredQuery| {
            !self.filtered.is_known(query.share, class_of(query.k), query.shape)
        };
        state.filtered.iter().any(is_new)
    }

    /// True if rows are to stand in for filtered queries.
    pub(in crate::guard) fn wants_filtered_rows(&self, auditor: &Auditor) -> bool {
        self.filtered.asked().any(|class| auditor.filtered.wants_rows(class))
    }

    /// Notes what an audit of a row tells about filtered queries.
    pub(in crate::guard) fn push_filtered_row(&self, audit: &Audit, filtered: &mut FilteredAudits) {
        for (class, &k) in CLASSES.iter().enumerate().filter(|&(_, &k)| k <= audit.k) {
            let needs = audit.needs(k, self.index);
            let needed: Vec<f32> = needs
                .flat_map(|(needed, weight)| std::iter::repeat_n(needed, weight as usize))
                .collect();
            if needed.is_empty() {
                continue;
            }
            filtered.push_row(
                class,
                FilteredAudit {
                    query: None,
                    at: audit.at,
                    asked: 0,
                    asked_of_shape: 0,
                    needed,
                    made: None,
                },
            );
        }
    }

    /// The last estimates for filtered queries, by class of the share of rows that match, for the
    /// largest k that was asked for.
    pub(crate) fn filtered_estimates(&self) -> [Option<RecallEstimate>; SHARE_CLASSES] {
        let class = self.filtered.asked().last();
        class.map_or([None; SHARE_CLASSES], |class| locked(&self.state).filtered_estimates[class])
    }

    /// Makes one audit of a filtered query; false if none is needed.
    pub(in crate::guard) fn step_filtered(&self, search: &Tree, auditor: &mut Auditor) -> bool {
        let noted = locked(&self.state).filtered.pop_front();
        let Some(query) = noted.or_else(|| auditor.filtered.ask_again()) else { return false };
        let class = class_of(query.k);
        // An unreadable segment says nothing about recall; its readers get the error.
        let Ok(audited) = self.audit_filtered(search, query, auditor) else { return false };
        if let Some((share, audit)) = audited {
            auditor.filtered.push_query(share, class, audit);
            self.conclude_filtered(class, auditor);
        }
        true
    }

    /// Audits a query; `None` if its answers are exact.
    fn audit_filtered(
        &self,
        search: &Tree,
        query: FilteredQuery,
        tools: &mut Auditor,
    ) -> Result<Option<(usize, FilteredAudit)>, Error> {
        let at = moment(search);
        let FilteredQuery { vector, k, filter, shape, .. } = &query;
        let probe = Probe { vector, k: *k, effort: Effort::Exact, filter: Some(filter) };
        let (mut needed, Auditor { scratch, top, found, .. }) = (Vec::new(), tools);
        let Some(share) = search.needs(&probe, scratch, top, &mut needed)? else {
            return Ok(None);
        };
        if needed.is_empty() {
            return Ok(None);
        }
        let mut truth = Vec::new();
        top.drain_sorted(&mut truth);
        let mut made = None;
        if let Some(theta) = self.filtered.theta(share, class_of(*k), *shape) {
            let effort = Effort::Thorough { depth: 0 };
            let probe = Probe { effort, ..probe };
            top.reset(*k);
            let begin = cpu_seconds();
            search.search_filtered(&probe, &Thetas([theta; SHARE_CLASSES]), scratch, top)?;
            self.filtered.note_seconds(cpu_seconds() - begin);
            top.drain_sorted(found);
            made = Some((theta, share_of(&truth, found)));
        }
        let asked = self.filtered.seen_of(share, class_of(*k));
        let asked_of_shape = self.filtered.seen_of_shape(share, class_of(*k), *shape);
        let query = Some(query);
        Ok(Some((share, FilteredAudit { query, at, asked, asked_of_shape, needed, made })))
    }

    /// Where searches for `k` neighbours with a filter may stop.
    pub(crate) fn thetas(&self, k: usize, filter: &Filter) -> Thetas {
        self.filtered.thetas(class_of(k), self.filtered.shape(filter))
    }

    pub(in crate::guard) fn conclude_filtered(&self, class: usize, auditor: &Auditor) {
        let estimates = self.filtered.conclude(&auditor.filtered, class, self.target());
        locked(&self.state).filtered_estimates[class] = estimates;
    }
}
