//! Numbers and bytes as Java's data streams write them: big-endian.

use crate::error::Attempt;

/// Bytes to write.
#[derive(Default)]
pub(crate) struct Output(pub(crate) Vec<u8>);

impl Output {
    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn i32(&mut self, value: i32) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn i64(&mut self, value: i64) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn f32(&mut self, value: f32) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    /// A length and as many bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.i32(bytes.len() as i32);
        self.0.extend_from_slice(bytes);
    }
}

/// Bytes to read, from whoever sent them.
pub(crate) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Input<'a> {
        Input(bytes)
    }

    /// The next bytes. Errors: there are fewer.
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Attempt> {
        let cut = || Attempt::again("what a partition or a file of the job says is cut");
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(cut)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Attempt> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Attempt> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Attempt> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub(crate) fn i32(&mut self) -> Result<i32, Attempt> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Attempt> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    pub(crate) fn f32(&mut self) -> Result<f32, Attempt> {
        Ok(f32::from_be_bytes(self.array()?))
    }

    /// How many of something follow. Errors: more than `most`.
    pub(crate) fn count(&mut self, most: usize, what: &str) -> Result<usize, Attempt> {
        let count = self.i32()?;
        match usize::try_from(count) {
            Ok(count) if count <= most => Ok(count),
            _ => Err(Attempt::again(format!(
                "a partition or a file of the job claims {count} {what}"
            ))),
        }
    }

    /// A length and as many bytes.
    pub(crate) fn bytes(&mut self, most: usize) -> Result<&'a [u8], Attempt> {
        let count = self.count(most, "bytes")?;
        self.take(count)
    }

    /// Errors: there is more.
    pub(crate) fn end(&self) -> Result<(), Attempt> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err(Attempt::again("there are bytes behind the end")),
        }
    }
}
