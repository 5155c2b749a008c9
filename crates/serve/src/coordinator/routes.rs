//! Which replica gets a query.

use std::collections::BTreeMap;

use super::fleet::{Replica, ReplicaId, ReplicaState};

/// Queries under way at each replica; the next query goes where there are fewest.
#[derive(Debug, Default)]
pub struct Routes {
    /// Of those that take queries.
    open: BTreeMap<ReplicaId, u32>,
    /// Of those that take no more, until their last query is answered.
    closing: BTreeMap<ReplicaId, u32>,
}

impl Routes {
    /// Takes note of which replicas there are. Those that are gone or stop get no more queries.
    pub fn follow(&mut self, replicas: &[Replica]) {
        let is_ready = |id: ReplicaId| {
            replicas.iter().any(|other| other.id == id && other.state == ReplicaState::Ready)
        };
        let mut gone = Vec::new();
        self.open.retain(|&id, &mut queries| {
            if !is_ready(id) {
                gone.push((id, queries));
            }
            is_ready(id)
        });
        self.closing.extend(gone.into_iter().filter(|&(_, queries)| queries > 0));
        let ready = replicas.iter().filter(|replica| replica.state == ReplicaState::Ready);
        for replica in ready {
            let closing = &mut self.closing;
            // It may have been avoided for a while.
            self.open.entry(replica.id).or_insert_with(|| closing.remove(&replica.id).unwrap_or(0));
        }
    }

    /// Gives a replica no more queries until [`Routes::follow`] finds it ready.
    pub fn avoid(&mut self, id: ReplicaId) {
        if let Some(queries) = self.open.remove(&id).filter(|&queries| queries > 0) {
            self.closing.insert(id, queries);
        }
    }

    /// The replica with the fewest queries under way, the oldest of equals, if it has less than `most`; not
    /// one of `except`. The query counts until [`Routes::done`]. Cost: O(replicas).
    pub fn pick(&mut self, most: u32, except: &[ReplicaId]) -> Option<ReplicaId> {
        let others = self.open.iter_mut().filter(|(id, _)| !except.contains(id));
        let (&id, queries) = others.min_by_key(|(_, queries)| **queries)?;
        (*queries < most).then(|| {
            *queries += 1;
            id
        })
    }

    /// A query was answered, or has failed.
    pub fn done(&mut self, id: ReplicaId) {
        if let Some(queries) = self.open.get_mut(&id) {
            *queries = queries.saturating_sub(1);
        } else if let Some(queries) = self.closing.get_mut(&id) {
            *queries -= 1;
            if *queries == 0 {
                self.closing.remove(&id);
            }
        }
    }

    /// Queries under way.
    pub fn in_flight(&self) -> u64 {
        self.open.values().chain(self.closing.values()).map(|&queries| u64::from(queries)).sum()
    }

    /// Queries under way at one replica.
    pub fn in_flight_of(&self, id: ReplicaId) -> u32 {
        self.open.get(&id).or_else(|| self.closing.get(&id)).copied().unwrap_or(0)
    }
}
