use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use vstream_attribute::{AttributeKind, IdKind, Schema};
use vstream_index::ClusterSettings;
use vstream_vector::{Element, Metric};
use xxhash_rust::xxh3::xxh3_64;

use super::{Base, Manifest, HEADER, HEADERS, HEADER_INTERVALS, HEADER_ORIGINS, HEADER_PLAIN};
use crate::durability::Journaling;
use crate::settings::{DeleteOrder, Settings};
use crate::snapshot::{Image, Part, Run};
use crate::tree::{Origin, SegmentEntry, Served, FILES_MAX};
use crate::wal::State;
use crate::{Error, ErrorKind};

fn manifest(settings: Settings) -> Manifest {
    let segment = |number| SegmentEntry { number, bytes: 900, rows: 20, ..SegmentEntry::default() };
    let state = State { lsn: 40, live: 40, digest: 5 };
    Manifest {
        settings,
        journaling: Journaling::default(),
        collection: 77,
        generation: 3,
        base: Base { state, segments: vec![segment(4), segment(2)], ..Base::default() },
        known: state,
        logs: vec![5, 6],
        next: 9,
        unmade: None,
    }
}

fn settings() -> Settings {
    Settings::new(3, Metric::L2, Element::F32)
}

fn read(mut body: Vec<u8>) -> Result<Manifest, Error> {
    body.extend_from_slice(&xxh3_64(&body).to_le_bytes());
    Manifest::decode(Path::new("COLLECTION"), &body)
}

/// Returns the manifest without its checksum.
fn body(manifest: &Manifest) -> Vec<u8> {
    let mut bytes = manifest.encode();
    bytes.truncate(bytes.len() - 8);
    bytes
}

/// Returns the manifest as an older version wrote it.
fn as_format(format: u32, manifest: &Manifest) -> Vec<u8> {
    let mut bytes = body(manifest);
    bytes[8..12].copy_from_slice(&format.to_le_bytes());
    bytes.drain(HEADERS[format as usize - 1]..HEADER_PLAIN);
    bytes
}

#[test]
fn what_is_written_is_read() {
    for code_memory in [None, Some(0), Some(1 << 30)] {
        for deletes in [DeleteOrder::Any, DeleteOrder::OldestFirst] {
            let memory = Some(1 << 20);
            let cluster = ClusterSettings {
                leaf_rows_max: 100,
                leaf_rows_min: 50,
                batch_rows: 3,
                reassign_leaves: 0,
                node_leaves_max: 7,
                jobs_per_batch: 2,
                second_look: true,
            };
            let made = manifest(Settings { memory, code_memory, deletes, cluster, ..settings() });
            assert_eq!(read(body(&made)).expect("what was written"), made);
        }
    }
}

#[test]
fn a_schema_and_remembered_deletes_are_read_again() {
    let mut schema =
        Schema::new([("price", AttributeKind::F64), ("tags", AttributeKind::Keywords)])
            .expect("a schema");
    (schema.id, schema.open) = (IdKind::String, true);
    let plain = manifest(settings());
    assert_eq!(plain.encode()[8], 4, "a collection without a schema has the bytes that it had");
    let with_schema = Settings { schema: Arc::new(schema), ..settings() };
    let deletes_remembered = Some(Duration::from_secs(60));
    let mut both = manifest(Settings { deletes_remembered, ..with_schema.clone() });
    both.base.remembered = 8;
    let forgetful = manifest(Settings { deletes_remembered, ..settings() });
    for made in [manifest(with_schema), forgetful, both] {
        assert_eq!(made.encode()[8], 5);
        assert_eq!(read(body(&made)).expect("what was written"), made);
    }
}

#[test]
fn a_damaged_schema_is_refused() {
    let schema = Schema::new([("price", AttributeKind::F64)]).expect("a schema");
    let made = manifest(Settings { schema: Arc::new(schema), ..settings() });
    let bytes = body(&made);
    for at in (256..280).chain(bytes.len() - 12..bytes.len()) {
        let mut changed = bytes.clone();
        changed[at] ^= 0x80;
        match read(changed) {
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "byte {at}"),
            Ok(read) => assert_ne!(read, made, "byte {at}"),
        }
    }
}

/// Some leaves of the first segment, and of the second.
fn with_intervals() -> Manifest {
    let mut made = manifest(settings());
    let only = |intervals: &[std::ops::Range<u32>]| Served::only(intervals).expect("in order");
    made.base.segments[0].served = only(&[1..4, 7..8]);
    made.base.segments[1].served = only(std::slice::from_ref(&(0..u32::MAX)));
    made
}

#[test]
fn intervals_of_leaves_are_read_again() {
    let schema = Schema::new([("price", AttributeKind::F64)]).expect("a schema");
    let mut with_schema = with_intervals();
    with_schema.settings.schema = Arc::new(schema);
    let mut of_one = with_intervals();
    of_one.base.segments[0].served = Served::default();
    for made in [with_intervals(), with_schema, of_one] {
        assert_eq!(made.encode()[8], 6);
        assert_eq!(read(body(&made)).expect("what was written"), made);
    }
}

#[test]
fn intervals_that_no_version_wrote_are_refused() {
    let made = with_intervals();
    // After two logs and two segments.
    let first = HEADER_INTERVALS + 2 * 8 + 2 * SegmentEntry::BYTES;
    let changes: [(&str, usize, u32); 6] = [
        ("of a segment that there is not", first + 24, 2),
        ("segments out of order", first, 1),
        ("an empty one", first + 8, 1),
        ("one that ends before it begins", first + 4, 9),
        ("two that meet", first + 16, 4),
        ("fewer than are counted", HEADER_INTERVALS - 8, 2),
    ];
    for (what, at, value) in changes {
        let mut bytes = body(&made);
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        assert_eq!(read(bytes).expect_err(what).kind(), ErrorKind::Corrupt, "{what}");
    }
    for count in [1 << 20, 1 << 40, u64::MAX] {
        let mut bytes = body(&made);
        bytes[HEADER_INTERVALS - 8..HEADER_INTERVALS].copy_from_slice(&count.to_le_bytes());
        assert_eq!(read(bytes).expect_err("too many").kind(), ErrorKind::Corrupt, "{count}");
    }
}

/// Segments of two other collections, one of which serves some leaves only.
fn with_origins() -> Manifest {
    let mut made = with_intervals();
    let origin = |collection, definers: &[(u64, u64)]| {
        Some(Arc::new(Origin { collection, number: 3, definers: definers.to_vec() }))
    };
    made.base.segments[0].origin = origin(5, &[(1, 8), (3, 4)]);
    made.base.segments[1].origin = origin(6, &[]);
    made
}

#[test]
fn origins_of_segments_are_read_again() {
    let mut of_one = with_origins();
    of_one.base.segments[0].origin = None;
    let mut alone = with_origins();
    alone.base.segments.iter_mut().for_each(|segment| segment.served = Served::default());
    for made in [with_origins(), of_one, alone] {
        assert_eq!(made.encode()[8], 7);
        assert_eq!(read(body(&made)).expect("what was written"), made);
    }
}

#[test]
fn origins_that_no_version_wrote_are_refused() {
    let made = with_origins();
    // After two logs, two segments and three intervals.
    let first = HEADER_ORIGINS + 2 * 8 + 2 * SegmentEntry::BYTES + 3 * 12;
    let changes: [(&str, usize, u64); 5] = [
        ("of a segment that there is not", first, 2 | 2 << 32),
        ("more definers than bytes", first, 99 << 32),
        ("definers out of order", first + 24, 4),
        ("a number that no file can have", first + 32, FILES_MAX),
        ("fewer bytes than are counted", HEADER_ORIGINS - 8, 55),
    ];
    for (what, at, value) in changes {
        let mut bytes = body(&made);
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        assert_eq!(read(bytes).expect_err(what).kind(), ErrorKind::Corrupt, "{what}");
    }
}

/// A base image of three parts; its header is that of one part, the newest.
fn with_parts() -> Manifest {
    let mut made = manifest(settings());
    let part = |number, lsn| Part { number, checksum: number + 70, lsn };
    let parts = vec![part(3, 20), part(4, 20), part(5, made.base.state.lsn)];
    let run = |first, part| Run { first, part };
    made.base.segments.clear();
    made.base.image = Image::of(parts, vec![run(0, 2), run(5, 0), run(6, 1), run(900, 0)]);
    made.logs = vec![3, 4, 5];
    made
}

#[test]
fn parts_of_a_base_image_are_read_again() {
    let schema = Schema::new([("price", AttributeKind::F64)]).expect("a schema");
    let mut with_schema = with_parts();
    with_schema.settings.schema = Arc::new(schema);
    with_schema.base.remembered = 8;
    for made in [with_parts(), with_schema] {
        assert!(made.base.image.is_some());
        assert_eq!(made.encode()[8], 8);
        assert_eq!(read(body(&made)).expect("what was written"), made);
    }
    let mut whole = with_parts();
    whole.base.image = whole.base.image.map(|image| Image::whole(*image.newest()));
    assert_eq!(whole.encode()[8], 4, "an image of one part has the bytes that it had");
    assert_eq!(read(body(&whole)).expect("what was written"), whole);
}

#[test]
fn parts_that_no_version_wrote_are_refused() {
    let made = with_parts();
    // After three logs: three parts, and four runs.
    let (parts, runs) = (HEADER + 3 * 8, HEADER + 3 * 8 + 3 * 24);
    let changes: [(&str, usize, u64); 8] = [
        ("numbers out of order", parts, 4),
        ("a part later than the next", parts + 16, 21),
        ("another newest part than the header says", parts + 2 * 24 + 8, 5),
        ("another state than the newest part has", parts + 2 * 24 + 16, 39),
        ("a shard without a part", runs, 1),
        ("a part that there is not", runs, 3 << 16),
        ("fewer parts than are counted", HEADER - 16, 2),
        ("more runs than bytes", HEADER - 8, 1 << 16),
    ];
    for (what, at, value) in changes {
        let mut bytes = body(&made);
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        assert_eq!(read(bytes).expect_err(what).kind(), ErrorKind::Corrupt, "{what}");
    }
}

#[test]
fn a_number_of_a_file_whose_leaves_have_no_numbers_is_refused() {
    let mut made = manifest(settings());
    made.base.segments[1].number = FILES_MAX - 1;
    assert_eq!(read(body(&made)), Ok(made.clone()));
    let mut files = vec![made.clone(), made];
    files[0].base.segments[1].number = FILES_MAX;
    files[1].next = FILES_MAX;
    for made in files {
        assert_eq!(read(body(&made)).expect_err("too large").kind(), ErrorKind::Corrupt);
    }
}

#[test]
fn older_formats_are_read() {
    let memory = Some(1 << 20);
    let of_codes = manifest(Settings {
        memory,
        code_memory: Some(5),
        deletes: DeleteOrder::OldestFirst,
        ..settings()
    });
    assert_eq!(read(as_format(3, &of_codes)).expect("format 3"), of_codes);
    let made = manifest(Settings { memory, ..settings() });
    assert_eq!(read(as_format(2, &made)).expect("format 2"), made);
    let (base, next) = (Base { segments: Vec::new(), ..made.base }, 1);
    let of_memory = Manifest { settings: settings(), base, next, ..made };
    assert_eq!(read(as_format(1, &of_memory)).expect("format 1"), of_memory);
}

#[test]
fn what_no_version_wrote_is_refused() {
    let kind = |at: usize, value: u64| {
        let mut bytes = body(&manifest(settings()));
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        read(bytes).expect_err("refused").kind()
    };
    assert_eq!(kind(152, 1), ErrorKind::Corrupt, "a limit below the least");
    assert_eq!(kind(192, 2), ErrorKind::Corrupt, "an order that there is not");
    assert_eq!(kind(200, 2000), ErrorKind::Corrupt, "a leaf larger than any");
    assert_eq!(kind(208, u64::MAX), ErrorKind::Corrupt, "a least leaf larger than any");
    assert_eq!(kind(248, 2), ErrorKind::Corrupt, "neither with a second look nor without");
    let mut newer = body(&manifest(settings()));
    newer[8] = 9;
    assert_eq!(read(newer).expect_err("refused").kind(), ErrorKind::Unsupported);
    for length in [HEADERS[0] - 1, HEADERS[2], HEADER_PLAIN - 1, HEADER_PLAIN] {
        let cut = body(&manifest(settings()))[..length].to_vec();
        assert_eq!(read(cut).expect_err("refused").kind(), ErrorKind::Corrupt, "{length} bytes");
    }
}

/// A manifest that could not be read again must not be written.
#[test]
fn more_files_than_a_manifest_names_are_refused_before_anything_is_written() {
    let disk = vstream_store::FileStore::new(
        std::sync::Arc::new(vstream_store::Memory::default()),
        vstream_store::Syncing::Off,
    );
    let mut full = manifest(settings());
    full.logs = (5..5 + (1 << 16)).collect();
    full.base.segments = vec![full.base.segments[0].clone(); 1 << 16];
    full.publish(&disk).expect("as many as there may be");
    assert_eq!(Manifest::read(&disk), Ok(full.clone()));
    let mut logs = full.clone();
    logs.logs.push(1 << 20);
    let mut segments = full.clone();
    segments.base.segments.push(full.base.segments[0].clone());
    for mut more in [logs, segments] {
        let error = more.publish(&disk).expect_err("too many");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.message().contains("65536 at most"), "{error}");
        assert_eq!(Manifest::read(&disk), Ok(full.clone()));
    }
}
