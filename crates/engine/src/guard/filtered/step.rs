//! Audits of filtered queries: how the guard's thread makes them and what it concludes.

use vstream_attribute::Filter;
use vstream_index::{Effort, Probe};

use super::super::classes::{class_of, CLASSES};
use super::super::{locked, moment, share_of, Auditor, Guard, RecallEstimate, NOTE_EVERY};
use super::{is_kept, keep, FilteredAudit, FilteredQuery};
use crate::error::Error;
use crate::tree::{share_class, Thetas, Tree, SHARE_CLASSES};

impl Guard {
    /// Offers a query with a filter to the guard.
    pub(crate) fn note_filtered(&self, vector: &[f32], k: usize, filter: &Filter) {
        if !self.on {
            return;
        }
        let class = class_of(k);
        let seen = self.filtered.note(class);
        let is_known = (0..SHARE_CLASSES).all(|share| self.filtered.theta(share, class).is_some());
        if (is_known && !seen.is_multiple_of(NOTE_EVERY)) || !is_kept(filter) {
            return;
        }
        if let Ok(mut state) = self.state.try_lock() {
            let query = FilteredQuery { vector: vector.to_vec(), k, filter: filter.clone() };
            keep(&mut state.filtered, query);
        }
    }

    /// The last estimates for filtered queries, by class of the share of rows that match, for the
    /// largest k that was asked for.
    pub(crate) fn filtered_estimates(&self) -> [Option<RecallEstimate>; SHARE_CLASSES] {
        let class = self.filtered.asked().last();
        class.map_or([None; SHARE_CLASSES], |class| locked(&self.state).filtered_estimates[class])
    }

    /// Makes one audit of a filtered query, or of a row that stands in for one; false if none is
    /// needed.
    pub(in crate::guard) fn step_filtered(&self, search: &Tree, auditor: &mut Auditor) -> bool {
        let noted = locked(&self.state).filtered.pop_front();
        if let Some(query) = noted.or_else(|| auditor.filtered.ask_again()) {
            let class = class_of(query.k);
            // An unreadable segment says nothing about recall; its readers get the error.
            let Ok(audited) = self.audit_filtered(search, query, auditor) else { return false };
            if let Some((share, audit)) = audited {
                auditor.filtered.push_query(share, class, audit);
                self.conclude_filtered(class, auditor);
            }
            return true;
        }
        let short = |class: &usize| auditor.filtered.wants_rows(*class);
        let Some(class) = self.filtered.asked().find(short) else { return false };
        let Some((id, row)) = self.sample(search, auditor) else { return false };
        let at = moment(search);
        let (k, others) = (CLASSES[class], Filter::Not(Box::new(Filter::Ids(vec![id]))));
        let (effort, filter) = (Effort::Exact, Some(&others));
        let probe = Probe { vector: &row, k, effort, filter };
        let (mut needed, Auditor { scratch, top, .. }) = (Vec::new(), &mut *auditor);
        let Ok(Some(_)) = search.needs(&probe, scratch, top, &mut needed) else { return false };
        auditor.filtered.push_row(class, FilteredAudit { query: None, at, needed, made: None });
        self.conclude_filtered(class, auditor);
        true
    }

    /// Audits a query; `None` if there are no leaves, or if nothing matches.
    fn audit_filtered(
        &self,
        search: &Tree,
        query: FilteredQuery,
        tools: &mut Auditor,
    ) -> Result<Option<(usize, FilteredAudit)>, Error> {
        let at = moment(search);
        let FilteredQuery { vector, k, filter } = &query;
        let probe = Probe { vector, k: *k, effort: Effort::Exact, filter: Some(filter) };
        let (mut needed, Auditor { scratch, top, found, .. }) = (Vec::new(), tools);
        let Some(share) = search.needs(&probe, scratch, top, &mut needed)? else {
            return Ok(None);
        };
        if needed.is_empty() {
            return Ok(None);
        }
        let share = share_class(share);
        let mut truth = Vec::new();
        top.drain_sorted(&mut truth);
        let mut made = None;
        if let Some(theta) = self.filtered.theta(share, class_of(*k)) {
            let effort = Effort::Thorough { depth: 0 };
            let probe = Probe { effort, ..probe };
            top.reset(*k);
            search.search_filtered(&probe, &Thetas([theta; SHARE_CLASSES]), scratch, top)?;
            top.drain_sorted(found);
            made = Some((theta, share_of(&truth, found)));
        }
        Ok(Some((share, FilteredAudit { needed, at, made, query: Some(query) })))
    }

    /// Where searches for `k` neighbours with a filter may stop.
    pub(crate) fn thetas(&self, k: usize) -> Thetas {
        self.filtered.thetas(class_of(k))
    }

    fn conclude_filtered(&self, class: usize, auditor: &Auditor) {
        let estimates = self.filtered.conclude(&auditor.filtered, class, self.target());
        locked(&self.state).filtered_estimates[class] = estimates;
    }
}
