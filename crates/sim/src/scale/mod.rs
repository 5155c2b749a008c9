//! What a job needs at P partitions, from measured constants: messages, bytes, memory, restores.
//!
//! 1. [`deployment`] states the job: partitions, rows, rates, and the limits of a machine.
//! 2. [`fan_out`] says how many partitions a query visits.
//! 3. [`sizes`] has the bytes of each message and state, from the serialisers.
//! 4. [`load`] multiplies the two; [`walls`] looks for the P at which a load meets its limit.
//! 5. [`slowest`] draws how long a query waits for the slowest of its partitions.
//! 6. [`report`] prints the tables of `docs/design/scale.md`.
//!
//! Pure, but for the seed of [`slowest`]. *Not useful for* latencies under load: nothing queues.

pub mod deployment;
pub mod fan_out;
pub mod load;
pub mod report;
pub mod sizes;
pub mod slowest;
#[cfg(test)]
mod tests;
pub mod walls;
