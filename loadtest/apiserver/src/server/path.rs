//! A request's path and query, parsed into what it addresses.
//!
//! Does not: know which resources exist.

use hyper::{Method, Uri};

/// What a request to a resource addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ResourcePath {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) namespace: String,
    /// Empty: the group version's discovery document.
    pub(super) plural: String,
    pub(super) name: String,
    pub(super) subresource: String,
}

impl ResourcePath {
    /// From a path that starts with `/api/` or `/apis/GROUP/VERSION`; `None` when it has another shape.
    pub(super) fn parse(path: &str) -> Option<Self> {
        let mut parts = path.trim_matches('/').split('/');
        let (group, version) = match parts.next()? {
            "api" => (String::new(), decode(parts.next()?)),
            "apis" => (decode(parts.next()?), decode(parts.next()?)),
            _ => return None,
        };
        let rest: Vec<String> = parts.map(decode).collect();
        let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
        let mut parsed = Self {
            group,
            version,
            ..Self::default()
        };
        let object: &[&str] = match rest.as_slice() {
            ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => &rest,
            ["namespaces", namespace, object @ ..] => {
                (*namespace).clone_into(&mut parsed.namespace);
                object
            }
            other => other,
        };
        let part = |index: usize| object.get(index).copied().unwrap_or_default().to_owned();
        (parsed.plural, parsed.name, parsed.subresource) = (part(0), part(1), part(2));
        (object.len() <= 3).then_some(parsed)
    }
}

/// The query of a request. Unknown parameters are ignored, as upstream does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) label_selector: String,
    pub(super) field_selector: String,
    pub(super) watch: bool,
    pub(super) limit: usize,
    pub(super) resume: String,
    pub(super) resource_version: String,
    pub(super) resource_version_match: String,
    pub(super) allow_bookmarks: bool,
    pub(super) send_initial_events: Option<bool>,
    pub(super) timeout_seconds: Option<u64>,
    pub(super) dry_run: bool,
    pub(super) grace_period_seconds: Option<i64>,
    pub(super) include_object: String,
}

impl Query {
    pub(super) fn parse(uri: &Uri) -> Self {
        let mut query = Self::default();
        let Some(text) = uri.query() else { return query };
        for pair in text.split('&') {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decode(&value.replace('+', " "));
            let flag = matches!(value.as_str(), "true" | "1");
            match decode(key).as_str() {
                "labelSelector" => query.label_selector = value,
                "fieldSelector" => query.field_selector = value,
                "watch" => query.watch = flag,
                "limit" => query.limit = value.parse().unwrap_or_default(),
                "continue" => query.resume = value,
                "resourceVersion" => query.resource_version = value,
                "resourceVersionMatch" => query.resource_version_match = value,
                "allowWatchBookmarks" => query.allow_bookmarks = flag,
                "sendInitialEvents" => query.send_initial_events = Some(flag),
                "timeoutSeconds" => query.timeout_seconds = value.parse().ok(),
                "dryRun" => query.dry_run = value == "All",
                "gracePeriodSeconds" => query.grace_period_seconds = value.parse().ok(),
                "includeObject" => query.include_object = value,
                _ => {}
            }
        }
        query
    }
}

/// The API verb of a request.
pub(super) fn verb(method: &Method, path: &ResourcePath, query: &Query) -> &'static str {
    match (method.as_str(), path.name.is_empty()) {
        ("GET" | "HEAD", _) if query.watch => "watch",
        ("GET" | "HEAD", true) => "list",
        ("GET" | "HEAD", false) => "get",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "deletecollection",
        ("DELETE", false) => "delete",
        _ => "",
    }
}

/// Percent-decodes; a malformed escape stays as it is.
pub(super) fn decode(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let escaped = bytes.get(at + 1..at + 3).filter(|_| *byte == b'%');
        let decoded = escaped.and_then(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        out.push(decoded.unwrap_or(*byte));
        at += if decoded.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(path: &str) -> (String, String, String, String, String) {
        let path = ResourcePath::parse(path).unwrap();
        (path.group, path.namespace, path.plural, path.name, path.subresource)
    }

    #[test]
    fn paths_name_their_resource() {
        let owned = |parts: [&str; 5]| {
            let [a, b, c, d, e] = parts.map(str::to_owned);
            (a, b, c, d, e)
        };
        assert_eq!(parsed("/api/v1/pods"), owned(["", "", "pods", "", ""]));
        assert_eq!(
            parsed("/api/v1/namespaces/n/pods/p/binding"),
            owned(["", "n", "pods", "p", "binding"])
        );
        assert_eq!(parsed("/api/v1/namespaces"), owned(["", "", "namespaces", "", ""]));
        assert_eq!(parsed("/api/v1/namespaces/n"), owned(["", "", "namespaces", "n", ""]));
        assert_eq!(
            parsed("/api/v1/namespaces/n/status"),
            owned(["", "", "namespaces", "n", "status"])
        );
        assert_eq!(
            parsed("/apis/apps/v1/namespaces/n/replicasets"),
            owned(["apps", "n", "replicasets", "", ""])
        );
        assert_eq!(
            parsed("/apis/r/v1/clusterroles/system%3Anode"),
            owned(["r", "", "clusterroles", "system:node", ""])
        );
        assert_eq!(ResourcePath::parse("/api/v1/namespaces/n/pods/p/a/b"), None);
        assert_eq!(ResourcePath::parse("/healthz"), None);
    }

    #[test]
    fn escapes_are_decoded() {
        assert_eq!(decode("a%2Cb%zz%"), "a,b%zz%");
    }
}
