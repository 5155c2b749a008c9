//! The same against a real server that speaks S3: `make test-s3` starts one.

use std::time::{SystemTime, UNIX_EPOCH};

use vstream_store::remote::Location;
use vstream_store::{Access, Range};

use crate::pushed::stage_with_collection;

#[test]
#[ignore = "needs a server: make test-s3"]
fn a_collection_goes_to_the_server_and_comes_back() {
    let server = std::env::var("VSTREAM_TEST_S3").expect("VSTREAM_TEST_S3: run make test-s3");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let url = format!("{server}/cli-{now}");
    let stage = stage_with_collection();
    let said = stage.run(&["snapshot", "push", "kept", &url]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let said = stage.run(&["inspect", &url]);
    assert!(said.out.contains("the newest is 1: "), "{}{}", said.out, said.err);
    let verify = || stage.run(&["verify", &url, "--json"]);
    let said = verify();
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    assert!(said.out.contains("\"rows\":50"), "{}", said.out);
    let store = Location::parse(&url).unwrap().open().expect("a store");
    for entry in store.list("").expect("objects") {
        let file = store.open(&entry.name, Access::Cached).expect("an object");
        let good = file.read(Range { offset: 0, bytes: file.bytes() as usize }).expect("bytes");
        for at in [0, good.len() / 2, good.len() - 1] {
            let mut bad = good.to_vec();
            bad[at] ^= 4;
            store.replace(&entry.name, &bad).expect("a write");
            let said = verify();
            assert_eq!(said.code, Some(1), "byte {at} of {}: {}", entry.name, said.out);
            assert!(said.out.contains(&entry.name), "{}", said.out);
        }
        store.replace(&entry.name, &good).expect("a write");
    }
    let said = stage.run(&["snapshot", "pull", &url, "back"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let said = stage.run(&["verify", "back"]);
    assert!(said.out.contains(": 50 rows in "), "{}{}", said.out, said.err);
}
