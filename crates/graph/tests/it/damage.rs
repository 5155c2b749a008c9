//! A changed, missing or added byte is an error, never an answer and never a panic.

use vstream_graph::{GraphProbe, GraphScratch, GraphSettings, Layout, Walk};
use vstream_store::blocks::{checksum, BlockAddress};
use vstream_store::{Access, Error, ErrorKind, Range, Store};
use vstream_vector::{Element, Metric, SplitMix, TopK};

use super::{memory, open, rows, write};

fn sample() -> Vec<u8> {
    let store = memory();
    let settings = GraphSettings {
        degree: 8,
        list: 20,
        layout: Layout::Bnf { passes: 2 },
        sample: 0.1,
        sample_degree: 4,
        identity: 77,
        ..GraphSettings::new(20, Metric::L2, Element::U8)
    };
    let mut all = rows(&settings, 300, 11);
    all[10] = all[9].clone();
    write(&store, settings, &all);
    let file = store.open("a.graph", Access::Cached).unwrap();
    file.read(Range { offset: 0, bytes: file.bytes() as usize }).unwrap().to_vec()
}

/// Opens the bytes and asks everything of them.
fn use_all(bytes: &[u8]) -> Result<(), Error> {
    let store = memory();
    store.put("a.graph", bytes)?;
    let segment = open(&store)?;
    let query = vec![120.0; segment.dimension()];
    let walk = Walk::Blocks { ratio: 1.0, entries: 4 };
    let probe = GraphProbe { vector: &query, list: 20, beam: 4, walk, visible: None };
    segment.search(&probe, &mut GraphScratch::default(), &mut TopK::new(10))?;
    for id in [0, 1 << 39, u64::MAX] {
        segment.find(id)?;
    }
    segment.for_each_row(&mut |_, _| ())?;
    segment.verify()
}

fn assert_refused(bytes: &[u8], what: &str) {
    let error = use_all(bytes).expect_err(what);
    let kinds = [ErrorKind::Corrupt, ErrorKind::Unsupported];
    assert!(kinds.contains(&error.kind()) && error.to_string().contains("a.graph"), "{error}");
}

#[test]
fn every_changed_byte_is_found() {
    let mut bytes = sample();
    use_all(&bytes).unwrap();
    let (seed, mut at) = (21, 0);
    let mut random = SplitMix(seed);
    while at < bytes.len() {
        let change = 1 << random.below(8);
        bytes[at] ^= change;
        assert_refused(&bytes, &format!("byte {at}, seed {seed}"));
        bytes[at] ^= change;
        at += 1 + random.below(24);
    }
}

#[test]
fn cuts_and_additions_are_found() {
    let bytes = sample();
    let mut random = SplitMix(22);
    for _ in 0..200 {
        let length = random.below(bytes.len());
        assert_refused(&bytes[..length], &format!("cut to {length}"));
    }
    for more in [1, 8, 4096] {
        assert_refused(&[&*bytes, &vec![0; more]].concat(), "more bytes");
    }
}

/// Changes a byte of a block and gives the block the right checksum, as an attacker or a bug of a
/// writer would. Such a file may be accepted, but nothing may panic or answer with what cannot be.
#[test]
fn changed_bytes_with_right_checksums_do_no_harm() {
    let bytes = sample();
    let blocks = blocks(&bytes);
    let (seed, mut refused) = (23, 0);
    let mut random = SplitMix(seed);
    let rounds = 3000;
    for _ in 0..rounds {
        let mut changed = bytes.clone();
        let (number, from, to) = blocks[random.below(blocks.len())];
        let payload = from..to - 8;
        let at = from + random.below(payload.len().min(600));
        changed[at] = random.next() as u8;
        let identity = u64::from_le_bytes(changed[32..40].try_into().unwrap());
        let address = BlockAddress { file: identity, number, version: 1 };
        let sum = checksum(address, &changed[payload]);
        changed[to - 8..to].copy_from_slice(&sum.to_le_bytes());
        refused += usize::from(use_all(&changed).is_err());
    }
    assert!(refused > rounds / 4, "{refused} of {rounds}, seed {seed}");
}

/// Number, begin and end of each block, found by their checksums.
fn blocks(bytes: &[u8]) -> Vec<(u64, usize, usize)> {
    let ends_block = |number: u64, from: usize, to: usize| {
        let address = BlockAddress { file: 77, number, version: 1 };
        checksum(address, &bytes[from..to - 8]).to_le_bytes() == bytes[to - 8..to]
    };
    let (mut found, mut from, mut number) = (Vec::new(), 0, 0);
    while from < bytes.len() {
        let footer = bytes.len() - 48;
        if from == footer {
            assert!(ends_block(u64::MAX, from, bytes.len()));
            found.push((u64::MAX, from, bytes.len()));
            break;
        }
        let to = (from + 9..=footer).find(|&to| ends_block(number, from, to)).expect("a block");
        found.push((number, from, to));
        (from, number) = (to, number + 1);
    }
    found
}
