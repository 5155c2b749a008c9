use super::{pool, whole_pages, Block, Mapping, Pool, Slots, BLOCK_MAX, SLAB};
use vstream_vector::SplitMix;

fn fill(block: &Block, bytes: usize, with: u8) {
    // SAFETY: the block has `bytes` bytes and no other owner.
    unsafe { block.start().write_bytes(with, bytes) };
}

fn is_filled(block: &Block, bytes: usize, with: u8) -> bool {
    // SAFETY: `fill` wrote all of them.
    let content = unsafe { std::slice::from_raw_parts(block.start().as_ptr(), bytes) };
    content.iter().all(|&byte| byte == with)
}

/// Slabs of a size, and blocks of them that are in use.
fn count(bytes: usize) -> (usize, usize) {
    let pool = pool();
    let Some(class) = pool.classes.get(&bytes) else { return (0, 0) };
    let slabs = class.slabs.iter().flatten();
    (slabs.clone().count(), slabs.map(|slab| slab.live).sum())
}

/// Every block keeps what its owner wrote, whatever happens to its neighbours.
#[test]
fn blocks_keep_their_content_while_others_come_and_go() {
    let seed = 7;
    println!("seed {seed}");
    let mut random = SplitMix(seed);
    let sizes = [192, 1_536, 12_800, BLOCK_MAX, BLOCK_MAX + 64];
    let mut held: Vec<(Block, usize, u8)> = Vec::new();
    for round in 0..6_000u32 {
        let growing = round / 1_000 % 2 == 0;
        if held.is_empty() || random.next() % 10 < if growing { 7 } else { 3 } {
            let bytes = sizes[random.next() as usize % sizes.len()];
            let (block, with) = (Block::new(bytes), random.next() as u8);
            assert_eq!(block.start().as_ptr() as usize % 64, 0);
            fill(&block, bytes, with);
            held.push((block, bytes, with));
        } else {
            let at = random.next() as usize % held.len();
            let (block, bytes, with) = held.swap_remove(at);
            assert!(is_filled(&block, bytes, with), "round {round}: {bytes} bytes");
        }
    }
    assert!(held.iter().all(|(block, bytes, with)| is_filled(block, *bytes, *with)));
}

#[test]
fn empty_slabs_are_unmapped_and_sparse_ones_are_used_first() {
    // A size that no other test uses: the pool is that of the process.
    let bytes = 20_032;
    let per_slab = SLAB / bytes;
    let mut blocks: Vec<Block> = (0..4 * per_slab).map(|_| Block::new(bytes)).collect();
    assert_eq!(count(bytes), (4, 4 * per_slab));
    blocks.truncate(per_slab / 4);
    assert_eq!(count(bytes), (1, per_slab / 4), "one slab holds what is left");
    let again = Block::new(bytes);
    fill(&again, bytes, 3);
    assert!(is_filled(&again, bytes, 3));
    assert_eq!(count(bytes), (1, per_slab / 4 + 1));
    drop((again, blocks));
    assert_eq!(count(bytes), (1, 0), "one spare slab stays");
}

/// Pages that were given back read as zeros when they are next used.
#[test]
#[cfg(target_os = "linux")]
fn a_slab_with_few_blocks_gives_its_pages_back() {
    let bytes = 20_096;
    let per_slab = SLAB / bytes;
    let mut blocks: Vec<Block> = (0..3 * per_slab).map(|_| Block::new(bytes)).collect();
    blocks.iter().for_each(|block| fill(block, bytes, 1));
    // One in ten stays, spread over all slabs.
    let mut at = 0;
    blocks.retain(|_| {
        at += 1;
        at % 10 == 0
    });
    assert!(blocks.iter().all(|block| is_filled(block, bytes, 1)));
    let again: Vec<Block> = (0..per_slab / 2).map(|_| Block::new(bytes)).collect();
    let page = rustix::param::page_size();
    for block in &again {
        let inner = bytes.saturating_sub(2 * page);
        // SAFETY: the block's own memory, which the kernel made zeros or its last owner filled.
        let content =
            unsafe { std::slice::from_raw_parts(block.start().as_ptr().add(page), inner) };
        assert!(content.iter().all(|&byte| byte == 0), "a free block kept its pages");
    }
    assert!(blocks.iter().all(|block| is_filled(block, bytes, 1)));
}

/// A system with large pages gives back all of a page whose begin it is told, also what lies in it
/// beyond the end: a neighbour of free blocks must never share a page with them.
#[test]
fn a_page_with_a_block_in_use_is_kept_whatever_the_size_of_a_page() {
    let seed = 23;
    println!("seed {seed}");
    let mut random = SplitMix(seed);
    for page in [4_096, 16_384, 65_536] {
        for _ in 0..2_000 {
            let bytes = 64 * (1 + random.below(BLOCK_MAX / 64));
            let first = random.below(SLAB / bytes);
            let end = first + 1 + random.below(SLAB / bytes - first);
            let pages = whole_pages(page, first * bytes..end * bytes);
            if pages.is_empty() {
                continue;
            }
            assert_eq!((pages.start % page, pages.end % page), (0, 0), "{bytes} bytes");
            assert!(first * bytes <= pages.start && pages.end <= end * bytes, "{bytes} bytes");
        }
    }
}

/// With pages of 64 KiB, a block of 20 KiB between free ones keeps its page, and the free blocks
/// beside it keep what was in them; with pages of 4 KiB they read as zeros.
#[test]
#[cfg(target_os = "linux")]
fn a_pool_gives_back_pages_of_the_size_that_the_system_has() {
    let bytes = 20_480;
    let old = |page: usize| -> usize {
        let mut pool = Pool::new(page);
        let count = SLAB / bytes;
        let mut blocks: Vec<Block> = (0..2 * count).map(|_| pool.take(bytes)).collect();
        blocks.iter().for_each(|block| fill(block, bytes, 9));
        let mut free = Vec::new();
        for (at, block) in blocks.drain(..).enumerate() {
            let super::Home::Slab { slab, block: number, .. } = block.home else {
                panic!("a block of a slab")
            };
            if at % 4 == 0 {
                assert!(is_filled(&block, bytes, 9));
            } else {
                pool.give_back(bytes, slab, number as usize);
                free.push(block.start());
            }
            // It belongs to this pool, not to that of the process.
            std::mem::forget(block);
        }
        // SAFETY: the slabs are mapped as long as the pool is there.
        free.iter().filter(|start| unsafe { start.add(bytes / 2).read() } == 9).count()
    };
    let (small, large) = (old(4_096), old(65_536));
    assert_eq!(small, 0, "every free block lies over a whole page");
    assert!(large > 0, "no page of 64 KiB lies under free blocks alone in most places");
}

/// A prepared slab is as good as one that the writer maps itself.
#[test]
fn slabs_that_were_made_ready_hold_zeros_at_aligned_addresses() {
    for _ in 0..8 {
        let mapping = super::spare::take();
        assert_eq!(mapping.base().as_ptr() as usize % SLAB, 0);
        // SAFETY: the slab's own memory, which nobody wrote to.
        let content = unsafe { std::slice::from_raw_parts(mapping.base().as_ptr(), SLAB) };
        assert!(content.iter().all(|&byte| byte == 0));
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

#[test]
fn slots_hold_what_they_were_made_with() {
    let slots = Slots::new(33, || std::sync::atomic::AtomicU64::new(5));
    assert_eq!(slots.len(), 33);
    slots[32].store(6, std::sync::atomic::Ordering::Relaxed);
    let values: Vec<u64> =
        slots.iter().map(|x| x.load(std::sync::atomic::Ordering::Relaxed)).collect();
    assert_eq!((values[0], values[31], values[32]), (5, 5, 6));
}

/// Else a process would end at some 64 GiB: see `vm.max_map_count`.
#[test]
#[cfg(target_os = "linux")]
fn many_slabs_are_few_mappings() {
    let bytes = 20_288;
    let blocks: Vec<Block> = (0..200 * (SLAB / bytes)).map(|_| Block::new(bytes)).collect();
    assert_eq!(count(bytes).0, 200);
    let maps = std::fs::read_to_string("/proc/self/maps").expect("a list");
    let holding = maps.lines().filter(|line| {
        let (from, to) =
            line.split(' ').next().and_then(|range| range.split_once('-')).expect("a range");
        let address = |hex| usize::from_str_radix(hex, 16).expect("an address");
        let range = address(from)..address(to);
        blocks.iter().any(|block| range.contains(&(block.start().as_ptr() as usize)))
    });
    // 200 slabs lie in 7 regions if nobody else takes one; the kernel may divide some mappings.
    let holding = holding.count();
    assert!(holding <= 40, "{holding}");
    drop(blocks);
}

#[test]
fn what_a_slab_held_is_not_seen_by_the_next_owner_of_its_memory() {
    for _ in 0..3 {
        let slabs: Vec<Mapping> = (0..40).map(|_| Mapping::huge().expect("memory")).collect();
        for slab in &slabs {
            // SAFETY: 2 MiB that have no other owner.
            let bytes = unsafe { std::slice::from_raw_parts_mut(slab.base().as_ptr(), SLAB) };
            assert!(bytes.iter().all(|&byte| byte == 0));
            bytes.fill(1);
        }
    }
}
