//! Durations as CQL text writes them → months, days and nanoseconds.
//!
//! ```text
//! duration := ["-"] (number unit)+              units of falling size, each once: 1h30m
//!           | ["-"] "P" number "W"
//!           | ["-"] "P" [nY] [nM] [nD] ["T" [nH] [nM] [nS]]       at least one: P1DT2H
//!           | ["-"] "P" yyyy "-" mm "-" dd "T" hh ":" mm ":" ss
//! ```

/// Months, days and nanoseconds. All have the same sign.
pub type DurationParts = (i32, i32, i64);

const HOUR: i64 = 3_600_000_000_000;
const MINUTE: i64 = 60_000_000_000;
const SECOND: i64 = 1_000_000_000;

#[derive(Clone, Copy)]
enum Part {
    Months,
    Days,
    Nanos,
}

/// Units from the largest to the smallest: name, plural in messages, part and factor.
const UNITS: [(&str, &str, Part, i64); 10] = [
    ("y", "years", Part::Months, 12),
    ("mo", "months", Part::Months, 1),
    ("w", "weeks", Part::Days, 7),
    ("d", "days", Part::Days, 1),
    ("h", "hours", Part::Nanos, HOUR),
    ("m", "minutes", Part::Nanos, MINUTE),
    ("s", "seconds", Part::Nanos, SECOND),
    ("ms", "milliseconds", Part::Nanos, 1_000_000),
    ("us", "microseconds", Part::Nanos, 1_000),
    ("ns", "nanoseconds", Part::Nanos, 1),
];

/// Sums of the three parts; what does not fit is refused at the end.
#[derive(Default)]
struct Sum {
    months: i64,
    days: i64,
    nanos: i128,
}

impl Sum {
    fn add(&mut self, number: i64, part: Part, factor: i64) {
        match part {
            Part::Months => self.months = self.months.saturating_add(number.saturating_mul(factor)),
            Part::Days => self.days = self.days.saturating_add(number.saturating_mul(factor)),
            Part::Nanos => self.nanos += i128::from(number) * i128::from(factor),
        }
    }

    fn parts(&self, negative: bool) -> Result<DurationParts, String> {
        // Cassandra tells this number for nanoseconds as well.
        let too_many = |what| {
            let most = i32::MAX;
            format!("Invalid duration. The total number of {what} must be less or equal to {most}")
        };
        let months = i32::try_from(self.months).map_err(|_| too_many("months"))?;
        let days = i32::try_from(self.days).map_err(|_| too_many("days"))?;
        let nanos = i64::try_from(self.nanos).map_err(|_| too_many("nanoseconds"))?;
        let sign = if negative { -1 } else { 1 };
        Ok((months * sign, days * sign, nanos * i64::from(sign)))
    }
}

/// A number and what follows it.
fn number(text: &str) -> Option<(i64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    Some((digits.parse().ok()?, rest))
}

/// Whether a text has the form of a duration, whatever its numbers.
#[must_use]
pub fn is_duration(text: &str) -> bool {
    !matches!(parse(text), Err(None))
}

/// The duration that a text stands for.
///
/// # Errors
/// In Cassandra's words.
pub fn duration(text: &str) -> Result<DurationParts, String> {
    parse(text).map_err(|error| {
        error.unwrap_or_else(|| format!("Unable to convert '{text}' to a duration"))
    })
}

/// As [`duration`]; no words for a text of another form.
fn parse(text: &str) -> Result<DurationParts, Option<String>> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let sum = match text.strip_prefix('P') {
        Some(iso) => alternative(iso).or_else(|| designators(iso)).ok_or(None)?,
        None => with_units(text)?,
    };
    sum.parts(negative).map_err(Some)
}

fn with_units(text: &str) -> Result<Sum, Option<String>> {
    let (mut sum, mut rest) = (Sum::default(), text);
    let mut last: Option<usize> = None;
    let mut wrong = None;
    while !rest.is_empty() || last.is_none() {
        let (count, after) = number(rest).ok_or(None)?;
        let end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let unit = unit.to_lowercase().replace('µ', "u");
        let at = UNITS.iter().position(|(name, ..)| *name == unit).ok_or(None)?;
        let (_, plural, part, factor) = UNITS.get(at).ok_or(None)?;
        match last {
            Some(before) if before == at && wrong.is_none() => {
                wrong =
                    Some(format!("Invalid duration. The {plural} are specified multiple times"));
            }
            Some(before) if before > at && wrong.is_none() => {
                let before = UNITS.get(before).map_or("", |(_, plural, ..)| plural);
                wrong = Some(format!("Invalid duration. The {before} should be after {plural}"));
            }
            _ => {}
        }
        last = Some(at);
        sum.add(count, *part, *factor);
        rest = after;
    }
    match wrong {
        Some(wrong) => Err(Some(wrong)),
        None => Ok(sum),
    }
}

/// ISO 8601 with letters: `1DT2H` behind its `P`.
fn designators(text: &str) -> Option<Sum> {
    const DATE: [(char, Part, i64); 3] =
        [('Y', Part::Months, 12), ('M', Part::Months, 1), ('D', Part::Days, 1)];
    const CLOCK: [(char, Part, i64); 3] =
        [('H', Part::Nanos, HOUR), ('M', Part::Nanos, MINUTE), ('S', Part::Nanos, SECOND)];
    let mut sum = Sum::default();
    if let Some(weeks) = text.strip_suffix('W') {
        let (weeks, "") = number(weeks)? else { return None };
        sum.add(weeks, Part::Days, 7);
        return Some(sum);
    }
    let (date, clock) = match text.split_once('T') {
        Some((date, clock)) => (date, Some(clock)),
        None => (text, None),
    };
    if clock.is_some_and(str::is_empty) || (date.is_empty() && clock.is_none()) {
        return None;
    }
    for (text, units) in [(date, &DATE), (clock.unwrap_or_default(), &CLOCK)] {
        let (mut rest, mut units) = (text, units.iter());
        while !rest.is_empty() {
            let (count, after) = number(rest)?;
            let letter = after.chars().next()?;
            let (_, part, factor) = units.find(|(unit, ..)| *unit == letter)?;
            sum.add(count, *part, *factor);
            rest = after.get(letter.len_utf8()..)?;
        }
    }
    Some(sum)
}

/// ISO 8601 as a date and a clock: `0001-00-02T00:00:00` behind its `P`.
fn alternative(text: &str) -> Option<Sum> {
    let shape = |c: char| if c.is_ascii_digit() { '0' } else { c };
    if !text.chars().map(shape).eq("0000-00-00T00:00:00".chars()) {
        return None;
    }
    let mut numbers = text.split(['-', 'T', ':']).map(str::parse::<i64>);
    let mut sum = Sum::default();
    for (part, factor) in [
        (Part::Months, 12),
        (Part::Months, 1),
        (Part::Days, 1),
        (Part::Nanos, HOUR),
        (Part::Nanos, MINUTE),
        (Part::Nanos, SECOND),
    ] {
        sum.add(numbers.next()?.ok()?, part, factor);
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_four_spellings() {
        for (text, parts) in [
            ("1y2mo3d4h5m6s7ms8us9ns", (14, 3, 14_706_007_008_009)),
            ("1H30M", (0, 0, 5_400_000_000_000)),
            ("9µs", (0, 0, 9_000)),
            ("-2w", (0, -14, 0)),
            ("0d", (0, 0, 0)),
            ("178956970y7mo", (i32::MAX, 0, 0)),
            ("P1Y2M3DT4H5M6S", (14, 3, 14_706_000_000_000)),
            ("P1W", (0, 7, 0)),
            ("-P1DT1H", (0, -1, -HOUR)),
            ("P0001-00-02T00:00:00", (12, 2, 0)),
            ("P0001-13-32T25:61:61", (25, 32, 93_721 * SECOND)),
        ] {
            assert_eq!(duration(text), Ok(parts), "{text}");
        }
    }

    #[test]
    fn units_come_in_their_order_and_once() {
        let refused = |text| duration(text).unwrap_err();
        let twice = "Invalid duration. The minutes are specified multiple times";
        assert_eq!(refused("2m3m"), twice);
        assert_eq!(refused("1h1d"), "Invalid duration. The hours should be after days");
        let months = "Invalid duration. The total number of months must be less or equal to \
                      2147483647";
        assert_eq!(refused("178956970y8mo"), months);
        assert!(is_duration("2m3m"));
    }

    #[test]
    fn other_texts_are_no_durations() {
        for wrong in [
            "",
            "-",
            "P",
            "PT",
            "P1DT",
            "1",
            "1x",
            "x",
            "p1D",
            "P1M1Y",
            "P1W1D",
            "PT1M1H",
            "PT1H1D",
            "P2021-01-01",
            "P0001-00-02T00:00:00Z",
            "1h 1m",
        ] {
            assert!(!is_duration(wrong), "{wrong}");
        }
    }
}
