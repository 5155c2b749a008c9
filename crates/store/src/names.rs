//! Names of files, as every store takes them.

use crate::error::{Error, ErrorKind};

/// What the names of files that are being written end in.
pub(crate) const PARTIAL: &str = ".partial";
const NAME_BYTES_MAX: usize = 128;

/// Errors: `Invalid` if a store does not take the name.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    if !is_name(name) {
        let what = "a file name has 1 to 128 letters, digits, '.', '_' or '-', does not begin \
                    with '.' and does not end in '.partial'";
        return Err(Error::new(ErrorKind::Invalid, name, what));
    }
    Ok(())
}

/// True if every store takes the name: it leads nowhere but to a file of that store.
pub(crate) fn is_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(plain)
        && !name.starts_with('.')
        && !name.ends_with(PARTIAL)
}
