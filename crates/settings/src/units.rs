//! Durations such as `10 s` and sizes such as `64 mb`.

const DURATIONS: &[(&str, u64)] =
    &[("ms", 1), ("s", 1_000), ("min", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

const SIZES: &[(&str, u64)] =
    &[("b", 1), ("kb", 1 << 10), ("mb", 1 << 20), ("gb", 1 << 30), ("tb", 1 << 40)];

/// Parses a duration: a whole number and one of `ms s min h d`, with an optional space. The result
/// is in milliseconds.
pub(crate) fn duration_ms(text: &str) -> Option<u64> {
    quantity(text, DURATIONS)
}

/// Parses a size: a whole number and one of `b kb mb gb tb` (powers of 1024). The result is in
/// bytes.
pub(crate) fn size_bytes(text: &str) -> Option<u64> {
    quantity(text, SIZES)
}

/// The shortest exact text of a duration, in the form of a settings file.
pub(crate) fn duration_text(ms: u64) -> String {
    let fits = |&&(_, factor): &&(&str, u64)| ms >= factor && ms.is_multiple_of(factor);
    let (unit, factor) = DURATIONS.iter().rev().find(fits).unwrap_or(&DURATIONS[0]);
    format!("{} {unit}", ms / factor)
}

/// The shortest exact text of a size, in the form of a settings file.
pub(crate) fn size_text(bytes: u64) -> String {
    let fits = |&&(_, factor): &&(&str, u64)| bytes >= factor && bytes.is_multiple_of(factor);
    let (unit, factor) = SIZES.iter().rev().find(fits).unwrap_or(&SIZES[0]);
    format!("{} {unit}", bytes / factor)
}

fn quantity(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let number: u64 = text[..digits].parse().ok()?;
    let unit = text[digits..].trim_start().to_ascii_lowercase();
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(*factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_are_read_with_and_without_a_space() {
        assert_eq!(duration_ms("10 s"), Some(10_000));
        assert_eq!(duration_ms("500ms"), Some(500));
        assert_eq!(duration_ms(" 2  min "), Some(120_000));
        assert_eq!(duration_ms("1 D"), Some(86_400_000));
        assert_eq!(size_bytes("64 mb"), Some(64 << 20));
        assert_eq!(size_bytes("1gb"), Some(1 << 30));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", "10", "s", "-1 s", "1.5 s", "10 parsecs", "99999999999999999999 s"] {
            assert_eq!(duration_ms(text), None, "{text}");
        }
        assert_eq!(duration_ms("18446744073709551615 d"), None);
        assert_eq!(size_bytes("12 s"), None);
    }

    #[test]
    fn the_written_text_is_read_back() {
        for ms in [0, 1, 999, 1_000, 1_500, 60_000, 90_000, 3_600_000, 86_400_000] {
            assert_eq!(duration_ms(&duration_text(ms)), Some(ms));
            assert_eq!(size_bytes(&size_text(ms)), Some(ms));
        }
        assert_eq!(duration_text(90_000), "90 s");
        assert_eq!(size_text(64 << 20), "64 mb");
    }
}
