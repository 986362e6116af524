//! Dates, times and durations as CQL text writes them → numbers. All without a time zone of the
//! machine: what names none is UTC.
//!
//! ```text
//! timestamp := date [("T"|" ") clock] [zone]
//! date      := year "-" month "-" day     a year of four digits, or of more after a sign, such as
//!                                         +10000-01-01; month and day of two
//! clock     := hour ":" minute [":" second ["." fraction]]
//! zone      := "Z" | ("+"|"-") hh [":"] mm?
//! ```

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

/// The farthest that a zone is from UTC.
const ZONE_MINUTES_MAX: i64 = 18 * 60;

/// Days since 1970-01-01 of a day of the proleptic Gregorian calendar; none if there is no such.
#[must_use]
pub fn days_from_civil(year: i64, month: u32, day: u32) -> Option<i64> {
    const LENGTHS: [u32; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let index = usize::try_from(month.checked_sub(1)?).ok()?;
    let length = LENGTHS.get(index)? + u32::from(leap && month == 2);
    if day == 0 || day > length || year.abs() > 300_000_000 {
        return None;
    }
    // Counted from 1 March, so that the leap day is the last of its year.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = i64::from((month + 9) % 12);
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

fn digits(text: &str, length: std::ops::RangeInclusive<usize>) -> Option<i64> {
    let legal = length.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if legal { text.parse().ok() } else { None }
}

fn small(text: &str, below: i64) -> Option<i64> {
    digits(text, 1..=2).filter(|&n| n < below)
}

/// Days since 1970-01-01 of a date, as Cassandra reads it.
#[must_use]
pub fn date(text: &str) -> Option<i64> {
    let sign = text.chars().next().filter(|sign| ['+', '-'].contains(sign));
    let mut parts = text.get(usize::from(sign.is_some())..)?.splitn(3, '-');
    let year_text = parts.next()?;
    let is_long = year_text.len() > 4;
    if is_long && (sign.is_none() || year_text.starts_with('0')) || !is_long && sign == Some('+') {
        return None;
    }
    let year = digits(year_text, 4..=9)?;
    let month = u32::try_from(digits(parts.next()?, 2..=2)?).ok()?;
    let day = u32::try_from(digits(parts.next()?, 2..=2)?).ok()?;
    days_from_civil(if sign == Some('-') { -year } else { year }, month, day)
}

/// Nanoseconds since midnight of `hh:mm:ss[.fraction]`; seconds may be left out where
/// `seconds_optional`.
#[must_use]
pub fn clock_ns(text: &str, seconds_optional: bool) -> Option<i64> {
    let mut parts = text.split(':');
    let hour = small(parts.next()?, 24)?;
    let minute = small(parts.next()?, 60)?;
    let (second, fraction) = match parts.next() {
        None if seconds_optional => (0, 0),
        None => return None,
        Some(seconds) => {
            let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
            digits(fraction, 1..=9)?;
            (small(whole, 60)?, format!("{fraction:0<9}").parse().ok()?)
        }
    };
    if parts.next().is_some() {
        return None;
    }
    Some(((hour * 60 + minute) * 60 + second) * 1_000_000_000 + fraction)
}

/// Offset from UTC in minutes of a zone, and the text before it.
fn split_zone(text: &str) -> Option<(&str, i64)> {
    if let Some(rest) = text.strip_suffix('Z') {
        return Some((rest.trim_end(), 0));
    }
    for name in [" UTC", " GMT"] {
        if let Some(rest) = text.strip_suffix(name) {
            return Some((rest, 0));
        }
    }
    // A sign within the date is not a zone's: a date needs ten characters, or the clock's colon.
    let after_date = text.find(':').unwrap_or_else(|| text.len().min(10));
    let Some(at) = text.get(after_date..)?.find(['+', '-']).map(|i| i + after_date) else {
        return Some((text, 0));
    };
    let (rest, zone) = text.split_at_checked(at)?;
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let zone: String = zone.chars().skip(1).filter(|c| *c != ':').collect();
    let (hours, minutes) = match zone.len() {
        2 => (small(&zone, 24)?, 0),
        4 => (small(zone.get(..2)?, 24)?, small(zone.get(2..)?, 60)?),
        _ => return None,
    };
    let offset = hours * 60 + minutes;
    (offset <= ZONE_MINUTES_MAX).then(|| (rest.trim_end(), sign * offset))
}

/// Milliseconds since the Unix epoch of a timestamp's text.
#[must_use]
pub fn timestamp_ms(text: &str) -> Option<i64> {
    let (text, offset_minutes) = split_zone(text)?;
    let (day, clock) = match text.find(['T', ' ']) {
        Some(at) => (text.get(..at)?, text.get(at + 1..)?),
        None => (text, "00:00"),
    };
    let clock_ms = clock_ns(clock, true)? / 1_000_000;
    let ms = date(day)?.checked_mul(DAY_MS)?.checked_add(clock_ms)?;
    Some(ms - offset_minutes * 60_000)
}

/// Appends one of Cassandra's variable-length integers, zig-zag coded, as a duration has three of.
///
/// # Panics
/// Never: what is narrowed has been masked.
pub fn put_vint(out: &mut Vec<u8>, value: i64) {
    let zigzag = ((value << 1) ^ (value >> 63)).cast_unsigned();
    let bits = 64 - zigzag.leading_zeros();
    let extra = if bits > 56 { 8 } else { bits.saturating_sub(1) / 7 };
    let bytes = zigzag.to_be_bytes();
    if extra == 8 {
        out.push(0xFF);
        out.extend_from_slice(&bytes);
        return;
    }
    let start = out.len();
    let kept = usize::try_from(extra).expect("at most eight") + 1;
    out.extend_from_slice(bytes.get(8 - kept..).expect("one to eight bytes"));
    if let Some(first) = out.get_mut(start) {
        let marks = 0xFF00u32 >> extra;
        *first |= u8::try_from(marks & 0xFF).expect("masked to eight bits");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_as_calendars_do() {
        assert_eq!(date("1970-01-01"), Some(0));
        assert_eq!(date("2000-02-29"), Some(11_016));
        assert_eq!(date("1969-12-31"), Some(-1));
        assert_eq!(date("2026-11-21"), Some(20_778));
        for wrong in ["1900-02-29", "2026-13-01", "2026-00-01", "2026-04-31", "x", "2026-1"] {
            assert_eq!(date(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_timestamp_may_leave_out_what_is_zero() {
        let day = 20_778 * DAY_MS;
        for (text, ms) in [
            ("2026-11-21", day),
            ("2026-11-21T01:02", day + 3_720_000),
            ("2026-11-21 01:02:03", day + 3_723_000),
            ("2026-11-21 01:02:03.5", day + 3_723_500),
            ("2026-11-21T01:02:03.456Z", day + 3_723_456),
            ("2026-11-21T01:02:03.456+01:00", day + 123_456),
            ("2026-11-21 01:02-0130", day + 3_720_000 + 5_400_000),
            ("2026-11-21+01", day - 3_600_000),
        ] {
            assert_eq!(timestamp_ms(text), Some(ms), "{text}");
        }
        for wrong in ["", "now", "2026-11-21T25:00", "2026-11-21T", "2026-11-21+1"] {
            assert_eq!(timestamp_ms(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn variable_length_integers_are_as_short_as_can_be() {
        let coded = |value| {
            let mut out = Vec::new();
            put_vint(&mut out, value);
            out
        };
        assert_eq!(coded(0), [0]);
        assert_eq!(coded(-1), [1]);
        assert_eq!(coded(63), [126]);
        assert_eq!(coded(64), [0x80, 0x80]);
        assert_eq!(coded(i64::MIN), [0xFF; 9]);
    }
}
