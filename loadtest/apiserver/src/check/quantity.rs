//! Resource quantities as exact billionths.
//!
//! Source: the grammar in apimachinery `api/resource/quantity.go`.
//!
//! Does not: keep the written form.

use serde_json::Value;

/// One unit in billionths.
pub const NANOS: i128 = 1_000_000_000;
/// Digits that are read before and after the point; more cannot occur in a quantity that fits.
const MAX_DIGITS: usize = 40;

/// A quantity in billionths, rounded up; `None` when the text is not a quantity.
#[must_use]
pub fn parse(text: &str) -> Option<i128> {
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    let end = rest
        .find(|letter: char| !letter.is_ascii_digit() && letter != '.')
        .unwrap_or(rest.len());
    let (number, suffix) = (rest.get(..end)?, rest.get(end..)?);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) || whole.len() + fraction.len() > MAX_DIGITS
    {
        return None;
    }
    let (base, exponent) = scale(suffix)?;
    let digits: i128 = format!("{whole}{fraction}").parse().unwrap_or(i128::MAX);
    // value = digits * 10^-fraction * base^exponent, in billionths
    let tens = 9 - i32::try_from(fraction.len()).ok()? + if base == 10 { exponent } else { 0 };
    let binary = if base == 2 {
        1_i128.checked_shl(exponent.unsigned_abs())?
    } else {
        1
    };
    let scaled = digits.saturating_mul(binary);
    let power = 10_i128.checked_pow(tens.unsigned_abs());
    let nanos = match (tens >= 0, power) {
        (true, Some(power)) => scaled.saturating_mul(power),
        (true, None) => {
            if scaled == 0 {
                0
            } else {
                i128::MAX
            }
        }
        (false, Some(power)) => scaled / power + i128::from(scaled % power != 0),
        (false, None) => i128::from(scaled != 0),
    };
    Some(if negative { -nanos } else { nanos })
}

/// A quantity from JSON, where numbers are allowed too.
#[must_use]
pub fn parse_json(value: &Value) -> Option<i128> {
    match value {
        Value::String(text) => parse(text),
        Value::Number(number) => parse(&number.to_string()),
        _ => None,
    }
}

/// Base and exponent of a suffix.
fn scale(suffix: &str) -> Option<(u8, i32)> {
    Some(match suffix {
        "" => (10, 0),
        "n" => (10, -9),
        "u" => (10, -6),
        "m" => (10, -3),
        "k" => (10, 3),
        "M" => (10, 6),
        "G" => (10, 9),
        "T" => (10, 12),
        "P" => (10, 15),
        "E" => (10, 18),
        "Ki" => (2, 10),
        "Mi" => (2, 20),
        "Gi" => (2, 30),
        "Ti" => (2, 40),
        "Pi" => (2, 50),
        "Ei" => (2, 60),
        other => {
            let exponent = other.strip_prefix(['e', 'E'])?;
            let exponent: i32 = exponent.parse().ok()?;
            (10, (-60..=60).contains(&exponent).then_some(exponent)?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_exact() {
        for (text, expected) in [
            ("0", 0),
            ("1", NANOS),
            ("100m", NANOS / 10),
            ("0.5", NANOS / 2),
            (".5", NANOS / 2),
            ("1.", NANOS),
            ("1e3", 1_000 * NANOS),
            ("1E-3", NANOS / 1_000),
            ("0.5Mi", 524_288 * NANOS),
            ("32Gi", 34_359_738_368 * NANOS),
            ("100E", 100_000_000_000_000_000_000 * NANOS),
            ("-1", -NANOS),
            ("+2k", 2_000 * NANOS),
            ("1n", 1),
            ("0.1n", 1),
        ] {
            assert_eq!(parse(text), Some(expected), "{text}");
        }
        for text in ["", "-", "m", "1x", "1.2.3", "1ee3", "1e", "e3", "1 Gi", "1e99"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
