//! The same against a real server that speaks S3: `make test-s3` starts one.

use std::time::{SystemTime, UNIX_EPOCH};

#[test]
#[ignore = "needs a server: make test-s3"]
fn collections_in_a_bucket_are_served_where_they_are() {
    let server = std::env::var("VSTREAM_TEST_S3").expect("VSTREAM_TEST_S3: run make test-s3");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    crate::pushed::are_served_from(&format!("{server}/served-{now}"));
}
