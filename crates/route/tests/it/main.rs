//! Tests of the crate from outside, one binary.

mod drift;
mod partitions;
mod quality;
mod words;
