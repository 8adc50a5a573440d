//! Protobuf request bodies of the few kinds that schedulers and `kubectl` write in that form, turned into JSON.
//!
//! So kube-scheduler works here with its default content type. Answers are always JSON, which such clients accept.
//!
//! Source: the field numbers in `k8s.io/api/*/generated.proto` and apimachinery `runtime/serializer/protobuf`.
//!
//! Does not: encode, or decode other kinds (pods, nodes): those answer 415.

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::meta;

/// First bytes of an enveloped object.
const MAGIC: &[u8] = b"k8s\0";
/// Deepest nesting in the schemas below.
const MAX_DEPTH: usize = 8;

/// What a field holds.
#[derive(Clone, Copy)]
enum Type {
    Text,
    Number,
    Flag,
    /// Seconds and nanoseconds, shown with whole seconds.
    Time,
    /// The same, shown with microseconds.
    MicroTime,
    /// A map of text to text.
    Map,
    Texts,
    One(Schema),
    Many(Schema),
}

/// (field number, JSON name, type)
type Schema = &'static [(u64, &'static str, Type)];

const OWNER: Schema = &[
    (1, "kind", Type::Text),
    (3, "name", Type::Text),
    (4, "uid", Type::Text),
    (5, "apiVersion", Type::Text),
    (6, "controller", Type::Flag),
    (7, "blockOwnerDeletion", Type::Flag),
];
const METADATA: Schema = &[
    (1, "name", Type::Text),
    (2, "generateName", Type::Text),
    (3, "namespace", Type::Text),
    (5, "uid", Type::Text),
    (6, "resourceVersion", Type::Text),
    (8, "creationTimestamp", Type::Time),
    (11, "labels", Type::Map),
    (12, "annotations", Type::Map),
    (13, "ownerReferences", Type::Many(OWNER)),
    (14, "finalizers", Type::Texts),
];
const REFERENCE: Schema = &[
    (1, "kind", Type::Text),
    (2, "namespace", Type::Text),
    (3, "name", Type::Text),
    (4, "uid", Type::Text),
    (5, "apiVersion", Type::Text),
    (6, "resourceVersion", Type::Text),
    (7, "fieldPath", Type::Text),
];
const BINDING: Schema = &[
    (1, "metadata", Type::One(METADATA)),
    (2, "target", Type::One(REFERENCE)),
];
const PRECONDITIONS: Schema = &[(1, "uid", Type::Text), (2, "resourceVersion", Type::Text)];
const DELETE_OPTIONS: Schema = &[
    (1, "gracePeriodSeconds", Type::Number),
    (2, "preconditions", Type::One(PRECONDITIONS)),
    (3, "orphanDependents", Type::Flag),
    (4, "propagationPolicy", Type::Text),
    (5, "dryRun", Type::Texts),
];
const EVICTION: Schema = &[
    (1, "metadata", Type::One(METADATA)),
    (2, "deleteOptions", Type::One(DELETE_OPTIONS)),
];
const SERIES: Schema = &[(1, "count", Type::Number), (2, "lastObservedTime", Type::MicroTime)];
const SOURCE: Schema = &[(1, "component", Type::Text), (2, "host", Type::Text)];
const NEW_EVENT: Schema = &[
    (1, "metadata", Type::One(METADATA)),
    (2, "eventTime", Type::MicroTime),
    (3, "series", Type::One(SERIES)),
    (4, "reportingController", Type::Text),
    (5, "reportingInstance", Type::Text),
    (6, "action", Type::Text),
    (7, "reason", Type::Text),
    (8, "regarding", Type::One(REFERENCE)),
    (9, "related", Type::One(REFERENCE)),
    (10, "note", Type::Text),
    (11, "type", Type::Text),
    (12, "deprecatedSource", Type::One(SOURCE)),
    (13, "deprecatedFirstTimestamp", Type::Time),
    (14, "deprecatedLastTimestamp", Type::Time),
    (15, "deprecatedCount", Type::Number),
];
const CORE_EVENT: Schema = &[
    (1, "metadata", Type::One(METADATA)),
    (2, "involvedObject", Type::One(REFERENCE)),
    (3, "reason", Type::Text),
    (4, "message", Type::Text),
    (5, "source", Type::One(SOURCE)),
    (6, "firstTimestamp", Type::Time),
    (7, "lastTimestamp", Type::Time),
    (8, "count", Type::Number),
    (9, "type", Type::Text),
    (10, "eventTime", Type::MicroTime),
    (11, "series", Type::One(SERIES)),
    (12, "action", Type::Text),
    (13, "related", Type::One(REFERENCE)),
    (14, "reportingComponent", Type::Text),
    (15, "reportingInstance", Type::Text),
];
const LEASE_SPEC: Schema = &[
    (1, "holderIdentity", Type::Text),
    (2, "leaseDurationSeconds", Type::Number),
    (3, "acquireTime", Type::MicroTime),
    (4, "renewTime", Type::MicroTime),
    (5, "leaseTransitions", Type::Number),
    (6, "strategy", Type::Text),
    (7, "preferredHolder", Type::Text),
];
const LEASE: Schema = &[(1, "metadata", Type::One(METADATA)), (2, "spec", Type::One(LEASE_SPEC))];
const RESOURCE_ATTRIBUTES: Schema = &[
    (1, "namespace", Type::Text),
    (2, "verb", Type::Text),
    (3, "group", Type::Text),
    (4, "version", Type::Text),
    (5, "resource", Type::Text),
    (6, "subresource", Type::Text),
    (7, "name", Type::Text),
];
const PATH_ATTRIBUTES: Schema = &[(1, "path", Type::Text), (2, "verb", Type::Text)];
const ACCESS_SPEC: Schema = &[
    (1, "resourceAttributes", Type::One(RESOURCE_ATTRIBUTES)),
    (2, "nonResourceAttributes", Type::One(PATH_ATTRIBUTES)),
    (3, "user", Type::Text),
    (4, "groups", Type::Texts),
];
const ACCESS_REVIEW: Schema = &[
    (1, "metadata", Type::One(METADATA)),
    (2, "spec", Type::One(ACCESS_SPEC)),
];
const TOKEN_SPEC: Schema = &[(1, "token", Type::Text), (2, "audiences", Type::Texts)];
const TOKEN_REVIEW: Schema = &[(1, "metadata", Type::One(METADATA)), (2, "spec", Type::One(TOKEN_SPEC))];

const NAMESPACE: Schema = &[
    (1, "metadata", Type::One(METADATA)),
    (2, "spec", Type::One(&[(1, "finalizers", Type::Texts)])),
    (3, "status", Type::One(&[(1, "phase", Type::Text)])),
];
const PRIORITY_CLASS: Schema = &[
    (1, "metadata", Type::One(METADATA)),
    (2, "value", Type::Number),
    (3, "globalDefault", Type::Flag),
    (4, "description", Type::Text),
    (5, "preemptionPolicy", Type::Text),
];

const TYPE_META: Schema = &[(1, "apiVersion", Type::Text), (2, "kind", Type::Text)];

fn schema_of(api_version: &str, kind: &str) -> Option<Schema> {
    Some(match kind {
        "Binding" => BINDING,
        "DeleteOptions" => DELETE_OPTIONS,
        "Eviction" => EVICTION,
        "Event" if api_version == "v1" => CORE_EVENT,
        "Event" => NEW_EVENT,
        "Lease" => LEASE,
        "SubjectAccessReview" | "SelfSubjectAccessReview" | "LocalSubjectAccessReview" => ACCESS_REVIEW,
        "TokenReview" => TOKEN_REVIEW,
        "SelfSubjectReview" => &[],
        "Namespace" => NAMESPACE,
        "PriorityClass" => PRIORITY_CLASS,
        _ => return None,
    })
}

/// Decodes an enveloped object; `None` when it is malformed or of a kind that is not known here.
pub(super) fn decode(bytes: &[u8]) -> Option<Value> {
    let envelope = fields(bytes.strip_prefix(MAGIC)?)?;
    let part = |number: u64| {
        envelope
            .iter()
            .find(|(other, _)| *other == number)
            .and_then(|(_, wire)| wire.bytes())
    };
    let type_meta = message(part(1)?, TYPE_META, 0)?;
    let text = |key: &str| {
        type_meta
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let mut object = message(part(2).unwrap_or_default(), schema_of(&api_version, &kind)?, 0)?;
    object.insert("apiVersion".into(), api_version.into());
    object.insert("kind".into(), kind.into());
    Some(Value::Object(object))
}

/// A field on the wire.
enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Wire<'a> {
    const fn bytes(&self) -> Option<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Number(_) => None,
        }
    }
}

/// Splits a message into its fields.
fn fields(mut bytes: &[u8]) -> Option<Vec<(u64, Wire<'_>)>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let wire = match key & 7 {
            0 => Wire::Number(varint(&mut bytes)?),
            1 => Wire::Bytes(take(&mut bytes, 8)?),
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).ok()?;
                Wire::Bytes(take(&mut bytes, length)?)
            }
            5 => Wire::Bytes(take(&mut bytes, 4)?),
            _ => return None,
        };
        fields.push((key >> 3, wire));
    }
    Some(fields)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

fn message(bytes: &[u8], schema: Schema, depth: usize) -> Option<Map<String, Value>> {
    if depth > MAX_DEPTH {
        return None;
    }
    let mut object = Map::new();
    for (number, wire) in fields(bytes)? {
        let Some((_, name, kind)) = schema.iter().find(|(other, ..)| *other == number) else {
            continue;
        };
        let text = || wire.bytes().and_then(|bytes| std::str::from_utf8(bytes).ok());
        let value = match kind {
            // Empty text means absent: the encoder writes every plain field.
            Type::Text => match text()? {
                "" => continue,
                text => text.into(),
            },
            Type::Number | Type::Flag => {
                let Wire::Number(number) = wire else { return None };
                if matches!(kind, Type::Flag) {
                    (number != 0).into()
                } else {
                    number.cast_signed().into()
                }
            }
            Type::Time | Type::MicroTime => match time(wire.bytes()?, matches!(kind, Type::MicroTime))? {
                Some(time) => time.into(),
                None => continue,
            },
            Type::One(schema) => Value::Object(message(wire.bytes()?, schema, depth + 1)?),
            Type::Map => {
                let pair = message(
                    wire.bytes()?,
                    &[(1, "key", Type::Text), (2, "value", Type::Text)],
                    depth + 1,
                )?;
                let part = |key: &str| pair.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
                meta::section(&mut object, name).insert(part("key"), part("value").into());
                continue;
            }
            Type::Texts | Type::Many(_) => {
                let element = match kind {
                    Type::Many(schema) => Value::Object(message(wire.bytes()?, schema, depth + 1)?),
                    _ => text()?.into(),
                };
                match object.entry(*name).or_insert_with(|| Value::Array(Vec::new())) {
                    Value::Array(list) => list.push(element),
                    _ => return None,
                }
                continue;
            }
        };
        object.insert((*name).to_owned(), value);
    }
    Some(object)
}

/// A time in the API's form; `Some(None)` for the zero time, which is an empty message.
fn time(bytes: &[u8], micro: bool) -> Option<Option<String>> {
    if bytes.is_empty() {
        return Some(None);
    }
    let fields = fields(bytes)?;
    let part = |number: u64| {
        let found = fields.iter().find(|(other, _)| *other == number);
        found.map_or(0, |(_, wire)| {
            if let Wire::Number(number) = wire {
                number.cast_signed()
            } else {
                0
            }
        })
    };
    let time = Timestamp::new(part(1), i32::try_from(part(2)).ok()?).ok()?;
    Some(Some(if micro {
        time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
    } else {
        meta::format_seconds(time)
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2, u8::try_from(bytes.len()).unwrap()];
        out.extend_from_slice(bytes);
        out
    }

    fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
        [
            MAGIC.to_vec(),
            field(1, &type_meta),
            field(2, raw),
            field(3, b""),
            field(4, b""),
        ]
        .concat()
    }

    #[test]
    fn binding_and_delete_options_are_read() {
        let metadata = [field(1, b"p"), field(2, b""), field(5, b"uid"), field(8, b"")].concat();
        let binding = [
            field(1, &metadata),
            field(2, &[field(1, b"Node"), field(3, b"n")].concat()),
        ]
        .concat();
        let expected = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p", "uid": "uid"},
            "target": {"kind": "Node", "name": "n"}});
        assert_eq!(decode(&envelope("v1", "Binding", &binding)), Some(expected));
        let options = [vec![1 << 3, 0], field(2, &field(1, b"u")), field(5, b"All")].concat();
        let expected = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
            "preconditions": {"uid": "u"}, "dryRun": ["All"]});
        assert_eq!(decode(&envelope("v1", "DeleteOptions", &options)), Some(expected));
    }

    #[test]
    fn times_and_maps_are_read() {
        let time = [vec![1 << 3, 5], vec![2 << 3, 0x80, 0x89, 0x7a]].concat();
        let label = field(11, &[field(1, b"a"), field(2, b"b")].concat());
        let lease = [field(1, &label), field(2, &[field(1, b"me"), field(4, &time)].concat())].concat();
        let decoded = decode(&envelope("coordination.k8s.io/v1", "Lease", &lease)).unwrap();
        assert_eq!(
            decoded["spec"],
            json!({"holderIdentity": "me", "renewTime": "1970-01-01T00:00:05.002000Z"})
        );
        assert_eq!(decoded["metadata"]["labels"], json!({"a": "b"}));
    }

    #[test]
    fn garbage_and_unknown_kinds_are_refused() {
        for bytes in [&b""[..], b"k8s\0", b"k8s\0\x0a\xff", b"{}", &envelope("v1", "Pod", b"")] {
            assert_eq!(decode(bytes), None);
        }
    }
}
