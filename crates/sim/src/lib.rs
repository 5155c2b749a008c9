//! The crash lab: a durable engine on disks that fail, against an oracle that does not.
//!
//! [`simulation`] runs the real engine on a simulated disk ([`disk`]), crashes it after every step
//! of input and output ([`crash`]), and compares what opens with a map ([`script`]). [`damage`]
//! changes bytes at rest. [`far`] takes it to an object store and back, beyond a [`network`] that
//! fails. [`kill`] kills a real process. [`groups`] does the same to group stores. Everything is a
//! function of a seed.
//!
//! [`serve`] kills a server under many connections, some of them hostile.
//!
//! [`scale`] and [`coordinator`] are models of another kind: what a job needs at more partitions than any
//! test has, and how many replicas each law of a coordinator runs.
//!
//! `handover`, among the tests, is a model of the protocol by which a stream job moves rows between
//! partitions; it is explored, not run.
//!
//! A good first change: plant one more defect, and see that the lab catches it
//! (`crates/engine/src/defect.rs`; its test: `src/defects.rs`).
#![forbid(unsafe_code)]

pub mod answers;
pub mod check;
pub mod coordinator;
pub mod crash;
pub mod damage;
pub mod defects;
pub mod disk;
pub mod far;
pub mod fields;
pub mod groups;
#[cfg(test)]
mod handover;
pub mod kill;
pub mod ledger;
pub mod network;
pub mod reads;
pub mod scale;
pub mod script;
pub mod serve;
mod shape;
pub mod simulation;
