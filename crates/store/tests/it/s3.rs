//! Tests against a real S3 server on a loopback port. `make test-s3` starts one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use vstream_store::remote::{
    push, Bucket, Contents, Location, RemoteStore, Restore, RestoreSettings, RetryPolicy,
    PART_BYTES,
};
use vstream_store::{
    Access, ErrorKind, FileStore, Memory, Range, ReadAt, Store, Syncing, SystemClock,
};

use crate::contract::CONTRACT;
use crate::proxy::Proxy;

/// An empty folder of the server's bucket, reached through `endpoint` if it is given.
fn folder(name: &str, endpoint: Option<SocketAddr>) -> Bucket {
    let url = std::env::var("VSTREAM_TEST_S3").expect("VSTREAM_TEST_S3: run make test-s3");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let Location::Bucket(mut bucket) =
        Location::parse(&url).unwrap().join(&format!("{name}-{now}"))
    else {
        panic!("{url} is no bucket")
    };
    if let Some(address) = endpoint {
        bucket.endpoint = Some(format!("http://{address}"));
    }
    bucket
}

fn open(name: &str) -> RemoteStore {
    folder(name, None).open(RetryPolicy::default()).expect("a store")
}

fn server() -> SocketAddr {
    let endpoint = std::env::var("AWS_ENDPOINT_URL").expect("AWS_ENDPOINT_URL: run make test-s3");
    endpoint.strip_prefix("http://").expect("http").parse().expect("an address")
}

fn content(bytes: usize) -> Vec<u8> {
    let mut random = vstream_vector::SplitMix(bytes as u64);
    (0..bytes.div_ceil(8)).flat_map(|_| random.next().to_le_bytes()).take(bytes).collect()
}

fn whole(file: &dyn ReadAt) -> Vec<u8> {
    file.read(Range { offset: 0, bytes: file.bytes() as usize }).expect("bytes").to_vec()
}

#[test]
#[ignore = "needs a server: make test-s3"]
fn the_contract_of_stores_is_kept() {
    for (at, (promise, test)) in CONTRACT.iter().enumerate() {
        println!("{promise}");
        test(&open(&format!("contract-{at}")));
    }
}

#[test]
#[ignore = "needs a server: make test-s3"]
fn a_long_file_is_written_once_and_read_by_ranges() {
    let store = open("long");
    let content = content(PART_BYTES * 2 + 12_345);
    store.put("long", &content).expect("a file");
    let again = store.put("long", &content[1..]).expect_err("written once");
    assert_eq!(again.kind(), ErrorKind::Exists, "{again}");
    let file = store.open("long", Access::Direct).expect("a file");
    assert_eq!(file.bytes(), content.len() as u64);
    let before = store.counts().read_bytes;
    let ranges: Vec<Range> =
        (0..40).map(|at| Range { offset: at * 400_000, bytes: 1000 + at as usize }).collect();
    for (range, read) in ranges.iter().zip(file.read_many(&ranges).expect("ranges")) {
        assert_eq!(*read, content[range.offset as usize..][..range.bytes]);
    }
    assert!(store.counts().read_bytes - before < 100_000, "no more than was asked for");
    assert!(whole(&*file) == content, "the whole file in one call");
    let listed: Vec<String> = store.list("").unwrap().into_iter().map(|e| e.name).collect();
    assert_eq!(listed, ["long"], "what was staged is not seen");
}

#[test]
#[ignore = "needs a server: make test-s3"]
fn a_bucket_that_is_not_there_is_an_error_at_once() {
    let mut bucket = folder("x", None);
    bucket.name = "no-such-bucket".to_owned();
    let store = bucket.open(RetryPolicy::default()).expect("an address");
    let begun = Instant::now();
    let put = store.put("file", b"x").expect_err("no bucket");
    assert!([ErrorKind::NotFound, ErrorKind::Io].contains(&put.kind()), "{put}");
    assert!(put.to_string().contains("s3://no-such-bucket/x-"), "{put}");
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
#[ignore = "needs a server: make test-s3"]
fn nobody_listens_is_an_error_in_time() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let policy = RetryPolicy { total: Duration::from_secs(1), ..RetryPolicy::default() };
    let store = folder("x", Some(closed)).open(policy).expect("an address");
    let begun = Instant::now();
    let error = store.open("file", Access::Cached).map(|_| ()).expect_err("nobody");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
}

/// A third of all connections breaks, is refused, gets a 503 or stays silent.
#[test]
#[ignore = "needs a server: make test-s3"]
fn what_is_written_and_read_through_a_bad_network_is_right() {
    let policy = RetryPolicy {
        attempt: Duration::from_millis(400),
        first_wait: Duration::from_millis(10),
        ..RetryPolicy::default()
    };
    let mut faults = 0;
    for seed in 1..3 {
        println!("seed {seed}");
        let proxy = Proxy::start(server(), 33, seed);
        let store = folder(&format!("bad-{seed}"), Some(proxy.address)).open(policy).unwrap();
        let local = FileStore::new(Arc::new(Memory::new()), Syncing::Full);
        let lengths = [0, 1, 3_000, 64 << 10, 300_000, 1 << 20, PART_BYTES + 5];
        let names: Vec<String> = lengths.iter().map(|bytes| format!("file-{bytes}")).collect();
        for (name, bytes) in names.iter().zip(lengths) {
            local.put(name, &content(bytes)).unwrap();
        }
        let pushed = push(&local, &names, &store).expect("patience");
        assert_eq!(pushed.contents.number, 1, "our own list is not a rival's");
        let contents = Contents::read(&store, None).expect("patience");
        let clock = Arc::new(SystemClock::new());
        let settings = RestoreSettings { bytes_per_second: None, clock };
        let to = Memory::new();
        let restore =
            Restore::begin(Arc::new(to.clone()), Arc::new(store), &contents, settings).unwrap();
        while restore.fetch_next().expect("patience") {}
        let restored = FileStore::new(Arc::new(to), Syncing::Full);
        for name in &names {
            let read = |store: &FileStore| whole(&*store.open(name, Access::Cached).unwrap());
            assert!(read(&local) == read(&restored), "{name}");
        }
        faults += proxy.faults.load(std::sync::atomic::Ordering::Relaxed);
    }
    println!("{faults} faults");
    assert!(faults >= 5, "only {faults} faults");
}
