//! What the kernel says of this process: its peak of memory, and the bytes that it moved.

use std::fs;

use crate::runbook::RunbookError;

/// Most bytes of memory that this process has had at a time since it began or since
/// [`forget_peak`] (`VmHWM`). Errors: `Io` where there is no `/proc`.
pub fn peak_bytes() -> Result<u64, RunbookError> {
    let text = read("/proc/self/status")?;
    peak_of(&text).ok_or_else(|| RunbookError::Io("/proc/self/status names no VmHWM.".to_owned()))
}

/// Lets the peak begin again at what the process has now. Errors: `Io` where the kernel refuses it.
pub fn forget_peak() -> Result<(), RunbookError> {
    fs::write("/proc/self/clear_refs", "5")
        .map_err(|error| RunbookError::Io(format!("Cannot write /proc/self/clear_refs: {error}.")))
}

/// Bytes that this process has had read from and written to the disk, in that order: past the page
/// cache, or by the kernel behind it. Errors: `Io` where there is no `/proc`.
pub fn disk_bytes() -> Result<(u64, u64), RunbookError> {
    let text = read("/proc/self/io")?;
    let number = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.trim().parse().ok()).unwrap_or(0)
    };
    Ok((number("read_bytes:"), number("write_bytes:")))
}

fn peak_of(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

fn read(path: &str) -> Result<String, RunbookError> {
    fs::read_to_string(path)
        .map_err(|error| RunbookError::Io(format!("Cannot read {path}: {error}.")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_the_kernels_line() {
        assert_eq!(peak_of("VmPeak:\t  9 kB\nVmHWM:\t    2048 kB\n"), Some(2 << 20));
        assert_eq!(peak_of("VmPeak:\t  9 kB\n"), None);
    }
}
