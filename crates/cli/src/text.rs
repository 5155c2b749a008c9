//! Numbers as people read them, and lines on the standard output and error.

use std::io::Write;

use crate::failure::Failure;

/// Writes text to the standard output as it is. Errors: nobody reads it any more, the disk is full.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| {
        Failure::failed(format!("The results could not be written to the output ({error})."))
    })
}

/// As [`print`], with an end of line.
pub(crate) fn print_line(text: &str) -> Result<(), Failure> {
    print(&format!("{text}\n"))
}

/// Writes text to the standard error, for whoever looks. Where nobody can, the work goes on: `eprint!` would end it.
pub(crate) fn note(text: &str) {
    let mut out = std::io::stderr().lock();
    let _unseen = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// As [`note`], with an end of line.
pub(crate) fn note_line(text: &str) {
    note(&format!("{text}\n"));
}

/// `1234567` as `1,234,567`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Milliseconds with as many digits as matter: `0.45 ms`, `12.3 ms`, `1,204 ms`.
pub(crate) fn millis(ms: f64) -> String {
    match ms {
        _ if !ms.is_finite() || ms < 0.0 => "-".to_owned(),
        _ if ms < 10.0 => format!("{ms:.2} ms"),
        _ if ms < 100.0 => format!("{ms:.1} ms"),
        _ => format!("{} ms", count(ms.round() as u64)),
    }
}

/// Bytes in the largest unit that leaves a number above 1: `12.4 MB`.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{bytes} B")
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

/// `value` with `digits` digits, or a dash when there is none.
pub(crate) fn optional(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000), "1,000");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(millis(0.451), "0.45 ms");
        assert_eq!(millis(12.34), "12.3 ms");
        assert_eq!(millis(1204.4), "1,204 ms");
        assert_eq!(millis(f64::NAN), "-");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(132_591_608), "132.6 MB");
        assert_eq!(optional(Some(0.98765), 3), "0.988");
        assert_eq!(optional(None, 3), "-");
    }
}
