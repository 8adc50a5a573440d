//! Durations as Go's `time.Duration` reads and writes them: `15s`, `1m30s`, `1.5h`, `-2ms`.
//!
//! Source: Go's `time.ParseDuration` and `Duration.String`.

use std::time::Duration;

/// A signed duration in nanoseconds, as Go holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoDuration(pub i64);

/// Why a text is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Not of the form number, unit, number, unit, ….
    #[error("{0:?} is not a duration such as 15s, 1m30s or 500ms")]
    Malformed(String),
    /// A number without its unit.
    #[error("missing unit in duration {0:?}; write for example {0}s")]
    MissingUnit(String),
    /// A unit that does not exist.
    #[error("unknown unit {unit:?} in duration {text:?}; units are ns, us, ms, s, m, h")]
    UnknownUnit {
        /// The whole text.
        text: String,
        /// The unit.
        unit: String,
    },
    /// Beyond 292 years.
    #[error("duration {0:?} is out of range")]
    OutOfRange(String),
}

/// Unit names with their nanoseconds.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

impl GoDuration {
    /// Parses Go's form.
    ///
    /// # Errors
    /// The text is not a duration or out of range.
    pub fn parse(text: &str) -> Result<Self, DurationError> {
        let (negative, mut rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        if rest == "0" {
            return Ok(Self(0));
        }
        if rest.is_empty() {
            return Err(DurationError::Malformed(text.to_owned()));
        }
        let mut total: i128 = 0;
        while !rest.is_empty() {
            let (nanos, tail) = parse_part(text, rest)?;
            total += nanos;
            if total > i128::from(i64::MAX) + 1 {
                return Err(DurationError::OutOfRange(text.to_owned()));
            }
            rest = tail;
        }
        let signed = if negative { -total } else { total };
        i64::try_from(signed)
            .map(Self)
            .map_err(|_| DurationError::OutOfRange(text.to_owned()))
    }

    /// The value as a std duration, unless it is negative.
    pub fn to_std(self) -> Option<Duration> {
        u64::try_from(self.0).ok().map(Duration::from_nanos)
    }
}

/// Reads one number with its unit; gives nanoseconds and what follows.
fn parse_part<'a>(text: &str, rest: &'a str) -> Result<(i128, &'a str), DurationError> {
    let number_end = rest
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(rest.len());
    let (number, tail) = rest.split_at(number_end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(DurationError::Malformed(text.to_owned()));
    }
    let unit_end = tail
        .find(|c: char| c == '.' || c.is_ascii_digit())
        .unwrap_or(tail.len());
    let (unit, tail) = tail.split_at(unit_end);
    if unit.is_empty() {
        return Err(DurationError::MissingUnit(text.to_owned()));
    }
    let Some((_, scale)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(DurationError::UnknownUnit {
            text: text.to_owned(),
            unit: unit.to_owned(),
        });
    };
    let out_of_range = || DurationError::OutOfRange(text.to_owned());
    let whole: u64 = if whole.is_empty() {
        0
    } else {
        whole.parse().map_err(|_| out_of_range())?
    };
    let mut nanos = i128::from(whole) * i128::from(*scale);
    let mut place = i128::from(*scale);
    for digit in fraction.chars().filter_map(|c| c.to_digit(10)) {
        // Digits below a nanosecond add nothing; Go truncates them too.
        nanos += place * i128::from(digit) / 10;
        place /= 10;
    }
    Ok((nanos, tail))
}

impl From<Duration> for GoDuration {
    /// Saturates at 292 years.
    fn from(duration: Duration) -> Self {
        Self(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
    }
}

impl std::fmt::Display for GoDuration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let nanos = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        match nanos {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{nanos}ns"),
            1_000..1_000_000 => write!(f, "{}µs", decimal(nanos, 1_000)),
            1_000_000..1_000_000_000 => write!(f, "{}ms", decimal(nanos, 1_000_000)),
            _ => {
                let minutes = nanos / 60_000_000_000;
                let seconds = decimal(nanos % 60_000_000_000, 1_000_000_000);
                match (minutes / 60, minutes % 60) {
                    (0, 0) => write!(f, "{seconds}s"),
                    (0, minutes) => write!(f, "{minutes}m{seconds}s"),
                    (hours, minutes) => write!(f, "{hours}h{minutes}m{seconds}s"),
                }
            }
        }
    }
}

/// `value / scale` in decimal without trailing zeros; `scale` is a power of ten.
fn decimal(value: u64, scale: u64) -> String {
    let (whole, fraction) = (value / scale, value % scale);
    if fraction == 0 {
        return whole.to_string();
    }
    let width = usize::try_from(scale.ilog10()).unwrap_or(9);
    let digits = format!("{fraction:0width$}");
    format!("{whole}.{}", digits.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn go_forms_are_read_and_written() {
        for (text, nanos, printed) in [
            ("15s", 15_000_000_000, "15s"),
            ("1m30s", 90_000_000_000, "1m30s"),
            ("90s", 90_000_000_000, "1m30s"),
            ("600s", 600_000_000_000, "10m0s"),
            ("1h", 3_600_000_000_000, "1h0m0s"),
            ("1.5h", 5_400_000_000_000, "1h30m0s"),
            ("-1.5s", -1_500_000_000, "-1.5s"),
            ("0", 0, "0s"),
            ("100ms", 100_000_000, "100ms"),
            ("1.5us", 1_500, "1.5µs"),
            ("7ns", 7, "7ns"),
            (".5s", 500_000_000, "500ms"),
            ("+3s", 3_000_000_000, "3s"),
        ] {
            let parsed = GoDuration::parse(text).unwrap();
            assert_eq!(parsed, GoDuration(nanos), "{text}");
            assert_eq!(parsed.to_string(), printed, "{text}");
        }
    }

    #[test]
    fn malformed_durations_are_refused() {
        for text in [
            "",
            "-",
            "15",
            "s",
            "1.2.3s",
            "1d",
            "15 s",
            "1e3s",
            "9999999h",
            "99999999999999999999s",
            ".s",
        ] {
            assert!(GoDuration::parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn printed_durations_parse_back(nanos in any::<i64>()) {
            let duration = GoDuration(nanos);
            prop_assert_eq!(GoDuration::parse(&duration.to_string()), Ok(duration));
        }
    }
}
