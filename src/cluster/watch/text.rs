//! The pieces that wire types are made of: borrowed text, maps as lists of pairs, raw values.
//!
//! Does not: know any kind of object.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::cluster::watch::error::Fault;
use crate::ids::Symbol;
use crate::resources::Quantity;

/// A string that borrows from the input wherever it has no escapes; `null` is the empty string.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Text<'a>(Cow<'a, str>);

impl Text<'_> {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn symbol(&self) -> Symbol {
        Symbol::new(&self.0)
    }
}

impl AsRef<str> for Text<'_> {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }

    fn visit_string<E>(self, text: String) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(text)))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Text::default())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

/// The text of an optional string; empty when absent.
pub(super) fn text_of<'t>(text: &'t Option<Text<'_>>) -> &'t str {
    text.as_ref().map_or("", Text::as_str)
}

/// The symbol of an optional string; `None` when absent or empty.
pub(super) fn symbol_of(text: &Option<Text<'_>>) -> Option<Symbol> {
    text.as_ref().filter(|t| !t.as_str().is_empty()).map(Text::symbol)
}

/// A JSON object as a list of its members.
#[derive(Clone, Debug)]
pub(super) struct Pairs<'a, V>(pub(super) Vec<(Text<'a>, V)>);

struct PairsVisitor<'a, V>(PhantomData<(&'a (), V)>);

impl<'de: 'a, 'a, V: Deserialize<'de>> Visitor<'de> for PairsVisitor<'a, V> {
    type Value = Pairs<'a, V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::with_capacity(map.size_hint().unwrap_or(4).min(64));
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(Pairs(pairs))
    }
}

impl<'de: 'a, 'a, V: Deserialize<'de>> Deserialize<'de> for Pairs<'a, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PairsVisitor(PhantomData))
    }
}

/// Resource amounts as the object writes them. They are kept raw, so that a bad one can be told by its name.
pub(super) type RawAmounts<'a> = Pairs<'a, &'a RawValue>;

/// The amount that a JSON value stands for: a string or a number; `null` is zero.
pub(super) fn quantity(raw: &RawValue) -> Result<Quantity, String> {
    let text = raw.get();
    let parse = |text: &str| Quantity::parse(text).map_err(|error| error.to_string());
    match text.as_bytes().first() {
        Some(b'"') if text.contains('\\') => {
            let unescaped: String = serde_json::from_str(text).map_err(|error| error.to_string())?;
            parse(unescaped.trim())
        }
        Some(b'"') => parse(text.trim_matches('"').trim()),
        Some(b'-' | b'0'..=b'9') => parse(text),
        Some(b'n') => Ok(Quantity::default()),
        _ => Err("a quantity is a string or a number".to_owned()),
    }
}

/// Microseconds since 1970 of a time as the API writes it.
pub(super) fn micros(text: &Option<Text<'_>>, path: &str) -> Result<Option<i64>, Fault> {
    let Some(text) = text else { return Ok(None) };
    match text.as_str().parse::<jiff::Timestamp>() {
        Ok(time) => Ok(Some(time.as_microsecond())),
        Err(error) => Err(Fault::new(path, format!("{:?} is no time: {error}", text.as_str()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(json: &str) -> Result<i64, String> {
        quantity(serde_json::from_str(json).unwrap()).map(Quantity::value)
    }

    #[test]
    fn quantities_are_strings_or_numbers() {
        for (json, expected) in [
            ("2", 2),
            ("\"2\"", 2),
            ("\" 1\"", 1),
            ("\"1 \"", 1),
            ("1e3", 1000),
            ("0.5", 1),
            ("\"\\u0031k\"", 1000),
            ("null", 0),
        ] {
            assert_eq!(value(json), Ok(expected), "{json}");
        }
        for json in ["\"\"", "\"1 Ki\"", "true", "[1]", "{}", "\"1K\"", "\"\\\"\""] {
            assert!(value(json).is_err(), "{json}");
        }
    }
}
