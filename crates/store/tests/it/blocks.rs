//! A block is accepted only at its own address, whole and unchanged.

use std::sync::{Arc, Mutex};

use vstream_store::blocks::{seal, unseal, BlockAddress, BlockHandle, BlockReader, CHECKSUM_BYTES};
use vstream_store::{
    Access, Buffer, Cache, Error, ErrorKind, FileStore, Memory, Range, ReadAt, Store, Syncing,
};

const FILE: u64 = 0x1234_5678_9abc_def0;

fn address(number: u64) -> BlockAddress {
    BlockAddress { file: FILE, number, version: 1 }
}

#[test]
fn any_flipped_bit_and_any_wrong_place_is_refused() {
    for len in [0usize, 1, 7, 8, 100, 241, 1000] {
        let mut block: Vec<u8> = (0..len).map(|i| i as u8).collect();
        let payload = block.clone();
        seal(address(3), &mut block);
        assert_eq!(block.len(), len + CHECKSUM_BYTES);
        assert_eq!(unseal(address(3), &block, "f", 0).expect("whole"), payload);
        for bit in 0..block.len() * 8 {
            block[bit / 8] ^= 1 << (bit % 8);
            assert!(unseal(address(3), &block, "f", 0).is_err(), "bit {bit} of {len}");
            block[bit / 8] ^= 1 << (bit % 8);
        }
        let others = [
            address(4),
            BlockAddress { file: FILE ^ 1, ..address(3) },
            BlockAddress { version: 2, ..address(3) },
        ];
        assert!(others.iter().all(|&other| unseal(other, &block, "f", 0).is_err()));
        for cut in 0..block.len() {
            let error = unseal(address(3), &block[..cut], "file-9", 77).expect_err("cut short");
            assert_eq!((error.kind(), error.offset()), (ErrorKind::Corrupt, Some(77)));
            assert!(error.to_string().contains("file-9"), "{error}");
        }
    }
}

fn blocks_of(store: &FileStore, swap: bool) -> Vec<BlockHandle> {
    let mut content = Vec::new();
    let mut handles = Vec::new();
    for number in 0..40u64 {
        let mut block = vec![number as u8; 100 + number as usize];
        seal(address(if swap { number ^ 1 } else { number }), &mut block);
        let offset = content.len() as u64;
        handles.push(BlockHandle { number, offset, bytes: block.len() });
        content.extend_from_slice(&block);
    }
    store.put("blocks", &content).expect("a file");
    handles
}

#[test]
fn blocks_are_read_together_and_cached() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = FileStore::create_dir(dir.path(), Syncing::Off).expect("a store");
    let handles = blocks_of(&store, false);
    let file = store.open("blocks", Access::Direct).expect("a file");
    let cache = Arc::new(Cache::new(4 << 20));
    let reader = BlockReader::new(file, FILE, 1, Some(cache.clone()));
    for turn in 0..2 {
        let blocks = reader.read_many(&handles).expect("whole blocks");
        for (block, address) in blocks.iter().zip(&handles) {
            assert_eq!(block.len(), address.bytes - CHECKSUM_BYTES);
            assert!(block.iter().all(|&b| u64::from(b) == address.number));
        }
        assert_eq!(cache.stats().hits, turn * 40);
    }
    assert_eq!(reader.read(handles[5]).expect("a block").len(), 105);
    assert_eq!(cache.stats().misses, 40);
}

#[test]
fn swapped_blocks_are_found() {
    let store = FileStore::new(Arc::new(Memory::new()), Syncing::Off);
    let handles = blocks_of(&store, true);
    let reader = BlockReader::new(store.open("blocks", Access::Cached).unwrap(), FILE, 1, None);
    let error = reader.read(handles[2]).expect_err("block 3 stands there");
    assert_eq!((error.kind(), error.offset()), (ErrorKind::Corrupt, Some(handles[2].offset)));
}

/// Counts the reads of a file.
struct Counted(Arc<dyn ReadAt>, Mutex<Vec<usize>>);

impl ReadAt for Counted {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    fn read(&self, range: Range) -> Result<Buffer, Error> {
        self.0.read(range)
    }

    fn read_many(&self, ranges: &[Range]) -> Result<Vec<Buffer>, Error> {
        self.1.lock().unwrap().extend(ranges.iter().map(|range| range.bytes));
        self.0.read_many(ranges)
    }
}

#[test]
fn blocks_that_follow_one_another_are_read_together() {
    let store = FileStore::new(Arc::new(Memory::new()), Syncing::Off);
    let handles = blocks_of(&store, false);
    let file = store.open("blocks", Access::Cached).unwrap();
    let counted = Arc::new(Counted(file, Mutex::default()));
    let cache = Arc::new(Cache::new(4 << 20));
    let reader = BlockReader::new(counted.clone(), FILE, 1, Some(cache.clone()));
    let wanted = [handles[3], handles[4], handles[6], handles[1], handles[2]];
    let blocks = reader.read_many(&wanted).unwrap();
    assert!(blocks.iter().zip(&wanted).all(|(block, at)| u64::from(block[0]) == at.number));
    let all = |from: usize, to: usize| handles[from..to].iter().map(|a| a.bytes).sum::<usize>();
    assert_eq!(*counted.1.lock().unwrap(), [all(3, 7), all(1, 3)]);
    // The cache counts the lengths of the blocks, not those of the reads.
    let held: usize = wanted.iter().map(|address| address.bytes).sum();
    assert_eq!(cache.stats().bytes, held as u64);
}
