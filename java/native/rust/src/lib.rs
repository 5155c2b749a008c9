//! The native half of `io.vstream.nativecore`: engines and routers behind JNI.
//!
//! Tier 5, an edge without algorithms. A call crosses the border in these steps:
//!
//! 1. [`bridge`] has one function per call; each turns its arguments into plain Rust values.
//! 2. [`memory`] turns direct buffers into slices: the only unsafe code here.
//! 3. [`handles`] turns a number into a live object, or refuses it.
//! 4. [`partition`], or [`groups`] where rows are in isolated groups, and [`router`] check the bytes
//!    ([`buffer`]) and call the engine; [`serve`] says what both kinds of partitions do. They use
//!    [`handover`] when rows change partition, with [`late`] for updates that come before their row
//!    and [`leaving`] for rows that are updated after they left; [`state`] has the files of a
//!    checkpoint. [`filters`] and [`ranked`] read what queries ask. [`texts`] has models and chunks.
//! 5. [`failure`] turns an error or a panic into an `EngineException`; the JVM lives on.

mod answer;
mod bridge;
mod buffer;
mod failure;
mod fault;
mod filters;
mod groups;
mod handles;
mod handover;
mod late;
mod leaving;
mod memory;
mod partition;
mod pool;
mod ranked;
mod router;
mod sample;
mod serve;
mod state;
mod texts;
mod written;
