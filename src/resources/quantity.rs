//! `resource.Quantity`: parsing of amounts such as `1`, `0.5Mi`, `100m`, `1e3`.
//!
//! Source of the grammar: `staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go`, Kubernetes 1.36. A value is
//! kept in billionths, the finest that the API knows; what is finer, and every later conversion to a coarser unit, is
//! rounded away from zero.

use std::fmt;

const NANO: i128 = 1_000_000_000;
/// Amounts past this are capped: the API itself holds no more than a signed 64-bit whole number.
const LIMIT: i128 = i64::MAX as i128 * NANO;

/// An amount, in billionths.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Quantity(i128);

/// Text that is no quantity.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct QuantityError {
    text: String,
}

impl fmt::Display for QuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no quantity: a number with an optional suffix such as m, k, Ki, Mi, G or e3 is",
            self.text
        )
    }
}

impl Quantity {
    /// Parses `text`. Blanks around it are cut off.
    ///
    /// # Errors
    /// The text is no quantity.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        parse(text.trim_matches(' ')).ok_or_else(|| QuantityError {
            text: text.chars().take(64).collect(),
        })
    }

    /// A whole number.
    #[must_use]
    pub fn whole(value: i64) -> Self {
        Self(i128::from(value) * NANO)
    }

    /// A whole number of thousandths.
    #[must_use]
    pub fn milli(value: i64) -> Self {
        Self(i128::from(value) * (NANO / 1000))
    }

    /// The sum, exact within the bounds of the type.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Whether it is below zero.
    #[must_use]
    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// In whole units, rounded away from zero.
    #[must_use]
    pub fn value(self) -> i64 {
        scale_down(self.0, NANO)
    }

    /// In thousandths, rounded away from zero.
    #[must_use]
    pub fn milli_value(self) -> i64 {
        scale_down(self.0, NANO / 1000)
    }
}

fn scale_down(nano: i128, unit: i128) -> i64 {
    let away = if nano % unit == 0 { 0 } else { nano.signum() };
    let scaled = nano / unit + away;
    i64::try_from(scaled).unwrap_or(if scaled < 0 { i64::MIN } else { i64::MAX })
}

fn parse(text: &str) -> Option<Quantity> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    let number_end = unsigned
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at_checked(number_end)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() + fraction.len() == 0 || fraction.contains('.') {
        return None;
    }
    let nano = to_nano(whole, fraction, &suffix_factor(suffix)?);
    Some(Quantity(if negative { -nano } else { nano }))
}

/// What a suffix multiplies by: `binary * 10^decimal`.
struct Factor {
    binary: i128,
    decimal: i64,
}

fn suffix_factor(suffix: &str) -> Option<Factor> {
    let decimal = |decimal| Some(Factor { binary: 1, decimal });
    let binary = |power: u32| {
        Some(Factor {
            binary: 1 << (10 * power),
            decimal: 0,
        })
    };
    match suffix {
        "" => decimal(0),
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => decimal(exponent(suffix)?),
    }
}

fn exponent(suffix: &str) -> Option<i64> {
    let digits = suffix.strip_prefix(['e', 'E'])?;
    let unsigned = digits.strip_prefix(['+', '-']).unwrap_or(digits);
    if unsigned.is_empty() || !unsigned.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let magnitude = unsigned.parse::<i32>().ok()?;
    Some(i64::from(if digits.starts_with('-') { -magnitude } else { magnitude }))
}

/// `whole.fraction * factor` in billionths, rounded up and capped.
fn to_nano(whole: &str, fraction: &str, factor: &Factor) -> i128 {
    let whole = whole.trim_start_matches('0');
    let fraction = fraction.trim_end_matches('0');
    let digits = whole.bytes().chain(fraction.bytes()).map(|b| i128::from(b - b'0'));
    let mut mantissa = 0_i128;
    let mut scale = factor.decimal - i64::try_from(fraction.len()).unwrap_or(i64::MAX);
    let mut sticky = false;
    let mut taken = 0;
    for digit in digits {
        // 2^60 (the largest binary factor) times 19 digits leaves room below 2^127.
        if taken < 19 || mantissa == 0 {
            mantissa = mantissa * 10 + digit;
            taken += usize::from(mantissa != 0);
        } else {
            sticky |= digit != 0;
            scale += 1;
        }
    }
    shift(mantissa.saturating_mul(factor.binary), scale + 9, sticky).min(LIMIT)
}

/// `value * 10^power`, rounded up; `sticky` says that something non-zero below `value` was cut off.
fn shift(value: i128, power: i64, sticky: bool) -> i128 {
    if value == 0 {
        return i128::from(sticky);
    }
    let mut value = value;
    if power >= 0 {
        for _ in 0..power.min(40) {
            value = value.saturating_mul(10);
        }
        return value.saturating_add(i128::from(sticky));
    }
    let mut rest = sticky;
    for _ in 0..power.unsigned_abs().min(80) {
        rest |= value % 10 != 0;
        value /= 10;
    }
    value + i128::from(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> i64 {
        Quantity::parse(text).unwrap().value()
    }

    fn milli(text: &str) -> i64 {
        Quantity::parse(text).unwrap().milli_value()
    }

    #[test]
    fn bytes_are_whole_and_rounded_up() {
        let table = [
            ("1e3", 1000),
            ("1E3", 1000),
            ("0.5Mi", 524_288),
            ("1.5", 2),
            ("100m", 1),
            ("129M", 129_000_000),
            ("128974848000m", 128_974_848),
            (".5Gi", 536_870_912),
            ("1.", 1),
            ("+1Ki", 1024),
            ("1E", 1_000_000_000_000_000_000),
            ("1Pi", 1 << 50),
            ("012", 12),
            (" 1", 1),
            ("1 ", 1),
            ("-1.5", -2),
            ("100E", i64::MAX),
            ("0", 0),
        ];
        for (text, value) in table {
            assert_eq!(bytes(text), value, "{text}");
        }
    }

    #[test]
    fn cpu_is_in_thousandths_and_rounded_up() {
        let table = [
            ("1", 1000),
            ("0.1", 100),
            ("1e-3", 1),
            ("100u", 1),
            ("1n", 1),
            ("1.0005", 1001),
            ("2e0", 2000),
            ("0.5m", 1),
        ];
        for (text, value) in table {
            assert_eq!(milli(text), value, "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "", "1K", "1ki", "1e", "1kI", "1 Ki", "1_000", "0x10", "--1", ".", "1..2", "m", "1e3.5", "½",
        ] {
            assert!(Quantity::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn long_numbers_neither_overflow_nor_vanish() {
        assert_eq!(bytes("99999999999999999999999999999999999999999999"), i64::MAX);
        assert_eq!(bytes("1e2147483647"), i64::MAX);
        assert_eq!(bytes("0.00000000000000000000000000000000000000000000000001"), 1);
        assert_eq!(bytes("1.00000000000000000000000000000000000000000000000001"), 2);
        assert_eq!(bytes("8Ei"), i64::MAX);
    }
}
