//! The two files that a job publishes beside its checkpoints.

use crate::error::Attempt;
use crate::place::Place;
use crate::wire::Input;

const MAGIC: &[u8] = b"VSPUBLIC";
const CONTENT_MAX: usize = 64 << 20;
/// Bytes of the longest file: its content, what is before it, and its checksum.
pub(crate) const FILE_BYTES_MAX: u64 = CONTENT_MAX as u64 + 20;
const PARTITIONS_MAX: usize = 4_096;
const COLLECTION_BYTES_MAX: usize = 1 << 20;
const TEMPLATE_BYTES_MAX: usize = 32 << 20;

/// Where partitions answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Partitions {
    /// The collection's settings as JSON.
    pub(crate) collection: String,
    /// Host and port of each partition, in their order.
    pub(crate) addresses: Vec<(String, u16)>,
}

impl Partitions {
    pub(crate) const NAME: &'static str = "PARTITIONS";

    pub(crate) fn of(content: &[u8]) -> Result<Partitions, Attempt> {
        let mut input = Input::new(content);
        let _published = input.i64()?;
        let collection = text(input.bytes(COLLECTION_BYTES_MAX)?)?;
        let count = usize::from(input.u16()?);
        if !(1..=PARTITIONS_MAX).contains(&count) {
            return Err(Attempt::again(format!("a job claims {count} partitions")));
        }
        let mut addresses = Vec::with_capacity(count);
        for _ in 0..count {
            let length = usize::from(input.u16()?);
            addresses.push((text(input.take(length)?)?, input.u16()?));
        }
        input.end()?;
        Ok(Partitions { collection, addresses })
    }
}

/// Which partitions may hold an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Templates {
    /// Life of the job in which this was written.
    pub(crate) run: i64,
    /// Number of the newer template; 0 while none was trained.
    pub(crate) epoch: i64,
    /// Whether ranges have two owners: both templates count then.
    pub(crate) is_changing: bool,
    /// The template before; empty if there was none.
    pub(crate) older: Vec<u8>,
    /// The template; empty if none was trained.
    pub(crate) newer: Vec<u8>,
}

impl Templates {
    pub(crate) const NAME: &'static str = "TEMPLATES";

    pub(crate) fn of(content: &[u8]) -> Result<Templates, Attempt> {
        let mut input = Input::new(content);
        let templates = Templates {
            run: input.i64()?,
            epoch: input.i64()?,
            is_changing: input.u8()? != 0,
            older: input.bytes(TEMPLATE_BYTES_MAX)?.to_vec(),
            newer: input.bytes(TEMPLATE_BYTES_MAX)?.to_vec(),
        };
        input.end()?;
        Ok(templates)
    }
}

/// The content of a published file; `None` if there is no file, or not a whole one: it is being written.
pub(crate) fn read(place: &Place, name: &str) -> Result<Option<Vec<u8>>, Attempt> {
    let Some((bytes, file)) = place.read(name)? else { return Ok(None) };
    let head = MAGIC.len() + size_of::<i32>();
    if bytes.len() < head {
        return Ok(None);
    }
    if !bytes.starts_with(MAGIC) {
        let what = format!("{file} does not begin as a published file of VStream");
        return Err(Attempt::again(what));
    }
    let length = Input::new(&bytes[MAGIC.len()..]).count(CONTENT_MAX, "bytes")?;
    if bytes.len() < head + length + size_of::<i64>() {
        return Ok(None);
    }
    let (all, sum) = bytes.split_at(head + length);
    let is_whole = Input::new(sum).i64()? == i64::from(crc32c::crc32c(all));
    Ok(is_whole.then(|| all[head..].to_vec()))
}

fn text(bytes: &[u8]) -> Result<String, Attempt> {
    let text = std::str::from_utf8(bytes);
    text.map(str::to_owned)
        .map_err(|_| Attempt::again("a file of the job holds a text that is none"))
}
