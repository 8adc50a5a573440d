//! Small helpers about object metadata: paths into JSON, time stamps, identities and names.
//!
//! Does not: know kinds or storage.

use std::fmt::Write as _;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;

use jiff::Timestamp;
use parking_lot::Mutex;
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use serde_json::{Map, Value};

/// The text at a dotted path of plain keys, or `None`.
#[must_use]
pub(crate) fn text<'a>(object: &'a Value, path: &[&str]) -> Option<&'a str> {
    get(object, path).and_then(Value::as_str)
}

/// The value at a path of plain keys, or `None`.
#[must_use]
pub(crate) fn get<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, key| value.get(key))
}

/// The object under `key`, created (or replaced when it is no object) on the way.
pub(crate) fn section<'a>(object: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let slot = object.entry(key).or_insert(Value::Null);
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    match slot {
        Value::Object(map) => map,
        // The line above made it an object.
        _ => unreachable!("section {key} is an object"),
    }
}

/// Sets `key` unless it is present and not null.
pub(crate) fn set_default(object: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    let missing = object.get(key).is_none_or(Value::is_null);
    if missing {
        object.insert(key.to_owned(), value.into());
    }
}

/// Now, in the API's form with whole seconds (`2026-01-02T03:04:05Z`).
#[must_use]
pub(crate) fn now_seconds() -> String {
    format_seconds(Timestamp::now())
}

/// A time in the API's form with whole seconds.
#[must_use]
pub(crate) fn format_seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Source of identities and generated names: cheap, and different in every process.
static RANDOM: LazyLock<Mutex<Pcg64Mcg>> = LazyLock::new(|| {
    // The standard library's hasher keys are the operating system's randomness.
    Mutex::new(Pcg64Mcg::seed_from_u64(RandomState::new().hash_one(Timestamp::now())))
});

/// A random number in a range.
pub(crate) fn random_in(range: std::ops::Range<u64>) -> u64 {
    RANDOM.lock().random_range(range)
}

/// A random (version 4) UUID.
#[must_use]
pub(crate) fn new_uid() -> String {
    let mut bytes: [u8; 16] = RANDOM.lock().random();
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let mut uid = String::with_capacity(36);
    for (position, byte) in bytes.iter().enumerate() {
        if matches!(position, 4 | 6 | 8 | 10) {
            uid.push('-');
        }
        // Writing to a String cannot fail.
        write!(uid, "{byte:02x}").unwrap_or_default();
    }
    uid
}

/// A name from a `generateName` prefix: five characters without vowels, as upstream's name generator.
#[must_use]
pub(crate) fn generated_name(prefix: &str) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut random = RANDOM.lock();
    let keep = prefix.char_indices().nth(58).map_or(prefix.len(), |(at, _)| at);
    let mut name = prefix.get(..keep).unwrap_or(prefix).to_owned();
    for _ in 0..5 {
        let letter = ALPHABET
            .get(random.random_range(0..ALPHABET.len()))
            .copied()
            .unwrap_or(b'x');
        name.push(char::from(letter));
    }
    name
}

/// Whether `name` is a DNS subdomain (letters, digits, `-` and `.`; at most 253 characters).
///
/// RBAC names may also hold `:`; they are the reason for `lenient`.
#[must_use]
pub(crate) fn is_valid_name(name: &str, lenient: bool) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    if name.is_empty() || name.len() > 253 {
        return false;
    }
    if lenient {
        return !name.contains('/') && !name.contains('%') && name != "." && name != "..";
    }
    let edge = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let bytes = name.as_bytes();
    bytes.iter().all(|byte| allowed(*byte)) && edge(bytes.first()) && edge(bytes.last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uid_has_the_usual_shape() {
        let uid = new_uid();
        assert_eq!(uid.len(), 36);
        assert_eq!(uid.as_bytes()[14], b'4');
        assert_ne!(uid, new_uid());
    }

    #[test]
    fn names_are_checked() {
        assert!(is_valid_name("a-1.b", false));
        assert!(!is_valid_name("A", false));
        assert!(!is_valid_name("-a", false));
        assert!(!is_valid_name("", true));
        assert!(is_valid_name("system:node", true));
        assert!(generated_name("p-").starts_with("p-"));
    }
}
