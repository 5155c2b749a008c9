//! The `vstream` command from the outside, with a stand-in for Java where a job would run.

mod bad_input;
mod balance;
mod groups;
mod job;
mod pushed;
mod s3;
mod snapshot;
mod stage;
