//! What extenders are sent and what they answer.
//!
//! Requests spell fields as the Go types do. Answers are read as Go reads them: names of fields in any case, unknown
//! fields passed over, `null` as if it were left out; what follows the answer's value is not looked at.
//!
//! Source: `staging/src/k8s.io/kube-scheduler/extender/v1/types.go`, Kubernetes 1.36.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeOwned, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// `ExtenderArgs`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Args<'a> {
    pub(super) pod: &'a RawValue,
    pub(super) nodes: Option<NodeList<'a>>,
    pub(super) node_names: Option<Vec<&'a str>>,
}

/// `v1.NodeList`.
#[derive(Debug, Serialize)]
pub(super) struct NodeList<'a> {
    pub(super) metadata: Empty,
    pub(super) items: Vec<&'a RawValue>,
}

/// `{}`.
#[derive(Debug, Serialize)]
pub(super) struct Empty {}

/// `ExtenderPreemptionArgs`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct PreemptionArgs<'a> {
    pub(super) pod: &'a RawValue,
    pub(super) node_name_to_victims: Option<BTreeMap<&'a str, Victims<'a>>>,
    pub(super) node_name_to_meta_victims: Option<BTreeMap<&'a str, MetaVictims<'a>>>,
}

/// `Victims`.
#[derive(Debug, Serialize)]
pub(super) struct Victims<'a> {
    #[serde(rename = "Pods")]
    pub(super) pods: Vec<&'a RawValue>,
    #[serde(rename = "NumPDBViolations")]
    pub(super) pdb_violations: usize,
}

/// `MetaVictims`.
#[derive(Debug, Serialize)]
pub(super) struct MetaVictims<'a> {
    #[serde(rename = "Pods")]
    pub(super) pods: Vec<MetaPod<'a>>,
    #[serde(rename = "NumPDBViolations")]
    pub(super) pdb_violations: usize,
}

/// `MetaPod`.
#[derive(Debug, Serialize)]
pub(super) struct MetaPod<'a> {
    #[serde(rename = "UID")]
    pub(super) uid: &'a str,
}

/// `ExtenderBindingArgs`.
#[derive(Debug, Serialize)]
pub(super) struct BindingArgs<'a> {
    #[serde(rename = "PodName")]
    pub(super) name: &'a str,
    #[serde(rename = "PodNamespace")]
    pub(super) namespace: &'a str,
    #[serde(rename = "PodUID")]
    pub(super) uid: &'a str,
    #[serde(rename = "Node")]
    pub(super) node: &'a str,
}

/// A type that is read from an object whose field names are in any case.
macro_rules! folded {
    ($(#[$meta:meta])* $name:ident { $($field:ident: $kind:ty = $key:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Default)]
        pub(super) struct $name {
            $(pub(super) $field: $kind,)+
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Fields;
                impl<'de> Visitor<'de> for Fields {
                    type Value = $name;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("an object")
                    }

                    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<$name, A::Error> {
                        let mut read = $name::default();
                        while let Some(key) = map.next_key::<String>()? {
                            $(if key.eq_ignore_ascii_case($key) {
                                if let Some(value) = map.next_value::<Option<$kind>>()? {
                                    read.$field = value;
                                }
                                continue;
                            })+
                            map.next_value::<IgnoredAny>()?;
                        }
                        Ok(read)
                    }
                }
                deserializer.deserialize_map(Fields)
            }
        }
    };
}

folded!(
    /// `ExtenderFilterResult`.
    FilterResult {
        nodes: Option<ReturnedNodes> = "Nodes",
        node_names: Option<Vec<String>> = "NodeNames",
        failed: Messages = "FailedNodes",
        unresolvable: Messages = "FailedAndUnresolvableNodes",
        error: String = "Error",
    }
);

folded!(
    /// `v1.NodeList`, its nodes unread.
    ReturnedNodes {
        items: Vec<Box<RawValue>> = "items",
    }
);

folded!(
    /// Of a `v1.Node` what names it.
    NamedObject {
        metadata: NamedMeta = "metadata",
    }
);

folded!(
    /// Of an `ObjectMeta` the name.
    NamedMeta {
        name: String = "name",
    }
);

folded!(
    /// `HostPriority`.
    HostPriority {
        host: String = "Host",
        score: i64 = "Score",
    }
);

folded!(
    /// `ExtenderPreemptionResult`.
    PreemptionResult {
        victims: BTreeMap<String, Option<ReturnedVictims>> = "NodeNameToMetaVictims",
    }
);

folded!(
    /// `MetaVictims`.
    ReturnedVictims {
        pods: Vec<Option<ReturnedPod>> = "Pods",
        pdb_violations: i64 = "NumPDBViolations",
    }
);

folded!(
    /// `MetaPod`.
    ReturnedPod {
        uid: String = "UID",
    }
);

folded!(
    /// `ExtenderBindingResult`.
    BindingResult {
        error: String = "Error",
    }
);

/// `FailedNodesMap`: messages by node.
pub(super) type Messages = BTreeMap<String, Option<String>>;

/// Reads an answer.
///
/// # Errors
/// It is not JSON, or not of the shape that was asked for.
pub(super) fn read<T: DeserializeOwned + Default>(body: &[u8]) -> Result<T, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    Option::<T>::deserialize(&mut deserializer).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_names_are_read_in_any_case_and_nulls_passed_over() {
        let text =
            br#"{"nodenames":["a"],"NODES":null,"FailedNodes":{"b":"no","c":null},"more":{"x":[1]},"error":null}"#;
        let read: FilterResult = read(text).unwrap();
        assert_eq!(read.node_names.unwrap(), ["a"]);
        assert!(read.nodes.is_none() && read.error.is_empty());
        assert_eq!(read.failed["b"].as_deref(), Some("no"));
        assert_eq!(read.failed["c"], None);
    }

    #[test]
    fn null_and_trailing_text_are_answers_and_emptiness_is_none() {
        assert!(read::<FilterResult>(b"null").unwrap().node_names.is_none());
        assert_eq!(read::<BindingResult>(b"{\"Error\":\"no\"}\n{").unwrap().error, "no");
        assert!(read::<BindingResult>(b"").is_err());
        assert!(read::<BindingResult>(b"[]").is_err());
        assert!(read::<Vec<HostPriority>>(b"null").unwrap().is_empty());
        assert!(read::<Vec<HostPriority>>(br#"[{"Host":"a","Score":1.5}]"#).is_err());
    }

    #[test]
    fn requests_are_spelled_as_in_go() {
        let pod = RawValue::from_string("{}".to_owned()).unwrap();
        let args = Args {
            pod: &pod,
            nodes: None,
            node_names: Some(vec!["a"]),
        };
        let text = serde_json::to_string(&args).unwrap();
        assert_eq!(text, r#"{"Pod":{},"Nodes":null,"NodeNames":["a"]}"#);
        let args = Args {
            nodes: Some(NodeList {
                metadata: Empty {},
                items: vec![&pod],
            }),
            node_names: None,
            ..args
        };
        let text = serde_json::to_string(&args).unwrap();
        assert_eq!(
            text,
            r#"{"Pod":{},"Nodes":{"metadata":{},"items":[{}]},"NodeNames":null}"#
        );
        let victims = MetaVictims {
            pods: vec![MetaPod { uid: "u" }],
            pdb_violations: 1,
        };
        let args = PreemptionArgs {
            pod: &pod,
            node_name_to_victims: None,
            node_name_to_meta_victims: Some(BTreeMap::from([("n", victims)])),
        };
        assert_eq!(
            serde_json::to_string(&args).unwrap(),
            r#"{"Pod":{},"NodeNameToVictims":null,"NodeNameToMetaVictims":{"n":{"Pods":[{"UID":"u"}],"NumPDBViolations":1}}}"#
        );
        let args = BindingArgs {
            name: "p",
            namespace: "ns",
            uid: "u",
            node: "n",
        };
        assert_eq!(
            serde_json::to_string(&args).unwrap(),
            r#"{"PodName":"p","PodNamespace":"ns","PodUID":"u","Node":"n"}"#
        );
    }
}
