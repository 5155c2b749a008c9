//! The rows with the least estimates, found in one pass over codes.

/// A row that a scan of codes found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Distance to the query as its code estimates it.
    pub estimate: f32,
    /// Rank of its leaf among the ranked leaves of its place, from 0.
    pub leaf: u32,
    /// Position in its leaf: `block · 32 + lane`.
    pub row: u32,
}

/// Keeps the candidates with the least estimates while codes are scanned.
///
/// A threshold says which estimates are still of use. It is lowered whenever four times as many
/// candidates as wanted have passed it, so that each candidate costs O(1) on average.
pub struct BestCandidates<'a> {
    keep: usize,
    threshold: f32,
    is_cut: bool,
    candidates: &'a mut Vec<Candidate>,
}

impl<'a> BestCandidates<'a> {
    /// Continues with the candidates of earlier scans.
    ///
    /// * `keep`: candidates wanted, ≥ 1.
    /// * `below`: a bound that candidates of other places set; infinite without one.
    /// * `candidates`: empty, or the best `keep` so far, best first.
    pub fn new(keep: usize, below: f32, candidates: &'a mut Vec<Candidate>) -> BestCandidates<'a> {
        let last = candidates.get(keep - 1).map_or(f32::INFINITY, |last| last.estimate);
        BestCandidates { keep, threshold: below.min(last), is_cut: false, candidates }
    }

    /// Only candidates with estimates below it can be among the best.
    #[inline]
    pub fn threshold(&self) -> f32 {
        self.threshold
    }

    /// Adds a candidate with an estimate below the threshold.
    #[inline]
    pub fn push(&mut self, candidate: Candidate) {
        self.candidates.push(candidate);
    }

    /// Lowers the threshold if enough candidates have passed it; called once per block of codes.
    #[inline]
    pub fn lower(&mut self) {
        if self.candidates.len() >= self.keep.saturating_mul(4) {
            self.cut();
        }
    }

    /// Cuts the candidates to the best `keep`, in no order; true if any candidate was dropped.
    pub fn finish(mut self) -> bool {
        if self.candidates.len() > self.keep {
            self.cut();
        }
        self.is_cut
    }

    fn cut(&mut self) {
        let by_estimate = |a: &Candidate, b: &Candidate| a.estimate.total_cmp(&b.estimate);
        let (_, last, _) = self.candidates.select_nth_unstable_by(self.keep - 1, by_estimate);
        self.threshold = last.estimate;
        self.candidates.truncate(self.keep);
        self.is_cut = true;
    }
}

/// Sorts candidates, best first.
pub fn sort_candidates(candidates: &mut [Candidate]) {
    candidates.sort_unstable_by(|a, b| a.estimate.total_cmp(&b.estimate));
}
