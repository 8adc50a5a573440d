//! Checks of Kubernetes names: label keys and values, extended resources.
//!
//! Source: `apimachinery/pkg/util/validation`, `component-helpers/scheduling/corev1` and `pkg/apis/core/v1/helper`.

/// Why a text is not a qualified name (`[prefix/]name`), or `None` when it is one.
pub(crate) fn qualified_name_error(text: &str) -> Option<String> {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    if name.contains('/') {
        return Some("a qualified name has at most one '/'".to_owned());
    }
    if let Some(prefix) = prefix {
        if prefix.is_empty() {
            return Some("prefix part must be non-empty".to_owned());
        }
        if !is_dns_subdomain(prefix) {
            return Some(format!(
                "prefix part {prefix:?} must be a lower-case DNS subdomain (e.g. 'example.com')"
            ));
        }
    }
    if name.is_empty() {
        return Some("name part must be non-empty".to_owned());
    }
    if name.len() > 63 {
        return Some("name part must be no more than 63 bytes".to_owned());
    }
    if !is_name_part(name) {
        return Some(
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
             alphanumeric character"
                .to_owned(),
        );
    }
    None
}

/// Why a text is not a label value, or `None` when it is one.
pub(crate) fn label_value_error(text: &str) -> Option<String> {
    if text.len() > 63 {
        return Some("a label value must be no more than 63 bytes".to_owned());
    }
    if !text.is_empty() && !is_name_part(text) {
        return Some(
            "a label value must be empty or consist of alphanumeric characters, '-', '_' or '.', and must start and \
             end with an alphanumeric character"
                .to_owned(),
        );
    }
    None
}

fn is_name_part(text: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    ends(text.chars().next())
        && ends(text.chars().next_back())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

/// Whether a text is a DNS subdomain of at most 253 bytes.
pub(crate) fn is_dns_subdomain(text: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let label = |label: &str| {
        ends(label.chars().next())
            && ends(label.chars().next_back())
            && label
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

/// Whether a resource name is an extended one: qualified, outside `kubernetes.io`, not a quota name.
pub(crate) fn is_extended_resource(name: &str) -> bool {
    let native = !name.contains('/') || name.contains("kubernetes.io/");
    !native && !name.starts_with("requests.") && qualified_name_error(&format!("requests.{name}")).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qualified_names_follow_the_label_key_rules() {
        for good in ["a", "cpu", "example.com/gpu", "a_b.c-d", "kubernetes.io/hostname", "9"] {
            assert_eq!(qualified_name_error(good), None, "{good}");
        }
        let long = "x".repeat(64);
        for bad in [
            "",
            "/a",
            "a/",
            "a/b/c",
            "Example.com/a",
            "-a",
            "a-",
            "a b",
            long.as_str(),
            "ä",
        ] {
            assert!(qualified_name_error(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn extended_resources_are_told_from_native_ones() {
        assert!(is_extended_resource("example.com/foo"));
        for native in [
            "cpu",
            "kubernetes.io/batch-cpu",
            "requests.example.com/foo",
            "foo",
            "example.com/",
        ] {
            assert!(!is_extended_resource(native), "{native}");
        }
    }
}
