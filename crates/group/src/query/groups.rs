//! Which groups there are.

use std::collections::BTreeMap;

use super::group::open;
use crate::accept::GroupHash;
use crate::error::Error;
use crate::run::Part;
use crate::view::View;

/// Most groups of a page.
pub const GROUPS_PAGE_MAX: usize = 1000;

/// A group that has rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSummary {
    /// Its name.
    pub name: String,
    /// Its rows.
    pub rows: u64,
}

/// Groups with rows behind a hash, by hash. A group whose rows are all deleted is passed over.
pub(super) fn page(
    view: &View,
    after: Option<GroupHash>,
    limit: usize,
) -> Result<Vec<GroupSummary>, Error> {
    let mut page = Vec::new();
    let mut from = after.map_or(Some(0), |after| after.checked_add(1));
    while let Some(first) = from {
        let wanted = limit - page.len();
        let found = candidates(view, first, wanted)?;
        for (hash, name) in &found {
            let group = open(view, *hash, name)?;
            let rows = group.count(&group.hidden()?);
            if rows > 0 {
                page.push(GroupSummary { name: name.clone(), rows });
            }
        }
        let is_last = found.len() < wanted;
        let last = found.last_key_value().map(|(hash, _)| *hash);
        from = last.filter(|_| !is_last && page.len() < limit).and_then(|hash| hash.checked_add(1));
    }
    Ok(page)
}

/// Hash and name of the first `limit` groups from a hash on that some place knows.
fn candidates(
    view: &View,
    from: GroupHash,
    limit: usize,
) -> Result<BTreeMap<GroupHash, String>, Error> {
    let mut found = BTreeMap::new();
    for hash in view.memtable.groups_from(from, limit) {
        if let Some(name) = view.memtable.visit_any(hash, |name, _| name.to_owned()) {
            found.insert(hash, name);
        }
    }
    let mut parts = BTreeMap::new();
    for run in &view.runs {
        for entry in run.groups_from(from, limit)? {
            if !found.contains_key(&entry.group) {
                parts.entry(entry.group).or_insert((run, entry));
            }
        }
    }
    for (hash, (run, entry)) in parts.into_iter().take(limit) {
        found.insert(hash, Part::open_any(run, entry)?.group().to_owned());
    }
    while found.len() > limit {
        found.pop_last();
    }
    Ok(found)
}
