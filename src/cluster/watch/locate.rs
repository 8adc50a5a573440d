//! Finds the field path that belongs to a position in JSON text: parse errors come with a line and a column only.
//!
//! Does not: check the text; of broken text the path up to where it can be followed is given.

/// The path of the value that begins at or ends after the position. `line` counts from 1.
pub(super) fn path_at(json: &str, line: usize, column: usize) -> String {
    let mut offset = column;
    for (number, text) in json.split_inclusive('\n').enumerate() {
        if number + 1 >= line {
            break;
        }
        offset += text.len();
    }
    let mut walk = Walk {
        json: json.as_bytes(),
        at: 0,
        offset,
        path: Vec::new(),
    };
    walk.value(0);
    let path = walk.path.concat();
    path.strip_prefix('.').unwrap_or(&path).to_owned()
}

/// Deeper nesting than this is no object of the API.
const DEEPEST: usize = 128;

struct Walk<'a> {
    json: &'a [u8],
    at: usize,
    offset: usize,
    path: Vec<String>,
}

impl Walk<'_> {
    fn peek(&mut self) -> Option<u8> {
        while self.json.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.json.get(self.at).copied()
    }

    /// Walks over one value; true: the position was found and `path` is its path.
    fn value(&mut self, depth: usize) -> bool {
        let Some(first) = self.peek() else { return true };
        if self.at >= self.offset || depth > DEEPEST {
            return true;
        }
        match first {
            b'{' => self.members(depth),
            b'[' => self.items(depth),
            b'"' => {
                self.string();
                self.at >= self.offset
            }
            _ => {
                while self.json.get(self.at).is_some_and(|b| !b",]} \t\r\n".contains(b)) {
                    self.at += 1;
                }
                self.at >= self.offset
            }
        }
    }

    fn members(&mut self, depth: usize) -> bool {
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'"') => {}
                Some(b',') => {
                    self.at += 1;
                    continue;
                }
                Some(b'}') => {
                    self.at += 1;
                    return self.at >= self.offset;
                }
                _ => return true,
            }
            let start = self.at;
            self.string();
            let key = self.json.get(start + 1..self.at.saturating_sub(1)).unwrap_or_default();
            self.path.push(format!(".{}", String::from_utf8_lossy(key)));
            if self.peek() != Some(b':') {
                return true;
            }
            self.at += 1;
            if self.value(depth + 1) {
                return true;
            }
            self.path.pop();
        }
    }

    fn items(&mut self, depth: usize) -> bool {
        self.at += 1;
        let mut index = 0;
        loop {
            match self.peek() {
                None => return true,
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return self.at >= self.offset;
                }
                Some(_) => {
                    let before = self.at;
                    self.path.push(format!("[{index}]"));
                    index += 1;
                    if self.value(depth + 1) || self.at == before {
                        return true;
                    }
                    self.path.pop();
                }
            }
        }
    }

    fn string(&mut self) {
        self.at += 1;
        while let Some(byte) = self.json.get(self.at) {
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                b'"' => return,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize, Debug)]
    struct Outer {
        #[serde(default, rename = "list")]
        _list: Vec<Inner>,
    }

    #[derive(serde::Deserialize, Debug)]
    struct Inner {
        #[serde(default, rename = "n")]
        _n: u8,
        #[serde(default, rename = "s")]
        _s: Vec<String>,
    }

    fn path(json: &str) -> String {
        let error = serde_json::from_str::<Outer>(json).unwrap_err();
        path_at(json, error.line(), error.column())
    }

    #[test]
    fn the_path_of_a_type_error_is_found() {
        assert_eq!(path(r#"{"list": "x"}"#), "list");
        assert_eq!(path(r#"{"list": [{"n": 1}, {"n": "x", "z": 2}]}"#), "list[1].n");
        assert_eq!(path(r#"{"list": [{"n": 300}]}"#), "list[0].n");
        assert_eq!(path(r#"{"list": [{"n": [1]}]}"#), "list[0].n");
        assert_eq!(path("{\"list\": [\n{\"s\": [\"a\\\"]\",\n {}]}]}"), "list[0].s[1]");
    }

    #[test]
    fn broken_text_ends_the_walk() {
        for json in ["", "{", "{\"a\"", "{\"a\":[", "[[[", "{]", "[}", "{\"a\":\"\\"] {
            let _path = path_at(json, 1, 1000);
        }
        let deep = "[".repeat(10_000);
        assert_eq!(path_at(&deep, 1, 10_000).matches('[').count(), DEEPEST + 1);
    }
}
