//! A reader against partitions that answer by brute force, from threads of the test.

mod job;
mod reading;
mod s3;
