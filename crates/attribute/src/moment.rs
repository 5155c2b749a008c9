//! Moments as texts: RFC 3339.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::Timestamp;

/// Most bytes of a text that may be a moment.
const TEXT_BYTES_MAX: usize = 64;

/// Milliseconds since 1970-01-01 UTC of an RFC 3339 text such as `2024-05-01T12:30:00+02:00`. A
/// text without an offset is UTC, and a date alone is its midnight. Parts of a millisecond are cut
/// off, towards the past.
pub(crate) fn millis(text: &str) -> Option<i64> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let timestamp = text.parse::<Timestamp>().ok().or_else(|| {
        let local = text.parse::<DateTime>().ok()?;
        Some(local.to_zoned(TimeZone::UTC).ok()?.timestamp())
    })?;
    i64::try_from(timestamp.as_nanosecond().div_euclid(1_000_000)).ok()
}

/// The moment as an RFC 3339 text in UTC; none outside of the years -9999 to 9999.
pub(crate) fn text(millis: i64) -> Option<String> {
    Some(Timestamp::from_millisecond(millis).ok()?.to_string())
}
