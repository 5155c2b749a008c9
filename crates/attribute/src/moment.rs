//! Moments as texts: RFC 3339.

use jiff::civil::{DateTime, Time};
use jiff::fmt::temporal::Pieces;
use jiff::SignedDuration;

/// Most bytes of a text that may be a moment.
const TEXT_BYTES_MAX: usize = 64;
const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// Milliseconds since 1970-01-01 UTC of an RFC 3339 text such as `2024-05-01T12:30:00+02:00`. A
/// text without an offset is UTC, and a date alone is its midnight. Parts of a millisecond are cut
/// off, towards the past. A time zone without an offset is refused: what it means is not in the text.
pub(crate) fn millis(text: &str) -> Option<i64> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let pieces = Pieces::parse(text).ok()?;
    let offset = pieces.to_numeric_offset();
    if offset.is_none() && pieces.to_time_zone().ok()?.is_some() {
        return None;
    }
    let local = pieces.date().to_datetime(pieces.time().unwrap_or(Time::midnight()));
    // Without a type for moments, which ends a day before the last year does.
    let nanos = local.duration_since(EPOCH).as_nanos();
    let ahead = i128::from(offset.map_or(0, |offset| offset.seconds())) * 1_000_000_000;
    i64::try_from((nanos - ahead).div_euclid(1_000_000)).ok()
}

/// The moment as an RFC 3339 text in UTC; none outside of the years -9999 to 9999.
pub(crate) fn text(millis: i64) -> Option<String> {
    let local = EPOCH.checked_add(SignedDuration::from_millis(millis)).ok()?;
    Some(format!("{local}Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_as_rfc_3339_says() {
        for (text, expected) in [
            ("1970-01-01", 0),
            ("1970-01-01T00:00:00.0019Z", 1),
            ("1969-12-31T23:59:59.9999Z", -1),
            ("2024-05-01T12:30:00+02:00", 1_714_559_400_000),
            ("2024-05-01 10:30:00", 1_714_559_400_000),
            ("2024-05-01T10:30Z", 1_714_559_400_000),
            ("2024-05-01T12:30:00+02:00[Europe/Berlin]", 1_714_559_400_000),
            ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
            ("9999-12-31T23:00:00-05:00", 253_402_315_200_000),
            ("9999-12-31", 253_402_214_400_000),
            ("-009999-01-01", -377_705_116_800_000),
        ] {
            assert_eq!(millis(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "soon",
            "12:30",
            "2024-13-01",
            "2024-05-01T25:00:00",
            "2024-05-01T12:00:00[America/New_York]",
            "2024-05-01[Europe/Berlin]",
            "10000-01-01",
        ] {
            assert_eq!(millis(text), None, "{text}");
        }
    }

    #[test]
    fn texts_lead_back_to_their_moments() {
        let all = [0, 1, -1, 253_402_300_799_999, -377_705_116_800_000, 1_714_559_400_123];
        for moment in all {
            let text = text(moment).expect("within the years");
            assert_eq!(millis(&text), Some(moment), "{text}");
        }
        assert_eq!(text(1_714_559_400_000).as_deref(), Some("2024-05-01T10:30:00Z"));
        assert_eq!(text(253_402_300_800_000), None);
        assert_eq!(text(i64::MIN), None);
    }
}
