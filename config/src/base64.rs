//! Standard base64 with padding, for certificate data in a file.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Decodes; line breaks are ignored as Go ignores them. `None` when the text is not base64.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let symbols: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
    if !symbols.len().is_multiple_of(4) {
        return None;
    }
    let padding = symbols.iter().rev().take_while(|byte| **byte == b'=').count();
    if padding > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(symbols.len() / 4 * 3);
    for quad in symbols.get(..symbols.len() - padding)?.chunks(4) {
        let mut bits: u32 = 0;
        for symbol in quad {
            let value = ALPHABET.iter().position(|candidate| candidate == symbol)?;
            bits = bits << 6 | u32::try_from(value).ok()?;
        }
        let missing = 4 - quad.len();
        bits <<= 6 * missing;
        bytes.extend(bits.to_be_bytes().iter().skip(1).take(3 - missing));
    }
    Some(bytes)
}

/// Encodes with padding.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for triple in bytes.chunks(3) {
        let byte = |index: usize| u32::from(triple.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for position in 0..4_u32 {
            let used = position <= u32::try_from(triple.len()).unwrap_or(3);
            let value = usize::try_from(bits >> (18 - 6 * position) & 63).unwrap_or(0);
            text.push(if used {
                char::from(ALPHABET.get(value).copied().unwrap_or(b'A'))
            } else {
                '='
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_vectors_match() {
        // RFC 4648 section 10.
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(plain.as_bytes()), coded);
            assert_eq!(decode(coded).unwrap(), plain.as_bytes());
        }
        assert_eq!(decode("Zg="), None);
        assert_eq!(decode("Z!=="), None);
        assert_eq!(decode("===="), None);
    }

    proptest! {
        #[test]
        fn encoded_bytes_decode_back(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            prop_assert_eq!(decode(&encode(&bytes)), Some(bytes));
        }
    }
}
