//! Tests of the crate from outside, one binary.

mod dict;
mod garbage;
mod json;
mod limits;
mod model;
mod names;
mod rows;
mod same;
mod sql;
mod sql_truth;
