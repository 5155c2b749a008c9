//! Turns direct buffers into slices: the unsafe code of this crate.
//!
//! The JVM itself reports address and capacity, so Java cannot hand over memory that is not a live
//! buffer. The caller's reference keeps the buffer alive for the length of the call. One condition
//! remains a contract: no other thread writes a buffer while a call uses it.

use std::slice;

use jni::objects::JByteBuffer;
use jni::Env;

use crate::buffer::ALIGNMENT;
use crate::failure::Failure;

/// Address and capacity of a direct buffer, checked but not yet borrowed.
struct Region {
    address: *mut u8,
    capacity: usize,
}

impl Region {
    fn of(env: &Env<'_>, buffer: &JByteBuffer<'_>, name: &str) -> Result<Region, Failure> {
        let refused = |_| {
            Failure::invalid(format!(
                "The buffer of {name} is null or not direct; allocate it with \
                 BufferLayout.allocate."
            ))
        };
        let address = env.get_direct_buffer_address(buffer).map_err(refused)?;
        let capacity = env.get_direct_buffer_capacity(buffer).map_err(refused)?;
        if !(address as usize).is_multiple_of(ALIGNMENT) {
            return Err(Failure::invalid(format!(
                "The buffer of {name} does not begin at a multiple of {ALIGNMENT} bytes; use a \
                 whole buffer or a slice at such an index."
            )));
        }
        Ok(Region { address, capacity })
    }

    fn overlaps(&self, other: &Region) -> bool {
        let (a, b) = (self.address as usize, other.address as usize);
        a < b + other.capacity && b < a + self.capacity
    }
}

/// Borrows the bytes of a buffer that a call reads.
pub(crate) fn input<'buffer>(
    env: &Env<'_>,
    buffer: &'buffer JByteBuffer<'_>,
    name: &str,
) -> Result<&'buffer [u8], Failure> {
    let region = Region::of(env, buffer, name)?;
    // SAFETY: the JVM reported a live direct buffer of this address and capacity; its memory was
    // zeroed when it was allocated, the reference outlives the slice, and by contract nobody
    // writes it meanwhile.
    Ok(unsafe { slice::from_raw_parts(region.address, region.capacity) })
}

/// Borrows the bytes of a buffer that a call reads and of another that it writes.
///
/// Errors: `Invalid` if they overlap.
pub(crate) fn input_and_output<'buffer>(
    env: &Env<'_>,
    input: (&'buffer JByteBuffer<'_>, &str),
    output: (&'buffer mut JByteBuffer<'_>, &str),
) -> Result<(&'buffer [u8], &'buffer mut [u8]), Failure> {
    let read = Region::of(env, input.0, input.1)?;
    let written = Region::of(env, output.0, output.1)?;
    if read.overlaps(&written) {
        return Err(Failure::invalid(format!(
            "The buffers of {} and {} overlap; give each its own.",
            input.1, output.1
        )));
    }
    // SAFETY: as in `input`; the two regions are disjoint, and by contract nobody else uses the
    // written one meanwhile, so the exclusive slice is the only way to it.
    Ok(unsafe {
        (
            slice::from_raw_parts(read.address, read.capacity),
            slice::from_raw_parts_mut(written.address, written.capacity),
        )
    })
}
