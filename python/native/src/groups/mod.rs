//! Isolated groups as Python holds them: a store of groups, and one of its groups.
//!
//! 1. `store.rs` has the store, its one writer and the thread that merges and commits.
//! 2. `collection.rs` is the class of all groups, `group.rs` that of one.
//! 3. `search.rs` reads what a query asks for and shows its answer.

mod collection;
mod group;
mod search;
mod store;

pub(crate) use collection::Groups;
pub(crate) use group::Group;
