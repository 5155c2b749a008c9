//! Walking through a world: every way, or a random one.

use super::world::{Action, World};
use super::{Defect, Op, Setup, CELLS};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use vstream_vector::SplitMix;

/// Rows of each place task in a random world.
pub const ROWS: usize = 3;

/// A broken rule and how it came to that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub what: String,
    /// What happened, in order.
    pub trace: Vec<Action>,
}

/// What an exploration has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Different moments.
    pub states: usize,
    /// Moments at which nothing was left to happen.
    pub ends: usize,
    /// False if the limit was reached first.
    pub complete: bool,
}

/// Visits every reachable moment, breadth first, up to `states_max`.
///
/// Cost: some microseconds and 100 bytes per moment, more for those that wait to be visited.
/// Errors: the first broken rule, by a shortest way.
pub fn everywhere(setup: &Setup, states_max: usize) -> Result<Seen, Box<Violation>> {
    let start = World::new(setup);
    let mut known: HashSet<u64> = HashSet::from([fingerprint(&start)]);
    let mut parents: Vec<(u32, Option<Action>)> = vec![(0, None)];
    let mut frontier = vec![(0u32, start)];
    let mut seen = Seen { states: 1, ends: 0, complete: true };
    while !frontier.is_empty() {
        let mut next = Vec::new();
        for (at, world) in &frontier {
            let fail = |what, last: Option<Action>| {
                let mut trace: Vec<Action> = last.into_iter().collect();
                let mut at = *at;
                while let (parent, Some(action)) = parents[at as usize] {
                    trace.push(action);
                    at = parent;
                }
                trace.reverse();
                Err(Box::new(Violation { what, trace }))
            };
            let actions = world.actions(setup, true);
            if world.actions(setup, false).is_empty() {
                seen.ends += 1;
                if let Err(what) = world.check_quiet(setup) {
                    return fail(what, None);
                }
            }
            let mut children = Vec::with_capacity(actions.len());
            for action in actions {
                let mut child = world.clone();
                if let Err(what) = child.apply(setup, action) {
                    return fail(what, Some(action));
                }
                children.push((action, child));
            }
            for (action, child) in children {
                if known.insert(fingerprint(&child)) {
                    parents.push((*at, Some(action)));
                    next.push((parents.len() as u32 - 1, child));
                }
            }
            if parents.len() >= states_max {
                seen.states = parents.len();
                seen.complete = false;
                return Ok(seen);
            }
        }
        frontier = next;
    }
    seen.states = parents.len();
    Ok(seen)
}

/// Goes one random way through a world drawn from `seed`, then lets it come to rest.
///
/// Errors: the broken rule with its way; the same seed goes the same way.
pub fn walk(seed: u64, defect: Option<Defect>) -> Result<usize, Box<Violation>> {
    let mut random = SplitMix(seed);
    let setup = random_setup(&mut random, defect);
    let mut world = World::new(&setup);
    let mut trace = Vec::new();
    // Long waits are drawn for some walks: rare actions come once in `patience`.
    let patience = [2, 10, 40][random.below(3)];
    for trouble in [true, false] {
        loop {
            let actions = world.actions(&setup, trouble);
            let rare = |action: &Action| {
                matches!(action, Action::Crash | Action::Checkpoint | Action::Lose { .. })
            };
            let (seldom, often): (Vec<Action>, Vec<Action>) = actions.iter().partition(|a| rare(a));
            let pool = match seldom.is_empty() || (!often.is_empty() && random.below(patience) > 0)
            {
                true => &often,
                false => &seldom,
            };
            if pool.is_empty() || (trouble && random.below(400) == 0) {
                break;
            }
            let action = pool[random.below(pool.len())];
            trace.push(action);
            if let Err(what) = world.apply(&setup, action) {
                return Err(Box::new(Violation { what, trace }));
            }
        }
    }
    let moments = trace.len();
    match world.check_quiet(&setup) {
        Ok(()) => Ok(moments),
        Err(what) => Err(Box::new(Violation { what, trace })),
    }
}

fn random_setup(random: &mut SplitMix, defect: Option<Defect>) -> Setup {
    let places = 1 + random.below(2);
    let mut streams = Vec::new();
    for place in 0..places {
        let ops = 2 + random.below(12);
        let mut stream = Vec::with_capacity(ops);
        for _ in 0..ops {
            let id = (random.below(ROWS) * places + place) as u8;
            stream.push(match random.below(3) {
                0 => Op::Delete { id },
                _ => Op::Upsert { id, cell: random.below(usize::from(CELLS)) as u8 },
            });
        }
        streams.push(stream);
    }
    Setup {
        streams,
        routers: 1 + random.below(2),
        epochs: 1 + random.below(3) as u8,
        crashes: random.below(4) as u8,
        checkpoints: random.below(5) as u8,
        queries: 20,
        losses: random.below(4) as u8,
        defect,
    }
}

fn fingerprint(world: &World) -> u64 {
    let mut hasher = DefaultHasher::new();
    world.hash(&mut hasher);
    hasher.finish()
}
