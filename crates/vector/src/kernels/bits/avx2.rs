//! AVX2 forms: eight numbers per step. Eight numbers of `w` bits are `w` bytes, so that all steps
//! take their numbers from the same places of the bytes before them.

use super::{Fields, CODES, RARE_MAX};
use std::arch::x86_64::*;

/// Numbers of a step.
const STEP: usize = 8;
/// Widest number of which any four begin within 16 bytes and end within the 4 bytes from there.
const NARROW_MAX: u32 = 25;

/// See [`super::super::unpack`].
#[target_feature(enable = "avx2")]
pub fn unpack(bytes: &[u8], bit: usize, width: u32, least: u32, out: &mut [u32]) {
    let done = match width {
        0 => 0,
        1..=NARROW_MAX => narrow(bytes, bit, width, least, out),
        _ => wide(bytes, bit, width, least, out),
    };
    let bit = bit + done * width as usize;
    super::unpack(bytes, bit, width, least, &mut out[done..]);
}

/// Steps for which `reach` bytes are there from the byte of their first bit on.
fn steps(bytes: &[u8], bit: usize, width: u32, reach: usize, n: usize) -> usize {
    let room = bytes.len().checked_sub(bit / 8 + reach);
    room.map_or(0, |room| (room / width as usize + 1).min(n / STEP))
}

/// Numbers of up to 25 bits, four from 16 bytes; returns how many it read.
#[target_feature(enable = "avx2")]
fn narrow(bytes: &[u8], bit: usize, width: u32, least: u32, out: &mut [u32]) -> usize {
    let w = width as usize;
    let firsts = [bit % 8, bit % 8 + 4 * w];
    let bases = firsts.map(|first| first / 8);
    let mut places = [0u32; STEP];
    let mut shifts = [0u32; STEP];
    for i in 0..STEP {
        let from = firsts[i / 4] % 8 + i % 4 * w;
        shifts[i] = (from % 8) as u32;
        places[i] = (from / 8) as u32 * 0x0101_0101 + 0x0302_0100;
    }
    let n = steps(bytes, bit, width, bases[1] + 16, out.len());
    let mask = _mm256_set1_epi32(((1u64 << width) - 1) as i32);
    let least = _mm256_set1_epi32(least as i32);
    // SAFETY: the arrays have 32 bytes. Step `i` reads 16 bytes from `bit / 8 + i * w` and from
    // `bases[1]` later, which end within `bytes`, and writes numbers `8 i..8 i + 8` of `out`:
    // `steps` counted both.
    unsafe {
        let places = _mm256_loadu_si256(places.as_ptr().cast());
        let shifts = _mm256_loadu_si256(shifts.as_ptr().cast());
        for i in 0..n {
            let from = bytes.as_ptr().add(bit / 8 + i * w);
            let halves = _mm256_loadu2_m128i(from.add(bases[1]).cast(), from.cast());
            let words = _mm256_srlv_epi32(_mm256_shuffle_epi8(halves, places), shifts);
            let words = _mm256_add_epi32(_mm256_and_si256(words, mask), least);
            _mm256_storeu_si256(out.as_mut_ptr().add(STEP * i).cast(), words);
        }
    }
    n * STEP
}

/// Numbers of up to 32 bits, two from 16 bytes; returns how many it read.
#[target_feature(enable = "avx2")]
fn wide(bytes: &[u8], bit: usize, width: u32, least: u32, out: &mut [u32]) -> usize {
    let w = width as usize;
    let firsts = [0, 2, 4, 6].map(|number| bit % 8 + number * w);
    let bases = firsts.map(|first| first / 8);
    let mut places = [[0u64; 4]; 2];
    let mut shifts = [[0u64; 4]; 2];
    // The pairs 0 and 2 of four, and 1 and 3: what one shuffle puts in order.
    for (pair, first) in firsts.into_iter().enumerate() {
        for i in 0..2 {
            let from = first % 8 + i * w;
            let at = pair / 2 * 2 + i;
            shifts[pair % 2][at] = (from % 8) as u64;
            places[pair % 2][at] =
                (from / 8) as u64 * 0x0101_0101_0101_0101 + 0x0706_0504_0302_0100;
        }
    }
    let n = steps(bytes, bit, width, bases[3] + 16, out.len());
    let mask = _mm256_set1_epi32(((1u64 << width) - 1) as i32);
    let least = _mm256_set1_epi32(least as i32);
    // SAFETY: the arrays have 32 bytes. Step `i` reads 16 bytes from `bit / 8 + i * w` and each of
    // `bases` later, which end within `bytes` as the last ones do, and writes numbers
    // `8 i..8 i + 8` of `out`: `steps` counted both.
    unsafe {
        let places_0 = _mm256_loadu_si256(places[0].as_ptr().cast());
        let places_1 = _mm256_loadu_si256(places[1].as_ptr().cast());
        let shifts_0 = _mm256_loadu_si256(shifts[0].as_ptr().cast());
        let shifts_1 = _mm256_loadu_si256(shifts[1].as_ptr().cast());
        for i in 0..n {
            let from = bytes.as_ptr().add(bit / 8 + i * w);
            let at_2 = from.add(bases[2]).cast();
            let at_3 = from.add(bases[3]).cast();
            let pairs_0 = _mm256_loadu2_m128i(at_2, from.add(bases[0]).cast());
            let pairs_1 = _mm256_loadu2_m128i(at_3, from.add(bases[1]).cast());
            let words_0 = _mm256_srlv_epi64(_mm256_shuffle_epi8(pairs_0, places_0), shifts_0);
            let words_1 = _mm256_srlv_epi64(_mm256_shuffle_epi8(pairs_1, places_1), shifts_1);
            let words = _mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(
                _mm256_castsi256_ps(words_0),
                _mm256_castsi256_ps(words_1),
            ));
            let words = _mm256_add_epi32(_mm256_and_si256(words, mask), least);
            _mm256_storeu_si256(out.as_mut_ptr().add(STEP * i).cast(), words);
        }
    }
    n * STEP
}

/// See [`super::super::unpack_fields`].
#[target_feature(enable = "avx2")]
pub fn unpack_fields(bytes: &[u8], bit: usize, fields: &Fields, out: &mut [u32]) {
    assert_eq!(fields.len(), out.len(), "room for another number of numbers");
    let first = (bit % 8) as u32;
    // The lowest byte of each 64 bits, eight times.
    let replicate = _mm256_set_epi64x(0x0808_0808_0808_0808, 0, 0x0808_0808_0808_0808, 0);
    let ascending = _mm256_set1_epi64x(0x0706_0504_0302_0100);
    let (zero, seven) = (_mm256_setzero_si256(), _mm256_set1_epi64x(7));
    let from = _mm256_set1_epi32(first as i32);
    let (starts, _) = fields.starts.as_chunks::<STEP>();
    let mut done = 0;
    for (i, starts) in starts.iter().enumerate() {
        let bases = [0, 2, 4, 6].map(|number| bit / 8 + ((first + starts[number]) / 8) as usize);
        if bases[3] + 16 > bytes.len() {
            break;
        }
        // SAFETY: `starts`, `masks`, `least` and `out` have eight numbers from `8 i` on, as all have
        // one length. Two numbers from a base on take 7 + 64 bits at most: they end within 16 bytes,
        // which `bytes` has from the last base on and so from all.
        unsafe {
            let at = bytes.as_ptr();
            let bits = _mm256_add_epi32(_mm256_loadu_si256(starts.as_ptr().cast()), from);
            // Numbers 0, 1, 4, 5 and 2, 3, 6, 7, as 64 bits each.
            let bits_0 = _mm256_unpacklo_epi32(bits, zero);
            let bits_1 = _mm256_unpackhi_epi32(bits, zero);
            let read_0 = _mm256_loadu2_m128i(at.add(bases[2]).cast(), at.add(bases[0]).cast());
            let read_1 = _mm256_loadu2_m128i(at.add(bases[3]).cast(), at.add(bases[1]).cast());
            let bytes_0 = _mm256_srli_epi64::<3>(bits_0);
            let bytes_1 = _mm256_srli_epi64::<3>(bits_1);
            let base_0 = _mm256_shuffle_epi32::<0b01_00_01_00>(bytes_0);
            let base_1 = _mm256_shuffle_epi32::<0b01_00_01_00>(bytes_1);
            let places_0 = _mm256_shuffle_epi8(_mm256_sub_epi64(bytes_0, base_0), replicate);
            let places_1 = _mm256_shuffle_epi8(_mm256_sub_epi64(bytes_1, base_1), replicate);
            let words_0 = _mm256_srlv_epi64(
                _mm256_shuffle_epi8(read_0, _mm256_add_epi8(places_0, ascending)),
                _mm256_and_si256(bits_0, seven),
            );
            let words_1 = _mm256_srlv_epi64(
                _mm256_shuffle_epi8(read_1, _mm256_add_epi8(places_1, ascending)),
                _mm256_and_si256(bits_1, seven),
            );
            let words = _mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(
                _mm256_castsi256_ps(words_0),
                _mm256_castsi256_ps(words_1),
            ));
            let mask = _mm256_loadu_si256(fields.masks.as_ptr().add(STEP * i).cast());
            let least = _mm256_loadu_si256(fields.least.as_ptr().add(STEP * i).cast());
            let words = _mm256_add_epi32(_mm256_and_si256(words, mask), least);
            _mm256_storeu_si256(out.as_mut_ptr().add(STEP * i).cast(), words);
        }
        done = STEP * (i + 1);
    }
    super::unpack_fields_from(done, bytes, bit, fields, out);
}

/// For each set of lanes, which of the bytes that follow is that of a lane; the others get zero.
static EXPAND: [[u8; STEP]; 256] = expand();

const fn expand() -> [[u8; STEP]; 256] {
    let mut places = [[0x80; STEP]; 256];
    let mut set = 0;
    while set < 256 {
        let (mut lane, mut next) = (0, 0);
        while lane < STEP {
            if set >> lane & 1 == 1 {
                places[set][lane] = next;
                next += 1;
            }
            lane += 1;
        }
        set += 1;
    }
    places
}

/// See [`super::super::join`].
#[target_feature(enable = "avx2,popcnt")]
pub fn join(words: &mut [u32], lower: u32, upper: &[u8; CODES], code: u32, rare: &[u8]) {
    let shift = _mm_cvtsi32_si128(lower as i32);
    let low = _mm256_set1_epi32(((1u32 << lower) - 1) as i32);
    let code_lanes = _mm256_set1_epi32(code as i32);
    let lowest = _mm256_set1_epi32(0xff);
    // Zeros for words too many, and for a step that reads beyond the last byte.
    let mut bytes = [0u8; RARE_MAX + 1 + STEP];
    bytes[..rare.len()].copy_from_slice(rare);
    let mut next = 0;
    let (steps, rest) = words.as_chunks_mut::<STEP>();
    // SAFETY: `upper` has 16 bytes.
    let table = _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(upper.as_ptr().cast()) });
    for step in steps {
        // SAFETY: a step has 32 bytes.
        let read = unsafe { _mm256_loadu_si256(step.as_ptr().cast()) };
        let codes = _mm256_srl_epi32(read, shift);
        let is_rare = _mm256_cmpeq_epi32(codes, code_lanes);
        let set = _mm256_movemask_ps(_mm256_castsi256_ps(is_rare)) as usize;
        // SAFETY: an entry of `EXPAND` has 8 bytes, and `bytes` has 8 from `next` on.
        let strange = unsafe {
            let places = _mm_loadl_epi64(EXPAND[set].as_ptr().cast());
            _mm_shuffle_epi8(_mm_loadl_epi64(bytes.as_ptr().add(next).cast()), places)
        };
        next = (next + set.count_ones() as usize).min(RARE_MAX + 1);
        // Codes have four bits, so the other bytes of a lane choose the entry of code 0.
        let common = _mm256_and_si256(_mm256_shuffle_epi8(table, codes), lowest);
        let byte = _mm256_blendv_epi8(common, _mm256_cvtepu8_epi32(strange), is_rare);
        let joined = _mm256_or_si256(_mm256_sll_epi32(byte, shift), _mm256_and_si256(read, low));
        // SAFETY: a step has 32 bytes.
        unsafe { _mm256_storeu_si256(step.as_mut_ptr().cast(), joined) };
    }
    super::join(rest, lower, upper, code, &rare[next.min(rare.len())..]);
}
