//! Tests of the crate from outside, one binary.

mod drift;
mod quality;
mod words;
