//! YAML (and so JSON) as a tree with lines, duplicates kept, scalars unresolved until somebody knows the wanted type.
//!
//! Plain scalars resolve as kube-scheduler's YAML reader resolves them (YAML 1.1: `yes` is a boolean, `017` is octal).
//! Bounded: text size, nodes, depth.
//!
//! Does not: know any field.

use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput, options};

use crate::error::{FieldError, FieldErrorKind};

/// Largest text that is read: a configuration has kilobytes.
pub(crate) const MAX_TEXT_BYTES: usize = 4 << 20;
/// Most nodes in all documents, aliases expanded; 4 MiB of `a,` would be 2 million.
const MAX_NODES: usize = 200_000;
/// Deepest nesting.
const MAX_DEPTH: usize = 64;

/// A value with the line where it starts, from 1 (0 when unknown).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) line: u32,
    pub(crate) value: Value,
}

/// What a node is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Scalar { text: String, plain: bool },
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key with its value; keys may repeat.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) line: u32,
    pub(crate) node: Node,
}

/// A resolved scalar.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Scalar<'a> {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(&'a str),
}

impl Node {
    /// The scalar, if this is one.
    pub(crate) fn scalar(&self) -> Option<Scalar<'_>> {
        match &self.value {
            Value::Scalar { text, plain: true } => Some(resolve(text)),
            Value::Scalar { text, plain: false } => Some(Scalar::Text(text)),
            _ => None,
        }
    }

    /// Whether nothing is given here.
    pub(crate) fn is_null(&self) -> bool {
        self.scalar() == Some(Scalar::Null)
    }

    /// The value under a key of a mapping; the first when the key repeats.
    pub(crate) fn get(&self, key: &str) -> Option<&Entry> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }

    /// The line of the deepest node along a field path that exists.
    pub(crate) fn line_of(&self, path: &str) -> u32 {
        let mut node = self;
        let mut line = self.line;
        for segment in path.split(['.', '[']).filter(|segment| !segment.is_empty()) {
            if let Some(index) = segment.strip_suffix(']') {
                let Value::List(items) = &node.value else { break };
                let Some(item) = index.parse::<usize>().ok().and_then(|index| items.get(index)) else {
                    break;
                };
                (node, line) = (item, item.line);
            } else {
                let Some(entry) = node.get(segment) else { break };
                (node, line) = (&entry.node, entry.line);
            }
        }
        line
    }

    /// What stands here, for an error.
    pub(crate) fn describe(&self) -> String {
        match &self.value {
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a mapping".to_owned(),
            Value::Scalar { .. } => match self.scalar() {
                Some(Scalar::Bool(value)) => format!("boolean {value}"),
                Some(Scalar::Int(value)) => format!("number {value}"),
                Some(Scalar::Float(value)) => format!("number {value}"),
                Some(Scalar::Text(text)) => {
                    let short: String = text.chars().take(80).collect();
                    format!("string {short:?}")
                }
                _ => "null".to_owned(),
            },
        }
    }

    /// The node as JSON; the first of repeated keys counts.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.value {
            Value::List(items) => Json::Array(items.iter().map(Self::to_json).collect()),
            Value::Map(entries) => {
                let mut map = serde_json::Map::new();
                for entry in entries {
                    map.entry(entry.key.clone()).or_insert_with(|| entry.node.to_json());
                }
                Json::Object(map)
            }
            Value::Scalar { .. } => match self.scalar() {
                Some(Scalar::Bool(value)) => Json::Bool(value),
                Some(Scalar::Int(value)) => match (i64::try_from(value), u64::try_from(value)) {
                    (Ok(value), _) => value.into(),
                    (_, Ok(value)) => value.into(),
                    _ => value.to_string().parse::<f64>().map_or(Json::Null, Json::from),
                },
                Some(Scalar::Float(value)) => Json::from(value),
                Some(Scalar::Text(text)) => Json::String(text.to_owned()),
                _ => Json::Null,
            },
        }
    }
}

/// Resolves a plain scalar by YAML 1.1.
fn resolve(text: &str) -> Scalar<'_> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Scalar::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => return Scalar::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Scalar::Bool(false);
        }
        _ => {}
    }
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.')) {
        return Scalar::Text(text);
    }
    let digits = text.replace('_', "");
    if let Some(value) = parse_integer(&digits) {
        return Scalar::Int(value);
    }
    let numeric = digits
        .chars()
        .all(|c| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E'));
    match digits.parse::<f64>() {
        Ok(value) if numeric && value.is_finite() => Scalar::Float(value),
        _ => Scalar::Text(text),
    }
}

/// Decimal, `0x`, `0b`, `0o` and leading-zero octal integers.
fn parse_integer(text: &str) -> Option<i128> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (radix, digits) = if let Some(rest) = digits.strip_prefix("0x") {
        (16, rest)
    } else if let Some(rest) = digits.strip_prefix("0b") {
        (2, rest)
    } else if let Some(rest) = digits.strip_prefix("0o") {
        (8, rest)
    } else if digits.len() > 1 && digits.starts_with('0') {
        (8, digits)
    } else {
        (10, digits)
    };
    if !digits.starts_with(|c: char| c.is_digit(radix)) {
        return None;
    }
    i128::from_str_radix(digits, radix).ok().map(|value| sign * value)
}

/// Parses all documents; empty ones are left out. Errors come back beside what could be read.
pub(crate) fn parse(text: &str) -> (Vec<Node>, Vec<FieldError>) {
    let mut errors = Vec::new();
    if text.len() > MAX_TEXT_BYTES {
        errors.push(syntax(
            None,
            format!("the text has {} bytes; at most {MAX_TEXT_BYTES} are read", text.len()),
        ));
        return (Vec::new(), errors);
    }
    let options = options! { emit_comments: false, block_nesting_limit: MAX_DEPTH, flow_nesting_limit: MAX_DEPTH };
    let mut builder = Builder {
        parser: Parser::new_from_str_with_options(text, options),
        anchors: Vec::new(),
        nodes_left: MAX_NODES,
    };
    let mut documents = Vec::new();
    loop {
        match builder.document() {
            Ok(Some(node)) if node.is_null() => {}
            Ok(Some(node)) => documents.push(node),
            Ok(None) => break,
            Err(error) => {
                errors.push(error);
                if builder.nodes_left == 0 || !matches!(builder.parser.proceed_next_document(), Ok(true)) {
                    break;
                }
            }
        }
    }
    (documents, errors)
}

fn syntax(line: Option<u32>, message: String) -> FieldError {
    FieldError {
        path: String::new(),
        line,
        kind: FieldErrorKind::Syntax(message),
    }
}

fn scan_error(error: &ScanError) -> FieldError {
    let mark = error.marker();
    let message = format!("not valid YAML: {} (column {})", error.info(), mark.col() + 1);
    syntax(Some(line_number(mark.line())), message)
}

fn line_number(line: usize) -> u32 {
    u32::try_from(line).unwrap_or(u32::MAX)
}

/// Builds nodes from parser events.
struct Builder<'a> {
    parser: Parser<'a, StrInput<'a>>,
    /// Anchored nodes of the current document by the parser's id.
    anchors: Vec<(usize, Node)>,
    nodes_left: usize,
}

impl<'a> Builder<'a> {
    fn next(&mut self) -> Result<Option<(Event<'a>, Span)>, FieldError> {
        self.parser.next().transpose().map_err(|error| scan_error(&error))
    }

    /// The next document, or `None` at the end.
    fn document(&mut self) -> Result<Option<Node>, FieldError> {
        self.anchors.clear();
        while let Some((event, span)) = self.next()? {
            match event {
                Event::StreamEnd => return Ok(None),
                Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd => {}
                event => return self.node(event, span).map(Some),
            }
        }
        Ok(None)
    }

    fn count(&mut self, nodes: usize, line: u32) -> Result<(), FieldError> {
        match self.nodes_left.checked_sub(nodes) {
            Some(left) if left > 0 => self.nodes_left = left,
            _ => {
                self.nodes_left = 0;
                return Err(syntax(Some(line), format!("more than {MAX_NODES} values")));
            }
        }
        Ok(())
    }

    /// The node that starts with this event. Depth is bounded by the parser's nesting limits.
    fn node(&mut self, event: Event<'a>, span: Span) -> Result<Node, FieldError> {
        let line = line_number(span.start.line());
        self.count(1, line)?;
        let (anchor, value) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let string_tag = tag.is_some_and(|tag| tag.is_yaml_core_schema_tag("str"));
                let plain = style == ScalarStyle::Plain && !string_tag;
                (
                    anchor,
                    Value::Scalar {
                        text: text.into_owned(),
                        plain,
                    },
                )
            }
            Event::SequenceStart(_, anchor, _) => (anchor, Value::List(self.items()?)),
            Event::MappingStart(_, anchor, _) => (anchor, Value::Map(self.entries()?)),
            Event::Alias(id) => return self.alias(id, line),
            _ => return Err(syntax(Some(line), "not valid YAML: a value is missing".to_owned())),
        };
        let node = Node { line, value };
        if anchor != 0 {
            self.anchors.push((anchor, node.clone()));
        }
        Ok(node)
    }

    fn alias(&mut self, id: usize, line: u32) -> Result<Node, FieldError> {
        let target = self
            .anchors
            .iter()
            .rev()
            .find(|(anchor, _)| *anchor == id)
            .map(|(_, node)| node.clone());
        let Some(mut node) = target else {
            return Err(syntax(
                Some(line),
                "an alias refers to a value that contains it".to_owned(),
            ));
        };
        self.count(size(&node), line)?;
        node.line = line;
        Ok(node)
    }

    fn items(&mut self) -> Result<Vec<Node>, FieldError> {
        let mut items = Vec::new();
        while let Some((event, span)) = self.next()? {
            if event == Event::SequenceEnd {
                return Ok(items);
            }
            items.push(self.node(event, span)?);
        }
        Err(syntax(None, "not valid YAML: a list does not end".to_owned()))
    }

    fn entries(&mut self) -> Result<Vec<Entry>, FieldError> {
        let mut entries = Vec::new();
        let mut merges = Vec::new();
        while let Some((event, span)) = self.next()? {
            if event == Event::MappingEnd {
                merge(&mut entries, merges);
                return Ok(entries);
            }
            let line = line_number(span.start.line());
            let key = match self.node(event, span)?.value {
                Value::Scalar { text, .. } => text,
                _ => return Err(syntax(Some(line), "a key has to be a single word".to_owned())),
            };
            let Some((event, span)) = self.next()? else { break };
            let node = self.node(event, span)?;
            if key == "<<" {
                merges.push(node);
            } else {
                entries.push(Entry { key, line, node });
            }
        }
        Err(syntax(None, "not valid YAML: a mapping does not end".to_owned()))
    }
}

/// Number of nodes below and including this one.
fn size(node: &Node) -> usize {
    match &node.value {
        Value::Scalar { .. } => 1,
        Value::List(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Map(entries) => 1 + entries.iter().map(|entry| size(&entry.node)).sum::<usize>(),
    }
}

/// Adds the entries of merge keys (`<<`) whose keys are not present; earlier sources win.
fn merge(entries: &mut Vec<Entry>, merges: Vec<Node>) {
    let mut add = |node: Node| {
        if let Value::Map(merged) = node.value {
            for entry in merged {
                if !entries.iter().any(|present| present.key == entry.key) {
                    entries.push(entry);
                }
            }
        }
    };
    for node in merges {
        match node.value {
            Value::List(items) => items.into_iter().for_each(&mut add),
            _ => add(node),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> String {
        let (documents, errors) = parse(text);
        assert_eq!(errors, []);
        documents
            .iter()
            .map(|node| node.to_json().to_string())
            .collect::<Vec<_>>()
            .join("|")
    }

    #[test]
    fn scalars_resolve_as_yaml_1_1() {
        assert_eq!(
            json("[yes, Off, ~, '', 'yes', !!str 5, 017, 0x1F, 1_000, 1.5, 1e3, 1.2.3, -7, .5]"),
            r#"[true,false,null,"","yes","5",15,31,1000,1.5,1000.0,"1.2.3",-7,0.5]"#
        );
    }

    #[test]
    fn documents_anchors_and_merges_are_read() {
        assert_eq!(
            json("---\na: &x {b: 1}\nc: *x\nd: {<<: *x, e: 2}\n---\n---\n- 1\n"),
            r#"{"a":{"b":1},"c":{"b":1},"d":{"b":1,"e":2}}|[1]"#
        );
    }

    #[test]
    fn json_with_tabs_is_yaml() {
        assert_eq!(
            json("{\n\t\"a\": [1,\n\t\t\"\\u00e9\\/\"],\n\t\"b\":{}\n}\n"),
            r#"{"a":[1,"é/"],"b":{}}"#
        );
    }

    #[test]
    fn broken_documents_do_not_hide_later_ones() {
        let (documents, errors) = parse("a: [1, 2\n---\nb: 1\n");
        assert_eq!(errors.len(), 1);
        assert_eq!(documents.len(), 1);
    }

    #[test]
    fn bombs_and_depth_are_bounded() {
        let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
        for level in 1..10 {
            let item = format!("*a{}", level - 1);
            bomb.push_str(&format!("a{level}: &a{level} [{}]\n", [item.as_str(); 10].join(",")));
        }
        assert_eq!(parse(&bomb).1.len(), 1);
        assert_eq!(parse(&"[".repeat(10_000)).1.len(), 1);
        assert_eq!(parse(&"- ".repeat(10_000)).1.len(), 1);
        assert_eq!(parse("a: &a [*a]\n").1.len(), 1);
    }

    #[test]
    fn lines_are_found_by_path() {
        let (documents, _) = parse("a:\n  b:\n  - c: 1\n    d: 2\n");
        assert_eq!(documents[0].line_of("a.b[0].d"), 4);
        assert_eq!(documents[0].line_of("a.b[0].x.y"), 3);
        assert_eq!(documents[0].line_of("a.x"), 1);
    }
}
