//! Audits of filtered queries: how the guard's thread makes them and what it concludes.

use vstream_attribute::Filter;
use vstream_index::{Effort, Probe};

use super::super::classes::{class_of, CLASSES};
use super::super::{locked, moment, Auditor, Guard, RecallEstimate, NOTE_EVERY};
use super::{is_kept, keep, share_class, FilteredAudit, FilteredQuery, SHARE_CLASSES};
use crate::error::Error;
use crate::tree::Tree;

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
        let k = CLASSES[class];
        let probe = Probe { vector: &row, k: k + 1, effort: Effort::Exact, filter: None };
        let needs = search.needs(&probe, Some(id), &mut auditor.scratch, &mut auditor.top);
        let Ok(Some(needs)) = needs else { return false };
        let audit = FilteredAudit { query: None, at, needed: needs.needed, made: None };
        auditor.filtered.push_row(class, audit);
        self.conclude_filtered(class, auditor);
        true
    }

    /// Audits a query; `None` if the metric has no θ, or if nothing matches.
    fn audit_filtered(
        &self,
        search: &Tree,
        query: FilteredQuery,
        tools: &mut Auditor,
    ) -> Result<Option<(usize, FilteredAudit)>, Error> {
        let at = moment(search);
        let FilteredQuery { vector, k, filter } = &query;
        let filter = Some(filter);
        let probe = Probe { vector, k: *k, effort: Effort::Exact, filter };
        let needs = search.needs(&probe, None, &mut tools.scratch, &mut tools.top)?;
        let Some(needs) = needs.filter(|needs| !needs.needed.is_empty()) else { return Ok(None) };
        let mut matches = 0u64;
        search.pin().for_each_match(filter, &mut |_| matches += 1)?;
        let live = search.stats().0.live.max(1);
        let share = share_class(matches as f64 / live as f64);
        // The search of a filtered query is exact over its matches, so what it finds says nothing
        // about θ.
        let made = None;
        Ok(Some((share, FilteredAudit { needed: needs.needed, at, made, query: Some(query) })))
    }

    fn conclude_filtered(&self, class: usize, auditor: &Auditor) {
        let estimates = self.filtered.conclude(&auditor.filtered, class, self.target());
        locked(&self.state).filtered_estimates[class] = estimates;
    }
}
