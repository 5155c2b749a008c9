//! Tests of the public interface.

mod chunks;
mod models;
