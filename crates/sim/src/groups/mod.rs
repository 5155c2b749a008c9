//! The crash lab of group stores: the real store on a simulated disk, crashed at every step, against
//! a map of all groups.
//!
//! [`History`] is what is written as a function of a seed, and what every write leaves. [`crash`]
//! plays it with faults and opens what crashes leave. [`damage`] changes bytes at rest. [`GroupDefect`]
//! is what must be noticed.

mod compare;
mod crash;
mod damage;
mod defect;
mod history;
mod kill;

pub use crash::{crash_everywhere, Crashed};
pub use damage::{change_bytes, Changed};
pub use defect::GroupDefect;
pub use history::History;
pub use kill::{child, Killer};
