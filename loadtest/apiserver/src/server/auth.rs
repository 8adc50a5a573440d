//! Who asks: static bearer tokens, and the review APIs about users and access.
//!
//! Source: the `authentication.k8s.io/v1` and `authorization.k8s.io/v1` types.
//!
//! Does not: enforce permissions. Everybody who is let in may do everything; access reviews answer by
//! [`StaticToken::denied`] so that callers of the reviews can be tested.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use serde_json::{Value, json};

use super::Shared;
use super::path::ResourcePath;
use crate::error::ApiError;
use crate::meta;

/// A bearer token and whom it stands for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StaticToken {
    /// The token.
    pub token: String,
    /// User name.
    pub user: String,
    /// Groups; `system:authenticated` is added.
    pub groups: Vec<String>,
    /// Access that reviews deny to the user: verbs joined with resources or paths, such as `get /metrics`.
    pub denied: Vec<String>,
}

/// The token of the kubeconfig that a server without tokens gives out; it stands for the administrator.
pub(super) const ADMIN_TOKEN: &str = "admin";

/// The user of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct User {
    name: String,
    groups: Vec<String>,
}

/// Finds the user, or refuses.
pub(super) fn authenticate(shared: &Shared, headers: &HeaderMap) -> Result<(), ApiError> {
    if shared.config.tokens.is_empty() {
        return Ok(());
    }
    user(shared, headers).map(|_| ())
}

fn user(shared: &Shared, headers: &HeaderMap) -> Result<User, ApiError> {
    let tokens = &shared.config.tokens;
    if tokens.is_empty() {
        return Ok(administrator());
    }
    let header = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let token = header.strip_prefix("Bearer ").unwrap_or_default();
    bearer(tokens, token).ok_or_else(|| ApiError::new(401, "Unauthorized", "Unauthorized"))
}

/// Whom a token stands for.
fn bearer(tokens: &[StaticToken], token: &str) -> Option<User> {
    if tokens.is_empty() {
        return (token == ADMIN_TOKEN).then(administrator);
    }
    let mut known = tokens.iter().filter(|known| !known.token.is_empty());
    known.find(|known| known.token == token).map(user_of)
}

fn administrator() -> User {
    User {
        name: "system:admin".to_owned(),
        groups: vec!["system:masters".to_owned(), "system:authenticated".to_owned()],
    }
}

fn user_of(token: &StaticToken) -> User {
    let mut groups = token.groups.clone();
    groups.push("system:authenticated".to_owned());
    User {
        name: token.user.clone(),
        groups,
    }
}

/// Answers a review, if the path is one. The answer is the review with its status.
pub(super) fn review(
    shared: &Shared,
    path: &ResourcePath,
    headers: &HeaderMap,
    body: &Value,
) -> Result<Option<Value>, ApiError> {
    let user = user(shared, headers)?;
    let info = |user: &User| json!({"username": user.name, "groups": user.groups, "uid": ""});
    let status = match (path.group.as_str(), path.plural.as_str()) {
        ("authentication.k8s.io", "selfsubjectreviews") => json!({"userInfo": info(&user)}),
        ("authentication.k8s.io", "tokenreviews") => token_status(shared, body),
        ("authorization.k8s.io", "selfsubjectaccessreviews") => access_status(shared, &user.name, body),
        ("authorization.k8s.io", "subjectaccessreviews" | "localsubjectaccessreviews") => {
            let name = meta::text(body, &["spec", "user"]).unwrap_or_default();
            access_status(shared, name, body)
        }
        ("authorization.k8s.io", "selfsubjectrulesreviews") => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}], "incomplete": false,
        }),
        _ => return Ok(None),
    };
    let mut answer = body.clone();
    if !answer.is_object() {
        answer = json!({});
    }
    answer["status"] = status;
    let kind = REVIEWS
        .iter()
        .find(|(_, plural, ..)| *plural == path.plural)
        .map_or("Status", |(_, _, kind, _)| *kind);
    answer["kind"] = kind.into();
    answer["apiVersion"] = format!("{}/{}", path.group, path.version).into();
    if !answer["metadata"].is_object() {
        answer["metadata"] = json!({});
    }
    Ok(Some(answer))
}

/// (group, plural, kind, namespaced) of the review resources, for discovery.
pub(super) const REVIEWS: [(&str, &str, &str, bool); 6] = [
    (
        "authentication.k8s.io",
        "selfsubjectreviews",
        "SelfSubjectReview",
        false,
    ),
    ("authentication.k8s.io", "tokenreviews", "TokenReview", false),
    (
        "authorization.k8s.io",
        "localsubjectaccessreviews",
        "LocalSubjectAccessReview",
        true,
    ),
    (
        "authorization.k8s.io",
        "selfsubjectaccessreviews",
        "SelfSubjectAccessReview",
        false,
    ),
    (
        "authorization.k8s.io",
        "selfsubjectrulesreviews",
        "SelfSubjectRulesReview",
        false,
    ),
    (
        "authorization.k8s.io",
        "subjectaccessreviews",
        "SubjectAccessReview",
        false,
    ),
];

fn token_status(shared: &Shared, body: &Value) -> Value {
    let token = meta::text(body, &["spec", "token"]).unwrap_or_default();
    match bearer(&shared.config.tokens, token) {
        Some(user) => json!({"authenticated": true, "user": {"username": user.name, "groups": user.groups}}),
        None => json!({"authenticated": false, "error": "the token is not known", "user": {}}),
    }
}

fn access_status(shared: &Shared, user: &str, body: &Value) -> Value {
    let attribute = |section: &str, key: &str| meta::text(body, &["spec", section, key]).unwrap_or_default();
    let asked = if body
        .get("spec")
        .and_then(|spec| spec.get("nonResourceAttributes"))
        .is_some()
    {
        format!(
            "{} {}",
            attribute("nonResourceAttributes", "verb"),
            attribute("nonResourceAttributes", "path")
        )
    } else {
        format!(
            "{} {}",
            attribute("resourceAttributes", "verb"),
            attribute("resourceAttributes", "resource")
        )
    };
    let denied = shared
        .config
        .tokens
        .iter()
        .any(|token| token.user == user && token.denied.contains(&asked));
    if denied {
        json!({"allowed": false, "denied": true, "reason": "denied by the server's settings"})
    } else {
        json!({"allowed": true})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(tokens: &[StaticToken], token: &str) -> Option<String> {
        bearer(tokens, token).map(|user| user.name)
    }

    #[test]
    fn the_administrators_token_is_known_where_there_are_no_others() {
        assert_eq!(name(&[], ADMIN_TOKEN).as_deref(), Some("system:admin"));
        assert_eq!(name(&[], "another"), None);
        assert_eq!(name(&[], ""), None);
    }

    #[test]
    fn static_tokens_stand_for_their_users() {
        let token = |token: &str, user: &str| StaticToken {
            token: token.to_owned(),
            user: user.to_owned(),
            ..StaticToken::default()
        };
        let tokens = [token("", "nobody"), token("secret", "alice")];
        assert_eq!(name(&tokens, "secret").as_deref(), Some("alice"));
        assert_eq!(name(&tokens, ""), None);
        assert_eq!(name(&tokens, ADMIN_TOKEN), None);
    }
}
