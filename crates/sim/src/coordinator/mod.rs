//! Laws of a coordinator over the same traffic, with measured service and start times.
//!
//! 1. [`traffic`] draws arrivals: StreamRAG's scenarios in both readings, on and off, ramps.
//! 2. [`service`] draws how long a query takes on a replica of one thread.
//! 3. [`world`] runs queries, replicas and the real laws of `crates/serve` from event to event, in one
//!    of two transports: each query when a replica is free, or batches as Spark makes them.
//! 4. [`outcome`] counts latencies and replica-seconds.
//! 5. [`laws`] names the laws and their settings; [`plan`] says which cases there are, [`study`] runs them with
//!    several seeds, and [`report`] prints the tables of `docs/benchmarks.md`.
//!
//! Everything is a function of a seed. *Not useful for* how well replicas scale: each is as fast as if
//! it were alone.

pub mod laws;
pub mod measured;
pub mod outcome;
pub mod plan;
pub mod report;
pub mod service;
pub mod study;
#[cfg(test)]
mod tests;
pub mod traffic;
pub mod world;
